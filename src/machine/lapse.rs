//! The verbs *renew* and *lapse*: an attempt is heard of, or is not.

use std::time::Duration;

use super::{Cause, Policy, Record, State, Time};

/// The record with its lease extended; none when it no longer says that the attempt is running.
pub fn renew(held: &Record, policy: &Policy, now: Time) -> Option<Record> {
    let State::InFlight { since, .. } = held.state else { return None };
    Some(held.heard_of(State::InFlight { since, lease: now.plus(policy.lease) }, held.expires))
}

/// The record in doubt, if its attempt was not heard of until the lease ended; none when there is nothing to lapse.
pub fn lapse(found: &Record, doubt_retention: Duration, now: Time) -> Option<Record> {
    match found.state {
        State::InFlight { lease, .. } if lease <= now => Some(doubt(found, Cause::LeaseLost, doubt_retention, now)),
        _ => None,
    }
}

/// The record in doubt. What was promised to be remembered longer stays so.
pub(super) fn doubt(record: &Record, cause: Cause, doubt_retention: Duration, now: Time) -> Record {
    record.moved_to(State::InDoubt { since: now, cause }, now.plus(doubt_retention).max(record.expires))
}
