//! What this gateway has dispatched and not released, exactly and within a bound: what a store is measured by that has
//! perhaps lost records. It is no cache: it knows of no answer, and lets nobody act.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::machine::{AttemptId, Fence, NamespaceTag, OperationId, Print, Prints, Record, State, Time};
use crate::telemetry::Metrics;

/// As many locks as workers seldom meet at.
const SHARDS: usize = 16;
/// So long before its expiry a record need no longer be there: this gateway's idea of the store's time may be off by as
/// much as an answer takes.
const MARGIN: Duration = Duration::from_secs(1);
/// Expired entries that a new one clears away: more than the one that it adds.
const RECLAIMED: usize = 2;

/// Operations whose records have to be in the store.
pub struct Dispatched {
    shards: [Mutex<Shard>; SHARDS],
    most: AtomicUsize,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<OperationId, Entry>,
    /// The same in the order in which they expire: those that expire first make room.
    expiries: BTreeSet<(Time, OperationId)>,
}

/// What a record has to say to stand for an operation again, but for its outcome, and for the question to the upstream,
/// which an equal request has too.
#[derive(Clone, Copy)]
struct Entry {
    fence: Fence,
    number: u32,
    since: Time,
    prints: Prints,
    credentials: Option<Print>,
    namespace: NamespaceTag,
    expires: Time,
    running: bool,
}

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The record as it was when the attempt began.
    pub(super) record: Record,
    /// Whether the attempt has not ended: then it may be freed at any moment.
    pub(super) running: bool,
}

impl Dispatched {
    /// An empty set of at most so many; none at all with 0.
    pub fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self { shards: Default::default(), most: AtomicUsize::new(most), metrics }
    }

    /// From now on at most so many; what is too many already goes with the next ones that come.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An attempt is about to be dispatched under this record, or goes on under it.
    pub(super) fn begin(&self, id: &OperationId, record: &Record, now: Time) {
        let entry = Entry::of(record);
        let most = self.most.load(Ordering::Relaxed);
        let mut shard = self.shard(id);
        shard.forget(id);
        shard.reclaim(now);
        if most > 0 {
            // Rounded up, so that a small bound still leaves each shard a place.
            let dropped = shard.make_room(most.div_ceil(SHARDS));
            shard.put(*id, entry);
            drop(shard);
            self.metrics.kept().dispatched_dropped(dropped);
        }
    }

    /// What the store has to hold of the operation.
    pub(super) fn known(&self, id: &OperationId, now: Time) -> Option<Known> {
        self.shard(id).live(id, now)
    }

    /// The operation's record stays until then, whoever's attempt it speaks of. This attempt has ended.
    pub(super) fn stays(&self, id: &OperationId, attempt: AttemptId, until: Time) {
        let mut shard = self.shard(id);
        if let Some(entry) = shard.forget(id) {
            let running = entry.running && entry.fence.attempt != attempt;
            shard.put(*id, Entry { expires: until, running, ..entry });
        }
    }

    /// This attempt has ended, whatever became of it.
    pub(super) fn ended(&self, id: &OperationId, attempt: AttemptId) {
        if let Some(entry) = self.shard(id).of(id, attempt) {
            entry.running = false;
        }
    }

    /// This attempt's record is gone, or may go, and rightly so. Says whether it was known.
    pub(super) fn forget(&self, id: &OperationId, attempt: AttemptId) -> bool {
        let mut shard = self.shard(id);
        shard.of(id, attempt).is_some() && shard.forget(id).is_some()
    }

    fn shard(&self, id: &OperationId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(id.0[0]) % SHARDS])
    }
}

/// No step panics half-way, so a poisoned lock still guards whole content.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn live(&self, id: &OperationId, now: Time) -> Option<Known> {
        let entry = self.entries.get(id).filter(|entry| now.plus(MARGIN) < entry.expires)?;
        Some(Known { record: entry.record(), running: entry.running })
    }

    fn of(&mut self, id: &OperationId, attempt: AttemptId) -> Option<&mut Entry> {
        self.entries.get_mut(id).filter(|entry| entry.fence.attempt == attempt)
    }

    fn put(&mut self, id: OperationId, entry: Entry) {
        self.expiries.insert((entry.expires, id));
        self.entries.insert(id, entry);
    }

    fn forget(&mut self, id: &OperationId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.expiries.remove(&(entry.expires, *id));
        Some(entry)
    }

    fn reclaim(&mut self, now: Time) {
        for _ in 0..RECLAIMED {
            match self.expiries.first() {
                Some((expires, id)) if *expires <= now => {
                    let id = *id;
                    self.forget(&id);
                }
                _ => return,
            }
        }
    }

    /// Leaves a place free. Returns how many had to go for it.
    fn make_room(&mut self, most: usize) -> u64 {
        let mut dropped = 0;
        while self.entries.len() >= most
            && let Some((_, id)) = self.expiries.pop_first()
        {
            self.entries.remove(&id);
            dropped += 1;
        }
        dropped
    }
}

