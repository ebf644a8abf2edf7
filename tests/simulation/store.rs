//! The simulated store: conditional writes, conditional removal, expiry by its own time; and the messages to it.

use std::fmt;

use oncegate::machine::{AttemptId, Expect, Fence, Record, State};

use super::world::START;

/// What a gateway asks of the store.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// Answered as a write that lost.
    Load,
    Write {
        expect: Expect,
        record: Record,
    },
    Remove {
        fence: Fence,
    },
    /// Only broken rules send this: removal without a condition.
    RemoveAny,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    Lost(Option<Record>),
}

/// Short, for traces: times are from the seed's beginning.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load => write!(f, "load"),
            Self::Write { expect: Expect::Absent, record } => write!(f, "if absent, {}", Short(record)),
            Self::Write { expect: Expect::Fence(fence), record } => {
                write!(f, "if at {}, {}", ShortFence(*fence), Short(record))
            }
            Self::Remove { fence } => write!(f, "if at {}, remove", ShortFence(*fence)),
            Self::RemoveAny => write!(f, "remove"),
        }
    }
}

/// A fence, for traces.
pub(crate) struct ShortFence(pub(crate) Fence);

impl fmt::Display for ShortFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", short(self.0.attempt), self.0.version)
    }
}

/// A record, for traces.
pub(crate) struct Short<'a>(pub(crate) &'a Record);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { fence, number, state, expires, .. } = self.0;
        write!(f, "{} (number {number}) ", ShortFence(*fence))?;
        match state {
            State::InFlight { lease, .. } => write!(f, "in flight, lease {}", lease.0.wrapping_sub(START))?,
            State::InDoubt { cause, .. } => write!(f, "in doubt, {cause:?}")?,
            State::Completed { .. } => write!(f, "completed")?,
        }
        write!(f, ", until {}", expires.0.wrapping_sub(START))
    }
}

/// An attempt's name, for traces.
pub(crate) fn short(attempt: AttemptId) -> String {
    format!("a{}", u128::from_be_bytes(attempt.0))
}

/// Who waits for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) gateway: usize,
    /// Counts the gateway's lives: after a crash nobody waits.
    pub(crate) life: u32,
    pub(crate) task: u64,
}

/// A call on its way, or executed with the reply on its way back.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(crate) op: usize,
    pub(crate) call: Call,
    /// The attempt whose renewal or settling this is.
    pub(crate) speaks_for: Option<AttemptId>,
    pub(crate) sent: u64,
    pub(crate) reply: Option<Written>,
    /// The owner has given up; the call may still be executed.
    pub(crate) stray: bool,
    /// The last write of somebody's word on a doubt, and how many changes there had been when it was looked at.
    pub(crate) word: Option<u64>,
}

/// The content, by operation. Present records are never expired: the world expires them as time passes.
pub(crate) struct Store(pub(crate) Vec<Option<Record>>);

impl Store {
    pub(crate) fn execute(&mut self, op: usize, call: &Call) -> Written {
        let slot = &mut self.0[op];
        let met = match call {
            Call::Load => false,
            Call::Write { expect: Expect::Absent, .. } => slot.is_none(),
            Call::Write { expect: Expect::Fence(fence), .. } | Call::Remove { fence } => {
                slot.as_ref().is_some_and(|record| record.fence == *fence)
            }
            Call::RemoveAny => slot.is_some(),
        };
        if !met {
            return Written::Lost(slot.clone());
        }
        *slot = match call {
            Call::Write { record, .. } => Some(record.clone()),
            _ => None,
        };
        Written::Done
    }
}
