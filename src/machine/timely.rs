//! Keys that say when they were made: when such a key is too old, or not made yet, for an operation of which nothing is
//! known. It needs no record to be kept, because the record of such a key is kept until the key itself is refused.

use std::time::Duration;

use super::{Policy, Time};

/// A span of the store's time outside of which a request for an operation that nothing is known of gives no right to
/// act. Whoever states one sees to it that a record of the operation outlives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: Time,
    /// The first moment after it.
    pub until: Time,
    /// What a request is told outside of it.
    pub otherwise: Untimely,
}

impl Validity {
    /// What a request is told at this moment; none when it is within.
    pub(super) fn untimely(&self, now: Time) -> Option<Untimely> {
        (now < self.from || self.until <= now).then_some(self.otherwise)
    }
}

/// Why a key that nothing is known of gives no right to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untimely {
    /// It was made so long ago that what became of it may have been forgotten.
    Expired,
    /// It says that it was made in the future.
    Early,
    /// The request states a time of its own, this one, which is too far off.
    OffTime(Time),
    /// It is a token whose time is over.
    TokenExpired,
    /// It is a token that was issued in the future, by the store's time.
    TokenEarly,
}

impl Policy {
    /// Whether a key that says this of itself gives no right to act, if nothing is known of it.
    pub(super) fn untimely(&self, made: Option<Time>, now: Time) -> Option<Untimely> {
        let (skew, made) = self.clock_skew.zip(made)?;
        if made.plus(self.retention).plus(skew) <= now {
            Some(Untimely::Expired)
        } else if now.plus(skew) < made {
            Some(Untimely::Early)
        } else {
            None
        }
    }

    /// How much longer than otherwise an outcome is remembered, so that its key is refused before it is forgotten: the
    /// key may have been made a skew ahead of its first use, and is refused a skew late.
    pub fn slack(&self) -> Duration {
        self.clock_skew.map_or(Duration::ZERO, |skew| skew * 2)
    }

    /// How long an outcome is remembered in all, where it has no wish of its own.
    pub(super) fn remembered(&self) -> Duration {
        self.slack() + self.retention
    }
}
