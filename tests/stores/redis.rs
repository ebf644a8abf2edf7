//! The contract, met in Redis; and what goes wrong with a Redis alone: outages, refusals, foreign values, lost replies.

#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/redis.rs"]
pub mod server;

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use oncegate::clock::Clock;
use oncegate::machine::{Expect, Record, Time};
use oncegate::store::codec::{Codec, CodecError};
use oncegate::store::redis::{RedisStore, Settings};
use oncegate::store::{Cursor, Store, StoreError, Written};

use crate::contract::{Subject, completed, contract, fence, id, reservation};
use proxy::{Proxy, Weather};
use server::RedisServer;

/// What a call may take in these tests. Long enough for a busy machine, short enough to be waited for.
const TIMEOUT: Duration = Duration::from_millis(800);

/// What a call may take over its limit on a busy machine.
const MARGIN: Duration = Duration::from_millis(800);

fn store_at(url: &str) -> RedisStore {
    RedisStore::new(settings(url), TIMEOUT, Clock::system())
}

fn settings(url: &str) -> Settings {
    Settings::at(url).unwrap()
}

/// A store on a server that nobody else uses.
pub fn store_of_its_own(timeout: Duration) -> (RedisStore, RedisServer) {
    let server = RedisServer::start();
    (RedisStore::new(settings(&server.url()), timeout, Clock::system()), server)
}

fn fresh() -> Ready<Subject> {
    // The contract asks for correct answers, not quick ones.
    let (store, server) = store_of_its_own(Duration::from_secs(10));
    ready(Subject::new(Arc::new(store), server))
}

contract!(fresh);

/// The key of an operation as the store makes it.
fn key(number: u32) -> Vec<u8> {
    [b"og:", &id(number).0[..]].concat()
}

/// What a failed call says; the call must have ended in time.
async fn failure<T>(call: impl Future<Output = Result<T, StoreError>>) -> String {
    let start = Clock::instant();
    let outcome = call.await;
    assert!(start.elapsed() < TIMEOUT + MARGIN, "took {:?}", start.elapsed());
    match outcome {
        Err(StoreError::Unavailable(cause)) => cause,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the call went well"),
    }
}

async fn reserve(store: &RedisStore, number: u32) -> Record {
    let record = reservation(store, 1).await;
    assert_eq!(store.write(&id(number), Expect::Absent, &record).await.unwrap(), Written::Done);
    record
}

/// The record one version later, still running.
fn renewed(record: &Record) -> Record {
    Record { fence: fence(1, record.fence.version + 1), ..record.clone() }
}

#[tokio::test]
async fn a_reservation_is_one_command_and_carries_its_expiry() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let first = reservation(&store, 1).await;
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    assert_eq!(store.write(&id(1), Expect::Absent, &first).await.unwrap(), Written::Done);
    let stats: String = server.run(&["INFO", "commandstats"]);
    let commands: Vec<_> = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")).collect();
    let ours: Vec<_> =
        commands.iter().filter(|line| !line.starts_with("config") && !line.starts_with("client")).collect();
    assert!(matches!(&ours[..], [set] if set.starts_with("set:calls=1,")), "{commands:?}");

    let expiry = || Time(server.run(&[&b"PEXPIRETIME"[..], &key(1)]));
    assert_eq!(expiry(), first.expires);
    let second = Record { expires: first.expires.plus(Duration::from_hours(1)), ..renewed(&first) };
    assert_eq!(store.write(&id(1), Expect::Fence(first.fence), &second).await.unwrap(), Written::Done);
    assert_eq!(expiry(), second.expires);
}

#[tokio::test]
async fn a_probe_takes_the_way_of_a_reservation() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    store.probe().await.unwrap();
    assert_eq!(server.run::<u64>(&["DBSIZE"]), 0);
    let stats: String = server.run(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_set:calls=1,") && stats.contains("cmdstat_del:calls=1,"), "{stats}");
}

