//! A second key on a route, as clients see it: whatever the first one is, an order number passes once, and nothing is left of
//! a first key that is refused. How doubts of a pair end is in `also_ends`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::clock::Clock;
use serde_json::Value;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{DeadPort, Gate, Recorded, Reply, ScriptedUpstream};
use crate::{yaml, yaml_to};

const REFUSED: &str = r#"oncegate_also_refused_total{route="create-order"}"#;
const RESERVED: &str = r#"oncegate_store_seconds_count{op="reserve"}"#;
const REMOVED: &str = r#"oncegate_store_seconds_count{op="remove"}"#;

/// These tests are about keys: their store has time, on a busy machine too.
pub(crate) const PATIENT: &str = "store: { kind: embedded, path: '{dir}/store', command_timeout: 10s }";

/// A guard with two keys: `also` holds what goes into it after its key, `more` further lines of the guard.
pub(crate) fn guard(also: &str, more: &str) -> String {
    let scope = if more.contains("scope:") { "" } else { "scope: none\n" };
    let key = if also.contains("key:") { "" } else { "key: [ { json: /order_no } ], " };
    format!("key: [ {{ header: Idempotency-Key }} ]\n{scope}also: {{ {key}{also} }}\n{more}")
}

pub(crate) fn gateway(upstream: &ScriptedUpstream, also: &str, more: &str) -> Gateway {
    Gateway::start(&yaml(upstream, &guard(also, more), PATIENT))
}

/// Every answer is another one.
pub(crate) fn numbered(status: u16) -> ScriptedUpstream {
    numbered_with(move |number, _| Reply::whole(status, &[], format!("answer {number}")))
}

pub(crate) fn numbered_with(script: impl Fn(usize, &Recorded) -> Reply + Send + Sync + 'static) -> ScriptedUpstream {
    let count = AtomicUsize::new(0);
    ScriptedUpstream::start(move |request| script(1 + count.fetch_add(1, Ordering::SeqCst), request))
}

pub(crate) fn pay(key: &str, order: &str) -> Call {
    pay_more(key, order, 5)
}

fn pay_more(key: &str, order: &str, amount: u32) -> Call {
    Call::post("/orders").key(key).json(&format!("{{\"order_no\":\"{order}\",\"amount\":{amount}}}"))
}

/// The same with the order's number in a header.
fn numbered_call(key: &str, order: &str, amount: u32) -> Call {
    Call::post("/orders").key(key).header("X-Order-No", order).json(&format!("{{\"amount\":{amount}}}"))
}

/// Status and code.
pub(crate) fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

