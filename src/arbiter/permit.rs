//! The right to act, as a value. Whoever holds it settles it; dropped unsettled, the operation is in doubt, never free.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join;
use tokio::task::JoinHandle;

use super::held::{Held, Renewal};
use super::{Arbiter, Terms, Told};
use crate::clock::Clock;
use crate::machine::{AttemptId, Cause, Ending, OperationId, Record, Settled, ending_of_both};
use crate::store::StoreError;
use crate::telemetry::Outcome;
use crate::wire::Lent;

/// The right to run one attempt of one operation; of two, where the request names two.
#[must_use = "a permit that is dropped leaves its operation in doubt"]
pub struct Permit {
    arbiter: Arc<Arbiter>,
    /// Boxed: permits are handed on several times before they are used.
    own: Box<Held>,
    /// The second operation that the attempt holds: renewed and settled with the first.
    beside: Option<Box<Held>>,
    /// When it was handed out: from then on the route's counters know of it.
    begun: Option<Instant>,
    dropped: Dropped,
}

/// What it means that a permit is dropped unsettled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dropped {
    /// It was not handed out: nothing was sent, and the key is free again.
    Free,
    /// Doubt.
    Doubt,
    /// Nobody writes any more how it ended.
    End,
    /// Nothing: another one has taken over what it held.
    Nothing,
}

/// A permit whose outcome the store has not taken yet.
#[must_use = "an outcome that is dropped leaves its operation in doubt"]
pub struct Unsettled {
    permit: Permit,
    ending: Ending,
    /// Why the store did not take it.
    pub error: StoreError,
}

impl Permit {
    pub(super) fn new(arbiter: Arc<Arbiter>, id: OperationId, record: Record, terms: Arc<Terms>) -> Self {
        let own = Box::new(Held::new(&arbiter, id, record, terms));
        Self { arbiter, own, beside: None, begun: None, dropped: Dropped::Free }
    }

    /// The right to act is whole, and given to somebody who may use it at once.
    pub(super) fn handed_out(mut self) -> Self {
        self.own.terms.route.attempts_running(1);
        (self.begun, self.dropped) = (Some(Clock::lately()), Dropped::Doubt);
        self
    }

    /// The right to act on both operations: the second one's goes into this one.
    pub(super) fn joined_by(mut self, mut second: Self) -> Self {
        self.beside = Some(second.own.clone());
        second.dropped = Dropped::Nothing;
        self
    }

    /// The operation; of two, the first.
    pub fn operation(&self) -> &OperationId {
        &self.own.id
    }

    /// The attempt.
    pub fn attempt(&self) -> AttemptId {
        self.own.record.fence.attempt
    }

    /// The attempt's number, from 1.
    pub fn number(&self) -> u32 {
        self.own.record.number
    }

    /// How often the lease wants to be renewed.
    pub fn heartbeat(&self) -> Duration {
        (self.own.terms.policy.lease / 3).max(Duration::from_millis(10))
    }

    /// Waits until the lease wants to be renewed: regularly, and at once when somebody has missed the record. Longer than
    /// until `end` it does not wait.
    pub async fn beat(&self, alarm: &mut Lent, end: Instant) {
        let next = end.min(Clock::lately() + self.heartbeat());
        poll_fn(|cx| {
            let missed = self.all().any(|held| held.told.poll_missed(cx).is_ready());
            if missed { Poll::Ready(()) } else { alarm.poll_until(cx, next) }
        })
        .await;
    }

    /// What others find out about the attempt.
    pub fn told(&self) -> &Arc<Told> {
        &self.own.told
    }

    /// Whether a lease has ended, by the record or by the clock: an answer that comes now is a late one. The clock
    /// counts because a gateway that stood still may have its answer before it looks at the record again. It is one that
    /// may be a little behind: nothing begins by this word.
    pub fn is_lost(&self) -> bool {
        let now = self.arbiter.shared().clock.now_lately();
        self.all().any(|held| held.is_lost(now))
    }

    /// Whether the attempt may still begin. Where the gateway stood still since its claim, or the store was slow, it may
    /// not: nothing begins late, so that the claim's expiry covers every attempt. The store need not be asked. The clock is
    /// read for this alone.
    pub fn may_begin(&self) -> bool {
        let now = self.arbiter.shared().clock.now();
        !self.all().any(|held| held.is_lost(now))
    }

    fn all(&self) -> impl Iterator<Item = &Held> {
        std::iter::once(&*self.own).chain(self.beside.as_deref())
    }

    /// Extends the lease; of two operations, both.
    pub async fn renew(&mut self) -> Renewal {
        let Self { arbiter, own, beside, .. } = self;
        match beside {
            None => own.renew(arbiter).await,
            Some(beside) => {
                let (own, beside) = Box::pin(join(own.renew(arbiter), beside.renew(arbiter))).await;
                own.and(beside)
            }
        }
    }

