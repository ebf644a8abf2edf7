//! One gateway runs an attempt, another one is asked: waiting, and the ways in which a gateway can fall silent.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{order, pair, refused, told};

const RESERVED: &str = r#"oncegate_store_seconds_count{op="reserve"}"#;
/// Where the attempt runs, its duplicates ask no store; all are looked for in the filter.
const ASKED: &str = r#"oncegate_filter_checks_total{answer="new"}"#;
const LATE: &str = "oncegate_late_answers_total";

/// An upstream whose first answer has this status and waits for the gate; the others are 201 at once.
fn slow_first(status: u16, gate: &Gate) -> ScriptedUpstream {
    let hold = gate.clone();
    let asked = AtomicUsize::new(0);
    ScriptedUpstream::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::whole(status, &[], "first").after(&hold),
        _ => Reply::whole(201, &[], "second"),
    })
}

#[test]
fn a_waiter_gets_the_answer_of_another_gateways_attempt() {
    let gate = Gate::new();
    let upstream = slow_first(201, &gate);
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "in_flight: wait\npatience: 15s", "");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| a.send(&order("k")));
        upstream.wait_for_requests(1);
        let second = scope.spawn(|| b.send(&order("k")));
        b.wait_for_metric(RESERVED, 2.0);
        gate.open();
        assert_eq!(first.join().unwrap().text(), "first");
        let replay = second.join().unwrap();
        assert_eq!((replay.is_replay(), replay.text().as_str()), (true, "first"));
    });
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_waiters_patience_ends_while_another_gateways_attempt_goes_on() {
    let gate = Gate::new();
    let upstream = slow_first(201, &gate);
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "in_flight: wait\npatience: 300ms", "");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| a.send(&order("k")));
        upstream.wait_for_requests(1);
        let start = Clock::instant();
        assert_eq!(told(&b.send(&order("k"))), refused(409, "request-in-flight"));
        assert!(start.elapsed() >= Duration::from_millis(300));
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
}

#[test]
fn when_an_attempt_is_released_exactly_one_waiter_of_all_gateways_runs() {
    let gate = Gate::new();
    let upstream = slow_first(500, &gate);
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "in_flight: wait\npatience: 15s", "");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| a.send(&order("k")));
        upstream.wait_for_requests(1);
        let ask = |gateway| scope.spawn(move || Gateway::send(gateway, &order("k")));
        let waiters: Vec<_> = [&a, &b].iter().flat_map(|gateway| [*gateway; 10]).map(ask).collect();
        a.wait_for_metric(ASKED, 11.0);
        b.wait_for_metric(RESERVED, 10.0);
        gate.open();
        assert_eq!(first.join().unwrap().status, 500);
        let answers: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(answers.iter().all(|answer| (answer.status, answer.text().as_str()) == (201, "second")), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    });
    assert_eq!(upstream.requests().len(), 2);
}

/// Gateway A is killed in mid-flight. What B is told from then on, without repeats, until it is something else than a
/// running attempt; and how long that took.
fn after_a_kill(guard: &str) -> (Vec<(u16, Option<String>)>, Duration, ScriptedUpstream) {
    let gate = Gate::new();
    let upstream = slow_first(201, &gate);
    let redis = RedisServer::start();
    let [mut a, mut b] = pair(&upstream, &redis, &format!("lease: 3s\n{guard}"), "sweep_interval: 1h");
    let mut running = connect(a.address).unwrap();
    running.write_all(&order("k").bytes()).unwrap();
    upstream.wait_for_requests(1);
    a.kill();
    let killed = Clock::instant();
    gate.open();
    let mut all = Vec::new();
    wait_until("the lease ends", || {
        all.push(told(&b.send(&order("k"))));
        all.last() != Some(&refused(409, "request-in-flight"))
    });
    let took = killed.elapsed();
    all.push(told(&b.send(&order("k"))));
    all.dedup();
    b.wait_for_log("its lease ended unheard of");
    (all, took, upstream)
}

#[test]
fn a_killed_gateways_attempt_is_in_flight_until_its_lease_ends_and_then_in_doubt() {
    let (all, took, upstream) = after_a_kill("in_doubt: hold");
    assert_eq!(all, [refused(409, "request-in-flight"), refused(409, "outcome-unknown")]);
    assert!(took > Duration::from_millis(1_500), "the lease ended after {took:?}");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_killed_gateways_attempt_is_retried_under_retry() {
    let (all, took, upstream) = after_a_kill("in_doubt: retry");
    assert_eq!(all, [refused(409, "request-in-flight"), (201, None)]);
    assert!(took > Duration::from_millis(1_500), "the lease ended after {took:?}");
    let attempts: Vec<_> = upstream.requests().iter().map(|request| request.text("Oncegate-Attempt")).collect();
    assert_eq!(attempts, ["1", "2"]);
}

#[test]
fn the_late_answer_of_a_gateway_that_stood_still_ends_the_doubt() {
    let gate = Gate::new();
    let upstream = slow_first(201, &gate);
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "lease: 1s", "sweep_interval: 1s");
    let mut running = connect(a.address).unwrap();
    running.write_all(&order("k").bytes()).unwrap();
    upstream.wait_for_requests(1);
    a.signal("STOP");
    // Nobody asks for the operation: the other gateway's sweep finds it.
    b.wait_for_metric(r#"oncegate_doubts{route="create-order"}"#, 1.0);
    assert_eq!(told(&b.send(&order("k"))), refused(409, "outcome-unknown"));
    gate.open();
    a.signal("CONT");
    assert_eq!(read_answer(&mut running).unwrap().text(), "first");
    wait_until("the late answer is replayed", || b.send(&order("k")).is_replay());
    assert_eq!(a.metric(LATE), 1.0);
    assert_eq!(b.metric(LATE), 0.0);
    assert_eq!(b.metric("oncegate_lease_lost_total"), 1.0);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_gateway_that_stood_still_does_not_settle_over_a_newer_attempt() {
    let gate = Gate::new();
    let upstream = slow_first(500, &gate);
    let redis = RedisServer::start();
    let [a, b] = pair(&upstream, &redis, "lease: 1s\nin_doubt: retry", "");
    let mut running = connect(a.address).unwrap();
    running.write_all(&order("k").bytes()).unwrap();
    upstream.wait_for_requests(1);
    a.signal("STOP");
    wait_until("the next attempt runs", || b.send(&order("k")).text() == "second");
    gate.open();
    a.signal("CONT");
    // The answer of attempt 1 would free the key; attempt 2 has completed it.
    assert_eq!(read_answer(&mut running).unwrap().status, 500);
    for gateway in [&a, &b] {
        let replay = gateway.send(&order("k"));
        assert_eq!((replay.is_replay(), replay.text().as_str()), (true, "second"));
    }
    assert_eq!(upstream.requests().len(), 2);
}
