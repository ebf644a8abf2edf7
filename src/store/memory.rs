//! Records in this process's memory: for tests and trials. Nothing outlives the process, nothing is shared with others.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Cursor, Page, Reply, Store, Written};
use crate::clock::Clock;
use crate::machine::{Expect, Fence, OperationId, Record, Time};

/// How many locks the records are spread over.
const SHARDS: usize = 16;

/// How many expired records a write clears away: more than the one that it adds, so garbage cannot pile up.
const RECLAIMED_PER_WRITE: usize = 2;

/// A store in memory. The given clock is its time.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    /// Split by the id's first bits and in their order, so that a listing can walk through all of them by id alone.
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    records: BTreeMap<OperationId, Record>,
    /// The same records in the order in which they expire.
    expiries: BTreeSet<(Time, OperationId)>,
}

impl MemoryStore {
    /// An empty store. `clock` counts as calibrated from here on: nobody else knows this store's time better.
    pub fn new(clock: Clock) -> Self {
        clock.calibrate(clock.now(), Duration::ZERO);
        Self { clock, shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Frees at most `limit` expired records, and says how many. Writes do the same in passing; this is for a store
    /// that nobody writes to.
    pub fn reclaim(&self, limit: usize) -> usize {
        let now = self.clock.now();
        self.shards.iter().fold(0, |freed, shard| freed + lock(shard).reclaim(now, limit - freed))
    }

    fn shard(&self, id: &OperationId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(id)])
    }

    fn write_now(&self, id: &OperationId, expect: Expect, record: &Record) -> Written {
        let now = self.clock.now();
        let mut shard = self.shard(id);
        shard.reclaim(now, RECLAIMED_PER_WRITE);
        match shard.live(id, now) {
            found if meets(expect, found) => {
                shard.put(*id, record.clone());
                Written::Done
            }
            found => Written::lost(found.cloned()),
        }
    }

    fn remove_now(&self, id: &OperationId, fence: Fence) -> Written {
        let mut shard = self.shard(id);
        match shard.live(id, self.clock.now()) {
            found if meets(Expect::Fence(fence), found) => {
                shard.take(id);
                Written::Done
            }
            found => Written::lost(found.cloned()),
        }
    }

    fn list_now(&self, from: &Cursor, limit: usize) -> Page {
        let now = self.clock.now();
        let mut page = Page { records: Vec::new(), unreadable: 0, next: None };
        let mut left = limit.max(1);
        let mut after = id_of(from);
        let first = after.as_ref().map_or(0, shard_of);
        for shard in &self.shards[first..] {
            let shard = lock(shard);
            let lower = after.take().map_or(Bound::Unbounded, Bound::Excluded);
            for (id, record) in shard.records.range((lower, Bound::Unbounded)) {
                if left == 0 {
                    return page;
                }
                left -= 1;
                page.next = Some(Cursor(id.0.to_vec()));
                if record.expires > now {
                    page.records.push((*id, record.clone()));
                }
            }
        }
        page.next = None;
        page
    }
}

impl Store for MemoryStore {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        Box::pin(ready(Ok(self.shard(id).live(id, self.clock.now()).cloned())))
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        Box::pin(async move { Ok(self.write_now(id, expect, record)) })
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        Box::pin(async move { Ok(self.remove_now(id, fence)) })
    }

    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
        Box::pin(async move { Ok(self.list_now(&from, limit)) })
    }

    fn time(&self) -> Reply<'_, Time> {
        Box::pin(ready(Ok(self.clock.now())))
    }

    fn probe(&self) -> Reply<'_, ()> {
        // Memory takes a reservation whenever the process runs at all.
        Box::pin(ready(Ok(())))
    }
}

impl Shard {
    fn live(&self, id: &OperationId, now: Time) -> Option<&Record> {
        self.records.get(id).filter(|record| record.expires > now)
    }

    fn put(&mut self, id: OperationId, record: Record) {
        self.take(&id);
        self.expiries.insert((record.expires, id));
        self.records.insert(id, record);
    }

    fn take(&mut self, id: &OperationId) {
        if let Some(old) = self.records.remove(id) {
            self.expiries.remove(&(old.expires, *id));
        }
    }

    fn reclaim(&mut self, now: Time, limit: usize) -> usize {
        let mut freed = 0;
        while freed < limit
            && let Some(&(expires, id)) = self.expiries.first()
            && expires <= now
        {
            self.take(&id);
            freed += 1;
        }
        freed
    }
}

/// A shard is changed by steps that cannot panic half-way, so a poisoned lock still guards whole content.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(id: &OperationId) -> usize {
    usize::from(id.0[0]) * SHARDS / 256
}

