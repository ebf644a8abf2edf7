//! `in_doubt: probe` with several gateways: the record has what any of them needs to ask.

use std::io::Write;
use std::time::Duration;

use crate::client::connect;
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{order, pair, store, yaml};

const EXECUTED: &str = r#"oncegate_probes_total{finding="executed",route="create-order"}"#;

/// A store that is never too slow: these tests are about the upstream.
fn top(redis: &RedisServer) -> String {
    format!("store: {}\nsweep_interval: 1s", store(&redis.url(), Duration::from_secs(10)))
}

fn guard(more: &str) -> String {
    format!("in_doubt: probe\nprobe: {{ get: \"/orders?ref={{key}}\", interval: 10ms, {more} }}\nlease: 500ms")
}

/// An upstream that is busy with each order until the gate is open, and says what became of it at once.
fn busy(gate: &Gate, told: Reply) -> ScriptedUpstream {
    let hold = gate.clone();
    ScriptedUpstream::start(move |request| match request.method().as_str() {
        "GET" => told.clone(),
        _ => Reply::whole(201, &[], "own answer").after(&hold),
    })
}

fn asked(upstream: &ScriptedUpstream) -> Vec<String> {
    let requests = upstream.requests().into_iter().filter(|request| request.method() == "GET");
    requests.map(|request| request.target()).collect()
}

#[test]
fn another_gateway_asks_about_what_a_killed_one_left_behind() {
    let gate = Gate::new();
    let upstream = busy(&gate, Reply::whole(200, &[], "found"));
    let redis = RedisServer::start();
    let [mut first, second] = pair(&upstream, &redis, &guard("schedule: [10ms]"), &top(&redis));
    let mut stream = connect(first.address).unwrap();
    stream.write_all(&order("k-1").bytes()).unwrap();
    upstream.wait_for_requests(1);
    first.kill();
    // No duplicate asks for it: the other's sweep lets it lapse, and then asks.
    second.wait_for_metric(EXECUTED, 1.0);
    let again = second.send(&order("k-1"));
    assert_eq!((again.status, again.text().as_str(), again.header("oncegate-source")), (200, "found", Some("probe")));
    assert_eq!(asked(&upstream), ["/orders?ref=k-1"]);
    gate.open();
}

#[test]
fn a_late_answer_does_not_change_what_a_probe_found() {
    let gate = Gate::new();
    let upstream = busy(&gate, Reply::whole(200, &[], "found"));
    let redis = RedisServer::start();
    let [first, second] = pair(&upstream, &redis, &guard("schedule: [1h]"), &top(&redis));
    let mut stream = connect(first.address).unwrap();
    stream.write_all(&order("k-1").bytes()).unwrap();
    upstream.wait_for_requests(1);
    // It stands still for longer than its lease.
    first.signal("STOP");
    wait_until("the other has it asked about", || second.send(&order("k-1")).text() == "found");
    first.signal("CONT");
    gate.open();
    let own = crate::client::read_answer(&mut stream).unwrap();
    assert_eq!((own.status, own.text().as_str()), (201, "own answer"), "its client has what the upstream said to it");
    for gateway in [&first, &second] {
        let again = gateway.send(&order("k-1"));
        assert_eq!(
            (again.status, again.text().as_str(), again.header("oncegate-source")),
            (200, "found", Some("probe"))
        );
    }
    assert_eq!(upstream.executions("Oncegate-Attempt", "1"), 1);
}

#[test]
fn after_a_lost_lease_nothing_is_freed_while_the_attempt_may_still_run() {
    let gate = Gate::new();
    let upstream = busy(&gate, Reply::whole(404, &[], ""));
    let redis = RedisServer::start();
    let [first, second] = pair(&upstream, &redis, &guard("schedule: [1h], absent_after: 10ms"), &top(&redis));
    let mut stream = connect(first.address).unwrap();
    stream.write_all(&order("k-1").bytes()).unwrap();
    upstream.wait_for_requests(1);
    first.signal("STOP");
    let early = r#"oncegate_probes_total{finding="early",route="create-order"}"#;
    wait_until("it was asked about often enough", || {
        let answer = second.send(&order("k-1"));
        assert_eq!(answer.status, 409, "{answer:?}");
        second.metric(early) >= 3.0
    });
    first.signal("CONT");
    gate.open();
    assert_eq!(crate::client::read_answer(&mut stream).unwrap().text(), "own answer");
    // The late answer ended the doubt.
    let again = second.send(&order("k-1"));
    assert_eq!((again.status, again.text().as_str(), again.header("oncegate-source")), (201, "own answer", None));
    assert_eq!(upstream.executions("Oncegate-Attempt", "1"), 1);
}

#[test]
fn gateways_that_all_know_a_doubt_end_it_once() {
    let upstream = ScriptedUpstream::start(|request| {
        if request.method() == "GET" { Reply::whole(200, &[], "found") } else { Reply::reset() }
    });
    let redis = RedisServer::start();
    let text = yaml(&upstream, &redis.url(), &guard("schedule: [1s]"), &top(&redis));
    let gateways = [Gateway::start(&text), Gateway::start(&text), Gateway::start(&text)];
    assert_eq!(gateways[0].send(&order("k-1")).status, 502);
    for gateway in &gateways {
        wait_until("it is found", || gateway.send(&order("k-1")).text() == "found");
    }
    let ended = || gateways.iter().filter(|gateway| gateway.log().contains("doubt ended by a probe")).count();
    wait_until("one says that it ended it", || ended() > 0);
    assert_eq!((ended(), upstream.executions("Oncegate-Attempt", "1")), (1, 1));
}
