//! A Redis that has lost what it had acknowledged: flushed, restarted without persistence, failed over too soon.

use std::io::Write;

use crate::client::{Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{key_of, order, pair, redis_key, refused, told, yaml};

const AMNESIA: &str = "oncegate_store_amnesia_total";

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"))
}

/// A gateway that keeps no answers in memory.
fn forgetful(upstream: &ScriptedUpstream, redis: &RedisServer) -> Gateway {
    Gateway::start(&yaml(upstream, &redis.url(), "", "replay_cache: 0"))
}

/// The answer to a request once the store answers again.
fn once_there(gateway: &Gateway, call: &Call) -> (u16, Option<String>) {
    let mut answer = None;
    wait_until("the store answers", || {
        let came = told(&gateway.send(call));
        let away = came == refused(503, "store-unavailable");
        answer = Some(came);
        !away
    });
    answer.unwrap()
}

#[test]
fn what_a_flush_took_is_in_doubt_and_runs_no_second_time() {
    let (upstream, redis) = (created(), RedisServer::start());
    let mut gateway = forgetful(&upstream, &redis);
    assert_eq!(gateway.send(&order("k")).status, 201);
    redis.run::<()>(&["FLUSHALL"]);
    for _ in 0..3 {
        let answer = gateway.send(&order("k"));
        assert_eq!(told(&answer), refused(409, "outcome-unknown"));
        let shown = gateway.get_admin(&format!("/api/v1/keys/{}", answer.header("oncegate-operation").unwrap()));
        assert!(shown.text().contains(r#""cause":"store-forgot""#), "{}", shown.text());
    }
    assert_eq!(told(&gateway.send(&Call::post("/orders").key("k").body("y"))), refused(422, "key-reused"));
    assert_eq!(gateway.metric(AMNESIA), 1.0);
    gateway.wait_for_log("the store has lost a record");
    assert_eq!(gateway.send(&order("k-new")).status, 201);
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
}

#[test]
fn an_answer_that_is_still_in_memory_outlives_a_flush() {
    let (upstream, redis) = (created(), RedisServer::start());
    let [a, b] = pair(&upstream, &redis, "", "");
    let mut first = connect(a.address).unwrap();
    first.write_all(&order("k").bytes()).unwrap();
    assert_eq!(read_answer(&mut first).unwrap().status, 201);
    redis.run::<()>(&["FLUSHALL"]);
    // Its own duplicates do not need the store.
    assert!(a.send(&order("k")).is_replay());
    assert_eq!(b.send(&order("k-else")).status, 201);
    assert_eq!((a.metric(AMNESIA), b.metric(AMNESIA)), (0.0, 0.0));
}

#[test]
fn an_attempt_that_runs_while_the_store_is_flushed_is_found_again_and_completes() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "lease: 3s", "replay_cache: 0");
    let mut running = connect(a.address).unwrap();
    running.write_all(&order("k").bytes()).unwrap();
    upstream.wait_for_requests(1);
    let before = a.send(&order("k"));
    redis.run::<()>(&["FLUSHALL"]);
    wait_until("it stands in the store again", || {
        assert_eq!(told(&a.send(&order("k"))), refused(409, "request-in-flight"));
        a.metric(AMNESIA) >= 1.0
    });
    assert_eq!(told(&b.send(&order("k"))), refused(409, "request-in-flight"));
    // And once more, when nobody asks: the next heartbeat writes it.
    redis.run::<()>(&["FLUSHALL"]);
    wait_until("a heartbeat has written it again", || redis.run::<bool>(&[&b"EXISTS"[..], &redis_key(&before)]));
    assert_eq!(told(&b.send(&order("k"))), refused(409, "request-in-flight"));
    gate.open();
    assert_eq!(read_answer(&mut running).unwrap().status, 201);
    assert!(b.send(&order("k")).is_replay());
    assert_eq!((a.metric(AMNESIA), b.metric(AMNESIA)), (2.0, 0.0));
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
}

#[test]
fn a_restart_without_persistence_is_noticed() {
    let (upstream, mut redis) = (created(), RedisServer::start());
    let gateway = forgetful(&upstream, &redis);
    assert_eq!(gateway.send(&order("k")).status, 201);
    redis.restart();
    assert_eq!(once_there(&gateway, &order("k")), refused(409, "outcome-unknown"));
    assert_eq!((gateway.metric(AMNESIA), upstream.executions("Idempotency-Key", "k")), (1.0, 1));
}

/// The server takes over another one's data, as its replica, and is promoted.
fn take_over(redis: &RedisServer, from: &RedisServer) {
    redis.run::<()>(&["REPLICAOF", "127.0.0.1", &from.port().to_string()]);
    wait_until("in step", || redis.run::<String>(&["INFO", "replication"]).contains("master_link_status:up"));
    redis.run::<()>(&["REPLICAOF", "NO", "ONE"]);
}

#[test]
fn a_failover_that_loses_an_acknowledged_write_is_noticed_for_that_one_alone() {
    let (upstream, mut redis, replica) = (created(), RedisServer::start(), RedisServer::start());
    let gateway = forgetful(&upstream, &redis);
    assert_eq!(gateway.send(&order("k-1")).status, 201);
    take_over(&replica, &redis);
    // What comes now never reaches the replica.
    assert_eq!(gateway.send(&order("k-2")).status, 201);
    redis.kill();
    redis.restart();
    take_over(&redis, &replica);
    assert_eq!(once_there(&gateway, &order("k-2")), refused(409, "outcome-unknown"));
    assert!(gateway.send(&order("k-1")).is_replay());
    assert_eq!(gateway.metric(AMNESIA), 1.0);
    for key in ["k-1", "k-2"] {
        assert_eq!(upstream.executions("Idempotency-Key", key), 1);
    }
}

#[test]
fn what_an_operator_frees_at_another_gateway_is_no_loss() {
    let upstream = ScriptedUpstream::start(|request| {
        if request.text("X-Turn") == "1" { Reply::reset() } else { Reply::whole(201, &[], "done") }
    });
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "", "");
    let call = |turn: &str| order("k").header("X-Turn", turn);
    assert_eq!(told(&a.send(&call("1"))), refused(502, "upstream-failed"));
    let operation = a.send(&call("2")).header("oncegate-operation").unwrap().to_owned();
    let word = Call::post(&format!("/api/v1/keys/{operation}/resolve"));
    let word = word.json(r#"{"outcome": "not-executed", "reason": "not in the books"}"#);
    assert_eq!(word.send(b.admin).status, 200);
    assert!(!redis.run::<bool>(&[&b"EXISTS"[..], &key_of(&operation)]));
    assert_eq!(a.send(&call("2")).status, 201);
    assert_eq!(a.metric(AMNESIA), 0.0);
}