    /// Writes down how the attempt ended.
    ///
    /// No `async fn`, which would have the permit and the ending twice.
    ///
    /// # Errors
    /// When the store does not take it: the outcome is then in the caller's hands, to be [tried again](Unsettled::persist).
    pub fn settle(mut self, ending: Ending) -> impl Future<Output = Result<Settled, Unsettled>> + Send {
        if let Some(begun) = self.begun.filter(|_| !matches!(ending, Ending::NotSent)) {
            let ended = Clock::lately();
            self.own.terms.route.attempt_took(ended.saturating_duration_since(begun), ended);
        }
        let ending = match &self.beside {
            None => ending,
            Some(beside) => ending_of_both(ending, [self.number(), beside.record.number]),
        };
        async move {
            match self.try_settle(&ending).await {
                Ok(settled) => Ok(settled),
                Err(error) => Err(Unsettled { permit: self, ending, error }),
            }
        }
    }

    /// Gives the right back unused: nothing was sent, and the key is free again. A store that does not take this keeps it
    /// until it does. It is a task of its own: were it dropped with a client that leaves now, the permit would mean doubt.
    pub fn free(self) -> JoinHandle<()> {
        let tasks = self.arbiter.shared().tasks.clone();
        let persisting = tasks.clone();
        tasks.spawn(async move {
            if let Err(unsettled) = self.settle(Ending::NotSent).await {
                persisting.spawn(unsettled.persist());
            }
        })
    }

    async fn try_settle(&mut self, ending: &Ending) -> Result<Settled, StoreError> {
        let Self { arbiter, own, beside, .. } = self;
        let settled = match beside {
            None => own.settle(arbiter, ending).await?,
            Some(beside) => {
                let both = join(own.settle(arbiter, ending), beside.settle(arbiter, ending));
                // Of its own size: what few attempts need, all would carry.
                let (own, beside) = Box::pin(both).await;
                of_both(own?, beside?)
            }
        };
        self.close(settled);
        Ok(settled)
    }

    fn close(&self, settled: Settled) {
        let metrics = &self.own.terms.route;
        let outcome = match settled {
            Settled::Kept(_) => Some(Outcome::Kept),
            Settled::Released => Some(Outcome::Released),
            Settled::NotSent => Some(Outcome::NotSent),
            Settled::Doubted => Some(Outcome::Doubted),
            Settled::Superseded => None,
        };
        match outcome {
            Some(outcome) if self.begun.is_some() => metrics.settled(outcome),
            Some(_) => {}
            None => {
                tracing::warn!(operation = %self.own.id.short(), number = self.number(), "outcome of a superseded attempt");
            }
        }
        if self.own.settled == Some(Settled::Doubted) {
            self.arbiter.doubted(&self.own.id, &self.own.record, &self.own.terms);
        }
    }
}

/// What an attempt's client is told that holds two operations: of the first, unless the second was not freed with it.
fn of_both(own: Settled, beside: Settled) -> Settled {
    if own == Settled::NotSent && beside != Settled::NotSent { beside } else { own }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let open = self.all().any(|held| held.settled.is_none());
        match self.dropped {
            Dropped::Nothing => {}
            Dropped::Free | Dropped::Doubt if open => {
                let heir = Self {
                    arbiter: Arc::clone(&self.arbiter),
                    own: self.own.clone(),
                    beside: self.beside.take(),
                    begun: self.begun,
                    dropped: Dropped::End,
                };
                heir.abandon(self.dropped == Dropped::Free);
            }
            Dropped::Free | Dropped::Doubt | Dropped::End => {
                self.all().for_each(|held| held.end(&self.arbiter));
                if self.begun.is_some() {
                    self.own.terms.route.attempts_running(-1);
                }
            }
        }
    }
}

impl Permit {
    /// Writes what it means that a permit was dropped. Outside a runtime nothing can be written: the lease ends, and the
    /// sweep finds the doubt.
    fn abandon(mut self, unused: bool) {
        let tasks = self.arbiter.shared().tasks.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let writing = async move {
            if unused {
                if let Err(unsettled) = self.settle(Ending::NotSent).await {
                    unsettled.persist().await;
                }
            } else if let Err(error) = self.try_settle(&Ending::Unknown(Cause::Abandoned)).await {
                tracing::warn!(operation = %self.own.id.short(), %error, "doubt not recorded; its lease will end");
            }
        };
        tasks.spawn_on(writing, &runtime);
    }
}

impl Unsettled {
    /// Waits until the outcome is written, the record's time is over, or the gateway stops. Given up, the lease has ended
    /// unheard of, which means doubt.
    pub async fn persist(mut self) -> Settled {
        let Permit { arbiter, own, beside, .. } = &mut self.permit;
        let settled = match beside {
            None => own.persist(arbiter, &self.ending).await,
            Some(beside) => {
                let (own, beside) =
                    join(own.persist(arbiter, &self.ending), beside.persist(arbiter, &self.ending)).await;
                of_both(own, beside)
            }
        };
        self.permit.close(settled);
        settled
    }
}
