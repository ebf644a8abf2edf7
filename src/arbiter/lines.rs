//! Attempts that run in this gateway, and the duplicates that stand in line for them. All in memory: what runs in other
//! gateways is learnt from the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use super::told::Told;
use crate::machine::{AttemptId, OperationId, Time};

/// Alone in its lines of memory: two workers at two shards do not meet there.
#[derive(Default)]
#[repr(align(128))]
struct Shard(HashMap<OperationId, Entry, RandomState>);

/// Lines by operation, in shards so that workers seldom meet.
pub struct Lines {
    shards: [Mutex<Shard>; 16],
    waiting: AtomicUsize,
    most: AtomicUsize,
    given_up: AtomicBool,
}

#[derive(Default)]
struct Entry {
    /// The attempt that runs here, if one does.
    running: Option<Running>,
    /// Those whose lease was lost, and whose operation `running` has taken over: they wait for late answers.
    displaced: Vec<Running>,
    line: Option<Arc<Line>>,
}

struct Running {
    attempt: AttemptId,
    told: Arc<Told>,
}

/// The line of one operation.
#[derive(Default)]
pub struct Line {
    notify: Notify,
    places: AtomicUsize,
}

/// A place in line; leaving is dropping it.
pub struct Place<'a> {
    lines: &'a Lines,
    id: OperationId,
    line: Arc<Line>,
}

impl Lines {
    /// Lines for at most this many waiters together.
    pub fn new(most: usize) -> Self {
        Self {
            shards: Default::default(),
            waiting: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            given_up: AtomicBool::new(false),
        }
    }

    /// From now on at most this many; who stands in line already stays.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes a place in an operation's line; none when all places of the gateway are taken.
    pub fn join(&self, id: OperationId) -> Option<Place<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most.load(Ordering::Relaxed) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let line = self.with(&id, |shard| {
            let line = Arc::clone(shard.entry(id).or_default().line.get_or_insert_default());
            line.places.fetch_add(1, Ordering::Relaxed);
            line
        });
        Some(Place { lines: self, id, line })
    }

    /// An attempt begins here. By what it gets it is told what others find out about it.
    pub(super) fn begin(&self, id: OperationId, attempt: AttemptId) -> Arc<Told> {
        let told = Arc::new(Told::default());
        let running = Running { attempt, told: Arc::clone(&told) };
        self.with(&id, |shard| {
            let entry = shard.entry(id).or_default();
            entry.displaced.extend(entry.running.replace(running));
        });
        // After it can be found: it is told by whoever gives all up, or here.
        if self.given_up.load(Ordering::SeqCst) {
            told.is_given_up();
        }
        told
    }

    /// All attempts that run here, and all that will, have no time left.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.0.values().flat_map(Entry::all).for_each(|running| running.told.is_given_up());
        }
    }

    /// The store does not have the record of the attempt that runs here.
    pub(super) fn missed(&self, id: &OperationId) {
        self.with(id, |shard| {
            if let Some(running) = shard.get(id).and_then(|entry| entry.running.as_ref()) {
                running.told.is_missed();
            }
        });
    }

    /// The attempt that began here has ended: everyone in line is woken, once.
    pub(super) fn end(&self, id: &OperationId, attempt: AttemptId) {
        let line = self.with(id, |shard| {
            let entry = shard.get_mut(id)?;
            if entry.runs(attempt) {
                entry.running = None;
            } else {
                entry.displaced.retain(|displaced| displaced.attempt != attempt);
            }
            let line = entry.line.clone();
            if entry.is_over() {
                shard.remove(id);
            }
            line
        });
        if let Some(line) = line {
            line.notify.notify_waiters();
        }
    }

    /// Something else has moved the operation on.
    pub(super) fn wake(&self, id: &OperationId) {
        if let Some(line) = self.with(id, |shard| shard.get(id).and_then(|entry| entry.line.clone())) {
            line.notify.notify_waiters();
        }
    }

    /// Whether that attempt runs here, or has ended here with an outcome that the store has not taken yet.
    pub(super) fn runs(&self, id: &OperationId, attempt: AttemptId) -> bool {
        self.with(id, |shard| shard.get(id).is_some_and(|entry| entry.runs(attempt)))
    }

    /// The attempt of the operation that runs here, if one does, and until when the store need not be asked for it.
    pub(super) fn running(&self, id: &OperationId) -> Option<(AttemptId, Time)> {
        self.with(id, |shard| {
            let running = shard.get(id)?.running.as_ref()?;
            Some((running.attempt, running.told.granted()))
        })
    }

    /// The store has this attempt on record, and need not be asked for it again until then.
    pub(super) fn grant(&self, id: &OperationId, attempt: AttemptId, until: Time) {
        self.with(id, |shard| {
            if let Some(running) = shard.get(id).and_then(|entry| entry.running.as_ref())
                && running.attempt == attempt
            {
                running.told.grant(until);
            }
        });
    }

    /// Whether an attempt of the operation runs here.
    pub(super) fn runs_here(&self, id: &OperationId) -> bool {
        self.with(id, |shard| shard.get(id).is_some_and(|entry| entry.running.is_some()))
    }

    fn with<T>(&self, id: &OperationId, look: impl FnOnce(&mut HashMap<OperationId, Entry, RandomState>) -> T) -> T {
        let shard = &self.shards[usize::from(id.0[0]) % self.shards.len()];
        look(&mut shard.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Entry {
    fn all(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().chain(&self.displaced)
    }

    fn is_over(&self) -> bool {
        self.line.is_none() && self.all().next().is_none()
    }

    fn runs(&self, attempt: AttemptId) -> bool {
        self.running.as_ref().is_some_and(|running| running.attempt == attempt)
    }
}

impl Place<'_> {
    /// Waits until the operation moves on in this gateway, or until `poll` has passed. An attempt that runs here wakes
    /// its line for certain, so then only `patience` bounds the wait; what runs elsewhere has to be asked for.
    pub async fn wait(&self, poll: std::time::Duration, patience: std::time::Duration) {
        // Registered before looking: a wake-up between the two is not lost.
        let woken = self.line.notify.notified();
        let most = if self.lines.runs_here(&self.id) { patience } else { poll.min(patience) };
        // Both ends mean the same: ask again.
        let _ = tokio::time::timeout(most, woken).await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
        self.lines.with(&self.id, |shard| {
            if self.line.places.fetch_sub(1, Ordering::Relaxed) > 1 {
                return;
            }
            if let Some(entry) = shard.get_mut(&self.id) {
                entry.line = None;
                if entry.is_over() {
                    shard.remove(&self.id);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// One that has lost its lease waits for a late answer yet.
    #[test]
    fn whoever_gives_all_up_tells_also_attempts_that_another_has_taken_over_from() {
        let (lines, id) = (Lines::new(1), OperationId([7; 32]));
        let attempts = [1, 2, 3].map(|number| AttemptId([number; 16]));
        let told = attempts.map(|attempt| lines.begin(id, attempt));
        lines.end(&id, attempts[1]);
        lines.give_up();
        let is_given_up = |told: &Told| pin!(told.given_up()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert_eq!(told.map(|told| is_given_up(&told)), [true, false, true]);
        lines.end(&id, attempts[2]);
        assert!(!lines.runs_here(&id));
        lines.end(&id, attempts[0]);
        assert!(lines.shards.iter().all(|shard| shard.lock().unwrap().0.is_empty()));
    }
}
