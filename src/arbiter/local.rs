//! What is told without asking the store. All of it is of duplicates: what is known here can refuse a request or repeat an
//! answer, and never lets anybody act.

use std::sync::Arc;

use super::dispatched::Known;
use super::{Arbiter, Terms};
use crate::machine::{Admission, Arrival, AttemptId, Duplicate, Policy, Record, State, Time, admit};

impl Arbiter {
    /// Decides by the local cache, which holds completed records only.
    pub(super) fn in_cache(&self, arrival: &Arrival<'_>, terms: &Terms, attempt: AttemptId) -> Option<Duplicate> {
        let now = self.shared().clock.now_lately();
        let record = self.shared().cache.get(&arrival.operation, now)?;
        as_duplicate(&record, arrival, &terms.policy, attempt, now)
    }

    /// Decides by the attempt that runs here, while its lease holds: nobody else may have ended it, so the store has
    /// nothing else to say.
    pub(super) fn in_flight(
        &self,
        (running, lease): (AttemptId, Time),
        arrival: &Arrival<'_>,
        terms: &Terms,
        attempt: AttemptId,
    ) -> Option<Duplicate> {
        let (shared, now) = (self.shared(), self.shared().clock.now_lately());
        // An outcome that waits for the store is written before its operation is told of.
        if lease <= now || !shared.outcomes.is_empty() {
            return None;
        }
        let Known { record, running: true } = shared.dispatched.known(&arrival.operation, now)? else { return None };
        let State::InFlight { since, .. } = record.state else { return None };
        // What an attempt holds beside it may have moved on by itself.
        if record.fence.attempt != running || record.beside.is_some() {
            return None;
        }
        let record = Record { state: State::InFlight { since, lease }, ..record };
        as_duplicate(&Arc::new(record), arrival, &terms.policy, attempt, now)
    }
}

fn as_duplicate(
    record: &Arc<Record>,
    arrival: &Arrival<'_>,
    policy: &Policy,
    attempt: AttemptId,
    now: Time,
) -> Option<Duplicate> {
    match admit(Some(record), arrival, policy, attempt, now) {
        Admission::Duplicate(duplicate) => Some(duplicate),
        Admission::Claim { .. } | Admission::Own(_) | Admission::Lapse { .. } | Admission::Untimely(_) => None,
    }
}
