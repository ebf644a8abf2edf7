//! `in_doubt: probe`: the upstream is asked what became of an operation, and what it says ends the doubt, or does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{Answer, Call};
use crate::gateway::wait_until;
use crate::upstream::{Gate, Recorded, Reply, ScriptedUpstream};
use crate::{Gateway, yaml};

/// No time of the schedule comes within a test.
const ON_DEMAND: &str = "schedule: [1h]";

/// An upstream that acts and then breaks off, each time; `told` is what it says when it is asked.
fn breaking(told: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> ScriptedUpstream {
    ScriptedUpstream::start(move |request| if request.method() == "GET" { told(request) } else { Reply::reset() })
}

/// An upstream that breaks off the first order alone.
fn breaking_once(told: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> ScriptedUpstream {
    let orders = AtomicUsize::new(0);
    ScriptedUpstream::start(move |request| match request.method().as_str() {
        "GET" => told(request),
        _ if orders.fetch_add(1, Ordering::SeqCst) == 0 => Reply::reset(),
        _ => Reply::whole(201, &[], "second"),
    })
}

fn guard(probe: &str) -> String {
    let interval = if probe.contains("interval:") { "" } else { "interval: 10ms, " };
    format!("in_doubt: probe\nprobe: {{ get: \"/orders?ref={{key}}\", {interval}{probe} }}")
}

/// A gateway whose store is never too slow: these tests are about the upstream.
fn start(upstream: &ScriptedUpstream, guard: &str) -> Gateway {
    Gateway::start(&yaml(upstream, guard, "store: { kind: memory }"))
}

/// Its first pass through the store is over: that one asks about every doubt it meets, whoever has noticed it.
fn gateway(upstream: &ScriptedUpstream, probe: &str) -> Gateway {
    let gateway = start(upstream, &guard(probe));
    gateway.wait_for_metric("oncegate_store_seconds_count{op=\"list\"}", 1.0);
    gateway
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

fn probes(gateway: &Gateway, finding: &str) -> f64 {
    gateway.metric(&series(finding))
}

fn series(finding: &str) -> String {
    format!(r#"oncegate_probes_total{{finding="{finding}",route="create-order"}}"#)
}

/// The requests by which it was asked.
fn asked(upstream: &ScriptedUpstream) -> Vec<Recorded> {
    upstream.requests().into_iter().filter(|request| request.method() == "GET").collect()
}

fn executed(upstream: &ScriptedUpstream) -> usize {
    upstream.requests().len() - asked(upstream).len()
}

fn is_doubt(answer: &Answer) -> bool {
    (answer.status, answer.code().as_deref()) == (409, Some("outcome-unknown"))
}

/// The first request, whose outcome nobody knows.
fn doubt(gateway: &Gateway, call: &Call) {
    let first = gateway.send(call);
    assert_eq!((first.status, first.code().as_deref()), (502, Some("upstream-failed")));
}

#[test]
fn what_the_schedule_finds_is_what_duplicates_get() {
    let upstream =
        breaking(|_| Reply::whole(200, &[("Content-Type", "application/json"), ("X-Own", "1")], "{\"no\":7}"));
    let mut gateway = gateway(&upstream, "schedule: [50ms]");
    doubt(&gateway, &order("k-1"));
    gateway.wait_for_metric(&series("executed"), 1.0);
    let line = gateway.wait_for_log("doubt ended by a probe");
    assert!(line.contains("oncegate::audit") && line.contains("executed") && !line.contains("k-1"), "{line}");
    let again = gateway.send(&order("k-1"));
    assert_eq!((again.status, again.text().as_str(), again.is_replay()), (200, "{\"no\":7}", true));
    assert_eq!(again.header("oncegate-source"), Some("probe"));
    assert_eq!((again.header("content-type"), again.header("x-own")), (Some("application/json"), Some("1")));
    assert!(again.header("idempotency-expires").is_some());
    assert_eq!((asked(&upstream).len(), executed(&upstream)), (1, 1));
}

#[test]
fn an_upstream_that_says_nothing_holds_up_no_other_routes_probes() {
    let gate = Gate::new();
    let hold = gate.clone();
    let silent = breaking(move |_| Reply::whole(200, &[], "late").after(&hold));
    let upstream = breaking(|_| Reply::whole(200, &[], "done"));
    let other = "  - name: other
    match: { methods: [POST], path: /other }
    upstream: silent
    idempotency:
      key: [ { header: Idempotency-Key } ]
      scope: none
      in_doubt: probe
      probe: { get: \"/orders?ref={key}\", schedule: [10ms], timeout: 1m }
  - name: rest";
    let servers = format!("upstreams:\n  silent: {{ servers: [ \"http://{}\" ] }}", silent.address());
    let text = yaml(&upstream, &guard("schedule: [10ms]"), "store: { kind: memory }");
    let text = text.replace("upstreams:", &servers).replace("  - name: rest", other);
    let gateway = Gateway::start(&text);
    doubt(&gateway, &Call::post("/other").key("k-1").body("x"));
    wait_until("the silent one is asked", || !asked(&silent).is_empty());
    doubt(&gateway, &order("k-1"));
    gateway.wait_for_metric(&series("executed"), 1.0);
    gate.open();
}

#[test]
fn a_probe_says_who_asks_and_about_what() {
    let upstream = breaking(|_| Reply::whole(200, &[], "done"));
    let fields = r#"headers: { Authorization: "{header:Authorization}", X-Customer: "no. {json:/customer}" }"#;
    let gateway = gateway(&upstream, &format!("{ON_DEMAND}, {fields}"));
    let call = Call::post("/orders").key("\"k 1\"").header("Authorization", "Bearer t").header("Cookie", "a=b");
    let call = call.json(r#"{"customer": 42}"#);
    doubt(&gateway, &call);
    assert_eq!(gateway.send(&call).text(), "done");
    let probe = &asked(&upstream)[0];
    let order = &upstream.requests()[0];
    assert_eq!((probe.target().as_str(), probe.body.len()), ("/orders?ref=k%201", 0));
    assert_eq!(probe.text("Oncegate-Operation"), order.text("Oncegate-Operation"));
    assert_eq!((probe.text("Authorization").as_str(), probe.text("X-Customer").as_str()), ("Bearer t", "no. 42"));
    assert_eq!((probe.text("Host").as_str(), probe.text("Cache-Control").as_str()), ("api.test", "no-cache"));
    assert_eq!((probe.text("X-Request-Id").len(), probe.text("traceparent").len()), (36, 55));
    for absent in
        ["Idempotency-Key", "Content-Length", "Content-Type", "Transfer-Encoding", "Oncegate-Attempt", "Cookie"]
    {
        assert_eq!(probe.header(absent), None, "{absent}");
    }
}

#[test]
fn a_duplicate_has_it_asked_about_and_gets_the_answer_at_once() {
    let upstream = breaking(|_| Reply::whole(200, &[], "done"));
    let gateway = gateway(&upstream, ON_DEMAND);
    doubt(&gateway, &order("k-1"));
    let again = gateway.send(&order("k-1"));
    assert_eq!((again.status, again.text().as_str(), again.header("oncegate-source")), (200, "done", Some("probe")));
    assert!(gateway.send(&order("k-1")).is_replay());
    let changed = gateway.send(&Call::post("/orders").key("k-1").body("y"));
    assert_eq!((changed.status, changed.code().as_deref()), (422, Some("key-reused")));
    assert_eq!((asked(&upstream).len(), executed(&upstream)), (1, 1));
}

#[test]
fn an_operation_that_is_not_there_may_still_come() {
    let there = Arc::new(AtomicUsize::new(0));
    let arrived = Arc::clone(&there);
    let upstream = breaking(move |_| match arrived.load(Ordering::SeqCst) {
        0 => Reply::whole(404, &[], "no such order"),
        _ => Reply::whole(200, &[], "came late"),
    });
    let gateway = gateway(&upstream, "schedule: [1h], absent_after: 2h");
    doubt(&gateway, &order("k-1"));
    assert!(is_doubt(&gateway.send(&order("k-1"))));
    assert!(probes(&gateway, "early") >= 1.0);
    there.store(1, Ordering::SeqCst);
    wait_until("the late order is found", || gateway.send(&order("k-1")).text() == "came late");
    assert_eq!((executed(&upstream), probes(&gateway, "absent")), (1, 0.0));
}

#[test]
fn an_operation_that_never_came_is_free_again_and_begins_anew() {
    let upstream = breaking_once(|_| Reply::whole(404, &[], ""));
    let mut gateway = gateway(&upstream, "schedule: [10ms, 20ms], absent_after: 300ms");
    doubt(&gateway, &order("k-1"));
    // Once more than the schedule says, when absence counts.
    gateway.wait_for_metric(&series("absent"), 1.0);
    assert!(gateway.wait_for_log("doubt ended by a probe").contains("not-executed"));
    let early = probes(&gateway, "early");
    assert!(early <= 2.0, "{early} probes before absence counted");
    let second = gateway.send(&order("k-1"));
    assert_eq!((second.status, second.text().as_str(), second.is_replay()), (201, "second", false));
    let attempts = upstream.requests().into_iter().filter(|request| request.method() == "POST");
    assert_eq!(attempts.map(|request| request.text("Oncegate-Attempt")).collect::<Vec<_>>(), ["1", "1"]);
}

#[test]
fn a_duplicate_that_finds_the_operation_absent_runs_it() {
    let upstream = breaking_once(|_| Reply::whole(404, &[], ""));
    let gateway = gateway(&upstream, "schedule: [1h], absent_after: 10ms");
    doubt(&gateway, &order("k-1"));
    wait_until("absence counts", || {
        let answer = gateway.send(&order("k-1"));
        assert!(is_doubt(&answer) || (answer.status == 201 && !answer.is_replay()), "{answer:?}");
        answer.status == 201
    });
    assert!(gateway.send(&order("k-1")).is_replay());
    assert_eq!((executed(&upstream), probes(&gateway, "absent")), (2, 1.0));
}

#[test]
fn whatever_else_the_upstream_says_leaves_the_doubt() {
    let elsewhere = [("Location", "/orders/7")];
    let answers: [(&str, Reply); 10] = [
        ("unknown", Reply::whole(500, &[], "oops")),
        ("unknown", Reply::whole(302, &elsewhere, "")),
        ("unknown", Reply::raw("HTTP/1.1 204 No Content\r\n\r\n")),
        ("unknown", Reply::whole(202, &[], "not yet")),
        ("unknown", Reply::whole(410, &[], "gone")),
        ("unknown", Reply::whole(401, &[], "who are you")),
        ("failed", Reply::raw("what?\r\n\r\n").then_close()),
        ("failed", Reply::cut_short(200, &[], 100, "done, but")),
        ("failed", Reply::reset()),
        ("failed", Reply::silence()),
    ];
    let count = answers.len();
    // Which answer is meant stands in the key.
    let upstream = breaking(move |request| {
        let number = request.target().rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
        number.and_then(|number| answers.get(number)).map_or(Reply::close(), |(_, reply)| reply.clone())
    });
    let gateway = gateway(&upstream, &format!("{ON_DEMAND}, absent_after: 10ms, timeout: 300ms"));
    for number in 0..count {
        let call = order(&format!("k-{number}"));
        doubt(&gateway, &call);
        assert!(is_doubt(&gateway.send(&call)), "answer {number}");
    }
    assert_eq!((probes(&gateway, "unknown"), probes(&gateway, "failed")), (6.0, 4.0));
    assert_eq!((executed(&upstream), asked(&upstream).len()), (count, count));
}

#[test]
fn an_upstream_that_is_not_there_leaves_the_doubt() {
    let upstream = breaking(|_| Reply::close());
    let call = order("k-1");
    let gateway = {
        let gateway = gateway(&upstream, ON_DEMAND);
        doubt(&gateway, &call);
        gateway
    };
    let address = upstream.address();
    drop(upstream);
    wait_until("nobody listens", || std::net::TcpStream::connect(address).is_err());
    assert!(is_doubt(&gateway.send(&call)));
    assert_eq!(probes(&gateway, "failed"), 1.0);
}

#[test]
fn an_answer_too_large_to_keep_proves_the_execution_all_the_same() {
    let upstream = breaking(|_| Reply::whole(200, &[], "more than ten bytes"));
    let text = guard(ON_DEMAND) + "\nresponse_body_limit: 10B";
    let gateway = start(&upstream, &text);
    doubt(&gateway, &order("k-1"));
    for _ in 0..2 {
        let again = gateway.send(&order("k-1"));
        assert_eq!((again.status, again.code().as_deref()), (409, Some("already-executed")));
    }
    assert_eq!((asked(&upstream).len(), executed(&upstream)), (1, 1));
}

#[test]
fn many_duplicates_ask_once_and_all_get_the_answer() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = breaking(move |_| Reply::whole(200, &[], "done").after(&hold));
    let gateway = gateway(&upstream, &format!("{ON_DEMAND}, interval: 1h"));
    doubt(&gateway, &order("k-1"));
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..20).map(|_| scope.spawn(|| gateway.send(&order("k-1")))).collect();
        wait_until("one asks", || !asked(&upstream).is_empty());
        gate.open();
        for duplicate in all {
            let answer = duplicate.join().unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
        }
    });
    assert_eq!((asked(&upstream).len(), executed(&upstream)), (1, 1));
}

#[test]
fn duplicates_do_not_ask_again_within_the_interval() {
    let upstream = breaking(|_| Reply::whole(503, &[], ""));
    let gateway = gateway(&upstream, &format!("{ON_DEMAND}, interval: 1h"));
    doubt(&gateway, &order("k-1"));
    for _ in 0..5 {
        assert!(is_doubt(&gateway.send(&order("k-1"))));
    }
    assert_eq!(asked(&upstream).len(), 1);
    doubt(&gateway, &order("k-2"));
    assert!(is_doubt(&gateway.send(&order("k-2"))));
    assert_eq!(asked(&upstream).len(), 2, "another operation");
}

#[test]
fn no_key_leads_to_another_place() {
    let upstream = breaking(|request| {
        let fine = request.target() == "/orders/plain/status" || request.target().starts_with("/orders?ref=");
        Reply::whole(if fine { 200 } else { 500 }, &[], "done")
    });
    let text = guard(ON_DEMAND).replace("/orders?ref={key}", "/orders/{key}/status");
    let by_path = start(&upstream, &text);
    let keys = ["../../admin", "..", "a/b", "a?b=c", "a#b", "a%2e%2e", "a;b"];
    for key in keys {
        let call = order(&format!("\"{key}\""));
        doubt(&by_path, &call);
        assert!(is_doubt(&by_path.send(&call)), "{key}");
    }
    assert_eq!(probes(&by_path, "impossible"), 7.0, "counted once each");
    assert_eq!(asked(&upstream).len(), 0);
    doubt(&by_path, &order("plain"));
    assert_eq!(by_path.send(&order("plain")).text(), "done");
    let by_query = gateway(&upstream, ON_DEMAND);
    for key in keys.into_iter().chain(["a&admin=1"]) {
        let call = order(&format!("\"{key}\""));
        doubt(&by_query, &call);
        assert_eq!(by_query.send(&call).text(), "done", "{key}");
    }
    let targets: Vec<_> = asked(&upstream).iter().map(Recorded::target).skip(1).collect();
    let inside =
        |target: &String| target.strip_prefix("/orders?ref=").is_some_and(|v| !v.contains(['/', '?', '#', '&', ';']));
    assert!(targets.len() == 8 && targets.iter().all(inside), "{targets:?}");
}

#[test]
fn what_a_request_lacks_cannot_be_asked_for() {
    let upstream = breaking(|_| Reply::whole(404, &[], ""));
    let fields = r#"headers: { X-Order: "{json:/no}" }, absent_after: 10ms"#;
    let mut gateway = gateway(&upstream, &format!("schedule: [10ms], {fields}"));
    for (key, body) in [("k-1", "{}"), ("k-2", "{\"no\": \"a\\r\\nX-Admin: 1\"}"), ("k-3", "{\"no\": 1.5}")] {
        let call = Call::post("/orders").key(key).json(body);
        doubt(&gateway, &call);
        assert!(is_doubt(&gateway.send(&call)), "{body}");
    }
    assert!(gateway.wait_for_log("lacks what the probe").contains("WARN"));
    assert_eq!(probes(&gateway, "impossible"), 3.0);
    assert_eq!(asked(&upstream).len(), 0);
}

#[test]
fn a_shadow_route_asks_nobody() {
    let upstream = breaking(|_| Reply::whole(200, &[], "done"));
    let text = guard("schedule: [10ms]") + "\nmode: shadow";
    let gateway = start(&upstream, &text);
    for _ in 0..2 {
        assert_eq!(gateway.send(&order("k-1")).status, 502);
    }
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="doubted",route="create-order"}"#, 1.0);
    assert_eq!((asked(&upstream).len(), executed(&upstream)), (0, 2));
}

#[test]
fn doubts_that_a_gateway_left_behind_are_asked_about_after_its_restart() {
    let upstream = breaking(|_| Reply::whole(200, &[], "done"));
    let store = "store: { kind: embedded, path: '{dir}/store', command_timeout: 10s }";
    let text = yaml(&upstream, &guard("schedule: [1h]"), store);
    let mut gateway = Gateway::start(&text);
    doubt(&gateway, &order("k-1"));
    gateway.kill();
    gateway.rewrite(&text.replace("schedule: [1h]", "schedule: [10ms]"));
    gateway.restart();
    // Its one time has passed by now; the first sweep has it asked about all the same.
    gateway.wait_for_metric(&series("executed"), 1.0);
    assert!(gateway.send(&order("k-1")).is_replay());
}
