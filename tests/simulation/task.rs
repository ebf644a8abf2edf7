//! What a simulated gateway has under way, and where that stands. What becomes of it is not known here.

use oncegate::machine::{AttemptId, Ending, Record, Settled};

use super::pair::Half;
use super::words::Word;

pub(crate) struct Task {
    pub(crate) id: u64,
    /// What it names: an operation, or a first and a second one.
    pub(crate) ops: Vec<usize>,
    /// What it holds while it asks for the second.
    pub(crate) held: Vec<Half>,
    pub(crate) variant: u8,
    pub(crate) phase: Phase,
    /// When the attempt got its name; its timeout counts from here.
    pub(crate) begun: u64,
    /// A claim of this request whose reply was lost, while the request still asks.
    pub(crate) unsure: Option<Record>,
    /// The name that it keeps while it withdraws an unconfirmed claim that it has met.
    pub(crate) keeps: Option<AttemptId>,
    /// The request goes on to ask for admission once the withdrawal is through.
    pub(crate) then_admit: bool,
    /// It has just looked at what was held beside the doubt that it has met, and is none the wiser.
    pub(crate) looked: bool,
}

/// Where a task stands. The number is the message that it waits for.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// Its gateway's filter takes it for a duplicate, rightly or not: it looks before it claims.
    Look {
        attempt: AttemptId,
    },
    Looking {
        message: u64,
        attempt: AttemptId,
    },
    Admit {
        attempt: AttemptId,
        found: Option<Record>,
    },
    /// It has met a doubt, and looks at what was held beside that.
    Beside {
        message: u64,
        attempt: AttemptId,
        found: Record,
    },
    /// The doubt ends by what it has seen there.
    EndingBy {
        message: u64,
        attempt: AttemptId,
        record: Record,
    },
    Claiming {
        message: u64,
        attempt: AttemptId,
        found: Option<Record>,
        record: Record,
    },
    Lapsing {
        message: u64,
        attempt: AttemptId,
        record: Record,
    },
    /// Holds the permit, and has not sent anything.
    Ready {
        halves: Vec<Half>,
    },
    Running {
        halves: Vec<Half>,
    },
    Settle {
        held: Record,
        found: Option<Record>,
        ending: Ending,
    },
    Settling {
        message: u64,
        held: Record,
        found: Option<Record>,
        ending: Ending,
        settled: Settled,
    },
    /// An unconfirmed claim, taken back as an attempt that was not sent.
    Withdraw {
        op: usize,
        claim: Record,
        found: Option<Record>,
    },
    Withdrawing {
        message: u64,
        op: usize,
        claim: Record,
    },
    Sweeping {
        message: u64,
    },
    /// A lease that ended is written down.
    Swept {
        message: u64,
        doubt: Record,
    },
    /// The sweep looks at what was held beside a doubt.
    SweptBeside {
        message: u64,
        doubt: Record,
    },
    /// Somebody who knows what the upstream did ends a doubt.
    Word(Word),
    /// Whatever is said to this call, nothing follows.
    Last {
        message: u64,
    },
    Over,
}

impl Task {
    /// The operation that it asks for, or that it is about.
    pub(crate) fn op(&self) -> usize {
        self.ops[self.held.len().min(self.ops.len() - 1)]
    }
}
