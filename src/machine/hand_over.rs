//! How a record that was kept elsewhere while the store was away comes into it: conditionally, like every write. What is
//! known goes before what is not; what the store knows goes before all.

use super::{Expect, Fence, Record, State, Time};

/// What to do with such a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, on its way into the store")]
pub enum HandOver {
    /// Write this. Written, it is handed over; lost, ask again with what was found.
    Write {
        /// What the write demands.
        expect: Expect,
        /// The record.
        record: Record,
    },
    /// Nothing: its time is over, or what the store holds says as much or more.
    Done,
    /// Nothing yet: an attempt runs, or may, by what is kept or by what the store holds.
    Wait,
}

/// Decides on a kept record, given what the store holds.
pub fn hand_over(kept: &Record, found: Option<&Record>, now: Time) -> HandOver {
    if kept.expires <= now {
        return HandOver::Done;
    }
    if matches!(kept.state, State::InFlight { lease, .. } if now < lease) {
        // Whoever wrote it may be about to begin.
        return HandOver::Wait;
    }
    let Some(found) = found else { return HandOver::Write { expect: Expect::Absent, record: kept.clone() } };
    match (&kept.state, &found.state) {
        (_, State::Completed { .. }) => HandOver::Done,
        (State::Completed { .. }, State::InDoubt { .. }) => over(kept, found),
        (State::Completed { .. }, State::InFlight { lease, .. }) if *lease <= now => over(kept, found),
        (State::Completed { .. }, State::InFlight { .. }) => HandOver::Wait,
        // Another attempt's claim may yet be withdrawn, and must not take the doubt with it.
        (State::InFlight { .. } | State::InDoubt { .. }, State::InFlight { .. })
            if found.fence.attempt != kept.fence.attempt =>
        {
            HandOver::Wait
        }
        // Two that know nothing: the doubt, or the lease that ends in one, is there already.
        (State::InFlight { .. } | State::InDoubt { .. }, State::InFlight { .. } | State::InDoubt { .. }) => {
            HandOver::Done
        }
    }
}

fn over(kept: &Record, found: &Record) -> HandOver {
    let fence = Fence { version: kept.fence.version.max(found.fence.version), ..kept.fence };
    let record = Record { fence, ..kept.clone() }.anew();
    HandOver::Write { expect: Expect::Fence(found.fence), record }
}
