//! Reservations whose reply never came: nothing was sent for them, so the key is free within seconds, not with the lease.

use std::io::Write;
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{connect, leave};
use crate::gateway::{Gateway, wait_until};
use crate::proxy::{Proxy, Weather};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{order, redis_key, refused, store, told, yaml};

/// One worker: its connection to the store is the one that the first request has made.
const ALONE: &str = "workers: 1";

/// Longer than any of these tests.
const LEASE: &str = "lease: 60s";

/// What a stuck key may take to be free again; far below the lease.
const SECONDS: Duration = Duration::from_secs(10);

const CLIENTS_GONE: &str = r#"oncegate_clients_gone_total{route="create-order"}"#;

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"))
}

/// The key is free within seconds: the same request runs, once.
fn runs_soon(gateway: &Gateway, upstream: &ScriptedUpstream) {
    let start = Clock::instant();
    wait_until("the key is free", || {
        let answer = gateway.send(&order("k"));
        let meanwhile = [refused(409, "request-in-flight"), refused(503, "store-unavailable")];
        assert!(answer.status == 201 || meanwhile.contains(&told(&answer)), "{answer:?}");
        answer.status == 201
    });
    assert!(start.elapsed() < SECONDS, "it took {:?}", start.elapsed());
    assert!(gateway.send(&order("k")).is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
}

#[test]
fn a_claim_whose_reply_was_lost_is_withdrawn() {
    for asks_elsewhere in [false, true] {
        let (upstream, redis) = (created(), RedisServer::start());
        let proxy = Proxy::to(redis.port());
        let gateway = Gateway::start(&yaml(&upstream, &proxy.url(), LEASE, ALONE));
        let other = Gateway::start(&yaml(&upstream, &redis.url(), LEASE, ""));
        assert_eq!(gateway.send(&order("k-before")).status, 201);
        proxy.set(Weather::SwallowReplies);
        let answer = gateway.send(&order("k"));
        assert_eq!(told(&answer), refused(503, "store-unavailable"));
        assert!(redis.run::<bool>(&[&b"EXISTS"[..], &redis_key(&answer)]), "the claim was carried out");
        assert_eq!(told(&other.send(&order("k"))), refused(409, "request-in-flight"));
        proxy.set(Weather::Fair);
        runs_soon(if asks_elsewhere { &other } else { &gateway }, &upstream);
    }
}

#[test]
fn a_reply_that_is_lost_with_its_connection_costs_nothing() {
    let (upstream, redis) = (created(), RedisServer::start());
    let proxy = Proxy::to(redis.port());
    let gateway = Gateway::start(&yaml(&upstream, &proxy.url(), LEASE, ALONE));
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    for turn in 0..10 {
        proxy.set(Weather::CutNextReply);
        let key = format!("k-{turn}");
        assert_eq!(gateway.send(&order(&key)).status, 201);
        assert_eq!(upstream.executions("Idempotency-Key", &key), 1);
        assert!(gateway.send(&order(&key)).is_replay());
    }
}

#[test]
fn a_client_that_leaves_while_its_claim_is_stuck_in_a_paused_redis_leaves_the_key_free() {
    let (upstream, redis) = (created(), RedisServer::start());
    let patient = format!("{ALONE}\nstore: {}", store(&redis.url(), Duration::from_secs(20)));
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), LEASE, &patient));
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    redis.pause();
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&order("k").bytes()).unwrap();
    wait_until("something waits for the server to read it", || waits_unread(redis.port()));
    leave(stream);
    gateway.wait_for_metric(CLIENTS_GONE, 1.0);
    redis.resume();
    runs_soon(&gateway, &upstream);
}

/// Whether a connection to this port holds bytes that its server has not read.
fn waits_unread(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let unread = fields[4].split_once(':').is_some_and(|(_, unread)| unread != "00000000");
        // 01 is an established connection; a listener counts waiting connections instead of bytes.
        fields[1].ends_with(&local) && fields[3] == "01" && unread
    })
}