impl Entry {
    fn of(record: &Record) -> Self {
        let (State::InFlight { since, .. } | State::InDoubt { since, .. } | State::Completed { at: since, .. }) =
            record.state;
        Self {
            fence: record.fence,
            number: record.number,
            since,
            prints: record.prints,
            credentials: record.credentials,
            namespace: record.namespace,
            expires: record.expires,
            running: matches!(record.state, State::InFlight { .. }),
        }
    }

    /// The record as it was when the attempt began.
    fn record(&self) -> Record {
        Record {
            fence: self.fence,
            number: self.number,
            state: State::InFlight { since: self.since, lease: self.since },
            prints: self.prints,
            credentials: self.credentials,
            namespace: self.namespace,
            expires: self.expires,
            probe: None,
            good_until: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(10_000);
    const ATTEMPT: AttemptId = AttemptId([3; 16]);
    const OTHER: AttemptId = AttemptId([4; 16]);

    fn id(number: u16) -> OperationId {
        let mut id = OperationId([0; 32]);
        id.0[1..3].copy_from_slice(&number.to_be_bytes());
        id
    }

    fn record(expires: u64) -> Record {
        Record {
            fence: Fence { attempt: ATTEMPT, version: 1 },
            number: 2,
            state: State::InFlight { since: Time(9_000), lease: Time(9_000) },
            prints: Prints { raw: Print([1; 16]), canonical: Print([2; 16]), settings: 3 },
            credentials: Some(Print([4; 16])),
            namespace: NamespaceTag(5),
            expires: Time(expires),
            probe: None,
            good_until: None,
        }
    }

    fn set(most: usize) -> Dispatched {
        Dispatched::new(most, Arc::new(Metrics::new().unwrap()))
    }

    fn dropped(set: &Dispatched) -> bool {
        !set.metrics.render().contains("oncegate_dispatched_dropped_total 0")
    }

    #[test]
    fn knows_what_was_dispatched_until_shortly_before_its_expiry() {
        let set = set(1_000);
        set.begin(&id(1), &record(60_000), NOW);
        assert_eq!(set.known(&id(1), Time(58_999)), Some(Known { record: record(60_000), running: true }));
        assert_eq!(set.known(&id(1), Time(59_000)), None, "the store's clock may be there already");
        assert_eq!(set.known(&id(2), NOW), None);
        set.begin(&id(1), &record(70_000), NOW);
        assert_eq!(set.known(&id(1), NOW), Some(Known { record: record(70_000), running: true }));
        assert_eq!((set.len(), dropped(&set)), (1, false));
    }

    #[test]
    fn follows_what_becomes_of_a_record() {
        let set = set(1_000);
        set.stays(&id(1), ATTEMPT, Time(90_000));
        assert!(set.is_empty(), "what was not dispatched here is not known");
        set.begin(&id(1), &record(60_000), NOW);
        set.stays(&id(1), OTHER, Time(20_000));
        assert_eq!(set.known(&id(1), Time(19_000)), None);
        assert_eq!(set.known(&id(1), NOW), Some(Known { record: record(20_000), running: true }));
        set.ended(&id(1), OTHER);
        set.forget(&id(1), OTHER);
        assert_eq!(set.known(&id(1), NOW), Some(Known { record: record(20_000), running: true }), "that was another");
        set.ended(&id(1), ATTEMPT);
        assert_eq!(set.known(&id(1), NOW), Some(Known { record: record(20_000), running: false }));
        set.forget(&id(1), ATTEMPT);
        assert_eq!(set.known(&id(1), NOW), None);
        assert!(lock(&set.shards[0]).expiries.is_empty());
    }

    #[test]
    fn beyond_its_bound_those_go_that_expire_first_and_are_counted() {
        let set = set(SHARDS * 10);
        for number in 0..20 {
            // The later ones expire first.
            set.begin(&id(number), &record(100_000 - u64::from(number)), NOW);
        }
        assert_eq!(set.len(), 10);
        assert!((0..9).all(|number| set.known(&id(number), NOW).is_some()));
        assert!(set.metrics.render().contains("oncegate_dispatched_dropped_total 10"));
        set.limit(0);
        set.begin(&id(30), &record(100_000), NOW);
        assert_eq!(set.known(&id(30), NOW), None);
    }

    #[test]
    fn what_has_expired_makes_room_without_being_missed() {
        let set = set(SHARDS * 10);
        for number in 0..1_000 {
            let now = Time(NOW.0 + u64::from(number) * 1_000);
            set.begin(&id(number), &record(now.0 + 5_000), now);
        }
        assert!(set.len() < 10, "{} where five live", set.len());
        assert!(!dropped(&set));
    }
}
