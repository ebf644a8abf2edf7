//! What the store knows of an operation.

use bytes::Bytes;

use super::{AttemptId, NamespaceTag, OperationId, Print, Prints, Probe, Recorded, Time};

/// Proof of being the latest writer of a record: the attempt, and the record's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Which attempt the record speaks of.
    pub attempt: AttemptId,
    /// Grows with each write of the record, from 1.
    pub version: u32,
}

/// Everything remembered of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// The attempt that the record speaks of, and the record's version.
    pub fence: Fence,
    /// The attempt's number, from 1. For display: no write is conditional on it.
    pub number: u32,
    /// Where the operation stands.
    pub state: State,
    /// What the first request is known by.
    pub prints: Prints,
    /// Digest of the credentials that a replay must show again; none when the scope itself proves the caller.
    pub credentials: Option<Print>,
    /// The namespace that the operation's key lives in.
    pub namespace: NamespaceTag,
    /// When the store forgets the record, in the store's time.
    pub expires: Time,
    /// How the upstream can be asked about it, until it is completed; none when nobody is to ask, or nobody can.
    pub probe: Option<Box<Probe>>,
    /// The operation that the same attempt holds beside this one; none where a route has one guard.
    pub beside: Option<Box<OperationId>>,
    /// Until when the key by itself gives a right to act, where it is one that ends: the record is never forgotten before,
    /// whatever the route has come to say meanwhile.
    pub good_until: Option<Time>,
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// An attempt is running; it counts as lost when it is not heard of until `lease`.
    InFlight {
        /// When the attempt began.
        since: Time,
        /// Until when the attempt may go unheard of.
        lease: Time,
    },
    /// The upstream may have acted and the outcome is not known.
    InDoubt {
        /// When the doubt began.
        since: Time,
        /// What led to it.
        cause: Cause,
    },
    /// The outcome is known.
    Completed {
        /// When it was recorded.
        at: Time,
        /// What duplicates are told.
        answer: Answer,
    },
}

/// Why an outcome is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The gateway that ran the attempt was not heard of until the lease ended.
    LeaseLost,
    /// The connection broke, or the answer was cut short, after the request was sent.
    Broken,
    /// `attempt_timeout` passed without a whole answer.
    TimedOut,
    /// The upstream answered with a status that the outcome table holds for doubt.
    Status(u16),
    /// A later attempt could not be sent, so the earlier one's outcome is still open.
    RetryNotSent,
    /// The gateway stopped, or gave the attempt up, before the answer came.
    Abandoned,
    /// The store has lost the record of an attempt that this gateway had dispatched.
    Forgotten,
}

/// The outcome of an operation, as duplicates will see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The whole answer.
    Recorded(Recorded),
    /// Only the fact is kept: the answer's body was over the route's limit, or the upstream asked for that.
    TooLarge {
        /// The original status.
        status: u16,
        /// The original `Location`, if there was one, holding no buffer that was read into.
        location: Option<Bytes>,
    },
    /// An operator stated that the operation was executed; nobody knows the answer.
    Unseen,
    /// The answer is not the attempt's own: somebody else knows that the operation was executed, and told this one.
    Told {
        /// Who.
        by: Witness,
        /// What duplicates get.
        answer: Recorded,
    },
}

impl Answer {
    /// What duplicates get where the route replays; none where only the fact is known.
    pub fn whole(&self) -> Option<&Recorded> {
        match self {
            Self::Recorded(recorded) | Self::Told { answer: recorded, .. } => Some(recorded),
            Self::TooLarge { .. } | Self::Unseen => None,
        }
    }

    /// The status, if it is known.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::TooLarge { status, .. } => Some(*status),
            Self::Recorded(_) | Self::Told { .. } | Self::Unseen => self.whole().map(|recorded| recorded.status),
        }
    }
}

/// Who knows of an outcome that the attempt itself did not bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Witness {
    /// The upstream, when it was asked afterwards.
    Probe,
    /// An operator.
    Operator,
}

/// How many versions a series has: more than an attempt ever renews.
const SERIES: u32 = 1 << 16;

/// How many kinds of state there are: series go round among them.
const KINDS: u32 = 3;

impl Record {
    /// This record, to be written again after the store has lost it, with a version that the lost one never reached:
    /// a late write or removal that was meant for the lost record must not fit.
    pub(super) fn anew(&self) -> Self {
        // A whole round: with less, the next state could fall into the series that it had in the lost record's life.
        let fence = Fence { version: self.fence.version.saturating_add(KINDS * SERIES), ..self.fence };
        Self { fence, ..self.clone() }
    }

    /// This record with its attempt heard of, one version later.
    pub(super) fn heard_of(&self, state: State, expires: Time) -> Self {
        let fence = Fence { version: self.fence.version.saturating_add(1), ..self.fence };
        Self { fence, state, expires, ..self.clone() }
    }

    /// This outcome with another end, one version later and still in a series of its kind; none when there is no version
    /// left.
    pub(super) fn remembered_until(&self, expires: Time) -> Option<Self> {
        let next = self.heard_of(self.state.clone(), expires);
        let in_series = !next.fence.version.is_multiple_of(SERIES);
        let next = if in_series { next } else { self.moved_to(self.state.clone(), expires) };
        (next.fence.version > self.fence.version).then_some(next)
    }

    /// This record in another state, in a later series of versions. Once it is completed there is nothing left to ask. It
    /// is remembered until `expires`, or longer where its key is good for longer.
    ///
    /// Each kind of state has series of its own: where a store has lost writes, the same versions are counted again, and
    /// a renewal or a lapse that still travels must never fit an outcome, and undo it.
    pub(super) fn moved_to(&self, state: State, expires: Time) -> Self {
        let kind = match state {
            State::InFlight { .. } => 0,
            State::InDoubt { .. } => 1,
            State::Completed { .. } => 2,
        };
        let next = self.fence.version / SERIES + 1;
        let series = next + (kind + KINDS - next % KINDS) % KINDS;
        let fence = Fence { version: series.saturating_mul(SERIES), ..self.fence };
        let probe = if matches!(state, State::Completed { .. }) { None } else { self.probe.clone() };
        let expires = self.good_until.map_or(expires, |end| end.max(expires));
        Self { fence, state, expires, probe, ..self.clone() }
    }
}
