//! Everything that a state of the model consists of, and what can happen to it.

use oncegate::machine::{Arrival, AttemptId, NamespaceTag, OperationId, Salt};

use super::audit::Audit;
use super::plan::Left;
use super::store::{Call, Held, Store};
use super::upstream::Upstream;
use crate::alike::Alike;

/// The number of an attempt, from 1 in the order of arrival; its name for the rules is made of it.
pub(crate) type Name = u8;

/// What tasks are called that ask about a doubt: they are no attempts.
pub(crate) const PROBE: Name = 0;

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) store: Store,
    pub(crate) gateways: Vec<Gateway>,
    /// Calls that nobody waits for, and that may still be executed.
    pub(crate) strays: Vec<Call>,
    pub(crate) upstream: Upstream,
    pub(crate) audit: Audit,
    pub(crate) left: Left,
    pub(crate) names: Name,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Gateway {
    pub(crate) tasks: Vec<Task>,
    /// Claims whose reply was lost.
    pub(crate) unconfirmed: Vec<Held>,
    /// What the store has to hold of what this gateway dispatched.
    pub(crate) dispatched: Option<Dispatched>,
}

/// The exact memory of a dispatched operation.
#[derive(Debug, Clone)]
pub(crate) struct Dispatched {
    pub(crate) known: Held,
    /// Its attempt has not ended.
    pub(crate) running: bool,
    /// Its outcome, if the replay cache has it.
    pub(crate) outcome: Option<Held>,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) name: Name,
    /// Its request differs from the first.
    pub(crate) changed: bool,
    pub(crate) phase: Phase,
}

/// Where a task stands. Where there is a call, the task waits for its reply.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// It asks whether it may act.
    Asking {
        call: Call,
    },
    /// Its claim stands where the store had lost a record that its gateway knows of, and gives way to that.
    Undoing {
        claim: Held,
        call: Call,
    },
    /// It is about to be told of an outcome, and has it remembered for longer first.
    Sliding {
        found: Held,
        call: Call,
    },
    /// It may, since then. It looks at its lease, and if it holds it, sends its request.
    Ready {
        held: Held,
        since: u64,
    },
    Running {
        held: Held,
        sent: u64,
        beat: Beat,
    },
    Settling {
        held: Held,
        end: End,
        call: Call,
    },
    /// Not a request: it asks the upstream about a doubt. It looked at the record then, and has asked since.
    Probing {
        doubt: Held,
        asked: u64,
    },
    /// The upstream has said that this attempt was executed, or none; its answer is on its way.
    Told {
        doubt: Held,
        asked: u64,
        executed: Option<Name>,
    },
    /// It writes what the finding makes of the doubt.
    Resolving {
        call: Call,
    },
    Over,
}

#[derive(Debug, Clone)]
pub(crate) enum Beat {
    Resting,
    /// A renewal is on its way.
    Out(Call),
    /// The record no longer speaks of the attempt as running.
    Lost,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// Nothing was sent.
    NotSent,
    /// An answer that is kept,
    Kept,
    /// one by which the upstream says that it did nothing,
    Released,
    /// and one that tells nothing.
    Doubtful,
    /// No answer.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Arrive {
        gateway: usize,
        changed: bool,
        /// It asks for what is there before it claims.
        looks: bool,
    },
    /// The call of a task is executed and answered.
    Answer {
        gateway: usize,
        task: usize,
    },
    /// The same, but the reply was lost and the call sent again: it loses the race to itself.
    Echo {
        gateway: usize,
        task: usize,
    },
    /// The call of a task stays without an answer.
    Lose {
        gateway: usize,
        task: usize,
    },
    Send {
        gateway: usize,
        task: usize,
    },
    Beat {
        gateway: usize,
        task: usize,
    },
    End {
        gateway: usize,
        task: usize,
        end: End,
    },
    Withdraw {
        gateway: usize,
        claim: usize,
    },
    Crash {
        gateway: usize,
    },
    /// A gateway looks at a doubt to ask about it.
    Look {
        gateway: usize,
    },
    /// The upstream is asked, and looks what it knows.
    Tell {
        gateway: usize,
        task: usize,
    },
    /// Its answer is heard,
    Hear {
        gateway: usize,
        task: usize,
    },
    /// or there is none.
    Unheard {
        gateway: usize,
        task: usize,
    },
    /// The upstream executes a request that it was sent.
    Execute {
        run: usize,
    },
    /// A call that nobody waits for is executed.
    Stray {
        place: usize,
    },
    Sweep,
    /// The replica becomes the primary, without the last writes.
    FailOver {
        lost: usize,
    },
    Flush,
    Tick,
    Leap,
}

impl Phase {
    /// The call that the task waits for.
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Self::Asking { call }
            | Self::Sliding { call, .. }
            | Self::Undoing { call, .. }
            | Self::Running { beat: Beat::Out(call), .. }
            | Self::Settling { call, .. }
            | Self::Resolving { call } => Some(call),
            Self::Ready { .. } | Self::Running { .. } | Self::Probing { .. } | Self::Told { .. } | Self::Over => None,
        }
    }
}

impl Gateway {
    /// Whether it has nothing under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.unconfirmed.is_empty()
    }
}

impl State {
    pub(crate) fn task(&self, gateway: usize, task: usize) -> &Task {
        &self.gateways[gateway].tasks[task]
    }

    pub(crate) fn task_mut(&mut self, gateway: usize, task: usize) -> &mut Task {
        &mut self.gateways[gateway].tasks[task]
    }

    /// Whether a claim of this attempt may still be executed.
    pub(crate) fn travels(&self, attempt: AttemptId) -> bool {
        let of = |call: &Call| matches!(call, Call::Write { record, .. } if record.fence.attempt == attempt);
        self.strays.iter().any(of)
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.strays.is_empty() && self.gateways.iter().all(Gateway::is_idle)
    }
}

pub(crate) fn attempt(name: Name) -> AttemptId {
    AttemptId([name; 16])
}

pub(crate) fn name(attempt: AttemptId) -> Name {
    attempt.0[0]
}

pub(crate) fn arrival(changed: bool) -> Arrival<'static> {
    // The same for each claim of a look, or no two states would be one; and not the same for both looks.
    let (look, salt) = (u8::from(changed), Salt([u8::from(changed); 8]));
    Arrival::new(OperationId([7; 32]), NamespaceTag(3), salt, 1, None, Alike::to(look))
}
