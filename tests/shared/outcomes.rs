//! Answers that came while Redis was away: their clients have them, and the store gets them as soon as it is back.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{connect, read_answer};
use crate::gateway::Gateway;
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{order, told, yaml};

const WAITING: &str = "oncegate_outcomes_waiting";

/// Far below any lease, and what a pause between tries once was.
const PROMPT: Duration = Duration::from_secs(5);

fn held_back() -> (ScriptedUpstream, Gate) {
    let gate = Gate::new();
    let hold = gate.clone();
    (ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold)), gate)
}

/// Attempts of so many operations, all at the upstream.
fn begin(gateway: &Gateway, upstream: &ScriptedUpstream, count: usize) -> Vec<TcpStream> {
    let ask = |number| {
        let mut stream = connect(gateway.address).unwrap();
        stream.write_all(&order(&format!("k-{number}")).bytes()).unwrap();
        stream
    };
    let running = (0..count).map(ask).collect();
    upstream.wait_for_requests(count);
    running
}

fn answered(running: Vec<TcpStream>) {
    for mut stream in running {
        let answer = read_answer(&mut stream).unwrap();
        assert_eq!((answer.status, answer.header("idempotency-expires")), (201, None), "nothing is recorded yet");
    }
}

#[test]
fn many_answers_wait_together_and_are_written_at_once_when_the_store_is_back() {
    const MANY: usize = 50;
    let (upstream, gate) = held_back();
    let redis = RedisServer::start();
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", "replay_cache: 0"));
    let other = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", "replay_cache: 0"));
    let running = begin(&gateway, &upstream, MANY);
    redis.pause();
    gate.open();
    answered(running);
    gateway.wait_for_metric(WAITING, 50.0);
    redis.resume();
    let start = Clock::instant();
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#, 50.0);
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    assert_eq!(gateway.metric(WAITING), 0.0);
    for number in 0..MANY {
        assert!(other.send(&order(&format!("k-{number}"))).is_replay());
    }
    assert_eq!(upstream.requests().len(), MANY);
}

#[test]
fn answers_outlive_a_store_that_comes_back_empty() {
    let (upstream, gate) = held_back();
    let mut redis = RedisServer::start();
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", "replay_cache: 0"));
    let running = begin(&gateway, &upstream, 3);
    redis.kill();
    gate.open();
    answered(running);
    redis.restart();
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#, 3.0);
    for number in 0..3 {
        let again = gateway.send(&order(&format!("k-{number}")));
        assert!(again.is_replay(), "{:?}", told(&again));
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn a_gateway_that_stops_waits_for_its_store_as_long_as_it_may() {
    let (upstream, gate) = held_back();
    let redis = RedisServer::start();
    let mut gateway = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", "drain_timeout: 20s"));
    let other = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", ""));
    let running = begin(&gateway, &upstream, 1);
    redis.pause();
    gate.open();
    answered(running);
    gateway.wait_for_metric(WAITING, 1.0);
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    redis.resume();
    assert!(gateway.wait().success());
    assert!(other.send(&order("k-0")).is_replay());
}

#[test]
fn beyond_the_bound_an_answer_still_reaches_its_client_and_the_operation_is_in_doubt() {
    let (upstream, gate) = held_back();
    let redis = RedisServer::start();
    let top = "limits: { outcomes_waiting: 2 }\nreplay_cache: 0\nsweep_interval: 1s";
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 2s", top));
    let running = begin(&gateway, &upstream, 3);
    redis.pause();
    gate.open();
    answered(running);
    gateway.wait_for_metric("oncegate_outcomes_given_up_total", 1.0);
    redis.resume();
    gateway.wait_for_metric(r#"oncegate_doubts{route="create-order"}"#, 1.0);
    let answers: Vec<_> = (0..3).map(|number| gateway.send(&order(&format!("k-{number}")))).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 2);
    assert_eq!(answers.iter().filter(|answer| answer.code().as_deref() == Some("outcome-unknown")).count(), 1);
    assert_eq!(upstream.requests().len(), 3);
}
