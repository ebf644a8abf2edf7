//! While the store is away: what was surely not seen may begin under the journal, where a route says so and this gateway is
//! the only one. The verbs are the same, over another store; afterwards its records are handed over.
//!
//! What the journal speaks of is decided by the journal, until it is handed over. A request that begins in the store and
//! an equal one that begins in the journal cannot both go on: each makes itself seen (in the filter, in the journal)
//! before it looks for the other.

use std::sync::Arc;

use super::few_first::few_first;
use super::{Admitted, Arbiter, Permit, ROUNDS, Round, Terms};
use crate::machine::{Admission, Arrival, AttemptId, Expect, Fence, HandOver, OperationId, Record, admit, hand_over};
use crate::store::journal::Journal;
use crate::store::{Store as _, StoreError, Written};
use crate::telemetry::StoreOp;

/// Records handed over in one step.
const BATCH: usize = 256;

/// A claim in the journal that nobody acts on yet: taken back when it is dropped.
struct Unbegun<'a> {
    journal: &'a Journal,
    id: OperationId,
    fence: Fence,
    begun: bool,
}

impl Drop for Unbegun<'_> {
    fn drop(&mut self) {
        if !self.begun {
            // Gone or moved on, there is nothing to take back.
            let _ = self.journal.forget(&self.id, self.fence);
        }
    }
}

impl Arbiter {
    /// Whether the journal speaks of the operation.
    pub(super) fn is_kept(&self, id: &OperationId) -> bool {
        self.journalled.is_some() && self.shared().journal.as_ref().is_some_and(|journal| journal.holds(id))
    }

    /// What a request is told by the journal; none when it does not speak of the operation.
    pub(super) async fn admit_kept(
        &self,
        arrival: &Arrival<'_>,
        terms: &Arc<Terms>,
        attempt: AttemptId,
    ) -> Result<Option<Admitted>, StoreError> {
        let Some(journalled) = self.journalled.as_ref().filter(|_| self.is_kept(&arrival.operation)) else {
            return Ok(None);
        };
        let mut found = journalled.store().load(&arrival.operation).await?.map(Arc::new);
        for _ in 0..ROUNDS {
            // Handed over since: then the store decides, and nothing begins here.
            let Some(record) = &found else { return Ok(None) };
            match journalled.round(Some(record), arrival, terms, attempt).await? {
                Round::Told(told) => return Ok(Some(told)),
                Round::Again(newer) => found = journalled.catch_up(&arrival.operation, newer).await?,
            }
        }
        Err(StoreError::Unavailable(format!("{ROUNDS} races lost in a row for {}", arrival.operation.short())))
    }

    /// Asks whether a request that the store did not answer for may act all the same, because this gateway has surely not
    /// seen its operation; none when it may have. On return the journal has its claim on the disk.
    ///
    /// # Errors
    /// When the journal takes nothing.
    pub async fn admit_unseen(
        &self,
        arrival: &Arrival<'_>,
        terms: &Arc<Terms>,
    ) -> Result<Option<Admitted>, StoreError> {
        // Of two operations both would have to be surely unseen, and go into the journal in one: no route does that.
        let admitted = if arrival.also.is_none() { self.begin_unseen(arrival, terms).await? } else { None };
        Ok(admitted.map(Admitted::handed_out))
    }

    async fn begin_unseen(&self, arrival: &Arrival<'_>, terms: &Arc<Terms>) -> Result<Option<Admitted>, StoreError> {
        let shared = self.shared();
        let (Some(journalled), Some(journal)) = (&self.journalled, &shared.journal) else { return Ok(None) };
        let (id, attempt) = (arrival.operation, AttemptId(rand::random()));
        let unseen = || shared.filter.is_complete() && !shared.filter.check(&id);
        if !unseen() {
            return self.admit_kept(arrival, terms, attempt).await;
        }
        let now = shared.clock.now();
        let (expect, record) = match admit(None, arrival, &terms.policy, attempt, now) {
            Admission::Claim { expect, record } => (expect, record),
            Admission::Untimely(untimely) => return Ok(Some(Admitted::Untimely(untimely))),
            // Of nothing there is no more to say.
            Admission::Own(_) | Admission::Lapse { .. } | Admission::Duplicate(_) => return Ok(None),
        };
        let mut claim = Unbegun { journal, id, fence: record.fence, begun: false };
        if let Written::Lost(_) = journal.write(&id, expect, &record).await? {
            // An equal request was quicker.
            return self.admit_kept(arrival, terms, attempt).await;
        }
        if !unseen() {
            return Ok(None);
        }
        claim.begun = true;
        shared.filter.insert(&id);
        tracing::warn!(operation = %id.short(), "the store is away: surely not seen, so it begins under the journal");
        Ok(Some(Admitted::Proceed(Permit::new(Arc::clone(journalled), id, record, Arc::clone(terms)))))
    }

    /// Hands over what the journal holds and what does not run any more; one step of a background task.
    ///
    /// # Errors
    /// When the store still does not answer: it stays in the journal.
    pub async fn hand_over(&self) -> Result<(), StoreError> {
        let shared = self.shared();
        let Some(journal) = &shared.journal else { return Ok(()) };
        let batch = journal.some(BATCH, |id, record| !shared.lines.runs(id, record.fence.attempt));
        few_first(batch, |(id, record)| async move { self.hand_over_one(journal, &id, &record).await }).await
    }

    async fn hand_over_one(&self, journal: &Journal, id: &OperationId, record: &Record) -> Result<(), StoreError> {
        let mut found = None;
        for _ in 0..ROUNDS {
            match hand_over(record, found.as_deref(), self.shared().clock.now()) {
                HandOver::Wait => return Ok(()),
                HandOver::Done => {
                    let _ = journal.forget(id, record.fence);
                    return Ok(());
                }
                HandOver::Write { expect, record: written } => {
                    match self.timed(StoreOp::Settle, self.store().write(id, expect, &written)).await {
                        Ok(Written::Done) => {
                            self.shared().dispatched.begin(id, &written, self.shared().clock.now());
                            // Moved on meanwhile, it is handed over again.
                            let _ = journal.forget(id, record.fence);
                            return Ok(());
                        }
                        // A claim of this gateway's own that got stuck, perhaps: then it is withdrawn.
                        Ok(Written::Lost(newer)) => found = self.catch_up(id, newer).await?,
                        // What is there is no record of ours, and must not keep the others waiting.
                        Err(StoreError::Unreadable(_)) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes note of a claim that the store has taken, before anybody acts on it. False when an equal request has begun
    /// under the journal meanwhile: this one must not.
    pub(super) fn may_act_on(&self, id: &OperationId, expect: Expect) -> bool {
        if self.journalled.is_none() {
            return true;
        }
        self.shared().filter.insert(id);
        expect != Expect::Absent || !self.is_kept(id)
    }
}
