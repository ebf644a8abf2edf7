//! The right to act, as a value. Whoever holds it settles it; dropped unsettled, the operation is in doubt, never free.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Arbiter, Terms};
use crate::clock::Clock;
use crate::machine::{
    Cause, Ending, Expect, OperationId, Policy, Record, Settled, Settling, State, recall, renew, settle,
};
use crate::store::{StoreError, Written};
use crate::telemetry::{Outcome, StoreOp};

/// First and longest pause between two tries to write an outcome to a store that does not answer.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

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

/// One step of settling.
pub(super) enum Step {
    Settled(Settled),
    Lost(Option<Record>),
}

impl Permit {
    pub(super) fn new(arbiter: Arc<Arbiter>, id: OperationId, record: Record, terms: Terms) -> Self {
        let shared = arbiter.shared();
        shared.lines.begin(id, record.fence.attempt);
        terms.route.attempts_running(1);
        Self { arbiter, id, record, terms, lost: false, settled: false, begun: Clock::instant() }
    }

    /// The operation.
    pub fn operation(&self) -> &OperationId {
        &self.id
    }

    /// The attempt's number, from 1.
    pub fn number(&self) -> u32 {
        self.record.number
    }

    /// How often the lease wants to be renewed.
    pub fn heartbeat(&self) -> Duration {
        (self.terms.policy.lease / 3).max(Duration::from_millis(10))
    }

    /// Whether the lease has ended, by the record or by the clock: an answer that comes now is a late one. The clock
    /// counts because a gateway that stood still may have its answer before it looks at the record again.
    pub fn is_lost(&self) -> bool {
        self.lost || !self.is_in_time()
    }

    fn is_in_time(&self) -> bool {
        matches!(self.record.state, State::InFlight { lease, .. } if self.arbiter.shared().clock.now() < lease)
    }

    /// Whether the attempt may still begin. A gateway that was stopped between its claim and here may have lost its lease;
    /// it has to hold it again before it sends anything.
    pub async fn may_begin(&mut self) -> bool {
        self.is_in_time() || self.renew().await == Renewal::Held
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
        let arbiter = Arc::clone(&self.arbiter);
        let mut lost: Option<Option<Record>> = None;
        for _ in 0..super::ROUNDS {
            let found = lost.as_ref().map_or(Some(&self.record), Option::as_ref);
            match settle_once(&arbiter, &self.id, &self.record, found, ending, &self.terms.policy).await? {
                Step::Lost(newer) => lost = Some(newer),
                Step::Settled(settled) => {
                    self.close(settled);
                    return Ok(settled);
                }
            }
        }
        Err(StoreError::Unavailable(format!("{} races lost in a row", super::ROUNDS)))
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
            };
            abandon(heir, &shared.tasks);
            return;
        }
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
    /// Tries again, with growing pauses, until the store takes the outcome, the record's time is over, or the gateway
    /// stops: then the lease has ended unheard of, which means doubt.
    pub async fn persist(mut self) -> Settled {
        let shared = Arc::clone(self.permit.arbiter.shared());
        let mut pause = RETRY_PAUSE.0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shared.give_up.cancelled() => return self.give_up(),
            }
            match self.permit.try_settle(&self.ending).await {
                Ok(settled) => return settled,
                Err(_) if shared.clock.now() >= self.permit.record.expires => return self.give_up(),
                Err(error) => tracing::debug!(operation = %self.permit.id.short(), %error, "outcome still waits"),
            }
            pause = (pause * 2).min(RETRY_PAUSE.1);
        }
    }
}

impl Unsettled {
    fn give_up(mut self) -> Settled {
        tracing::error!(operation = %self.permit.id.short(), error = %self.error, "outcome given up");
        self.permit.close(Settled::Doubted);
        Settled::Doubted
    }
}

/// Asks the rules, does what they say, once.
pub(super) async fn settle_once(
    arbiter: &Arbiter,
    id: &OperationId,
    held: &Record,
    found: Option<&Record>,
    ending: &Ending,
    policy: &Policy,
) -> Result<Step, StoreError> {
    let shared = arbiter.shared();
    let store = arbiter.store();
    let (written, settled, record) = match settle(held, found, ending, policy, shared.clock.now()) {
        Settling::Done(settled) => {
            arbiter.keep_in_mind(id, settled, None);
            return Ok(Step::Settled(settled));
        }
        Settling::Write { expect, record, settled } => {
            arbiter.announce(id, held, found, settled).await?;
            let written = arbiter.timed(StoreOp::Settle, store.write(id, expect, &record)).await?;
            if expect == Expect::Absent
                && written == Written::Done
                && !arbiter.was_ended(id, held).await.unwrap_or(true)
            {
                arbiter.written_again(id, &record);
            }
            (written, settled, Some(record))
        }
        Settling::Remove { fence, settled } => {
            arbiter.announce(id, held, found, settled).await?;
            (arbiter.timed(StoreOp::Remove, store.remove(id, fence)).await?, settled, None)
        }
    };
    match written {
        Written::Lost(newer) => Ok(Step::Lost(newer)),
        Written::Done => {
            if let (Settled::Kept(_), Some(record)) = (settled, &record) {
                arbiter.remember_completed(id, record);
            }
            arbiter.keep_in_mind(id, settled, record.as_ref());
            Ok(Step::Settled(settled))
        }
    }
}
