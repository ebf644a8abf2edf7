//! What a route may choose: reject, other statuses, shadow.

use crate::client::Call;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

#[test]
fn reject_says_so_instead_of_repeating_the_answer() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let refusing = gateway(&upstream, "duplicate: reject");
    let call = Call::post("/orders").key("k").body("x");
    refusing.send(&call);
    let again = refusing.send(&call);
    assert_eq!((again.status, again.code().as_deref()), (409, Some("duplicate-request")));
    assert_eq!(again.header("x-idempotent-retry"), Some("true"));
    assert!(again.header("idempotency-expires").is_some());
    assert_eq!(upstream.requests().len(), 1);

    let webhook = gateway(&upstream, "duplicate: reject\nduplicate_status: 200");
    webhook.send(&call);
    let again = webhook.send(&call);
    assert_eq!((again.status, again.text().as_str()), (200, ""));
    assert_eq!(again.header("oncegate-source"), Some("gateway"));
    assert_eq!(again.header("x-idempotent-retry"), Some("true"));
}

#[test]
fn the_status_of_a_running_attempt_is_the_routes_choice() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "own").after(&hold));
    let gateway = gateway(&upstream, "in_flight_status: 429");
    let call = Call::post("/orders").key("k").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call));
        upstream.wait_for_requests(1);
        let second = gateway.send(&call);
        assert_eq!((second.status, second.code().as_deref()), (429, Some("request-in-flight")));
        gate.open();
        first.join().unwrap();
    });
}

