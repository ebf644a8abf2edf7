//! What every store promises, case by case. Knows the trait alone: nothing here looks at a backend.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use oncegate::clock::Clock;
use oncegate::machine::{
    Answer, AttemptId, Cause, Expect, Fence, NamespaceTag, OperationId, Print, Prints, Probe, RawPrint, Record,
    Recorded, State, Time, Witness,
};
use oncegate::store::memory::MemoryStore;
use oncegate::store::{Cursor, Store, Written};

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far two looks at the store's time may disagree: backends count in whole milliseconds and round their own way.
const SLACK: Duration = Duration::from_millis(5);

/// An empty store of its own for one test, and what has to live as long as it (a directory, a server).
pub struct Subject {
    pub store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl Subject {
    pub fn new(store: Arc<dyn Store>, keep: impl Any + Send) -> Self {
        Self { store, _keep: Box::new(keep) }
    }
}

/// Runs every case against the stores that `$fresh`, an `async fn() -> Subject`, makes: a test for each case, or with
/// `in_turn` one test of that name for all of them, where making a store of its own for each would take too long.
macro_rules! contract {
    ($fresh:path) => {
        $crate::contract::contract!(cases each $fresh);
    };
    (in_turn $name:ident: $fresh:expr) => {
        $crate::contract::contract!(cases in_turn $name: $fresh);
    };
    (cases $($form:tt)*) => {
        $crate::contract::contract!(($($form)*)
            a_stranger_is_absent, a_reservation_is_kept_whole, a_second_reservation_loses_to_the_first,
            an_attempt_meets_its_own_reservation, a_fenced_write_replaces, a_fenced_write_needs_the_very_fence,
            a_removal_needs_the_very_fence, a_removed_operation_is_free_again, expires_by_its_own_time,
            an_expired_record_is_as_good_as_absent, a_write_sets_the_expiry_anew, every_state_comes_back_as_it_was,
            bytes_come_back_as_they_were, a_large_record_comes_back, lists_all_in_bounded_pages,
            a_listing_stands_changes_between_its_pages, a_listing_leaves_out_what_has_expired,
            a_strange_cursor_is_harmless, one_of_many_racers_wins, one_wins_for_each_of_many_operations,
            one_of_many_settlers_wins, a_write_that_nobody_waits_for_does_no_harm, time_does_not_run_backwards,
            a_probe_leaves_nothing_behind,
        );
    };
    ((each $fresh:path) $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            let subject = $fresh().await;
            $crate::contract::$case(subject.store.clone()).await;
        }
    )*};
    ((in_turn $name:ident: $fresh:expr) $($case:ident),* $(,)?) => {
        #[tokio::test]
        async fn $name() {
            let mut fresh = $fresh;
            $(
                println!("{}", stringify!($case));
                $crate::contract::$case(fresh()).await;
            )*
        }
    };
}
pub(crate) use contract;

pub fn id(number: u32) -> OperationId {
    // Spread like a digest, so that sharded and sorted stores are walked all over.
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.wrapping_mul(0x9E37_79B9).to_be_bytes());
    bytes[28..].copy_from_slice(&number.to_be_bytes());
    OperationId(bytes)
}

pub fn fence(attempt: u8, version: u32) -> Fence {
    Fence { attempt: AttemptId([attempt; 16]), version }
}

/// An attempt's first record, far from its end.
pub async fn reservation(store: &dyn Store, attempt: u8) -> Record {
    let now = store.time().await.unwrap();
    Record {
        fence: fence(attempt, 1),
        number: 1,
        state: State::InFlight { since: now, lease: now.plus(Duration::from_secs(30)) },
        prints: Prints { raw: RawPrint([attempt; 16]), canonical: Print([!attempt; 16]), settings: 0x8000_0001 },
        credentials: Some(Print([0xC3; 16])),
        namespace: NamespaceTag(0xFEED_BEEF),
        expires: now.plus(Duration::from_hours(1)),
        probe: None,
        beside: None,
        good_until: None,
    }
}

/// The record one version later, with an answer.
pub fn completed(record: &Record, recorded: Recorded) -> Record {
    let state = State::Completed { at: record.expires, answer: Answer::Recorded(recorded) };
    Record { fence: Fence { version: record.fence.version + 1, ..record.fence }, state, ..record.clone() }
}

async fn reserve(store: &dyn Store, number: u32, record: &Record) {
    assert_eq!(store.write(&id(number), Expect::Absent, record).await.unwrap(), Written::Done);
}

async fn load(store: &dyn Store, number: u32) -> Option<Record> {
    store.load(&id(number)).await.unwrap()
}

