//! Faults under the embedded store: a disk that fails, bytes that change, time, and garbage.

mod copies;
mod files;
mod medium;
mod power;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, ReadableTable, ReadableTableMetadata, StorageBackend};

use super::tables::{RECORDS, Tables};
use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

fn id(byte: u8) -> OperationId {
    OperationId([byte; 32])
}

fn record(attempt: u8, expires: Time) -> Record {
    Record {
        fence: Fence { attempt: AttemptId([attempt; 16]), version: 1 },
        number: 1,
        state: State::InFlight { since: Time(0), lease: Time(0) },
        prints: Prints { raw: RawPrint([1; 16]), canonical: Print([2; 16]), settings: 3 },
        credentials: None,
        namespace: NamespaceTag(7),
        expires,
        probe: None,
        beside: None,
        good_until: None,
    }
}

fn lasting(attempt: u8) -> Record {
    record(attempt, Clock::wall().plus(Duration::from_hours(1)))
}

async fn reserve(store: &EmbeddedStore, op: u8) -> Result<Written, StoreError> {
    store.write(&id(op), Expect::Absent, &lasting(op)).await
}

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(&Settings::at(directory), TIMEOUT, Clock::system(), Codec::default()).unwrap()
}

/// What a test can do to the disk, and see of it.
#[derive(Debug, Default)]
struct Faults {
    writes: AtomicBool,
    syncs: AtomicBool,
    reads: AtomicBool,
    panics: AtomicBool,
    synced: AtomicUsize,
}

#[derive(Debug)]
struct FaultyFile(FileBackend, Arc<Faults>);