pub(crate) fn refused(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

pub(crate) fn detail(answer: &Answer) -> String {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
    problem["detail"].as_str().unwrap().to_owned()
}

/// It ran now: its answer is the upstream's last one.
pub(crate) fn ran(answer: &Answer, upstream: &ScriptedUpstream) -> bool {
    answer.text() == format!("answer {}", upstream.requests().len()) && !answer.is_replay()
}

pub(crate) fn replayed(answer: &Answer, text: &str) -> bool {
    answer.is_replay() && answer.text() == text
}

#[test]
fn a_fresh_key_gets_the_answer_that_its_order_has() {
    let upstream = numbered(201);
    let gateway = gateway(&upstream, "", "");
    assert!(ran(&gateway.send(&pay("k", "A")), &upstream));
    for call in [pay("fresh", "A"), pay("fresh", "A"), pay_more("other", "A", 6)] {
        let answer = gateway.send(&call);
        assert!(answer.status == 201 && replayed(&answer, "answer 1"), "{answer:?}");
        assert_eq!(answer.header("x-idempotent-retry"), Some("true"));
        assert!(answer.header("idempotency-expires").is_some());
    }
    assert_eq!(gateway.metric(REFUSED), 3.0);
    // Told by the first key, an honest retry is none of those; and a changed one is refused by it.
    assert!(replayed(&gateway.send(&pay("k", "A")), "answer 1"));
    assert_eq!(told(&gateway.send(&pay("k", "B"))), refused(422, "key-reused"));
    assert_eq!((gateway.metric(REFUSED), upstream.requests().len()), (3.0, 1));
    // What was refused has left nothing: its key is good for another order.
    assert!(ran(&gateway.send(&pay("fresh", "B")), &upstream));
    assert!(ran(&gateway.send(&pay("other", "C")), &upstream));
}

#[test]
fn each_key_has_a_word_of_its_own_on_duplicates() {
    let (reject, replay) = ("duplicate: reject", "duplicate: replay");
    // What the second key says, what the route says, and whether each refuses.
    for (also, route, second, first) in [
        (reject, "", true, false),
        (replay, reject, false, true),
        ("", reject, true, true),
        ("duplicate: reject, duplicate_status: 410", replay, true, false),
    ] {
        let upstream = numbered(201);
        let gateway = gateway(&upstream, also, route);
        assert_eq!(gateway.send(&pay("k", "A")).status, 201);
        let (by_order, by_key) = (gateway.send(&pay("fresh", "A")), gateway.send(&pay("k", "A")));
        for (answer, refuses) in [(&by_order, second), (&by_key, first)] {
            assert_eq!(answer.code().as_deref(), refuses.then_some("duplicate-request"), "{also} {route}: {answer:?}");
            assert_eq!(replayed(answer, "answer 1"), !refuses, "{also} {route}: {answer:?}");
            assert!(answer.header("idempotency-expires").is_some());
        }
        if second {
            assert_eq!(by_order.status, if also.contains("410") { 410 } else { 409 });
            let detail = detail(&by_order);
            assert!(detail.contains("second key (JSON pointer /order_no)"), "{detail}");
            assert!(!by_order.text().contains("\"A\""), "never the value: {}", by_order.text());
        }
        assert!(ran(&gateway.send(&pay("fresh", "B")), &upstream), "{also} {route}");
    }
}

#[test]
fn a_refusal_with_a_2xx_is_for_senders_that_need_one() {
    let upstream = numbered(201);
    let gateway = gateway(&upstream, "duplicate: reject, duplicate_status: 200", "");
    assert_eq!(gateway.send(&pay("k", "A")).status, 201);
    let answer = gateway.send(&pay("fresh", "A"));
    assert_eq!((answer.status, answer.text().as_str(), answer.is_replay()), (200, "", false));
    assert_eq!(answer.header("oncegate-source"), Some("gateway"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn another_request_for_the_same_order_is_refused_where_the_second_key_compares() {
    let header = "key: [ { header: X-Order-No } ]";
    let compare = |also: &str, word| format!("{also}, fingerprint: {{ compare: {word} }}");
    for (also, compares) in [
        (header.to_owned(), true),
        (compare(header, false), false),
        (compare("key: [ { json: /order_no }, { header: X-Order-No } ]", true), true),
    ] {
        let upstream = numbered(201);
        let gateway = gateway(&upstream, &also, "");
        assert!(ran(&gateway.send(&numbered_call("k", "A", 5)), &upstream));
        assert!(replayed(&gateway.send(&numbered_call("same", "A", 5)), "answer 1"), "{also}");
        let changed = gateway.send(&numbered_call("fresh", "A", 6));
        if compares {
            assert_eq!(told(&changed), refused(422, "key-reused"), "{also}");
            assert!(detail(&changed).contains("second key ("), "{}", changed.text());
        } else {
            assert!(replayed(&changed, "answer 1"), "{also} {changed:?}");
        }
        assert!(ran(&gateway.send(&numbered_call("fresh", "B", 6)), &upstream), "{also}");
    }
}

#[test]
fn a_request_without_the_second_key_is_refused_or_has_the_first_alone() {
    for (also, passes) in [("", false), ("missing: pass", true)] {
        let upstream = numbered(201);
        let gateway = gateway(&upstream, also, "");
        for (number, body) in ["{}", r#"{"order_no":null}"#, r#"{"order_no":" "}"#].into_iter().enumerate() {
            let call = Call::post("/orders").key(&format!("k{number}")).json(body);
            let answer = gateway.send(&call);
            if passes {
                assert!(ran(&answer, &upstream), "{body} {answer:?}");
                assert!(gateway.send(&call).is_replay(), "the first key guards it");
            } else {
                assert_eq!(told(&answer), refused(400, "key-missing"), "{body}");
                let detail = detail(&answer);
                assert!(detail.contains("second key") && detail.contains("JSON pointer /order_no"), "{detail}");
            }
        }
        // What is there and is no key is refused in any case.
        let odd = gateway.send(&Call::post("/orders").key("odd").json(r#"{"order_no":[1]}"#));
        assert_eq!(told(&odd), refused(400, "key-invalid"), "{also}");
        assert_eq!(upstream.requests().len(), if passes { 3 } else { 0 });
        // A key that came without an order is that operation's, and no other's.
        let with = gateway.send(&pay("k0", "A"));
        let expected = if passes { refused(422, "key-reused") } else { (201, None) };
        assert_eq!(told(&with), expected, "{also}");
    }
    let upstream = numbered(201);
    let gateway = gateway(&upstream, "key: [ { header: X-Order-No } ], missing: pass", "");
    let blank = gateway.send(&numbered_call("k", " ", 5));
    assert_eq!((told(&blank), upstream.requests().len()), (refused(400, "key-invalid"), 0));
}

#[test]
fn order_numbers_may_be_everybodys_or_each_shops_own() {
    let upstream = numbered(201);
    let of =
        |customer: &str, shop: &str, key: &str| pay(key, "A").header("X-Customer", customer).header("X-Shop", shop);
    let route = "scope: { trusted_header: X-Customer }";
    // By default the route's scope: another customer's order of this number is another order.
    let own = gateway(&upstream, "", route);
    assert!(ran(&own.send(&of("1", "x", "k")), &upstream));
    assert!(ran(&own.send(&of("2", "x", "k")), &upstream));
    assert!(replayed(&own.send(&of("1", "x", "fresh")), "answer 1"));
    // Everybody's: it is one order, and its answer is the first customer's alone.
    let shared = gateway(&upstream, "scope: none", route);
    assert!(ran(&shared.send(&of("1", "x", "k")), &upstream));
    let stranger = shared.send(&of("2", "x", "fresh"));
    assert_eq!(told(&stranger), refused(409, "duplicate-request"));
    assert!(!stranger.text().contains("answer 3"), "{}", stranger.text());
    assert!(replayed(&shared.send(&of("1", "x", "fresh")), "answer 3"));
    // Each shop's own.
    let shops = gateway(&upstream, "scope: { header: X-Shop }", route);
    assert!(ran(&shops.send(&of("1", "x", "k")), &upstream));
    assert!(ran(&shops.send(&of("1", "y", "other")), &upstream));
    assert!(replayed(&shops.send(&of("1", "x", "fresh")), "answer 4"));
    let none = shops.send(&pay("n", "A").header("X-Customer", "1"));
    assert_eq!(told(&none), refused(400, "scope-missing"));
    assert_eq!(upstream.requests().len(), 5);
}

/// Orders whose number begins with `held` are answered when the gate opens, the first one with this status.
fn held(gate: &Gate, first: u16) -> ScriptedUpstream {
    let hold = gate.clone();
    let asked = AtomicUsize::new(0);
    numbered_with(move |number, request| {
        let is_held = String::from_utf8_lossy(&request.body).contains("held");
        let status = if is_held && asked.fetch_add(1, Ordering::SeqCst) == 0 { first } else { 201 };
        let reply = Reply::whole(status, &[], format!("answer {number}"));
        if is_held { reply.after(&hold) } else { reply }
    })
}

#[test]
fn a_fresh_key_waits_for_the_answer_of_its_order_and_holds_nothing_meanwhile() {
    let gate = Gate::new();
    let upstream = held(&gate, 201);
    let gateway = gateway(&upstream, "", "in_flight: wait\npatience: 10s");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&pay("k", "held")));
        upstream.wait_for_requests(1);
        let waits = scope.spawn(|| gateway.send(&pay("fresh", "held")));
        let changes = scope.spawn(|| gateway.send(&pay("reused", "held")));
        // Each has met the order, and has given its own key back: it stands in line.
        gateway.wait_for_metric(REMOVED, 2.0);
        assert!(ran(&gateway.send(&pay("reused", "B")), &upstream), "its key is not held while it waits");
        gate.open();
        assert!(replayed(&waits.join().unwrap(), "answer 1"));
        assert_eq!(told(&changes.join().unwrap()), refused(422, "key-reused"), "its key has become another order's");
        assert_eq!(first.join().unwrap().status, 201);
    });
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn when_the_order_is_free_again_one_of_those_who_wait_runs() {
    let gate = Gate::new();
    let upstream = held(&gate, 500);
    let gateway = gateway(&upstream, "", "in_flight: wait\npatience: 10s");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&pay("k", "held")));
        upstream.wait_for_requests(1);
        let (gateway, mut waiters) = (&gateway, Vec::new());
        for number in 0..8 {
            waiters.push(scope.spawn(move || gateway.send(&pay(&format!("fresh-{number}"), "held"))));
        }
        gateway.wait_for_metric(REMOVED, 8.0);
        gate.open();
        assert_eq!(first.join().unwrap().status, 500);
        let answers: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(
            answers.iter().all(|answer| (answer.status, answer.text()) == (201, "answer 2".to_owned())),
            "{answers:?}"
        );
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    });
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_order_that_runs_is_told_as_such() {
    let gate = Gate::new();
    let upstream = held(&gate, 201);
    let gateway = gateway(&upstream, "", "in_flight_status: 429");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&pay("k", "held")));
        upstream.wait_for_requests(1);
        for (key, by) in [("fresh", "second key (JSON pointer /order_no)"), ("k", "The same operation")] {
            let answer = gateway.send(&pay(key, "held"));
            assert_eq!(told(&answer), refused(429, "request-in-flight"));
            assert!(answer.header("retry-after").is_some() && detail(&answer).contains(by), "{}", answer.text());
        }
        assert!(ran(&gateway.send(&pay("fresh", "B")), &upstream), "nothing of the refused key is left");
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
}

