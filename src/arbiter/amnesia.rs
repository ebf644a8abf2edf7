//! A store that loses records: how that is noticed, and what is done. What to write is decided by the rules.
//!
//! A record of what this gateway dispatched has to be in the store until it expires, unless somebody ended it. This
//! gateway knows what it ended itself. Whoever else ends the doubt of another's attempt (an operator, or a further
//! attempt) leaves a *note* first, under a name of its own, that lives as long as the doubt would have. So a record that
//! is not there and has no note was lost, however that came about: by a flush, a failover, an eviction.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Arbiter;
use super::dispatched::Known;
use crate::machine::{
    Answer, Arrival, AttemptId, Expect, Fence, NamespaceTag, OperationId, Policy, Print, Prints, RawPrint, Record,
    Settled, State, Time, asked_by, recall,
};
use crate::store::{StoreError, Written};
use crate::telemetry::StoreOp;

impl Arbiter {
    /// What stands for an operation that this gateway dispatched, in the place of a claim. Nothing, if it may be claimed.
    ///
    /// For an attempt that runs here nothing is written: that could come after the attempt has ended, and hold a key that
    /// is free. If its record was lost, its own heartbeat, which is called for, or its outcome writes it again.
    pub(super) async fn instead(
        &self,
        arrival: &Arrival<'_>,
        known: &Known,
        policy: &Policy,
    ) -> Result<Option<Arc<Record>>, StoreError> {
        let id = &arrival.operation;
        let lost = asked_by(known.record.clone(), arrival);
        if !known.running {
            return self.recall(id, Expect::Absent, &lost, policy).await;
        }
        // It is measured as what it stands for.
        let found = self.timed(StoreOp::Reserve, self.store().load(id)).await?.map(Arc::new);
        Ok(found.or_else(|| self.running(id, policy)))
    }

    /// The record of the attempt that runs here, as it stands in the store or soon will again.
    pub(super) fn running(&self, id: &OperationId, policy: &Policy) -> Option<Arc<Record>> {
        let now = self.shared().clock.now();
        let known = self.shared().dispatched.known(id, now).filter(|known| known.running)?;
        self.shared().lines.missed(id);
        Some(Arc::new(self.recalled(id, &known.record, true, policy)))
    }

    /// Writes what is known of an operation whose attempt has ended, and returns what the store then holds. Nothing, if
    /// its record is gone rightly: it may be claimed.
    pub(super) async fn recall(
        &self,
        id: &OperationId,
        expect: Expect,
        known: &Record,
        policy: &Policy,
    ) -> Result<Option<Arc<Record>>, StoreError> {
        let shared = self.shared();
        let record = self.recalled(id, known, false, policy);
        // One round trip, as a claim is: what is there after all comes back, and a duplicate that asks meanwhile never
        // meets a claim that nobody acts on.
        if let Written::Lost(found) = self.timed(StoreOp::Reserve, self.store().write(id, expect, &record)).await? {
            return Ok(found);
        }
        // Asked again: it may have been freed here while this was on its way.
        let still_known = shared.dispatched.known(id, shared.clock.now());
        if still_known.is_none_or(|still| still.record.fence.attempt != known.fence.attempt)
            || self.was_ended(id, known).await?
        {
            shared.dispatched.forget(id, known.fence.attempt);
            let removed = self.timed(StoreOp::Remove, self.store().remove(id, record.fence)).await?;
            return Ok(if let Written::Lost(found) = removed { found } else { None });
        }
        self.written_again(id, &record);
        Ok(Some(Arc::new(record)))
    }

    /// What stands in the place of a lost record, by what this gateway knows.
    pub(super) fn recalled(&self, id: &OperationId, known: &Record, running: bool, policy: &Policy) -> Record {
        let shared = self.shared();
        let now = shared.clock.now();
        let kept = shared.cache.keeps(id).filter(|kept| is_outcome_of(kept, known, now));
        recall(kept.as_deref().unwrap_or(known), running.then_some(policy.lease), policy.doubt_retention, now)
    }