fn check(fault: &AtomicBool) -> std::io::Result<()> {
    if fault.load(Ordering::SeqCst) { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        check(&self.1.reads)?;
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        check(&self.1.writes)?;
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        assert!(!self.1.panics.load(Ordering::SeqCst), "the disk driver is mad");
        check(&self.1.syncs)?;
        self.1.synced.fetch_add(1, Ordering::SeqCst);
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        check(&self.1.writes)?;
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
}

/// A store whose disk fails on demand.
fn faulty(directory: &Path) -> (EmbeddedStore, Arc<Faults>) {
    disk::create(directory).unwrap();
    let (file, faults) = (directory.join("records.redb"), Arc::new(Faults::default()));
    let seen = Arc::clone(&faults);
    let reopen: Reopen = Box::new(move |mut builder| {
        let file = std::fs::File::options().read(true).write(true).open(&file)?;
        // No cache, so that reads reach the disk.
        Ok(builder.set_cache_size(0).create_with_backend(FaultyFile(FileBackend::new(file)?, Arc::clone(&seen)))?)
    });
    (
        EmbeddedStore::start(&Settings::at(directory), reopen, TIMEOUT, Clock::system(), Codec::default()).unwrap(),
        faults,
    )
}

/// Waits until a store whose disk is well again takes writes.
async fn recovered(store: &EmbeddedStore) {
    let start = Clock::instant();
    while store.probe().await.is_err() {
        assert!(start.elapsed() < TIMEOUT, "the store does not recover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes `fault` happen, sees the store say so, mends it, and sees the store work again with all it had acknowledged.
async fn survives(fault: impl Fn(&Faults) -> &AtomicBool) {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = faulty(directory.path());
    assert_eq!(reserve(&store, 1).await.unwrap(), Written::Done);
    fault(&faults).store(true, Ordering::SeqCst);
    for op in 2..5 {
        assert!(matches!(reserve(&store, op).await, Err(StoreError::Unavailable(_))));
    }
    assert!(store.probe().await.is_err());
    fault(&faults).store(false, Ordering::SeqCst);
    recovered(&store).await;
    assert_eq!(store.load(&id(1)).await.unwrap().unwrap().fence, lasting(1).fence);
    for op in 5..8 {
        assert_eq!(reserve(&store, op).await.unwrap(), Written::Done);
    }
    drop(store);
    let store = open(directory.path());
    for op in [1, 5, 6, 7] {
        assert_eq!(store.load(&id(op)).await.unwrap().unwrap().fence, lasting(op).fence);
    }
}

#[tokio::test]
async fn survives_a_full_disk() {
    survives(|faults| &faults.writes).await;
}

#[tokio::test]
async fn survives_a_failed_sync() {
    survives(|faults| &faults.syncs).await;
}

#[tokio::test]
async fn survives_a_panic_below() {
    survives(|faults| &faults.panics).await;
}

#[tokio::test]
async fn takes_nothing_while_its_file_is_gone_and_goes_on_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let (home, elsewhere) = (directory.path().join("store"), directory.path().join("elsewhere"));
    let store = open(&home);
    reserve(&store, 1).await.unwrap();
    std::fs::rename(&home, &elsewhere).unwrap();
    assert!(matches!(reserve(&store, 2).await, Err(StoreError::Unavailable(_))));
    assert!(store.probe().await.is_err(), "what is written now is lost with the process");
    std::fs::rename(&elsewhere, &home).unwrap();
    recovered(&store).await;
    assert_eq!(reserve(&store, 2).await.unwrap(), Written::Done);
    drop(store);
    let store = open(&home);
    for op in [1, 2] {
        assert_eq!(store.load(&id(op)).await.unwrap().unwrap().fence, lasting(op).fence);
    }
}

#[tokio::test]
async fn reads_alone_mend_a_store_that_failed_to_read() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = faulty(directory.path());
    for op in 0..100 {
        reserve(&store, op).await.unwrap();
    }
    faults.reads.store(true, Ordering::SeqCst);
    assert!(matches!(store.load(&id(50)).await, Err(StoreError::Unavailable(_))));
    faults.reads.store(false, Ordering::SeqCst);
    let start = Clock::instant();
    while store.load(&id(50)).await.is_err() {
        assert!(start.elapsed() < TIMEOUT, "nobody mends the store");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_changes_nothing_syncs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = faulty(directory.path());
    reserve(&store, 1).await.unwrap();
    let before = faults.synced.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert!(matches!(reserve(&store, 1).await.unwrap(), Written::Lost(Some(_))));
        assert_eq!(store.remove(&id(2), lasting(2).fence).await.unwrap(), Written::Lost(None));
        assert_eq!(store.reclaim().await.unwrap(), 0);
        store.load(&id(1)).await.unwrap();
    }
    assert_eq!(faults.synced.load(Ordering::SeqCst), before);
    reserve(&store, 3).await.unwrap();
    assert!(faults.synced.load(Ordering::SeqCst) > before);
}

#[tokio::test]
async fn writes_at_once_share_a_sync() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = faulty(directory.path());
    let syncs = || faults.synced.load(Ordering::SeqCst);
    let before = syncs();
    reserve(&store, 0).await.unwrap();
    let alone = syncs() - before;
    let before = syncs();
    futures_util::future::join_all((1..=100).map(|op| reserve(&store, op))).await;
    // The writer may take the first few before the rest has come; a hundred syncs of their own would be 100 times.
    assert!(syncs() - before < alone * 50, "{} syncs for 100 writes, {alone} for one", syncs() - before);
}

/// Records and expiry entries in the file.
fn kept(store: &EmbeddedStore) -> (u64, usize) {
    let records = store.disk.snapshot().unwrap().records.len().unwrap();
    let due = store.disk.commit(|tables| Ok((tables.reclaim(Time(u64::MAX), usize::MAX)?, disk::Changed::No)));
    (records, due.unwrap())
}

#[tokio::test]
async fn reclaims_in_bounded_steps_and_nothing_that_lives() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for op in 0..10 {
        reserve(&store, op).await.unwrap();
    }
    let soon = store.time().await.unwrap();
    let change = |number: u32| {
        let mut key = [0xEE; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        let id = OperationId(key);
        Change { id, expect: Expect::Absent, put: Some(Stored::new(&Codec::default(), &id, &record(1, soon)).unwrap()) }
    };
    let fill = |tables: &mut Tables<'_>| {
        for number in 0..450 {
            tables.apply(&Codec::default(), &change(number), Time(0), true)?.unwrap();
        }
        Ok(((), disk::Changed::Yes))
    };
    store.disk.commit(fill).unwrap();
    assert_eq!(kept(&store), (460, 460));
    assert_eq!(store.reclaim().await.unwrap(), 200);
    assert_eq!(store.reclaim().await.unwrap(), 200);
    // A write frees two in passing.
    reserve(&store, 10).await.unwrap();
    assert_eq!(kept(&store), (59, 59));
    assert_eq!(store.reclaim().await.unwrap(), 48);
    assert_eq!(store.reclaim().await.unwrap(), 0);
    assert_eq!(kept(&store), (11, 11));
    store.remove(&id(3), lasting(3).fence).await.unwrap();
    assert_eq!(kept(&store), (10, 10));
}

