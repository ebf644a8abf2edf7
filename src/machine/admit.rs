//! The verb *admit*: may this request act?

use std::sync::Arc;

use super::arrival::Likeness;
use super::{Arrival, AttemptId, Expect, Fence, InDoubt, Policy, Record, State, Time, Untimely, lapse};

/// What to do with a request, given what the store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Write this record. Written, the request may act; lost, ask again with what was found.
    Claim {
        /// What the write demands.
        expect: Expect,
        /// The claim.
        record: Record,
    },
    /// The store already holds this attempt's own claim, from a write whose reply was lost: the request may act.
    Own(Record),
    /// Write down that the attempt on record was lost, then ask again.
    Lapse {
        /// What the write demands.
        expect: Expect,
        /// The record, now in doubt.
        record: Record,
    },
    /// The request may not act.
    Duplicate(Duplicate),
    /// The request may not act, as long as nothing is known of its key. Make sure of that before it is told so.
    Untimely(Untimely),
}

/// Why a request may not act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duplicate {
    /// Another attempt is running.
    InFlight {
        /// When that attempt began.
        since: Time,
    },
    /// The outcome of an earlier attempt is not known.
    InDoubt {
        /// When that began.
        since: Time,
    },
    /// The outcome is known, and this caller may see it.
    Completed(Arc<Record>),
    /// The outcome is known, but this request does not show the first one's credentials.
    Stranger(Arc<Record>),
    /// The key was used for a different request.
    Changed,
    /// The bytes differ, and the fingerprint settings have changed since: equal or not cannot be told.
    Unsure,
}

/// Decides on a request. `found` is what the store holds, `attempt` the fresh name of the attempt that would begin. A
/// duplicate shares what was found.
pub fn admit(
    found: Option<&Arc<Record>>,
    arrival: &Arrival<'_>,
    policy: &Policy,
    attempt: AttemptId,
    now: Time,
) -> Admission {
    let Some(found) = found else {
        if let Some(untimely) = arrival.untimely(policy, now) {
            return Admission::Untimely(untimely);
        }
        return Admission::Claim { expect: Expect::Absent, record: claim(arrival, policy, attempt, now) };
    };
    if found.fence.attempt == attempt && matches!(found.state, State::InFlight { .. }) {
        return Admission::Own(Record::clone(found));
    }
    if policy.compare {
        match arrival.likeness(&found.prints) {
            Likeness::Same => {}
            Likeness::Changed => return Admission::Duplicate(Duplicate::Changed),
            Likeness::Unsure => return Admission::Duplicate(Duplicate::Unsure),
        }
    }
    if let Some(record) = lapse(found, policy.doubt_retention, now) {
        return Admission::Lapse { expect: Expect::Fence(found.fence), record };
    }
    match (&found.state, policy.in_doubt) {
        (State::InFlight { since, .. }, _) => Admission::Duplicate(Duplicate::InFlight { since: *since }),
        (State::InDoubt { since, .. }, InDoubt::Hold | InDoubt::Probe { .. }) => {
            Admission::Duplicate(Duplicate::InDoubt { since: *since })
        }
        // Whose attempt held another operation beside this one was forwarded under another key: no upstream would know
        // the further attempt for the same.
        (State::InDoubt { since, .. }, InDoubt::Retry) if found.beside != arrival.beside => {
            Admission::Duplicate(Duplicate::InDoubt { since: *since })
        }
        (State::InDoubt { .. }, InDoubt::Retry)
            if policy.compare && arrival.likeness_to_act(&found.prints) == Likeness::Changed =>
        {
            Admission::Duplicate(Duplicate::Changed)
        }
        (State::InDoubt { .. }, InDoubt::Retry) => Admission::Claim {
            expect: Expect::Fence(found.fence),
            record: claim_over(found, claim(arrival, policy, attempt, now)),
        },
        (State::Completed { .. }, _) if !policy.replays || arrival.may_see(found.credentials) => {
            Admission::Duplicate(Duplicate::Completed(Arc::clone(found)))
        }
        (State::Completed { .. }, _) => Admission::Duplicate(Duplicate::Stranger(Arc::clone(found))),
    }
}

fn claim(arrival: &Arrival<'_>, policy: &Policy, attempt: AttemptId, now: Time) -> Record {
    // Never the lease: a record that expired with its lease would let the operation run again.
    let expires = now.plus(policy.attempt_timeout).plus(policy.doubt_retention);
    Record {
        fence: Fence { attempt, version: 1 },
        number: 1,
        state: State::InFlight { since: now, lease: now.plus(policy.lease) },
        prints: arrival.prints(),
        credentials: arrival.credentials,
        namespace: arrival.namespace,
        expires: arrival.good_until.map_or(expires, |end| end.max(expires)),
        probe: arrival.probe.clone(),
        beside: arrival.beside.clone(),
        good_until: arrival.good_until,
    }
}

/// The claim of a further attempt over a doubt. The version goes on counting: the doubt may be one of the same name,
/// from a claim whose reply was lost. What was promised to be remembered longer stays so.
fn claim_over(doubt: &Record, claim: Record) -> Record {
    Record {
        fence: Fence { version: doubt.fence.version.saturating_add(1), ..claim.fence },
        number: doubt.number.saturating_add(1),
        expires: claim.expires.max(doubt.expires),
        good_until: claim.good_until.max(doubt.good_until),
        ..claim
    }
}
