//! Reserve, forward once, replay.

use crate::client::{Call, connect, leave, read_answer, read_answers};
use crate::gateway::wait_until;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[("Location", "/orders/7"), ("X-Own", "yes")], r#"{"order":7}"#))
}

#[test]
fn a_retry_gets_the_recorded_answer() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k-1").json(r#"{"item":"tea"}"#);
    let first = gateway.send(&call);
    assert_eq!((first.status, first.text().as_str()), (201, r#"{"order":7}"#));
    assert!(!first.is_replay());
    assert!(first.header("idempotency-expires").is_some());
    assert_eq!(first.header("oncegate-source"), None);
    let again = gateway.send(&call);
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert!(again.is_replay());
    assert_eq!(again.header("x-idempotent-retry"), Some("true"));
    assert_eq!(again.header("location"), Some("/orders/7"));
    assert_eq!(again.header("x-own"), Some("yes"));
    assert_eq!(again.header("idempotency-expires"), first.header("idempotency-expires"));
    assert!(again.header("date").is_some());
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="executed"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="replayed"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#), 1.0);
}

#[test]
fn an_equal_request_in_another_spelling_is_a_retry_and_a_changed_one_is_not() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let send = |body: &str| gateway.send(&Call::post("/orders").key("k-1").json(body));
    assert_eq!(send(r#"{"item":"tea","qty":1}"#).status, 201);
    assert!(send("{ \"qty\" : 1.0, \"item\" : \"te\\u0061\" }").is_replay());
    let changed = send(r#"{"item":"tea","qty":2}"#);
    assert_eq!((changed.status, changed.code().as_deref()), (422, Some("key-reused")));
    assert!(changed.text().contains(r#""retry":"new-key""#));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_duplicate_during_the_attempt_is_refused_or_waits() {
    for (guard, waits) in [("", false), ("in_flight: wait\npatience: 10s", true)] {
        let gate = Gate::new();
        let hold = gate.clone();
        let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
        let gateway = gateway(&upstream, guard);
        let call = Call::post("/orders").key("k-1").body("x");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| gateway.send(&call));
            upstream.wait_for_requests(1);
            if waits {
                let second = scope.spawn(|| gateway.send(&call));
                // It has come as far as the filter, and stands in line at once after that.
                gateway.wait_for_metric(r#"oncegate_filter_checks_total{answer="new"}"#, 2.0);
                gate.open();
                assert!(second.join().unwrap().is_replay());
            } else {
                let second = gateway.send(&call);
                assert_eq!((second.status, second.code().as_deref()), (409, Some("request-in-flight")));
                assert!(second.header("retry-after").is_some());
                gate.open();
            }
            assert_eq!(first.join().unwrap().status, 201);
        });
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[test]
fn when_a_waited_for_attempt_is_released_exactly_one_waiter_runs() {
    let gate = Gate::new();
    let hold = gate.clone();
    let asked = AtomicUsize::new(0);
    let upstream = ScriptedUpstream::start(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            Reply::whole(500, &[], "no").after(&hold)
        } else {
            Reply::whole(201, &[], "yes")
        }
    });
    let gateway = gateway(&upstream, "in_flight: wait\npatience: 10s");
    let call = Call::post("/orders").key("k-1").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call));
        upstream.wait_for_requests(1);
        let waiters: Vec<_> = (0..20).map(|_| scope.spawn(|| gateway.send(&call))).collect();
        gateway.wait_for_metric(r#"oncegate_filter_checks_total{answer="new"}"#, 21.0);
        gate.open();
        assert_eq!(first.join().unwrap().status, 500);
        let answers: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.status == 201 && answer.text() == "yes"), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    });
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn the_upstream_sees_the_request_as_it_was_sent_with_its_marks() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let call =
        Call::post("/orders?b=%2f&&a").key("\"quoted\"").header("X-Odd", b"\xff\x80").header("Oncegate-Attempt", "99");
    gateway.send(&call.body(b"\x00\xff body"));
    let request = upstream.wait_for_requests(1).remove(0);
    assert_eq!(request.line, b"POST /orders?b=%2f&&a HTTP/1.1");
    assert_eq!(request.body, b"\x00\xff body");
    assert_eq!(request.header("X-Odd").unwrap(), b"\xff\x80");
    assert_eq!(request.text("Idempotency-Key"), "\"quoted\"");
    assert_eq!(request.text("Oncegate-Attempt"), "1");
    assert_eq!(request.text("Oncegate-Operation").len(), 64);
    assert_eq!(request.text("X-Forwarded-For"), "127.0.0.1");
    assert_eq!(request.text("Host"), "api.test");
    assert!(!request.text("traceparent").is_empty() && !request.text("X-Request-Id").is_empty());
}

