//! The right to act, as a value. Whoever holds it settles it; dropped unsettled, the operation is in doubt, never free.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::outcomes::Outcome as WaitingOutcome;
use super::settling::settle_held;
use super::{Arbiter, Terms};
use crate::clock::Clock;
use crate::machine::{AttemptId, Cause, Ending, Expect, OperationId, Record, Settled, State, recall, renew};
use crate::store::{StoreError, Written};
use crate::telemetry::{Outcome, StoreOp};

/// The right to run one attempt of one operation.
#[must_use = "a permit that is dropped leaves its operation in doubt"]
pub struct Permit {
    arbiter: Arc<Arbiter>,
    id: OperationId,
    record: Record,
    terms: Terms,
    /// A renewal found that the record no longer speaks of this attempt as running.
    lost: bool,
    settled: bool,
    begun: Instant,
    /// Somebody has looked for the record in the store, and it was not there.
    missed: Arc<Notify>,
}

/// A permit whose outcome the store has not taken yet.
#[must_use = "an outcome that is dropped leaves its operation in doubt"]
pub struct Unsettled {
    permit: Permit,
    ending: Ending,
    /// Why the store did not take it.
    pub error: StoreError,
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

impl Permit {
    pub(super) fn new(arbiter: Arc<Arbiter>, id: OperationId, record: Record, terms: Terms) -> Self {
        let shared = arbiter.shared();
        let missed = shared.lines.begin(id, record.fence.attempt);
        terms.route.attempts_running(1);
        Self { arbiter, id, record, terms, lost: false, settled: false, missed, begun: Clock::instant() }
    }

    /// The operation.
    pub fn operation(&self) -> &OperationId {
        &self.id
    }

    /// The attempt.
    pub fn attempt(&self) -> AttemptId {
        self.record.fence.attempt
    }

    /// The attempt's number, from 1.
    pub fn number(&self) -> u32 {
        self.record.number
    }

    /// How often the lease wants to be renewed.
    pub fn heartbeat(&self) -> Duration {
        (self.terms.policy.lease / 3).max(Duration::from_millis(10))
    }