#[test]
fn the_status_of_a_doubt_is_the_routes_choice() {
    let upstream = ScriptedUpstream::start(|_| Reply::reset());
    let gateway = gateway(&upstream, "in_doubt_status: 503");
    let call = Call::post("/orders").key("k").body("x");
    assert_eq!(gateway.send(&call).code().as_deref(), Some("upstream-failed"));
    let again = gateway.send(&call);
    assert_eq!((again.status, again.code().as_deref()), (503, Some("outcome-unknown")));
    assert!(again.text().contains(r#""status":503"#) && again.header("retry-after").is_some(), "{}", again.text());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn without_comparison_a_changed_request_is_a_duplicate() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let gateway = gateway(&upstream, "fingerprint: { compare: false }");
    gateway.send(&Call::post("/orders").key("k").body("x"));
    assert!(gateway.send(&Call::post("/orders").key("k").body("y")).is_replay());
}

#[test]
fn ignored_members_do_not_make_another_request() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let gateway = gateway(&upstream, "fingerprint: { ignore: { json: [/sent_at], query: [ts] } }");
    let send = |ts: u32, body: &str| gateway.send(&Call::post(&format!("/orders?ts={ts}")).key("k").json(body));
    send(1, r#"{"item":1,"sent_at":"noon"}"#);
    assert!(send(2, r#"{"item":1,"sent_at":"one"}"#).is_replay());
    assert_eq!(send(2, r#"{"item":2,"sent_at":"one"}"#).status, 422);
}

#[test]
fn shadow_counts_and_changes_nothing() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let gateway = gateway(&upstream, "mode: shadow\nrequest_body_limit: 1KiB");
    let call = Call::post("/orders").key("k").body("x");
    for _ in 0..3 {
        let answer = gateway.send(&call);
        assert_eq!((answer.status, answer.text().as_str()), (201, "own"));
        assert_eq!(answer.header("idempotency-expires"), None);
    }
    // What enforcement would refuse goes through: a changed request, a bad key, no key, a body over the limit.
    for odd in [
        Call::post("/orders").key("k").body("changed"),
        Call::post("/orders").key("").body("x"),
        Call::post("/orders").body("x"),
        Call::post("/orders").key("big").body(vec![b'x'; 5_000]),
    ] {
        assert_eq!(gateway.send(&odd).status, 201);
    }
    let requests = upstream.requests();
    assert_eq!(requests.len(), 7);
    assert!(requests.iter().all(|request| request.header("Oncegate-Operation").is_none()));
    assert_eq!(requests[6].body.len(), 5_000);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="executed"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="shadowed"}"#), 6.0);
    assert_eq!(gateway.metric(r#"oncegate_duplicates_total{route="create-order"}"#), 3.0);
}

/// The configuration with a second guarded route, `POST /enforced`, whose `idempotency` has these lines more.
fn beside_enforced(text: &str, lines: &str) -> String {
    let route = "  - name: enforced
    match: { methods: [POST], path: /enforced }
    upstream: orders
    idempotency:
      key: [ { header: Idempotency-Key } ]
      scope: none
";
    text.replace("  - name: rest\n", &format!("{route}{lines}  - name: rest\n"))
}

#[test]
fn a_shadow_routes_records_never_answer_for_an_enforcing_one() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let shared = "      namespace: shared\n      fingerprint: { compare: false }\n";
    let text = beside_enforced(&yaml(&upstream, "mode: shadow\nnamespace: shared", ""), shared);
    let gateway = crate::Gateway::start(&text);
    gateway.send(&Call::post("/orders").key("k").body("x"));
    assert!(!gateway.send(&Call::post("/enforced").key("k").body("x")).is_replay());
    assert!(gateway.send(&Call::post("/enforced").key("k").body("x")).is_replay());
}

#[test]
fn forwarding_fields_are_believed_from_trusted_peers_only() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "own"));
    let call = Call::new("GET", "/x").header("X-Forwarded-For", "203.0.113.9").header("X-Forwarded-Proto", "https");
    let strict = gateway(&upstream, "");
    strict.send(&call);
    let trusting = crate::Gateway::start(&yaml(&upstream, "", "trusted_proxies: [ 127.0.0.0/8 ]"));
    trusting.send(&call);
    let seen: Vec<_> = upstream
        .wait_for_requests(2)
        .iter()
        .map(|request| (request.text("X-Forwarded-For"), request.text("X-Forwarded-Proto")))
        .collect();
    assert_eq!(seen[0], ("127.0.0.1".to_owned(), "http".to_owned()));
    assert_eq!(seen[1].0, "203.0.113.9, 127.0.0.1");
    assert!(seen[1].1.starts_with("https"));
}

#[test]
fn without_a_guard_nobody_is_told_to_repeat_what_may_have_run() {
    let upstream = ScriptedUpstream::start(|request| match request.target().as_str() {
        "/slow" => Reply::silence(),
        _ => Reply::reset(),
    });
    let text = yaml(&upstream, "mode: shadow", "").replace("response_timeout: 10s", "response_timeout: 200ms");
    let gateway = crate::Gateway::start(&text);
    let slow = gateway.send(&Call::post("/slow").body("x"));
    assert_eq!((slow.status, slow.code().as_deref()), (504, Some("upstream-timeout")));
    let plain = gateway.send(&Call::post("/elsewhere").body("x"));
    assert_eq!((plain.status, plain.code().as_deref()), (502, Some("upstream-failed")));
    let shadow = gateway.send(&Call::post("/orders").key("k").body("x"));
    assert_eq!((shadow.status, shadow.code().as_deref()), (502, Some("upstream-failed")));
    for answer in [slow, plain, shadow] {
        assert!(answer.text().contains(r#""retry":"stop""#), "{}", answer.text());
    }
}

#[test]
fn doubts_of_a_shadow_route_raise_no_alarm() {
    let upstream = ScriptedUpstream::start(|_| Reply::reset());
    let text = beside_enforced(&yaml(&upstream, "mode: shadow", "sweep_interval: 1s"), "");
    let gateway = crate::Gateway::start(&text);
    gateway.send(&Call::post("/orders").key("k").body("x"));
    gateway.send(&Call::post("/enforced").key("k").body("x"));
    // Both are in the store before the pass that shows the second.
    gateway.wait_for_metric(r#"oncegate_doubts{route="enforced"}"#, 1.0);
    assert_eq!(gateway.metric(r#"oncegate_doubts{route="create-order"}"#), 0.0);
}