/// Waits until the store's time has passed `end`.
async fn pass(store: &dyn Store, end: Time) {
    let start = Clock::instant();
    while store.time().await.unwrap() <= end.plus(SLACK) {
        assert!(start.elapsed() < PATIENCE, "the store's time does not get past {end:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything that a full pass meets; a record met twice must be the same both times.
async fn list_all(store: &dyn Store, limit: usize) -> BTreeMap<OperationId, Record> {
    let mut met = BTreeMap::new();
    let mut cursor = Cursor::START;
    loop {
        let page = store.list(cursor, limit).await.unwrap();
        assert_eq!(page.unreadable, 0);
        for (id, record) in page.records {
            let twin = met.insert(id, record.clone());
            assert!(twin.is_none_or(|twin| twin == record));
        }
        match page.next {
            Some(next) => cursor = next,
            None => return met,
        }
    }
}

pub async fn a_stranger_is_absent(store: Arc<dyn Store>) {
    assert_eq!(load(&*store, 1).await, None);
    assert!(list_all(&*store, 10).await.is_empty());
    let record = reservation(&*store, 1).await;
    let write = store.write(&id(1), Expect::Fence(record.fence), &record).await.unwrap();
    assert_eq!(write, Written::Lost(None));
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Lost(None));
    assert_eq!(load(&*store, 1).await, None);
}

pub async fn a_reservation_is_kept_whole(store: Arc<dyn Store>) {
    let record = reservation(&*store, 1).await;
    reserve(&*store, 1, &record).await;
    assert_eq!(load(&*store, 1).await, Some(record));
    assert_eq!(load(&*store, 2).await, None);
}

pub async fn a_second_reservation_loses_to_the_first(store: Arc<dyn Store>) {
    let first = reservation(&*store, 1).await;
    reserve(&*store, 1, &first).await;
    let second = reservation(&*store, 2).await;
    let lost = store.write(&id(1), Expect::Absent, &second).await.unwrap();
    assert_eq!(lost, Written::Lost(Some(first.clone().into())));
    assert_eq!(load(&*store, 1).await, Some(first));
}

pub async fn an_attempt_meets_its_own_reservation(store: Arc<dyn Store>) {
    let own = reservation(&*store, 1).await;
    reserve(&*store, 1, &own).await;
    let again = store.write(&id(1), Expect::Absent, &own).await.unwrap();
    assert_eq!(again, Written::Lost(Some(own.into())));
}

pub async fn a_fenced_write_replaces(store: Arc<dyn Store>) {
    let first = reservation(&*store, 1).await;
    reserve(&*store, 1, &first).await;
    let second = completed(&first, Recorded::bare(201, b"{}"));
    assert_eq!(store.write(&id(1), Expect::Fence(first.fence), &second).await.unwrap(), Written::Done);
    assert_eq!(load(&*store, 1).await, Some(second.clone()));
    // The old fence has had its day.
    let stale = store.write(&id(1), Expect::Fence(first.fence), &first).await.unwrap();
    assert_eq!(stale, Written::Lost(Some(second.into())));
}

pub async fn a_fenced_write_needs_the_very_fence(store: Arc<dyn Store>) {
    let kept = Record { fence: fence(1, 5), ..reservation(&*store, 1).await };
    reserve(&*store, 1, &kept).await;
    let next = Record { fence: fence(1, 6), number: 9, ..kept.clone() };
    for wrong in [fence(1, 4), fence(1, 6), fence(2, 5), fence(1, 0), fence(1, u32::MAX), fence(1, 5 + (1 << 16))] {
        let lost = store.write(&id(1), Expect::Fence(wrong), &next).await.unwrap();
        assert_eq!(lost, Written::Lost(Some(kept.clone().into())), "{wrong:?}");
    }
    assert_eq!(load(&*store, 1).await, Some(kept));
}

pub async fn a_removal_needs_the_very_fence(store: Arc<dyn Store>) {
    let kept = Record { fence: fence(1, 5), ..reservation(&*store, 1).await };
    reserve(&*store, 1, &kept).await;
    for wrong in [fence(1, 4), fence(1, 6), fence(2, 5), fence(0, 0)] {
        let lost = store.remove(&id(1), wrong).await.unwrap();
        assert_eq!(lost, Written::Lost(Some(kept.clone().into())), "{wrong:?}");
    }
    assert_eq!(load(&*store, 1).await, Some(kept));
}

pub async fn a_removed_operation_is_free_again(store: Arc<dyn Store>) {
    let first = reservation(&*store, 1).await;
    reserve(&*store, 1, &first).await;
    assert_eq!(store.remove(&id(1), first.fence).await.unwrap(), Written::Done);
    assert_eq!(load(&*store, 1).await, None);
    assert_eq!(store.remove(&id(1), first.fence).await.unwrap(), Written::Lost(None));
    let second = reservation(&*store, 2).await;
    reserve(&*store, 1, &second).await;
    // The first attempt cannot touch what the second has written.
    let lost = store.remove(&id(1), first.fence).await.unwrap();
    assert_eq!(lost, Written::Lost(Some(second.into())));
}

pub async fn expires_by_its_own_time(store: Arc<dyn Store>) {
    let now = store.time().await.unwrap();
    let record = Record { expires: now.plus(Duration::from_millis(250)), ..reservation(&*store, 1).await };
    reserve(&*store, 1, &record).await;
    let start = Clock::instant();
    loop {
        let before = store.time().await.unwrap();
        let found = load(&*store, 1).await;
        let after = store.time().await.unwrap();
        if found.is_none() {
            assert!(after.plus(SLACK) >= record.expires, "forgotten early: at {after:?}, due {:?}", record.expires);
            break;
        }
        assert!(before <= record.expires.plus(SLACK), "remembered too long: at {before:?}, due {:?}", record.expires);
        assert!(start.elapsed() < PATIENCE, "the store's time stands still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn an_expired_record_is_as_good_as_absent(store: Arc<dyn Store>) {
    let soon = store.time().await.unwrap().plus(Duration::from_millis(100));
    let expired = Record { expires: soon, ..reservation(&*store, 1).await };
    reserve(&*store, 1, &expired).await;
    pass(&*store, soon).await;
    let next = Record { fence: fence(1, 2), ..reservation(&*store, 1).await };
    let write = store.write(&id(1), Expect::Fence(expired.fence), &next).await.unwrap();
    assert_eq!(write, Written::Lost(None));
    assert_eq!(store.remove(&id(1), expired.fence).await.unwrap(), Written::Lost(None));
    let fresh = reservation(&*store, 2).await;
    reserve(&*store, 1, &fresh).await;
    assert_eq!(load(&*store, 1).await, Some(fresh));
}

pub async fn a_write_sets_the_expiry_anew(store: Arc<dyn Store>) {
    let soon = store.time().await.unwrap().plus(Duration::from_millis(500));
    let first = Record { expires: soon, ..reservation(&*store, 1).await };
    reserve(&*store, 1, &first).await;
    let longer = Record { fence: fence(1, 2), ..reservation(&*store, 1).await };
    assert_eq!(store.write(&id(1), Expect::Fence(first.fence), &longer).await.unwrap(), Written::Done);
    let second = reservation(&*store, 2).await;
    reserve(&*store, 2, &second).await;
    let shorter = Record { fence: fence(2, 2), expires: soon, ..second.clone() };
    assert_eq!(store.write(&id(2), Expect::Fence(second.fence), &shorter).await.unwrap(), Written::Done);
    pass(&*store, soon).await;
    assert_eq!(load(&*store, 1).await, Some(longer));
    assert_eq!(load(&*store, 2).await, None);
}

pub async fn every_state_comes_back_as_it_was(store: Arc<dyn Store>) {
    let (since, at) = (Time(1), Time(u64::MAX / 2));
    let doubt = |cause| State::InDoubt { since, cause };
    let done = |answer| State::Completed { at, answer };
    let told = Recorded::bare(200, b"{}");
    let states = [
        State::InFlight { since, lease: at },
        doubt(Cause::LeaseLost),
        doubt(Cause::Broken),
        doubt(Cause::TimedOut),
        doubt(Cause::Status(504)),
        doubt(Cause::RetryNotSent),
        doubt(Cause::Abandoned),
        doubt(Cause::Forgotten),
        done(Answer::Unseen),
        done(Answer::TooLarge { status: 201, location: None }),
        done(Answer::TooLarge { status: 303, location: Some(Bytes::from_static(b"/orders/\xE4")) }),
        done(Answer::Recorded(Recorded::empty(204))),
        done(Answer::Told { by: Witness::Probe, answer: told.clone() }),
        done(Answer::Told { by: Witness::Operator, answer: told }),
    ];
    let base = reservation(&*store, 1).await;
    for (number, state) in (0..).zip(states) {
        let credentials = (number % 2 == 0).then_some(Print([0x77; 16]));
        let target = Bytes::from_static(b"/orders?ref=%C3%A4");
        let headers = vec![(Bytes::from_static(b"authorization"), Bytes::from_static(b"Bearer \xFF"))];
        let probe = (number % 3 == 0).then(|| Box::new(Probe { target, headers }));
        let record = Record { state, credentials, number: number + 1, probe, ..base.clone() };
        reserve(&*store, number, &record).await;
        assert_eq!(load(&*store, number).await, Some(record));
    }
}

pub async fn bytes_come_back_as_they_were(store: Arc<dyn Store>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let headers: [(_, &[u8]); 6] = [
        ("content-type", b"application/json"),
        ("x-latin", b"caf\xE9 \x80\xFF"),
        ("x-empty", b""),
        ("x-twice", b"2"),
        ("x-twice", b"1"),
        ("X-Case", &every_byte[0x80..]),
    ];
    let first = reservation(&*store, 1).await;
    let record = completed(&first, Recorded::new(200, headers, &every_byte));
    reserve(&*store, 1, &record).await;
    assert_eq!(load(&*store, 1).await, Some(record.clone()));
    let lost = store.write(&id(1), Expect::Absent, &first).await.unwrap();
    assert_eq!(lost, Written::Lost(Some(record.into())));
}

pub async fn a_large_record_comes_back(store: Arc<dyn Store>) {
    let body: Vec<u8> = (0..1_u32 << 20).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let first = reservation(&*store, 1).await;
    reserve(&*store, 1, &first).await;
    let record = completed(&first, Recorded::bare(200, &body));
    assert_eq!(store.write(&id(1), Expect::Fence(first.fence), &record).await.unwrap(), Written::Done);
    assert_eq!(load(&*store, 1).await, Some(record.clone()));
    assert_eq!(list_all(&*store, 10).await, BTreeMap::from([(id(1), record.clone())]));
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Done);
}

/// Reserves `numbers` and returns what the store should hold of them.
async fn fill(store: &dyn Store, numbers: std::ops::Range<u32>) -> BTreeMap<OperationId, Record> {
    let base = reservation(store, 1).await;
    let records: Vec<_> = numbers.map(|number| (number, Record { number, ..base.clone() })).collect();
    join_all(records.iter().map(|(number, record)| reserve(store, *number, record))).await;
    records.into_iter().map(|(number, record)| (id(number), record)).collect()
}

pub async fn lists_all_in_bounded_pages(store: Arc<dyn Store>) {
    let kept = fill(&*store, 0..100).await;
    for limit in [1, 7, 100, 1_000] {
        assert_eq!(list_all(&*store, limit).await, kept, "limit {limit}");
    }
    // A scanning backend may overshoot a little, but a page must not be the whole store.
    let page = store.list(Cursor::START, 7).await.unwrap();
    assert!(page.records.len() < 60, "a page of 7 has {} records", page.records.len());
    assert!(page.next.is_some());
}

pub async fn a_listing_stands_changes_between_its_pages(store: Arc<dyn Store>) {
    let staying = fill(&*store, 0..100).await;
    let leaving = fill(&*store, 1_000..1_050).await;
    let (mut met, mut pages) = (BTreeMap::new(), 0);
    let mut cursor = Some(Cursor::START);
    let mut victims = leaving.iter();
    while let Some(from) = cursor {
        let page = store.list(from, 8).await.unwrap();
        met.extend(page.records);
        cursor = page.next;
        pages += 1;
        assert!(pages < 1_000, "the listing does not end");
        for (id, record) in victims.by_ref().take(3) {
            assert_eq!(store.remove(id, record.fence).await.unwrap(), Written::Done);
        }
        if pages < 20 {
            fill(&*store, 2_000 + pages * 10..2_003 + pages * 10).await;
        }
    }
    for (id, record) in &staying {
        assert_eq!(met.get(id), Some(record));
    }
}

pub async fn a_listing_leaves_out_what_has_expired(store: Arc<dyn Store>) {
    let kept = fill(&*store, 0..20).await;
    let soon = store.time().await.unwrap().plus(Duration::from_millis(100));
    let expiring = Record { expires: soon, ..reservation(&*store, 9).await };
    for number in 100..140 {
        reserve(&*store, number, &expiring).await;
    }
    pass(&*store, soon).await;
    assert_eq!(list_all(&*store, 7).await, kept);
}

pub async fn a_strange_cursor_is_harmless(store: Arc<dyn Store>) {
    let other = MemoryStore::new(Clock::system());
    fill(&other, 0..50).await;
    let kept = fill(&*store, 0..50).await;
    let strange = other.list(Cursor::START, 5).await.unwrap().next.expect("50 records are more than one page");
    // Whatever it answers, refusal or page, what it shows must be true, and it must go on working.
    if let Ok(page) = store.list(strange, 5).await {
        for (id, record) in page.records {
            assert_eq!(kept.get(&id), Some(&record));
        }
    }
    assert_eq!(list_all(&*store, 10).await, kept);
}

/// Starts a task for each of `0..count` and gathers what they return.
async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    count: u8,
    task: impl Fn(u8) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..count).map(|number| tokio::spawn(task(number))).collect();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

pub async fn one_of_many_racers_wins(store: Arc<dyn Store>) {
    let written = at_once(64, |attempt| {
        let store = Arc::clone(&store);
        async move {
            let record = reservation(&*store, attempt).await;
            let written = store.write(&id(1), Expect::Absent, &record).await.unwrap();
            (record, written)
        }
    })
    .await;
    let stored = load(&*store, 1).await.expect("somebody won");
    let (winners, losers): (Vec<_>, Vec<_>) = written.into_iter().partition(|(_, written)| *written == Written::Done);
    assert_eq!(winners.len(), 1);
    assert_eq!(winners[0].0, stored);
    assert!(losers.iter().all(|(_, written)| *written == Written::Lost(Some(stored.clone().into()))));
}

pub async fn one_wins_for_each_of_many_operations(store: Arc<dyn Store>) {
    const OPERATIONS: u32 = 100;
    let written = at_once(8, |attempt| {
        let store = Arc::clone(&store);
        async move {
            let record = reservation(&*store, attempt).await;
            let keys: Vec<_> = (0..OPERATIONS).map(id).collect();
            let writes = keys.iter().map(|id| store.write(id, Expect::Absent, &record));
            join_all(writes).await.into_iter().map(Result::unwrap).collect::<Vec<_>>()
        }
    })
    .await;
    for number in 0..OPERATIONS {
        let stored = load(&*store, number).await.expect("somebody won");
        let answers: Vec<_> = written.iter().map(|answers| &answers[number as usize]).collect();
        let winners: Vec<_> = (0_u8..).zip(&answers).filter(|(_, written)| ***written == Written::Done).collect();
        assert_eq!(winners.len(), 1, "operation {number}");
        assert_eq!(fence(winners[0].0, 1), stored.fence);
        let lost = Written::Lost(Some(stored.into()));
        assert_eq!(answers.iter().filter(|written| ***written == lost).count(), 7);
    }
}

pub async fn one_of_many_settlers_wins(store: Arc<dyn Store>) {
    let first = reservation(&*store, 1).await;
    reserve(&*store, 1, &first).await;
    let written = at_once(32, |number| {
        let store = Arc::clone(&store);
        let next = Record { fence: fence(1, 2), number: u32::from(number) + 2, ..first.clone() };
        async move { (next.number, store.write(&id(1), Expect::Fence(fence(1, 1)), &next).await.unwrap()) }
    })
    .await;
    let stored = load(&*store, 1).await.expect("it stays");
    let winners: Vec<_> = written.iter().filter(|(_, written)| *written == Written::Done).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(winners[0].0, stored.number);
    let lost = Written::Lost(Some(stored.into()));
    assert_eq!(written.iter().filter(|(_, written)| *written == lost).count(), 31);
}

pub async fn a_write_that_nobody_waits_for_does_no_harm(store: Arc<dyn Store>) {
    let left = reservation(&*store, 1).await;
    for number in 0..20 {
        let key = id(number);
        let mut write = store.write(&key, Expect::Absent, &left);
        // One look starts it; then its caller is gone.
        let _ = futures_util::poll!(&mut write);
        drop(write);
        let next = reservation(&*store, 2).await;
        match store.write(&key, Expect::Absent, &next).await.unwrap() {
            Written::Done => assert_eq!(load(&*store, number).await, Some(next)),
            Written::Lost(found) => assert_eq!(found, Some(left.clone().into())),
        }
    }
}

pub async fn time_does_not_run_backwards(store: Arc<dyn Store>) {
    let start = store.time().await.unwrap();
    let mut last = start;
    for _ in 0..200 {
        let now = store.time().await.unwrap();
        assert!(now.plus(SLACK) >= last, "{now:?} after {last:?}");
        last = now;
    }
    pass(&*store, start).await;
}

pub async fn a_probe_leaves_nothing_behind(store: Arc<dyn Store>) {
    let kept = fill(&*store, 0..5).await;
    for _ in 0..3 {
        store.probe().await.unwrap();
    }
    assert_eq!(list_all(&*store, 10).await, kept);
}
