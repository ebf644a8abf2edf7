//! A change of a record as it is asked for, and its words put together. It sends nothing.

use redis::Value;

use super::change::{Change, is_done};
use super::deadline::Deadline;
use super::settings::Wait;
use super::{Codec, StoreError};
use crate::machine::{Expect, Fence, OperationId, Record, State};

/// A change that is asked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) id: &'a OperationId,
    pub(super) what: What<'a>,
    pub(super) deadline: Deadline,
}

/// What is to be there, in the place of what.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    Record(&'a Record, Expect),
    Nothing(Fence),
}

/// A value, and behind it the key that it belongs to.
pub(super) struct Sheet {
    words: Vec<u8>,
    length: usize,
}

impl Wanted<'_> {
    /// The same over another record.
    pub(super) fn over(self, fence: Fence) -> Self {
        let what = match self.what {
            What::Record(record, _) => What::Record(record, Expect::Fence(fence)),
            What::Nothing(_) => What::Nothing(fence),
        };
        Self { what, ..self }
    }

    /// Whose it is when it is there already.
    pub(super) fn own(&self) -> Option<Fence> {
        match self.what {
            What::Record(record, _) => Some(record.fence),
            What::Nothing(_) => None,
        }
    }

    /// Whether a reply says that it is done; else it says what is there, or why not.
    pub(super) fn is_done(&self, reply: &Value) -> bool {
        is_done(self.expected(), reply)
    }

    fn expected(&self) -> Expect {
        match self.what {
            What::Record(_, expect) => expect,
            What::Nothing(fence) => Expect::Fence(fence),
        }
    }

    /// Puts its words together, on an empty sheet.
    pub(super) fn put_together(&self, codec: &Codec, prefix: &[u8], empty: Vec<u8>) -> Result<Sheet, StoreError> {
        let value = match self.what {
            What::Record(record, _) => codec.encode_behind(empty, self.id, record)?,
            What::Nothing(_) => empty,
        };
        let length = value.len();
        Ok(Sheet { words: key_behind(value, prefix, self.id), length })
    }

    /// The change that its words make. Replicas have to have it where it is one that has to outlive a failover.
    pub(super) fn change<'b>(&self, sheet: &'b Sheet, wait: Option<Wait>) -> Change<'b> {
        let (value, key) = sheet.words.split_at(sheet.length);
        match self.what {
            What::Nothing(fence) => Change::remove(key, fence, self.deadline),
            What::Record(record, expect) => {
                let wait = wait.filter(|_| is_awaited(expect, record));
                Change::reserve(key, value, record.expires, self.deadline).over(expect).awaiting(wait)
            }
        }
    }
}

impl Sheet {
    /// The room that it took.
    pub(super) fn room(self) -> Vec<u8> {
        self.words
    }
}

/// An operation's key behind what stands there already.
pub(super) fn key_behind(mut front: Vec<u8>, prefix: &[u8], id: &OperationId) -> Vec<u8> {
    front.extend_from_slice(prefix);
    front.extend_from_slice(&id.0);
    front
}

/// Whether replicas must have a write before anybody acts on it: a new attempt's first, on which a request is sent, and an
/// outcome, which a client is told was recorded. Any other that a failover undoes leaves an attempt that is running or in
/// doubt, and that nobody repeats.
fn is_awaited(expect: Expect, record: &Record) -> bool {
    let is_new = match expect {
        Expect::Absent => true,
        Expect::Fence(fence) => fence.attempt != record.fence.attempt,
    };
    match record.state {
        State::InFlight { .. } => is_new,
        State::Completed { .. } => true,
        State::InDoubt { .. } => false,
    }
}
