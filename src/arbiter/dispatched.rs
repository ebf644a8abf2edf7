//! What this gateway has dispatched and not released, exactly and within a bound: what a store is measured by that has
//! perhaps lost records. It is no cache: it knows of no answer, and lets nobody act.

use std::collections::BTreeMap;
use std::collections::hash_map::{self, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::machine::{AttemptId, Fence, NamespaceTag, OperationId, Print, Prints, Record, State, Time};
use crate::telemetry::Metrics;

/// As many locks as workers seldom meet at.
const SHARDS: usize = 16;
/// So long before its expiry a record need no longer be there: this gateway's idea of the store's time may be off by as
/// much as an answer takes.
const MARGIN: Duration = Duration::from_secs(1);
/// Expired entries that a new one clears away: more than the one that it adds.
const RECLAIMED: usize = 2;
/// So many places that operations have left may stand in the order beside as many as there are operations.
const SLACK: usize = 64;

/// Operations whose records have to be in the store.
pub struct Dispatched {
    shards: [Mutex<Shard>; SHARDS],
    most: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// Alone in its lines of memory: two workers at two shards do not meet there.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    entries: HashMap<OperationId, Entry, RandomState>,
    expiries: Expiries,
}

/// Operations in the order in which their records expire, to the second: those that expire first make room. An operation
/// is filed when its attempt has ended, and may stand in a place that it has left since.
#[derive(Default)]
struct Expiries {
    by_second: BTreeMap<u64, Vec<OperationId>>,
    filed: usize,
}

/// What a record has to say to stand for an operation again, but for its outcome, and for the question to the upstream,
/// which an equal request has too.
struct Entry {
    fence: Fence,
    number: u32,
    since: Time,
    prints: Prints,
    credentials: Option<Print>,
    namespace: NamespaceTag,
    expires: Time,
    running: bool,
    rare: Option<Box<Rare>>,
}

/// What few operations have: all would have to have room for it.
struct Rare {
    beside: Option<Box<OperationId>>,
    good_until: Option<Time>,
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
        let mut shard = self.shard(id);
        shard.entries.remove(id);
        self.put(shard, id, record, now);
    }

    /// The same for a first attempt, unless something is known of the operation already: then that comes back.
    pub(super) fn begin_unknown(&self, id: &OperationId, record: &Record, now: Time) -> Option<Known> {
        let shard = self.shard(id);
        let known = shard.live(id, now);
        if known.is_none() {
            self.put(shard, id, record, now);
        }
        known
    }

    fn put(&self, mut shard: MutexGuard<'_, Shard>, id: &OperationId, record: &Record, now: Time) {
        shard.reclaim(now);
        // Rounded up, so that a small bound still leaves each shard a place.
        let most = self.most.load(Ordering::Relaxed).div_ceil(SHARDS);
        if most == 0 {
            return;
        }
        let dropped = shard.make_room(most);
        shard.put(*id, Entry::of(record));
        drop(shard);
        if dropped > 0 {
            self.metrics.kept().dispatched_dropped(dropped);
        }
    }

    /// What the store has to hold of the operation.
    pub(super) fn known(&self, id: &OperationId, now: Time) -> Option<Known> {
        self.shard(id).live(id, now)
    }

    /// The operation's record stays until then, whoever's attempt it speaks of. This attempt has ended.
    pub(super) fn stays(&self, id: &OperationId, attempt: AttemptId, until: Time) {
        self.shard(id).change(id, |entry| {
            entry.running &= entry.fence.attempt != attempt;
            entry.expires = until;
        });
    }

    /// This attempt has ended, whatever became of it.
    pub(super) fn ended(&self, id: &OperationId, attempt: AttemptId) {
        self.shard(id).change(id, |entry| entry.running &= entry.fence.attempt != attempt);
    }

    /// This attempt's record is gone, or may go, and rightly so. Says whether it was known.
    pub(super) fn forget(&self, id: &OperationId, attempt: AttemptId) -> bool {
        let mut shard = self.shard(id);
        match shard.entries.entry(*id) {
            hash_map::Entry::Occupied(entry) if entry.get().fence.attempt == attempt => {
                entry.remove();
                true
            }
            _ => false,
        }
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

    fn put(&mut self, id: OperationId, entry: Entry) {
        let (running, expires) = (entry.running, entry.expires);
        self.entries.insert(id, entry);
        if !running {
            self.file(id, expires);
        }
    }

    /// Changes what is known of an operation. It is filed anew where that has moved it.
    fn change(&mut self, id: &OperationId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let before = (entry.running, entry.expires);
        change(entry);
        let (running, expires) = (entry.running, entry.expires);
        if !running && before != (running, expires) {
            self.file(*id, expires);
        }
    }

    fn file(&mut self, id: OperationId, expires: Time) {
        self.expiries.file(id, expires);
        if self.expiries.filed > 2 * self.entries.len() + SLACK {
            self.expiries = Expiries::of(self.entries.iter().filter(|(_, entry)| !entry.running));
        }
    }

    fn reclaim(&mut self, now: Time) {
        for _ in 0..RECLAIMED {
            match second_of(now).checked_sub(1).and_then(|over| self.expiries.pop(over)) {
                Some((second, id)) => drop(self.drop_filed(second, id)),
                None => return,
            }
        }
    }

    /// Leaves a place free. Returns how many had to go for it.
    fn make_room(&mut self, most: usize) -> u64 {
        let mut dropped = 0;
        while self.entries.len() >= most {
            match self.expiries.pop(u64::MAX) {
                Some((second, id)) => dropped += u64::from(self.drop_filed(second, id)),
                // Only attempts that run are left.
                None => self.expiries = Expiries::of(self.entries.iter()),
            }
        }
        dropped
    }

    /// Drops an operation if it still stands in this place.
    fn drop_filed(&mut self, second: u64, id: OperationId) -> bool {
        match self.entries.entry(id) {
            hash_map::Entry::Occupied(entry) if second_of(entry.get().expires) == second => {
                entry.remove();
                true
            }
            _ => false,
        }
    }
}

impl Expiries {
    fn of<'a>(entries: impl Iterator<Item = (&'a OperationId, &'a Entry)>) -> Self {
        let mut expiries = Self::default();
        entries.for_each(|(id, entry)| expiries.file(*id, entry.expires));
        expiries
    }

    fn file(&mut self, id: OperationId, expires: Time) {
        self.by_second.entry(second_of(expires)).or_default().push(id);
        self.filed += 1;
    }

    /// Takes one out of those that expire in the first second, if that is not after `last`.
    fn pop(&mut self, last: u64) -> Option<(u64, OperationId)> {
        let mut first = self.by_second.first_entry().filter(|first| *first.key() <= last)?;
        let (second, popped) = (*first.key(), first.get_mut().pop());
        if first.get().is_empty() {
            first.remove();
        }
        self.filed -= 1;
        Some((second, popped?))
    }
}

