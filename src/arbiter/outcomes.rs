//! Outcomes that the store has not taken yet. They wait in memory, within a bound, and are written as soon as the store
//! answers again: in the background, or by the first request that meets their record. Each keeps its permit's task alive.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Arbiter;
use super::few_first::few_first;
use super::settling::settle_held;
use crate::machine::{AttemptId, Ending, OperationId, Policy, Record, Settled};
use crate::store::StoreError;
use crate::telemetry::Metrics;

/// Outcomes written in one step, all at once.
const BATCH: usize = 1_024;

/// Outcomes that wait for their store.
pub struct Outcomes {
    waiting: Mutex<Waiting>,
    /// How many there are: for those who only ask whether there are any, which all workers do all the time.
    count: AtomicUsize,
    most: AtomicUsize,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Waiting {
    by_name: HashMap<Name, Arc<Waiter>>,
    /// Whose turn it is next.
    turns: VecDeque<Name>,
}

type Name = (OperationId, AttemptId);

/// What an attempt ended with.
pub(super) struct Outcome {
    pub(super) held: Record,
    pub(super) ending: Ending,
    pub(super) policy: Arc<Policy>,
    /// Whether it belongs into the journal.
    pub(super) journalled: bool,
}

struct Waiter {
    outcome: Outcome,
    /// Tells whoever holds the permit what became of it; none: that it is given up.
    told: Mutex<Option<oneshot::Sender<Option<Settled>>>>,
}

/// A place among those that wait; leaving is dropping it.
pub(super) struct Place<'a> {
    outcomes: &'a Outcomes,
    name: Name,
    written: oneshot::Receiver<Option<Settled>>,
}

impl Outcomes {
    /// Room for so many.
    pub fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self { waiting: Mutex::default(), count: AtomicUsize::new(0), most: AtomicUsize::new(most), metrics }
    }

    /// From now on at most so many; those that wait already stay.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes an outcome in; none when there is no room.
    pub(super) fn wait(&self, id: OperationId, outcome: Outcome) -> Option<Place<'_>> {
        let name = (id, outcome.held.fence.attempt);
        let (told, written) = oneshot::channel();
        let outcome = Arc::new(Waiter { outcome, told: Mutex::new(Some(told)) });
        self.change(|waiting| {
            let room = waiting.by_name.len() < self.most.load(Ordering::Relaxed);
            room.then(|| waiting.insert(name, outcome))
        })?;
        self.metrics.kept().outcomes_wait(1);
        Some(Place { outcomes: self, name, written })
    }

    /// Writes some of those that wait; one step of a background task.
    ///
    /// # Errors
    /// When the store still does not answer: they go on waiting.
    pub async fn write(&self, arbiter: &Arbiter) -> Result<(), StoreError> {
        let batch = self.lock().next();
        few_first(batch, |((id, _), outcome)| async move { write_one(arbiter, &id, &outcome).await }).await
    }

    /// Writes the outcome of the attempt whose record a request has met, if it is one of these. True when there was one:
    /// what the request has met is then no longer so.
    pub(super) async fn write_met(
        &self,
        arbiter: &Arbiter,
        id: &OperationId,
        met: &Record,
    ) -> Result<bool, StoreError> {
        let Some(outcome) = self.lock().by_name.get(&(*id, met.fence.attempt)).cloned() else { return Ok(false) };
        Box::pin(write_one(arbiter, id, &outcome)).await?;
        Ok(true)
    }

    /// Takes an outcome in or lets one go. The count is set under the lock, so that the last one set is right.
    fn change<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.lock();
        let changed = change(&mut waiting);
        self.count.store(waiting.by_name.len(), Ordering::Release);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Written twice, by a request and in the background, it is still one outcome: the second finds it written.
async fn write_one(arbiter: &Arbiter, id: &OperationId, waiter: &Waiter) -> Result<(), StoreError> {
    let outcome = &waiter.outcome;
    let arbiter = arbiter.journalled.as_deref().filter(|_| outcome.journalled).unwrap_or(arbiter);
    let settled = match settle_held(arbiter, id, &outcome.held, &outcome.ending, &outcome.policy).await {
        Ok(settled) => Some(settled),
        // What is there is no record of this gateway's, and must not keep the others waiting.
        Err(StoreError::Unreadable(_)) => None,
        Err(_) if arbiter.shared().clock.now() >= outcome.held.expires => None,
        Err(error) => return Err(error),
    };
    let told = waiter.told.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(told) = told {
        // Nobody waits for it any longer when the gateway has given it up meanwhile.
        let _ = told.send(settled);
    }
    Ok(())
}

impl Waiting {
    fn insert(&mut self, name: Name, outcome: Arc<Waiter>) {
        self.by_name.insert(name, outcome);
        self.turns.push_back(name);
    }

    /// Those whose turn it is; each goes to the back.
    fn next(&mut self) -> Vec<(Name, Arc<Waiter>)> {
        let due: Vec<_> = self.turns.drain(..self.turns.len().min(BATCH)).collect();
        let waits = due.into_iter().filter_map(|name| Some((name, Arc::clone(self.by_name.get(&name)?))));
        let batch: Vec<_> = waits.collect();
        self.turns.extend(batch.iter().map(|(name, _)| *name));
        batch
    }
}

impl Place<'_> {
    /// Until the outcome is written; none when it is given up.
    pub(super) async fn written(&mut self) -> Option<Settled> {
        (&mut self.written).await.ok().flatten()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.outcomes.change(|waiting| waiting.by_name.remove(&self.name));
        self.outcomes.metrics.kept().outcomes_wait(-1);
    }
}