#[tokio::test]
async fn time_goes_on_from_the_stored_mark() {
    let directory = tempfile::tempdir().unwrap();
    let ahead = Clock::wall().plus(Duration::from_hours(1));
    drop(open(directory.path()));
    // What a run under a wall clock an hour ahead would have left.
    let (disk, _) = Disk::open(directory.path(), disk::opener(directory.path()), Codec::default(), false).unwrap();
    disk.commit(|tables| Ok((tables.set_high_water(ahead)?, disk::Changed::Yes))).unwrap();
    disk.close();
    let clock = Clock::system();
    assert!(!clock.is_calibrated());
    let store = EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, clock.clone(), Codec::default()).unwrap();
    assert!(clock.is_calibrated() && clock.now() >= ahead);
    assert!(store.time().await.unwrap() >= ahead);
    // By the wall clock this record would live for an hour yet.
    store.write(&id(1), Expect::Absent, &record(1, ahead)).await.unwrap();
    assert_eq!(store.load(&id(1)).await.unwrap(), None);
    // What the last run has told is never taken back.
    let last = store.time.now();
    drop(store);
    assert!(open(directory.path()).time.now() >= last);
}

#[tokio::test]
async fn a_record_whose_bytes_changed_is_neither_free_nor_shown() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for op in 1..=3 {
        reserve(&store, op).await.unwrap();
    }
    for changed in 0..60 {
        let spoil = |database: &redb::Database| {
            let transaction = database.begin_write()?;
            {
                let mut records = transaction.open_table(RECORDS)?;
                let mut value = records.get(&id(2).0)?.unwrap().value().to_vec();
                value[changed] ^= 0x10;
                records.insert(&id(2).0, value.as_slice())?;
                if changed == 59 {
                    // Whole, but another operation's.
                    let other = records.get(&id(1).0)?.unwrap().value().to_vec();
                    records.insert(&id(2).0, other.as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        };
        store.disk.with(spoil).unwrap();
        store.disk.measure();
        assert!(matches!(store.load(&id(2)).await, Err(StoreError::Unreadable(_))), "byte {changed}");
        assert!(matches!(reserve(&store, 2).await, Err(StoreError::Unreadable(_))));
        assert!(matches!(store.remove(&id(2), lasting(2).fence).await, Err(StoreError::Unreadable(_))));
    }
    let page = store.list(Cursor::START, 10).await.unwrap();
    assert_eq!((page.records.len(), page.unreadable, page.next), (2, 1, None));
    // Its neighbours in a batch are not spoilt with it.
    let (bad, good) = tokio::join!(reserve(&store, 2), reserve(&store, 4));
    assert!(bad.is_err());
    assert_eq!(good.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_strange_cursor_starts_from_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    reserve(&store, 1).await.unwrap();
    for bytes in [vec![0xFF], vec![0; 31], vec![0; 33], vec![7; 500]] {
        assert_eq!(store.list(Cursor(bytes), 0).await.unwrap().records.len(), 1);
    }
    let end = store.list(Cursor(vec![0xFF; 32]), 10).await.unwrap();
    assert_eq!((end.records.len(), end.next), (0, None));
}

#[tokio::test]
async fn a_page_of_large_records_ends_early() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for op in 0..8 {
        let answer = crate::machine::Answer::Recorded(crate::machine::Recorded::bare(200, &vec![op; 1 << 20]));
        let record = Record { state: State::Completed { at: Time(1), answer }, ..lasting(op) };
        store.write(&id(op), Expect::Absent, &record).await.unwrap();
    }
    let first = store.list(Cursor::START, 100).await.unwrap();
    assert!(first.records.len() < 8);
    let rest = store.list(first.next.unwrap(), 100).await.unwrap();
    assert_eq!(first.records.len() + rest.records.len(), 8);
}

#[tokio::test]
async fn a_call_ends_in_time_while_the_disk_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    store.command_timeout = Duration::from_millis(50);
    // Somebody else's write transaction holds the writer up for ever.
    let (disk, (release, held)) = (Arc::clone(&store.disk), std::sync::mpsc::channel::<()>());
    let (started, start) = std::sync::mpsc::channel();
    let hanging = std::thread::spawn(move || {
        let hang = |_: &mut Tables<'_>| {
            started.send(()).unwrap();
            let _ = held.recv();
            Ok(((), disk::Changed::No))
        };
        disk.commit(hang).unwrap();
    });
    start.recv().unwrap();
    for _ in 0..3 {
        assert!(matches!(reserve(&store, 1).await, Err(StoreError::Unavailable(_))));
    }
    assert!(matches!(store.probe().await, Err(StoreError::Unavailable(_))));
    // Reads do not wait for writers.
    assert!(store.load(&id(9)).await.unwrap().is_none());
    drop(release);
    hanging.join().unwrap();
    store.command_timeout = TIMEOUT;
    assert_eq!(reserve(&store, 2).await.unwrap(), Written::Done);
}