#[test]
fn a_key_from_elsewhere_reaches_the_upstream_as_an_idempotency_key() {
    let upstream = created();
    let gateway = gateway(&upstream, "key: [ { json: /no } ]");
    assert_eq!(gateway.send(&Call::post("/orders").json(r#"{"no":7}"#)).status, 201);
    assert!(gateway.send(&Call::post("/orders").json(r#"{"no":7, "more":1}"#)).is_replay());
    let request = upstream.wait_for_requests(1).remove(0);
    assert_eq!(request.text("Idempotency-Key"), format!("og-{}", request.text("Oncegate-Operation")));
}

#[test]
fn a_client_that_leaves_changes_nothing() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k-1").body("x");
    let mut leaver = connect(gateway.address).unwrap();
    leaver.write_all(&call.bytes()).unwrap();
    upstream.wait_for_requests(1);
    leave(leaver);
    gateway.wait_for_metric(r#"oncegate_clients_gone_total{route="create-order"}"#, 1.0);
    gate.open();
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#, 1.0);
    let retry = gateway.send(&call);
    assert!(retry.is_replay() && retry.text() == "done");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_client_that_says_no_more_still_gets_its_answer() {
    for size in [10, 1 << 20] {
        let gate = Gate::new();
        let hold = gate.clone();
        let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], vec![b'x'; size]).after(&hold));
        let gateway = gateway(&upstream, "");
        let mut half = connect(gateway.address).unwrap();
        half.write_all(&Call::post("/orders").key("k-1").body("x").bytes()).unwrap();
        half.shutdown(std::net::Shutdown::Write).unwrap();
        upstream.wait_for_requests(1);
        gate.open();
        let answers = read_answers(&mut half).unwrap();
        assert_eq!((answers.len(), answers[0].status, answers[0].body.len()), (1, 201, size));
        assert_eq!(gateway.metric(r#"oncegate_clients_gone_total{route="create-order"}"#), 0.0);
    }
}

#[test]
fn half_an_upload_takes_no_key() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k-1").body("0123456789");
    let bytes = call.bytes();
    let mut broken = connect(gateway.address).unwrap();
    broken.write_all(&bytes[..bytes.len() - 5]).unwrap();
    drop(broken);
    gateway.wait_for_metric(r#"oncegate_requests_total{route="create-order",verdict="body_aborted"}"#, 1.0);
    assert_eq!(upstream.requests().len() + upstream.fragments().len(), 0);
    let whole = gateway.send(&call);
    assert!(whole.status == 201 && !whole.is_replay());
}

#[test]
fn a_kept_alive_connection_carries_many_requests() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let mut stream = connect(gateway.address).unwrap();
    for round in 0..5 {
        let request = format!(
            "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k-{}\r\nContent-Length: 1\r\n\r\nx",
            round / 2
        );
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().is_replay(), round % 2 == 1);
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn round_trips_are_as_few_as_promised() {
    let upstream = created();
    let gateway = crate::Gateway::start(&yaml(&upstream, "", "replay_cache: 0"));
    let reserve = r#"oncegate_store_seconds_count{op="reserve"}"#;
    let settle = r#"oncegate_store_seconds_count{op="settle"}"#;
    let load = r#"oncegate_store_seconds_count{op="load"}"#;
    let call = Call::post("/orders").key("k-1").body("x");
    gateway.send(&call);
    assert_eq!((gateway.metric(reserve), gateway.metric(settle)), (1.0, 1.0), "a first request: one before, one after");
    assert_eq!(gateway.metric(load), 0.0);
    gateway.send(&call);
    assert_eq!((gateway.metric(reserve), gateway.metric(settle)), (1.0, 1.0), "a duplicate writes nothing");
    assert_eq!(gateway.metric(load), 1.0, "and asks once");
    let others = ["renew", "remove"].map(|op| gateway.metric(&format!(r#"oncegate_store_seconds_count{{op="{op}"}}"#)));
    assert_eq!(others, [0.0; 2]);

    let cached = crate::gateway(&upstream, "");
    cached.send(&call);
    assert!(cached.send(&call).is_replay());
    assert_eq!((cached.metric(reserve), cached.metric(load)), (1.0, 0.0), "a duplicate in the local cache: none");
}

#[test]
fn outcomes_are_forgotten_after_their_retention() {
    let upstream = created();
    let gateway = gateway(&upstream, "retention: 1s\ndoubt_retention: 1s");
    let call = Call::post("/orders").key("k-1").body("x");
    gateway.send(&call);
    assert!(gateway.send(&call).is_replay());
    wait_until("the outcome is forgotten", || {
        std::thread::sleep(Duration::from_millis(50));
        !gateway.send(&call).is_replay()
    });
    assert_eq!(upstream.requests().len(), 2);
}