#[tokio::test]
async fn keys_of_others_are_left_alone() {
    let server = RedisServer::start();
    let with_prefix = |prefix: &str| {
        let settings = Settings { key_prefix: prefix.to_owned(), ..settings(&server.url()) };
        RedisStore::new(settings, TIMEOUT, Clock::system())
    };
    let (starred, plain) = (with_prefix("a[*"), with_prefix("ab"));
    reserve(&starred, 1).await;
    reserve(&plain, 2).await;
    server.run::<()>(&["SET", "a[*:not-an-operation", "x"]);
    let page = starred.list(Cursor::START, 1_000).await.unwrap();
    let ids: Vec<_> = page.records.iter().map(|(id, _)| *id).collect();
    assert_eq!((ids, page.unreadable), (vec![id(1)], 0));
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_little_and_is_found_later() {
    let mut server = RedisServer::start();
    server.kill();
    let store = store_at(&server.url());
    let cause = failure(store.load(&id(1))).await;
    assert!(cause.contains(&server.port().to_string()) && cause.contains("refused"), "{cause}");
    failure(store.probe()).await;
    failure(store.check()).await;
    server.restart();
    assert_eq!(store.load(&id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_paused_server_costs_no_more_than_the_timeout() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let record = reserve(&store, 1).await;
    server.pause();
    let cause = failure(store.load(&id(1))).await;
    assert!(cause.contains("no answer"), "{cause}");
    // The second call meets no connection: making one must not cost more either.
    failure(store.write(&id(2), Expect::Absent, &record)).await;
    let first = id(1);
    let crowd = (0..50).map(|_| failure(store.remove(&first, record.fence)));
    futures_util::future::join_all(crowd).await;
    server.resume();
    let start = Clock::instant();
    while store.load(&id(3)).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "does not heal");
    }
    assert_eq!(store.write(&id(3), Expect::Absent, &record).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_restart_heals_within_the_call() {
    let mut server = RedisServer::start();
    let store = store_at(&server.url());
    let record = reserve(&store, 1).await;
    server.restart();
    // It has lost everything, its scripts included; the connection is a dead one.
    assert_eq!(store.write(&id(1), Expect::Fence(record.fence), &record).await.unwrap(), Written::Lost(None));
    let record = reserve(&store, 1).await;
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn forgotten_scripts_are_taught_again() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let mut record = reserve(&store, 1).await;
    for _ in 0..3 {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        let next = renewed(&record);
        assert_eq!(store.write(&id(1), Expect::Fence(record.fence), &next).await.unwrap(), Written::Done);
        record = next;
    }
    server.run::<()>(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Done);
    assert_eq!(store.load(&id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_demoted_primary_is_left() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store_at(&proxy.url());
    let record = reserve(&store, 1).await;
    assert_eq!(proxy.connections(), 1);
    server.run::<()>(&["REPLICAOF", "127.0.0.1", &server::free_port().to_string()]);
    let cause = failure(store.write(&id(2), Expect::Absent, &record)).await;
    assert!(cause.contains("READONLY"), "{cause}");
    let cause = failure(store.write(&id(1), Expect::Fence(record.fence), &renewed(&record))).await;
    assert!(cause.contains("READONLY"), "{cause}");
    failure(store.probe()).await;
    assert_eq!(proxy.connections(), 3, "each refusal is followed by a fresh connection");
    server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_full_server_refuses_reservations_and_still_removes() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let record = reserve(&store, 1).await;
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let cause = failure(store.write(&id(2), Expect::Absent, &record)).await;
    assert!(cause.contains("OOM"), "{cause}");
    let cause = failure(store.write(&id(1), Expect::Fence(record.fence), &renewed(&record))).await;
    assert!(cause.contains("OOM"), "{cause}");
    failure(store.probe()).await;
    assert_eq!(store.load(&id(1)).await.unwrap().as_ref(), Some(&record));
    assert_eq!(store.remove(&id(1), record.fence).await.unwrap(), Written::Done);
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.write(&id(2), Expect::Absent, &record).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_server_that_may_evict_is_refused_unless_allowed() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let store = store_at(&server.url());
    let cause = failure(store.load(&id(1))).await;
    assert!(cause.contains("allkeys-lru"), "{cause}");
    let condition = store.check().await.unwrap();
    assert!(condition.may_evict() && condition.refusal().is_some_and(|why| why.contains("allkeys-lru")));

    let trusting = Settings { allow_eviction: true, ..settings(&server.url()) };
    let trusting = RedisStore::new(trusting, TIMEOUT, Clock::system());
    assert_eq!(trusting.load(&id(1)).await.unwrap(), None);
    let condition = trusting.check().await.unwrap();
    assert!(condition.may_evict() && condition.refusal().is_none());

    // Put right, it is taken without a restart; a change while running is told, and stops nothing.
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    failure(store.load(&id(1))).await;
    assert_eq!(store.load(&id(1)).await.unwrap(), None);
    assert!(!store.check().await.unwrap().may_evict());
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    assert!(store.check().await.unwrap().to_string().contains("volatile-ttl"));
    assert_eq!(store.load(&id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn foreign_values_are_unreadable() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let record = reserve(&store, 1).await;
    server.run::<()>(&[&b"RPUSH"[..], &key(2), b"a list"]);
    server.run::<()>(&[&b"SET"[..], &key(3), b"not a record"]);
    let mut future = Codec::default().encode(&id(4), &record).unwrap();
    future[0] = 99;
    server.run::<()>(&[&b"SET"[..], &key(4), &future]);
    let faults = [(2, CodecError::Foreign), (3, CodecError::UnknownFormat(b'n')), (4, CodecError::UnknownFormat(99))];
    for (number, fault) in faults {
        let id = id(number);
        let next = renewed(&record);
        let answers = [
            store.load(&id).await.map(|_| ()),
            store.write(&id, Expect::Absent, &record).await.map(|_| ()),
            store.write(&id, Expect::Fence(record.fence), &next).await.map(|_| ()),
            store.remove(&id, record.fence).await.map(|_| ()),
        ];
        for answer in answers {
            assert!(matches!(&answer, Err(StoreError::Unreadable(found)) if *found == fault), "{number}: {answer:?}");
        }
    }
    let page = store.list(Cursor::START, 1_000).await.unwrap();
    assert_eq!((page.records, page.unreadable), (vec![(id(1), record)], 3));
}

#[tokio::test]
async fn a_busy_server_says_so() {
    let server = Arc::new(RedisServer::start_with(&["--busy-reply-threshold", "20"]));
    let store = store_at(&server.url());
    reserve(&store, 1).await;
    let client = redis::Client::open(server.url()).unwrap();
    let endless = std::thread::spawn(move || {
        let mut connection = client.get_connection().unwrap();
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
    });
    let start = Clock::instant();
    // Until the script has run for a while, calls wait or go through.
    loop {
        match store.load(&id(1)).await {
            Err(StoreError::Unavailable(cause)) if cause.contains("BUSY") => break,
            _ => assert!(start.elapsed() < Duration::from_secs(10), "never busy"),
        }
    }
    server.run::<()>(&["SCRIPT", "KILL"]);
    assert!(endless.join().unwrap().is_err());
    assert!(store.load(&id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn passwords_are_asked_for_and_never_shown() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]);
    let cause = failure(store_at(&server.url()).load(&id(1))).await;
    assert!(cause.contains("NOAUTH"), "{cause}");
    let with = |password: &str| store_at(&format!("redis://:{password}@127.0.0.1:{}", server.port()));
    let cause = failure(with("wr0ng").load(&id(1))).await;
    assert!(cause.contains("uthentication") && !cause.contains("wr0ng"), "{cause}");
    reserve(&with("s3cret"), 1).await;
}

#[tokio::test]
async fn every_connection_calibrates_the_clock() {
    let mut server = RedisServer::start();
    let clock = Clock::manual(Time(0));
    let store = RedisStore::new(settings(&server.url()), TIMEOUT, clock.clone());
    store.load(&id(1)).await.unwrap();
    let server_time = |server: &RedisServer| server.run::<(u64, u64)>(&["TIME"]).0 * 1_000;
    assert!(clock.is_calibrated() && clock.now().0 + 60_000 > server_time(&server));
    clock.calibrate(Time(1), Duration::ZERO);
    server.restart();
    store.load(&id(1)).await.unwrap();
    assert!(clock.now().0 + 60_000 > server_time(&server));
    clock.calibrate(Time(1), Duration::ZERO);
    let told = store.time().await.unwrap();
    assert!(clock.now() >= told);
    clock.calibrate(Time(1), Duration::ZERO);
    store.check().await.unwrap();
    assert!(clock.now() >= told);
}

#[tokio::test]
async fn an_attempt_whose_reply_was_lost_meets_its_own_reservation() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store_at(&proxy.url());
    let record = reservation(&store, 1).await;
    proxy.set(Weather::SwallowReplies);
    failure(store.write(&id(1), Expect::Absent, &record)).await;
    let stored: Vec<u8> = server.run(&[&b"GET"[..], &key(1)]);
    assert_eq!(Codec::default().decode(&id(1), &stored).as_ref(), Ok(&record), "it was carried out");
    proxy.set(Weather::Fair);
    let again = store.write(&id(1), Expect::Absent, &record).await.unwrap();
    assert_eq!(again, Written::Lost(Some(record.into())));
}

#[tokio::test]
async fn a_connection_cut_before_the_reply_is_replaced_within_the_call() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store_at(&proxy.url());
    let record = reservation(&store, 1).await;
    proxy.set(Weather::CutNextReply);
    let written = store.write(&id(1), Expect::Absent, &record).await.unwrap();
    assert_eq!(written, Written::Lost(Some(record.clone().into())), "the first sending was carried out");
    let known = renewed(&record);
    assert_eq!(store.write(&id(1), Expect::Fence(record.fence), &known).await.unwrap(), Written::Done);
    proxy.set(Weather::CutNextReply);
    let next = renewed(&known);
    let written = store.write(&id(1), Expect::Fence(known.fence), &next).await.unwrap();
    assert_eq!(written, Written::Lost(Some(next.into())));
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn a_silent_connection_is_replaced_by_the_next_call() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store_at(&proxy.url());
    let record = reserve(&store, 1).await;
    proxy.silence_present_connections();
    failure(store.load(&id(1))).await;
    assert_eq!(store.load(&id(1)).await.unwrap(), Some(record));
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn a_large_answer_goes_through_the_scripts_whole() {
    let server = RedisServer::start();
    let store = store_at(&server.url());
    let record = reserve(&store, 1).await;
    let body: Vec<u8> = (0..=255).cycle().take(256 << 10).collect();
    let recorded = oncegate::machine::Recorded::bare(200, &body);
    let done = completed(&record, recorded);
    assert_eq!(store.write(&id(1), Expect::Fence(record.fence), &done).await.unwrap(), Written::Done);
    let stale = store.remove(&id(1), record.fence).await.unwrap();
    assert_eq!(stale, Written::Lost(Some(done.into())));
}
