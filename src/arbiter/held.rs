//! One operation as an attempt holds it: its lease, and how its ending is written. Who may act is the permit's matter.

use std::sync::Arc;

use super::local::granted;
use super::outcomes::Outcome as WaitingOutcome;
use super::settling::settle_held;
use super::told::Told;
use super::{Arbiter, Terms};
use crate::machine::{Ending, Expect, OperationId, Record, Settled, State, Time, recall, renew};
use crate::store::{StoreError, Written};
use crate::telemetry::StoreOp;

/// An operation, and its record as the attempt last wrote it.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) id: OperationId,
    pub(super) record: Record,
    /// What the attempt runs under: as one, so that a permit counts one reference that all workers share, not one each.
    pub(super) terms: Arc<Terms>,
    /// How it has ended, once that is written or given up.
    pub(super) settled: Option<Settled>,
    /// A renewal found that the record no longer speaks of this attempt as running.
    lost: bool,
    /// What others find out about the attempt.
    pub(super) told: Arc<Told>,
}

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease is extended.
    Held,
    /// The record no longer speaks of this attempt as running: there is no lease to keep, and an answer is a late one.
    Lost,
    /// The store did not answer; the lease stands as it was.
    Unanswered,
}

impl Renewal {
    /// What became of both: the lease is as good as the worse one.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            (Self::Unanswered, _) | (_, Self::Unanswered) => Self::Unanswered,
            (Self::Held, Self::Held) => Self::Held,
        }
    }
}

impl Held {
    /// An operation whose claim stands.
    pub(super) fn new(arbiter: &Arbiter, id: OperationId, record: Record, terms: Arc<Terms>) -> Self {
        let told = arbiter.shared().lines.begin(id, record.fence.attempt);
        let held = Self { id, record, terms, settled: None, lost: false, told };
        held.is_written(arbiter);
        held
    }

    /// The store has just been heard of its record.
    fn is_written(&self, arbiter: &Arbiter) {
        let now = arbiter.shared().clock.now_lately();
        self.told.grant(granted(&self.record, now).filter(|_| !self.lost).unwrap_or(Time(0)));
    }

    /// The attempt is over: whoever stands in line for it looks again.
    pub(super) fn end(&self, arbiter: &Arbiter) {
        let shared = arbiter.shared();
        // Where its outcome is kept, that was said with it.
        if !matches!(self.settled, Some(Settled::Kept(_))) {
            shared.dispatched.ended(&self.id, self.record.fence.attempt);
        }
        shared.lines.end(&self.id, self.record.fence.attempt);
    }

    /// Whether its lease has ended by then, by the record or by the clock.
    pub(super) fn is_lost(&self, now: Time) -> bool {
        self.lost || !self.is_in_time(now)
    }

    fn is_in_time(&self, now: Time) -> bool {
        matches!(self.record.state, State::InFlight { lease, .. } if now < lease)
    }

    /// Extends the lease.
    pub(super) async fn renew(&mut self, arbiter: &Arbiter) -> Renewal {
        let renewal = self.try_renew(arbiter).await;
        if renewal != Renewal::Unanswered {
            self.is_written(arbiter);
        }
        renewal
    }

    async fn try_renew(&mut self, arbiter: &Arbiter) -> Renewal {
        let clock = &arbiter.shared().clock;
        let Some(mut renewed) = renew(&self.record, &self.terms.policy, clock.now()) else {
            return Renewal::Lost;
        };
        let mut written = self.write_lease(arbiter, Expect::Fence(self.record.fence), &renewed).await;
        if matches!(written, Ok(Written::Lost(None))) && self.is_in_time(clock.now()) {
            // Nobody can have ended an attempt whose lease has not: the store has lost its record.
            let policy = &self.terms.policy;
            renewed = recall(&self.record, Some(policy.lease), policy.doubt_retention, clock.now());
            written = self.write_lease(arbiter, Expect::Absent, &renewed).await;
            if matches!(written, Ok(Written::Done)) {
                arbiter.written_again(&self.id, &renewed);
            }
        }
        match written {
            Ok(Written::Done) => self.record = renewed,
            // A renewal of this attempt's own, whose reply was lost.
            Ok(Written::Lost(Some(newer))) if self.is_running_here(&newer) => self.record = Arc::unwrap_or_clone(newer),
            Ok(Written::Lost(newer)) => {
                tracing::warn!(operation = %self.id.short(), found = ?newer.map(|r| r.number), "lease lost");
                self.lost = true;
                return Renewal::Lost;
            }
            Err(error) => {
                tracing::warn!(operation = %self.id.short(), %error, "lease not renewed");
                return Renewal::Unanswered;
            }
        }
        Renewal::Held
    }

    async fn write_lease(&self, arbiter: &Arbiter, expect: Expect, record: &Record) -> Result<Written, StoreError> {
        arbiter.timed(StoreOp::Renew, arbiter.store().write(&self.id, expect, record)).await
    }

    fn is_running_here(&self, newer: &Record) -> bool {
        newer.fence.attempt == self.record.fence.attempt && matches!(newer.state, State::InFlight { .. })
    }

    /// Writes down how the attempt ended, if that is not written yet.
    pub(super) async fn settle(&mut self, arbiter: &Arbiter, ending: &Ending) -> Result<Settled, StoreError> {
        if let Some(settled) = self.settled {
            return Ok(settled);
        }
        self.told.ends();
        let settled = settle_held(arbiter, &self.id, &self.record, ending, &self.terms.policy).await?;
        Ok(*self.settled.insert(settled))
    }

    /// Waits until the ending is written, the record's time is over, or the gateway stops. Given up, the lease has ended
    /// unheard of, which means doubt.
    pub(super) async fn persist(&mut self, arbiter: &Arbiter, ending: &Ending) -> Settled {
        if let Some(settled) = self.settled {
            return settled;
        }
        let shared = arbiter.shared();
        let outcome = WaitingOutcome {
            held: self.record.clone(),
            ending: ending.clone(),
            policy: Arc::clone(&self.terms.policy),
            journalled: arbiter.is_journalled(),
        };
        let settled = match shared.outcomes.wait(self.id, outcome) {
            None => Err("too many outcomes wait for the store"),
            Some(mut place) => tokio::select! {
                written = place.written() => written.ok_or("the store did not take it in time"),
                () = shared.given_up.cancelled() => Err("the store did not take it in time"),
            },
        };
        *self.settled.insert(settled.unwrap_or_else(|why| {
            tracing::error!(operation = %self.id.short(), why, "outcome given up");
            shared.metrics.kept().outcome_given_up();
            Settled::Doubted
        }))
    }
}
