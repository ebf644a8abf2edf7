//! `store_failure: open_if_unseen`: the only gateway of its Redis goes on while that is away, once for each operation.

use std::io::Write;
use std::net::TcpStream;

use crate::client::{Answer, Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{refused, told, yaml};

const JOURNALLED: &str = "oncegate_journalled";
const COMPLETE: &str = "oncegate_filter_complete";
const UNGUARDED: &str = r#"oncegate_requests_total{route="open",verdict="unguarded"}"#;

/// The only gateway of this Redis: `POST /open` is open to what was not seen. No answer is kept in memory.
fn alone(upstream: &ScriptedUpstream, redis: &RedisServer, guard: &str) -> Gateway {
    let store = format!(
        "store: {{ kind: redis, url: \"{}\", command_timeout: 500ms, sole_gateway: true, journal: '{{dir}}/journal' }}",
        redis.url()
    );
    let text = yaml(upstream, &redis.url(), guard, &format!("{store}\nreplay_cache: 0\nsweep_interval: 1s"));
    Gateway::start(&text.replace("store_failure: open\n", "store_failure: open_if_unseen\n"))
}

fn open(key: &str) -> Call {
    Call::post("/open").key(key).body("x")
}

fn begin(gateway: &Gateway, key: &str) -> TcpStream {
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&open(key).bytes()).unwrap();
    stream
}

fn is_marked(answer: &Answer) -> bool {
    answer.header("oncegate-unguarded") == Some("store-unavailable")
}

/// An upstream whose answers to keys that begin with `slow` wait for the gate.
fn upstream() -> (ScriptedUpstream, Gate) {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        let reply = Reply::whole(201, &[], "done");
        if request.text("Idempotency-Key").starts_with("slow") { reply.after(&hold) } else { reply }
    });
    (upstream, gate)
}

fn once_each(upstream: &ScriptedUpstream, keys: &[&str]) {
    for key in keys {
        assert_eq!(upstream.executions("Idempotency-Key", key), 1, "{key}");
    }
}

#[test]
fn an_outage_lets_through_what_was_not_seen_and_nothing_twice() {
    for paused in [true, false] {
        let ((upstream, gate), mut redis) = (upstream(), RedisServer::start());
        let gateway = alone(&upstream, &redis, "");
        assert_eq!(gateway.send(&open("before")).status, 201);
        gateway.wait_for_metric(COMPLETE, 1.0);
        if paused {
            redis.pause();
        } else {
            redis.kill();
        }
        let first = gateway.send(&open("new"));
        assert_eq!((first.status, is_marked(&first)), (201, true), "{first:?}");
        assert!(gateway.send(&open("new")).is_replay());
        assert_eq!(told(&gateway.send(&Call::post("/open").key("new").body("y"))), refused(422, "key-reused"));
        assert_eq!(told(&gateway.send(&open("before"))), refused(503, "store-unavailable"), "perhaps seen");
        assert_eq!(told(&gateway.send(&Call::post("/orders").key("o").body("x"))), refused(503, "store-unavailable"));
        let crowd: Vec<_> = (0..8).map(|_| begin(&gateway, "slow")).collect();
        upstream.wait_for_requests(3);
        gate.open();
        let answers: Vec<_> = crowd.into_iter().map(|mut stream| read_answer(&mut stream).unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| is_marked(answer)).count(), 1);
        for answer in answers.iter().filter(|answer| !is_marked(answer)) {
            let known = answer.is_replay() || matches!(answer.code().as_deref(), Some("request-in-flight"));
            assert!(known || told(answer) == refused(503, "store-unavailable"), "{answer:?}");
        }
        assert_eq!((gateway.metric(JOURNALLED), gateway.metric(UNGUARDED)), (2.0, 2.0));
        if paused {
            redis.resume();
        } else {
            redis.restart();
        }
        wait_until("all is handed over", || gateway.metric(JOURNALLED) == 0.0);
        for key in ["new", "slow"] {
            wait_until("a replay from the store", || gateway.send(&open(key)).is_replay());
        }
        once_each(&upstream, &["before", "new", "slow"]);
    }
}

#[test]
fn a_crash_during_an_outage_costs_no_second_run() {
    let ((upstream, gate), redis) = (upstream(), RedisServer::start());
    let mut gateway = alone(&upstream, &redis, "lease: 3s");
    gateway.wait_for_metric(COMPLETE, 1.0);
    redis.pause();
    assert_eq!(gateway.send(&open("done")).status, 201);
    let running = begin(&gateway, "slow");
    upstream.wait_for_requests(2);
    gateway.kill();
    drop(running);
    gateway.restart();
    // The store is still away: what the journal says is known, and the filter is no proof of anything any more.
    assert!(gateway.send(&open("done")).is_replay());
    assert_eq!(told(&gateway.send(&open("slow"))).0, 409);
    assert_eq!(told(&gateway.send(&open("new"))), refused(503, "store-unavailable"));
    wait_until("a doubt", || told(&gateway.send(&open("slow"))) == refused(409, "outcome-unknown"));
    redis.resume();
    gate.open();
    wait_until("all is handed over", || gateway.metric(JOURNALLED) == 0.0);
    gateway.wait_for_metric(COMPLETE, 1.0);
    gateway.wait_for_metric(r#"oncegate_doubts{route="open"}"#, 1.0);
    wait_until("a replay from the store", || gateway.send(&open("done")).is_replay());
    assert_eq!(told(&gateway.send(&open("slow"))), refused(409, "outcome-unknown"));
    assert_eq!(gateway.send(&open("new")).status, 201);
    once_each(&upstream, &["done", "slow", "new"]);
}

#[test]
fn an_attempt_that_began_in_an_outage_and_ends_after_it_is_recorded() {
    let ((upstream, gate), redis) = (upstream(), RedisServer::start());
    let gateway = alone(&upstream, &redis, "lease: 3s");
    gateway.wait_for_metric(COMPLETE, 1.0);
    redis.pause();
    let mut running = begin(&gateway, "slow");
    upstream.wait_for_requests(1);
    redis.resume();
    wait_until("the store answers", || gateway.send(&open("other")).header("oncegate-unguarded").is_none());
    assert_eq!(told(&gateway.send(&open("slow"))), refused(409, "request-in-flight"));
    gate.open();
    let answer = read_answer(&mut running).unwrap();
    assert_eq!((answer.status, is_marked(&answer)), (201, true));
    assert!(answer.header("idempotency-expires").is_some(), "recorded, if only in the journal so far");
    wait_until("all is handed over", || gateway.metric(JOURNALLED) == 0.0);
    assert!(gateway.send(&open("slow")).is_replay());
    once_each(&upstream, &["slow"]);
}

#[test]
fn a_second_gateway_with_the_same_journal_does_not_start() {
    let ((upstream, _gate), redis) = (upstream(), RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let store = format!(
        "store: {{ kind: redis, url: \"{}\", sole_gateway: true, journal: '{}/journal' }}",
        redis.url(),
        folder.path().display()
    );
    let text = yaml(&upstream, &redis.url(), "", &store);
    let _first = Gateway::start(&text);
    let config = folder.path().join("second.yaml");
    crate::gateway::write(&config, &text);
    let (ended, log) = Gateway::try_run(&config).err().expect("it does not start");
    assert!(!ended.success() && log.contains("in use by another process"), "{log}");
}