    /// A record that the store had lost stands in it again.
    pub(super) fn written_again(&self, id: &OperationId, record: &Record) {
        let shared = self.shared();
        shared.dispatched.begin(id, record, shared.clock.now());
        shared.metrics.kept().store_forgot();
        let state = match record.state {
            State::InFlight { .. } => "its attempt still runs here",
            State::InDoubt { .. } => "its outcome is not known any more: in doubt",
            State::Completed { .. } => "its outcome was still known here",
        };
        tracing::error!(operation = %id.short(), state, "the store has lost a record; it is written again");
    }

    /// Keeps in mind what settling has made of the record, and that this attempt has ended.
    pub(super) fn keep_in_mind(&self, id: &OperationId, attempt: AttemptId, settled: Settled, record: Option<&Record>) {
        let dispatched = &self.shared().dispatched;
        match (settled, record) {
            (Settled::Kept(until), _) => dispatched.stays(id, attempt, until),
            (Settled::Doubted, Some(doubt)) => dispatched.stays(id, attempt, doubt.expires),
            (Settled::Doubted, None) | (Settled::Superseded, _) => dispatched.ended(id, attempt),
            // Forgotten before it was done.
            (Settled::Released | Settled::NotSent, _) => {}
        }
    }

    /// Says, before it happens, that an operation's doubt ends here, if that may be the doubt of another gateway's
    /// attempt. `held` is the record as it was held by whoever ends it.
    pub(super) async fn announce(
        &self,
        id: &OperationId,
        held: &Record,
        found: Option<&Record>,
        settled: Settled,
    ) -> Result<(), StoreError> {
        let is_own_first = held.number == 1 && !matches!(held.state, State::InDoubt { .. });
        if self.shared().alone || is_own_first || matches!(settled, Settled::Doubted | Settled::Superseded) {
            return Ok(());
        }
        let now = self.shared().clock.now();
        let until = held.expires.max(found.map_or(now, |found| found.expires));
        Box::pin(self.leave_note(id, note(until, now))).await
    }

    async fn leave_note(&self, id: &OperationId, fresh: Record) -> Result<(), StoreError> {
        let under = note_id(id);
        let written = self.timed(StoreOp::Settle, self.store().write(&under, Expect::Absent, &fresh)).await?;
        if let Written::Lost(Some(older)) = written {
            let later = Record { expires: fresh.expires.max(older.expires), ..fresh };
            // Whoever was quicker has left one just now.
            self.timed(StoreOp::Settle, self.store().write(&under, Expect::Fence(older.fence), &later)).await?;
        }
        Ok(())
    }

    /// Whether somebody else has ended the operation since this gateway dispatched it.
    pub(super) async fn was_ended(&self, id: &OperationId, known: &Record) -> Result<bool, StoreError> {
        if self.shared().alone {
            return Ok(false);
        }
        let note = self.timed(StoreOp::Load, self.store().load(&note_id(id))).await?;
        Ok(note.is_some_and(|note| begun(&note) >= begun(known)))
    }
}

/// Whether a cached record holds the outcome of the attempt that is known, and still counts.
fn is_outcome_of(kept: &Record, known: &Record, now: Time) -> bool {
    kept.fence.attempt == known.fence.attempt && now < kept.expires
}

fn begun(record: &Record) -> Time {
    let (State::InFlight { since, .. } | State::InDoubt { since, .. } | State::Completed { at: since, .. }) =
        record.state;
    since
}

/// The name that an operation's note is kept under.
fn note_id(id: &OperationId) -> OperationId {
    let digest = Sha256::new().chain_update(b"oncegate ended elsewhere\0").chain_update(id.0);
    OperationId(digest.finalize().into())
}

/// A record that says only when it was written. It belongs to no route, so that no sweep and no list shows it.
fn note(expires: Time, now: Time) -> Record {
    Record {
        fence: Fence { attempt: AttemptId(rand::random()), version: 1 },
        number: 0,
        state: State::Completed { at: now, answer: Answer::Unseen },
        prints: Prints { raw: RawPrint([0; 16]), canonical: Print([0; 16]), settings: 0 },
        credentials: None,
        namespace: NamespaceTag(0),
        expires,
        probe: None,
        beside: None,
        good_until: None,
    }
}
