//! The store of the model: one operation's record, a primary with a replica that lags, conditional writes. No rules.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use oncegate::machine::{Answer, AttemptId, Expect, Fence, Record, Recorded, State};

use super::explore::digest;
use super::state::Name;

/// A record, cheap to copy and to tell from others.
#[derive(Clone)]
pub(crate) struct Held {
    record: Arc<Record>,
    /// Of everything but the names in it.
    digest: u64,
}

impl From<Record> for Held {
    fn from(record: Record) -> Self {
        let mut shape = record.clone();
        shape.fence.attempt = AttemptId([0; 16]);
        if let State::Completed { answer: Answer::Recorded(answer) | Answer::Told { answer, .. }, .. } =
            &mut shape.state
        {
            *answer = Recorded::empty(answer.status);
        }
        Self { digest: digest(&shape), record: Arc::new(record) }
    }
}

impl Deref for Held {
    type Target = Record;
    fn deref(&self) -> &Record {
        &self.record
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(f)
    }
}

impl Held {
    /// The attempt whose answer this is.
    pub(crate) fn answer_of(&self) -> Option<Name> {
        let State::Completed { answer: Answer::Recorded(answer) | Answer::Told { answer, .. }, .. } = &self.state
        else {
            return None;
        };
        answer.body().first().copied()
    }

    pub(crate) fn shape(&self) -> u64 {
        self.digest
    }
}

/// What a gateway asks of the store.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Load,
    Write {
        expect: Expect,
        record: Held,
    },
    Remove {
        fence: Fence,
    },
    /// Only broken rules send this: removal without a condition.
    RemoveAny,
}

/// What the store says.
pub(crate) enum Reply {
    Done,
    Lost(Option<Held>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) primary: Option<Held>,
    replica: Option<Held>,
    /// What the primary held since the replica was last brought up to it, oldest first.
    behind: Vec<Option<Held>>,
}

impl Store {
    /// Executes a call. A replica that would be more than `lag` writes behind takes the oldest.
    pub(crate) fn execute(&mut self, call: &Call, lag: usize) -> Reply {
        let met = match call {
            Call::Load => false,
            Call::Write { expect: Expect::Absent, .. } => self.primary.is_none(),
            Call::Write { expect: Expect::Fence(fence), .. } | Call::Remove { fence } => {
                self.primary.as_ref().is_some_and(|record| record.fence == *fence)
            }
            Call::RemoveAny => self.primary.is_some(),
        };
        if !met {
            return Reply::Lost(self.primary.clone());
        }
        self.primary = match call {
            Call::Write { record, .. } => Some(record.clone()),
            _ => None,
        };
        self.behind.push(self.primary.clone());
        if self.behind.len() > lag {
            self.replicate();
        }
        Reply::Done
    }

    /// How many writes the replica may not have yet.
    pub(crate) fn behind(&self) -> usize {
        self.behind.len()
    }

    fn replicate(&mut self) {
        self.replica = self.behind.remove(0);
    }

    /// The replica has everything.
    pub(crate) fn confirm(&mut self) {
        self.replica.clone_from(&self.primary);
        self.behind.clear();
    }

    /// The replica becomes the primary, without the last `lost` writes. When it got the others does not matter before.
    pub(crate) fn fail_over(&mut self, lost: usize) {
        while self.behind.len() > lost {
            self.replicate();
        }
        self.primary.clone_from(&self.replica);
        self.behind.clear();
    }

    /// Everything that it consists of.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Option<&Held>> {
        [&self.primary, &self.replica].into_iter().chain(&self.behind).map(Option::as_ref)
    }

    /// Everything is lost.
    pub(crate) fn flush(&mut self) {
        *self = Self::default();
    }

    /// Forgets what has expired.
    pub(crate) fn pass(&mut self, now: u64) {
        let contents = [&mut self.primary, &mut self.replica].into_iter().chain(&mut self.behind);
        for content in contents {
            content.take_if(|record| record.expires.0 <= now);
        }
    }
}