#[test]
fn an_api_that_is_not_reached_frees_both() {
    let nobody = DeadPort::refusing();
    let gateway = Gateway::start(&yaml_to(nobody.address(), &guard("", ""), PATIENT));
    // Whoever comes next, under either key or with another partner for it, is tried.
    for call in [pay("k", "A"), pay("k", "A"), pay("fresh", "A"), pay("k", "B"), pay_more("fresh", "B", 6)] {
        let answer = gateway.send(&call);
        assert_eq!(told(&answer), refused(502, "upstream-unreachable"));
        assert_eq!(answer.header("oncegate-outcome"), Some("not-executed"));
    }
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="not_sent",route="create-order"}"#), 5.0);
    assert_eq!((gateway.metric(RESERVED), gateway.metric(REMOVED)), (10.0, 10.0), "two keys a request");
}

#[test]
fn an_answer_that_releases_frees_both() {
    let upstream = numbered(422);
    let gateway = gateway(&upstream, "", "");
    for call in [pay("k", "A"), pay("fresh", "A"), pay("k", "B"), pay_more("fresh", "B", 6)] {
        let answer = gateway.send(&call);
        assert!(answer.status == 422 && ran(&answer, &upstream), "{answer:?}");
    }
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="released",route="create-order"}"#), 4.0);
}