    /// Waits until the lease wants to be renewed: regularly, and at once when somebody has missed the record.
    pub async fn beat(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.heartbeat()) => {}
            () = self.missed.notified() => {}
        }
    }

    /// Whether the lease has ended, by the record or by the clock: an answer that comes now is a late one. The clock
    /// counts because a gateway that stood still may have its answer before it looks at the record again.
    pub fn is_lost(&self) -> bool {
        self.lost || !self.is_in_time()
    }

    fn is_in_time(&self) -> bool {
        matches!(self.record.state, State::InFlight { lease, .. } if self.arbiter.shared().clock.now() < lease)
    }

    /// Whether the attempt may still begin. Where the gateway stood still since its claim, or the store was slow, it may
    /// not: nothing begins late, so that the claim's expiry covers every attempt. The store need not be asked.
    pub fn may_begin(&self) -> bool {
        !self.is_lost()
    }

    /// Extends the lease.
    pub async fn renew(&mut self) -> Renewal {
        let clock = &self.arbiter.shared().clock;
        let Some(mut renewed) = renew(&self.record, &self.terms.policy, clock.now()) else {
            return Renewal::Lost;
        };
        let mut written = self.write_lease(Expect::Fence(self.record.fence), &renewed).await;
        if matches!(written, Ok(Written::Lost(None))) && self.is_in_time() {
            // Nobody can have ended an attempt whose lease has not: the store has lost its record.
            let now = self.arbiter.shared().clock.now();
            let policy = &self.terms.policy;
            renewed = recall(&self.record, Some(policy.lease), policy.doubt_retention, now);
            written = self.write_lease(Expect::Absent, &renewed).await;
            if matches!(written, Ok(Written::Done)) {
                self.arbiter.written_again(&self.id, &renewed);
            }
        }
        match written {
            Ok(Written::Done) => self.record = renewed,
            // A renewal of this attempt's own, whose reply was lost.
            Ok(Written::Lost(Some(newer))) if self.is_running_here(&newer) => self.record = newer,
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

    async fn write_lease(&self, expect: Expect, record: &Record) -> Result<Written, StoreError> {
        let store = self.arbiter.store();
        self.arbiter.timed(StoreOp::Renew, store.write(&self.id, expect, record)).await
    }

    fn is_running_here(&self, newer: &Record) -> bool {
        newer.fence.attempt == self.record.fence.attempt && matches!(newer.state, State::InFlight { .. })
    }

    /// Writes down how the attempt ended.
    ///
    /// # Errors
    /// When the store does not take it: the outcome is then in the caller's hands, to be [tried again](Unsettled::persist).
    pub async fn settle(mut self, ending: Ending) -> Result<Settled, Unsettled> {
        if !matches!(ending, Ending::NotSent) {
            self.terms.route.attempt_took(self.begun.elapsed());
        }
        match self.try_settle(&ending).await {
            Ok(settled) => Ok(settled),
            Err(error) => Err(Unsettled { permit: self, ending, error }),
        }
    }

    async fn try_settle(&mut self, ending: &Ending) -> Result<Settled, StoreError> {
        let settled = settle_held(&self.arbiter, &self.id, &self.record, ending, &self.terms.policy).await?;
        self.close(settled);
        Ok(settled)
    }

    fn close(&mut self, settled: Settled) {
        self.settled = true;
        let metrics = &self.terms.route;
        match settled {
            Settled::Kept(_) => metrics.settled(Outcome::Kept),
            Settled::Released => metrics.settled(Outcome::Released),
            Settled::NotSent => metrics.settled(Outcome::NotSent),
            Settled::Doubted => {
                metrics.settled(Outcome::Doubted);
                self.arbiter.doubted(&self.id, &self.record, &self.terms);
            }
            Settled::Superseded => {
                tracing::warn!(operation = %self.id.short(), number = self.record.number, "outcome of a superseded attempt");
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let shared = Arc::clone(self.arbiter.shared());
        if !self.settled {
            let heir = Self {
                arbiter: Arc::clone(&self.arbiter),
                id: self.id,
                record: self.record.clone(),
                terms: self.terms.clone(),
                lost: self.lost,
                settled: true,
                begun: self.begun,
                missed: Arc::clone(&self.missed),
            };
            abandon(heir, &shared.tasks);
            return;
        }
        shared.dispatched.ended(&self.id, self.record.fence.attempt);
        shared.lines.end(&self.id, self.record.fence.attempt);
        self.terms.route.attempts_running(-1);
    }
}

/// Writes the doubt that a dropped permit means. Outside a runtime nothing can be written: the lease ends, and the
/// sweep finds the doubt.
fn abandon(mut permit: Permit, tasks: &tokio_util::task::TaskTracker) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        tasks.spawn_on(
            async move {
                if let Err(error) = permit.try_settle(&Ending::Unknown(Cause::Abandoned)).await {
                    tracing::warn!(operation = %permit.id.short(), %error, "doubt not recorded; its lease will end");
                }
            },
            &runtime,
        );
    }
}

impl Unsettled {
    /// Waits until the outcome is written, the record's time is over, or the gateway stops. Given up, the lease has ended
    /// unheard of, which means doubt.
    pub async fn persist(mut self) -> Settled {
        let shared = Arc::clone(self.permit.arbiter.shared());
        let Permit { id, record, terms, .. } = &self.permit;
        let outcome = WaitingOutcome {
            held: record.clone(),
            ending: self.ending,
            policy: Arc::clone(&terms.policy),
            journalled: self.permit.arbiter.is_journalled(),
        };
        let Some(mut place) = shared.outcomes.wait(*id, outcome) else {
            return self.permit.give_up("too many outcomes wait for the store");
        };
        let written = tokio::select! {
            written = place.written() => written,
            () = shared.give_up.cancelled() => None,
        };
        match written {
            Some(settled) => {
                self.permit.close(settled);
                settled
            }
            None => self.permit.give_up("the store did not take it in time"),
        }
    }
}

impl Permit {
    fn give_up(&mut self, why: &str) -> Settled {
        tracing::error!(operation = %self.id.short(), why, "outcome given up");
        self.arbiter.shared().metrics.kept().outcome_given_up();
        self.close(Settled::Doubted);
        Settled::Doubted
    }
}