/// Whether what is stored, if anything that has not expired is, meets the condition of a write.
fn meets(expect: Expect, stored: Option<&Record>) -> bool {
    match (expect, stored) {
        (Expect::Absent, None) => true,
        (Expect::Fence(fence), Some(record)) => record.fence == fence,
        (Expect::Absent, Some(_)) | (Expect::Fence(_), None) => false,
    }
}

/// The id that a cursor stopped at; a cursor that this store did not make starts from the beginning.
fn id_of(cursor: &Cursor) -> Option<OperationId> {
    cursor.0.as_slice().try_into().ok().map(OperationId)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::{AttemptId, NamespaceTag, Print, Prints, RawPrint, State};

    fn id(byte: u8) -> OperationId {
        OperationId([byte; 32])
    }

    fn record(attempt: u8, expires: u64) -> Record {
        Record {
            fence: Fence { attempt: AttemptId([attempt; 16]), version: 1 },
            number: 1,
            state: State::InFlight { since: Time(0), lease: Time(0) },
            prints: Prints { raw: RawPrint([1; 16]), canonical: Print([2; 16]), settings: 3 },
            credentials: None,
            namespace: NamespaceTag(7),
            expires: Time(expires),
            probe: None,
            beside: None,
            good_until: None,
        }
    }

    fn kept(store: &MemoryStore) -> (usize, usize) {
        let sizes = store.shards.iter().map(|shard| {
            let shard = lock(shard);
            (shard.records.len(), shard.expiries.len())
        });
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    #[test]
    fn forgets_at_the_very_millisecond() {
        let clock = Clock::manual(Time(100));
        let store = MemoryStore::new(clock.clone());
        assert_eq!(store.write_now(&id(1), Expect::Absent, &record(1, 150)), Written::Done);
        clock.advance(Duration::from_millis(49));
        assert_eq!(store.write_now(&id(1), Expect::Absent, &record(2, 900)), Written::lost(Some(record(1, 150))));
        clock.advance(Duration::from_millis(1));
        assert_eq!(store.remove_now(&id(1), record(1, 0).fence), Written::Lost(None));
        assert_eq!(store.write_now(&id(1), Expect::Absent, &record(2, 900)), Written::Done);
        assert_eq!(kept(&store), (1, 1));
    }

    #[test]
    fn reclaims_no_more_than_asked_for_and_nothing_that_lives() {
        let clock = Clock::manual(Time(0));
        let store = MemoryStore::new(clock.clone());
        for byte in 0..100 {
            store.write_now(&id(byte), Expect::Absent, &record(1, if byte < 90 { 10 } else { 10_000 }));
        }
        clock.advance(Duration::from_millis(10));
        assert_eq!(store.reclaim(40), 40);
        assert_eq!(store.reclaim(1_000), 50);
        assert_eq!(store.reclaim(1_000), 0);
        assert_eq!(kept(&store), (10, 10));
    }

    #[test]
    fn writes_alone_keep_garbage_from_piling_up() {
        let clock = Clock::manual(Time(0));
        let store = MemoryStore::new(clock.clone());
        for turn in 0..5_000_u64 {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&turn.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
            store.write_now(&OperationId(bytes), Expect::Absent, &record(1, turn + 50));
            clock.advance(Duration::from_millis(1));
        }
        let (records, expiries) = kept(&store);
        assert_eq!(records, expiries);
        assert!(records < 300, "{records} records are kept where about 50 live");
    }

    #[test]
    fn threads_race_for_one_operation_and_one_wins() {
        let store = MemoryStore::new(Clock::manual(Time(0)));
        let gate = std::sync::Barrier::new(8);
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8_u8)
                .map(|racer| {
                    let (store, gate) = (&store, &gate);
                    scope.spawn(move || {
                        gate.wait();
                        let reserve = |op| store.write_now(&id(op), Expect::Absent, &record(racer, 1_000));
                        (0..=255).filter(|op| reserve(*op) == Written::Done).count()
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(wins, 256);
    }

    #[test]
    fn a_strange_cursor_starts_from_the_beginning() {
        let store = MemoryStore::new(Clock::manual(Time(0)));
        store.write_now(&id(3), Expect::Absent, &record(1, 10));
        for bytes in [vec![0xFF], vec![0; 31], vec![0; 33], vec![7; 500]] {
            assert_eq!(store.list_now(&Cursor(bytes), 10).records.len(), 1);
        }
        let end = store.list_now(&Cursor(vec![0xFF; 32]), 10);
        assert_eq!((end.records.len(), end.next), (0, None));
    }
}