fn second_of(time: Time) -> u64 {
    time.0 / 1_000
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
            rare: (record.beside.is_some() || record.good_until.is_some())
                .then(|| Box::new(Rare { beside: record.beside.clone(), good_until: record.good_until })),
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
            beside: self.rare.as_ref().and_then(|rare| rare.beside.clone()),
            good_until: self.rare.as_ref().and_then(|rare| rare.good_until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::RawPrint;

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
            prints: Prints { raw: RawPrint([1; 16]), canonical: Print([2; 16]), settings: 3 },
            credentials: Some(Print([4; 16])),
            namespace: NamespaceTag(5),
            expires: Time(expires),
            probe: None,
            beside: Some(Box::new(OperationId([6; 32]))),
            good_until: Some(Time(50_000)),
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
    }

    #[test]
    fn beyond_its_bound_those_go_that_expire_first_and_are_counted() {
        let set = set(SHARDS * 10);
        for number in 0..20 {
            // The later ones expire first.
            let until = Time(100_000 - u64::from(number) * 1_000);
            set.begin(&id(number), &record(200_000), NOW);
            set.stays(&id(number), ATTEMPT, until);
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
            set.ended(&id(number), ATTEMPT);
        }
        assert!(set.len() < 10, "{} where five live", set.len());
        assert!(!dropped(&set));
    }

    #[test]
    fn what_runs_goes_last_and_its_number_is_bounded_too() {
        let set = set(SHARDS * 10);
        for number in 0..8 {
            set.begin(&id(number), &record(20_000), NOW);
        }
        for number in 100..200 {
            set.begin(&id(number), &record(90_000), NOW);
            set.stays(&id(number), ATTEMPT, Time(u64::MAX));
        }
        assert!((0..8).all(|number| set.known(&id(number), NOW).is_some_and(|known| known.running)));
        for number in 200..300 {
            set.begin(&id(number), &record(u64::MAX), NOW);
        }
        assert_eq!(set.len(), 10);
        assert!(set.known(&id(299), NOW).is_some());
    }

    #[test]
    fn an_operation_that_moves_often_takes_no_more_room() {
        let set = set(SHARDS * 10);
        for turn in 0..10_000 {
            set.begin(&id(1), &record(90_000 + turn * 1_000), NOW);
            set.ended(&id(1), ATTEMPT);
        }
        assert!(lock(&set.shards[0]).expiries.filed <= SLACK + 3);
        assert!(!dropped(&set));
    }

    #[test]
    fn a_first_attempt_begins_where_nothing_is_known() {
        let set = set(1_000);
        assert_eq!(set.begin_unknown(&id(1), &record(60_000), NOW), None);
        let known = set.begin_unknown(&id(1), &record(70_000), NOW);
        assert_eq!(known, Some(Known { record: record(60_000), running: true }));
        assert_eq!(set.begin_unknown(&id(1), &record(70_000), Time(59_000)), None, "that one is over");
        assert_eq!(set.known(&id(1), NOW), Some(Known { record: record(70_000), running: true }));
    }
}
