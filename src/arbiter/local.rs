//! What is told without asking the store. All of it is of duplicates: what is known here can refuse a request or repeat an
//! answer, and never lets anybody act.

use std::sync::Arc;
use std::time::Duration;

use super::dispatched::Known;
use super::{Arbiter, Terms};
use crate::machine::{Admission, Arrival, AttemptId, Duplicate, OperationId, Policy, Record, State, Time, admit};

/// How long the store is taken to have what it was heard to have. A store that loses records shows it to those who ask; of
/// many duplicates at once one is enough to ask.
const FRESH: Duration = Duration::from_secs(1);

impl Arbiter {
    /// Decides by the local cache, which holds completed records only.
    pub(super) fn in_cache(&self, arrival: &Arrival<'_>, terms: &Terms, attempt: AttemptId) -> Option<Duplicate> {
        let now = self.shared().clock.now_lately();
        let record = self.shared().cache.get(&arrival.operation, now)?;
        as_duplicate(&record, arrival, &terms.policy, attempt, now)
    }

    /// Decides by the attempt that runs here, while the store has just been heard to have it on record: as long as its lease
    /// holds, nobody else may end it.
    pub(super) fn in_flight(
        &self,
        (running, granted): (AttemptId, Time),
        arrival: &Arrival<'_>,
        terms: &Terms,
        attempt: AttemptId,
    ) -> Option<Duplicate> {
        let (shared, now) = (self.shared(), self.shared().clock.now_lately());
        // An outcome that waits for the store is written before its operation is told of.
        if granted <= now || !shared.outcomes.is_empty() {
            return None;
        }
        let Known { record, running: true } = shared.dispatched.known(&arrival.operation, now)? else { return None };
        let State::InFlight { since, .. } = record.state else { return None };
        // What an attempt holds beside it may have moved on by itself.
        if record.fence.attempt != running || record.beside.is_some() {
            return None;
        }
        let record = Record { state: State::InFlight { since, lease: granted }, ..record };
        as_duplicate(&Arc::new(record), arrival, &terms.policy, attempt, now)
    }

    /// The store has been asked for an operation whose attempt runs here.
    pub(super) fn heard_of(&self, id: &OperationId, found: Option<&Record>) {
        let now = self.shared().clock.now_lately();
        if let Some(found) = found
            && let Some(until) = granted(found, now)
        {
            self.shared().lines.grant(id, found.fence.attempt, until);
        }
    }
}

/// Until when the store need not be asked for an attempt that it has on record now; none where it does not run.
pub(super) fn granted(record: &Record, now: Time) -> Option<Time> {
    match record.state {
        State::InFlight { lease, .. } => Some(lease.min(now.plus(FRESH))),
        State::InDoubt { .. } | State::Completed { .. } => None,
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
