//! The verbs *renew* and *lapse*: an attempt is heard of, or is not.

use std::time::Duration;

use super::{Cause, Policy, Record, State, Time};

/// The record with its lease extended; none when it no longer says that the attempt is running.
pub fn renew(held: &Record, policy: &Policy, now: Time) -> Option<Record> {
    let State::InFlight { since, lease } = held.state else { return None };
    let state = State::InFlight { since, lease: now.plus(policy.lease) };
    // A lease that had ended is held as if claimed now: an attempt that begins so late may still take its whole time.
    let anew = now.plus(policy.attempt_timeout).plus(policy.doubt_retention);
    let expires = if now < lease { held.expires } else { held.expires.max(anew) };
    Some(held.heard_of(state, expires))
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