/// When the outcome is forgotten, in seconds from now.
fn seconds_left(answer: &Answer) -> u64 {
    let at = httpdate::parse_http_date(answer.header("idempotency-expires").unwrap()).unwrap();
    let at = at.duration_since(std::time::UNIX_EPOCH).unwrap();
    at.saturating_sub(Duration::from_millis(Clock::wall().0)).as_secs()
}

#[test]
fn each_key_is_remembered_for_its_own_time() {
    let upstream = numbered(201);
    // An order is known for longer than its key.
    let longer = gateway(&upstream, "retention: 2h", "retention: 1s");
    assert!(ran(&longer.send(&pay("k", "A")), &upstream));
    wait_until("the key is forgotten", || longer.send(&pay("k", "B")).status == 201);
    let by_order = longer.send(&pay("new", "A"));
    assert!(replayed(&by_order, "answer 1") && (7_100..=7_200).contains(&seconds_left(&by_order)), "{by_order:?}");
    // A key is known for longer than its order.
    let shorter = gateway(&upstream, "retention: 1s", "retention: 1h");
    let first = shorter.send(&pay("k", "A"));
    let text = first.text();
    assert!(ran(&first, &upstream));
    wait_until("the order is forgotten", || !shorter.send(&pay("fresh", "A")).is_replay());
    let by_key = shorter.send(&pay("k", "A"));
    assert!(replayed(&by_key, &text) && (3_500..=3_600).contains(&seconds_left(&by_key)), "{by_key:?}");
}

#[test]
fn the_apis_own_word_on_time_holds_for_both() {
    let upstream = numbered_with(|number, _| {
        let ttl: &[_] = if number == 1 { &[("Oncegate-TTL", "1")] } else { &[] };
        Reply::whole(201, ttl, format!("answer {number}"))
    });
    let gateway = gateway(&upstream, "retention: 2h", "retention: 1h\noutcome_headers: trust");
    assert!(ran(&gateway.send(&pay("k", "A")), &upstream));
    wait_until("the order is forgotten", || !gateway.send(&pay("fresh", "A")).is_replay());
    wait_until("and the key", || gateway.send(&pay("k", "B")).status == 201);
    assert_eq!(upstream.requests().len(), 3);
    assert!(gateway.send(&pay("other", "A")).is_replay(), "the second time nothing was said of it");
}

#[test]
fn a_shadow_counts_what_the_second_key_would_refuse() {
    let upstream = numbered(201);
    let gateway = gateway(&upstream, "", "mode: shadow");
    for key in ["k", "fresh"] {
        assert!(ran(&gateway.send(&pay(key, "A")), &upstream));
    }
    assert_eq!(gateway.metric(REFUSED), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="shadowed"}"#), 1.0);
}
