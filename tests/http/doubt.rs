//! Doubt: when the upstream may have acted and nobody knows.

use crate::client::{Call, connect};
use crate::gateway::wait_until;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{Gateway, gateway, yaml};
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_connection_that_dies_after_the_request_leaves_a_doubt_and_is_not_sent_again() {
    for reply in [Reply::reset(), Reply::close()] {
        let upstream = ScriptedUpstream::start(move |_| reply.clone());
        let mut gateway = gateway(&upstream, "");
        let call = Call::post("/orders").key("k-1").body("x");
        let first = gateway.send(&call);
        assert_eq!((first.status, first.code().as_deref()), (502, Some("upstream-failed")));
        assert_eq!(first.header("oncegate-outcome"), Some("unknown"));
        assert!(gateway.wait_for_log("in doubt").contains(&first.header("oncegate-operation").unwrap()[..12]));
        let again = gateway.send(&call);
        assert_eq!((again.status, again.code().as_deref()), (409, Some("outcome-unknown")));
        assert_eq!(upstream.requests().len(), 1);
        assert_eq!(gateway.metric(r#"oncegate_executed_but_failed_total{route="create-order"}"#), 1.0);
    }
}

#[test]
fn a_refused_connection_releases_the_key() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = ScriptedUpstream::start(|_| Reply::close());
    let text = yaml(&nobody, "", "").replace(&nobody.address().to_string(), &port.to_string());
    let mut gateway = Gateway::start(&text);
    let call = Call::post("/orders").key("k-1").body("x");
    for _ in 0..2 {
        let answer = gateway.send(&call);
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-unreachable")));
        assert_eq!(answer.header("oncegate-outcome"), Some("not-executed"));
        assert!(!answer.text().contains(&port.to_string()), "clients need not know what stands behind");
    }
    assert!(gateway.wait_for_log("no connection to an upstream").contains(&port.to_string()));
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="not_sent",route="create-order"}"#), 2.0);
}

#[test]
fn a_late_answer_is_recorded_after_the_clients_deadline() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "late").after(&hold));
    let text = yaml(&upstream, "", "").replace("response_timeout: 10s", "response_timeout: 200ms");
    let gateway = Gateway::start(&text);
    let call = Call::post("/orders").key("k-1").body("x");
    let first = gateway.send(&call);
    assert_eq!((first.status, first.code().as_deref()), (504, Some("upstream-timeout")));
    assert_eq!(first.header("oncegate-outcome"), Some("unknown"));
    assert_eq!(gateway.send(&call).code().as_deref(), Some("request-in-flight"));
    gate.open();
    gateway.wait_for_metric("oncegate_late_answers_total", 1.0);
    wait_until("the late answer is replayed", || gateway.send(&call).is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_attempt_without_an_answer_ends_in_doubt_at_its_deadline() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let text = yaml(&upstream, "lease: 100ms", "")
        .replace("response_timeout: 10s", "response_timeout: 300ms")
        .replace("attempt_timeout: 30s", "attempt_timeout: 300ms");
    let gateway = Gateway::start(&text);
    let call = Call::post("/orders").key("k-1").body("x");
    assert_eq!(gateway.send(&call).code().as_deref(), Some("upstream-timeout"));
    wait_until("the attempt is given up", || gateway.send(&call).code().as_deref() == Some("outcome-unknown"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_answer_after_the_attempts_deadline_reaches_nobody() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "too late").after(&hold).then_hang());
    let text = yaml(&upstream, "lease: 100ms", "")
        .replace("response_timeout: 10s", "response_timeout: 300ms")
        .replace("attempt_timeout: 30s", "attempt_timeout: 300ms");
    let gateway = Gateway::start(&text);
    let call = Call::post("/orders").key("k-1").body("x");
    gateway.send(&call);
    wait_until("the attempt is given up", || gateway.send(&call).code().as_deref() == Some("outcome-unknown"));
    gate.open();
    // The server writes its answer, and finds the connection closed.
    upstream.wait_for_closed(1);
    assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
    assert_eq!(gateway.metric("oncegate_late_answers_total"), 0.0);
}

#[test]
fn the_heartbeat_keeps_a_long_attempt_from_doubt() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "slow").after(&hold));
    let gateway = gateway(&upstream, "lease: 300ms");
    let call = Call::post("/orders").key("k-1").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call));
        // Well over a lease's time, counted in renewals.
        gateway.wait_for_metric(r#"oncegate_store_seconds_count{op="renew"}"#, 8.0);
        assert_eq!(gateway.send(&call).code().as_deref(), Some("request-in-flight"));
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    assert!(gateway.send(&call).is_replay());
    assert_eq!(gateway.metric("oncegate_lease_lost_total"), 0.0);
}

#[test]
fn retry_forwards_again_and_its_answer_speaks_for_the_operation() {
    let asked = AtomicUsize::new(0);
    let upstream = ScriptedUpstream::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::reset(),
        _ => Reply::whole(201, &[], "second"),
    });
    let gateway = gateway(&upstream, "in_doubt: retry");
    let call = Call::post("/orders").key("k-1").body("x");
    assert_eq!(gateway.send(&call).status, 502);
    let second = gateway.send(&call);
    assert_eq!((second.status, second.text().as_str(), second.is_replay()), (201, "second", false));
    assert!(gateway.send(&call).is_replay());
    let attempts: Vec<_> = upstream.requests().iter().map(|request| request.text("Oncegate-Attempt")).collect();
    assert_eq!(attempts, ["1", "2"]);
}

#[test]
fn a_killed_gateways_attempt_becomes_a_doubt_that_the_sweep_shows() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = Gateway::start(&yaml(&upstream, "lease: 500ms", "sweep_interval: 1s"));
    let call = Call::post("/orders").key("k-1").body("x");
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&call.bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.kill();
    gate.open();
    gateway.restart();
    // No duplicate asks for it: the sweep finds it.
    gateway.wait_for_metric(r#"oncegate_doubts{route="create-order"}"#, 1.0);
    gateway.wait_for_metric(r#"oncegate_oldest_doubt_seconds{route="create-order"}"#, 1.0);
    assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
    assert_eq!(upstream.requests().len(), 1);
}
