//! Business windows: the same user cannot order the same product twice within one, over every store; what its refusals
//! say, and what the upstream gets.

use std::collections::BTreeSet;
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::yaml;

const KEY: &str = "key: [ { all: [ { header: X-User }, { json: /sku } ] } ]";

/// One gateway on the embedded store, or two on one Redis.
struct Shop {
    upstream: ScriptedUpstream,
    gateways: Vec<Gateway>,
    _redis: Option<RedisServer>,
}

impl Shop {
    fn embedded(guard: &str) -> Self {
        let upstream = created();
        let gateways = vec![Gateway::start(&yaml(&upstream, &format!("{KEY}\n{guard}"), ""))];
        Self { upstream, gateways, _redis: None }
    }

    fn shared(guard: &str) -> Self {
        let (upstream, redis) = (created(), RedisServer::start());
        let store = format!("store: {{ kind: redis, url: \"{}\", command_timeout: 5s }}", redis.url());
        let start = |()| Gateway::start(&yaml(&upstream, &format!("{KEY}\n{guard}"), &store));
        let gateways = [(), ()].map(start).into();
        Self { upstream, gateways, _redis: Some(redis) }
    }

    /// Over the gateways in turn.
    fn order(&self, turn: usize, user: &str, sku: &str) -> Answer {
        let call = Call::post("/orders").header("X-User", user).json(&format!(r#"{{"sku":"{sku}"}}"#));
        self.gateways[turn % self.gateways.len()].send(&call)
    }
}

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

/// The refusal's word on when the window ends.
fn refused_until(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.code().as_deref()), (409, Some("duplicate-request")), "{}", answer.text());
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let until = problem["expires_at"].as_str().unwrap().to_owned();
    assert!(problem["detail"].as_str().unwrap().contains(&until), "{problem}");
    let whole_second = answer.header("idempotency-expires").unwrap();
    let date = httpdate::parse_http_date(whole_second).unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(jiff_second(&until), date.as_secs(), "{until} {whole_second}");
    until
}

fn jiff_second(rfc3339: &str) -> u64 {
    let at: jiff::Timestamp = rfc3339.parse().unwrap();
    u64::try_from(at.as_second()).unwrap()
}

/// Thirty parallel orders of one product by one user: one passes.
fn rush(shop: &Shop, user: &str) {
    let before = shop.upstream.requests().len();
    let passed: usize = std::thread::scope(|scope| {
        let send = |turn| scope.spawn(move || usize::from(shop.order(turn, user, "rush").status == 201));
        let all: Vec<_> = (0..30).map(send).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!((passed, shop.upstream.requests().len() - before), (1, 1));
}

fn a_fixed_window(shop: &Shop) {
    let begun = Clock::instant();
    assert_eq!(shop.order(0, "ann", "p1").status, 201);
    assert_eq!(shop.order(1, "ann", "p2").status, 201, "another product");
    assert_eq!(shop.order(2, "bob", "p1").status, 201, "another user");
    let (mut ends, mut turn) = (BTreeSet::new(), 0);
    wait_until("the window has ended", || {
        turn += 1;
        let answer = shop.order(turn, "ann", "p1");
        if answer.status == 409 {
            ends.insert(refused_until(&answer));
        }
        answer.status == 201
    });
    // The store's time and this one agree but for its milliseconds.
    assert!(begun.elapsed() >= Duration::from_millis(1_490), "{:?}", begun.elapsed());
    assert_eq!(ends.len(), 1, "its end does not move: {ends:?}");
    rush(shop, "cid");
}

/// A refresh of the credentials, or a signature that each sending has anew, opens no window: nothing is shown that they
/// would have to open.
#[test]
fn a_duplicate_with_other_credentials_is_one_like_any_other_where_nothing_is_replayed() {
    let shop = Shop::embedded("duplicate: reject\nduplicate_status: 200\nwindow: sliding\nretention: 10s");
    let order = |credentials: &str| {
        let call = Call::post("/orders").header("X-User", "ann").header("Authorization", credentials);
        shop.gateways[0].send(&call.json(r#"{"sku":"p1"}"#))
    };
    let mut ends = vec![order("Bearer 1").header("idempotency-expires").unwrap().to_owned()];
    let mut turn = 1;
    wait_until("its end has moved", || {
        turn += 1;
        let answer = order(&format!("Bearer {turn}"));
        assert_eq!((answer.status, answer.header("x-idempotent-retry")), (200, Some("true")), "{}", answer.text());
        ends.push(answer.header("idempotency-expires").unwrap().to_owned());
        ends.last() > ends.first()
    });
    assert_eq!(shop.upstream.requests().len(), 1);
}

#[test]
fn a_fixed_window_ends_a_retention_after_the_order() {
    a_fixed_window(&Shop::embedded("duplicate: reject\nwindow: fixed\nretention: 1500ms"));
}

#[test]
fn a_fixed_window_is_one_over_two_gateways() {
    a_fixed_window(&Shop::shared("duplicate: reject\nwindow: fixed\nretention: 1500ms"));
}

fn a_sliding_window(shop: &Shop) {
    const RETENTION: Duration = Duration::from_secs(3);
    assert_eq!(shop.order(0, "ann", "p1").status, 201);
    let (begun, mut ends, mut turn) = (Clock::instant(), Vec::new(), 0);
    wait_until("longer than the window was at first", || {
        turn += 1;
        ends.push(refused_until(&shop.order(turn, "ann", "p1")));
        begun.elapsed() > RETENTION + Duration::from_millis(500)
    });
    // Two gateways may be told apart by a moment; but the end moves, and never back by more.
    assert!(ends.first() < ends.last(), "{ends:?}");
    assert_eq!(shop.order(0, "ann", "p2").status, 201, "another product");
    rush(shop, "cid");
    std::thread::sleep(RETENTION);
    assert_eq!(shop.order(0, "ann", "p1").status, 201, "after a quiet time of the retention");
}

#[test]
fn a_sliding_window_ends_after_a_quiet_time() {
    a_sliding_window(&Shop::embedded("duplicate: reject\nwindow: sliding\nretention: 3s"));
}

#[test]
fn a_sliding_window_is_one_over_two_gateways() {
    a_sliding_window(&Shop::shared("duplicate: reject\nwindow: sliding\nretention: 3s"));
}

#[test]
fn a_sliding_window_outlives_a_restart_and_its_replays_move_it_too() {
    let mut shop = Shop::embedded("window: sliding\nretention: 1h\ndoubt_retention: 2h");
    assert_eq!(shop.order(0, "ann", "p1").status, 201);
    let end = |answer: &Answer| httpdate::parse_http_date(answer.header("idempotency-expires").unwrap()).unwrap();
    let first = shop.order(0, "ann", "p1");
    assert!(first.is_replay());
    shop.gateways[0].kill();
    shop.gateways[0].restart();
    let again = shop.order(0, "ann", "p1");
    assert!(again.is_replay() && end(&again) >= end(&first));
    assert_eq!(shop.upstream.requests().len(), 1);
}

#[test]
fn an_upstream_that_remembers_keys_is_told_the_windows_apart_where_the_route_has_them() {
    for (guard, apart) in [
        ("window: fixed", true),
        ("window: sliding", true),
        ("window: fixed\nforwarded_key: operation", false),
        ("forwarded_key: window", true),
        ("", false),
    ] {
        let shop = Shop::embedded(&format!("{guard}\nduplicate: reject\nretention: 1s"));
        assert_eq!(shop.order(0, "ann", "p1").status, 201);
        std::thread::sleep(Duration::from_secs(1));
        wait_until("the next window", || shop.order(0, "ann", "p1").status == 201);
        let seen = shop.upstream.requests();
        let [first, second] = [0, 1].map(|at| seen[at].text("Idempotency-Key"));
        let operation = format!("og-{}", seen[0].text("Oncegate-Operation"));
        assert_eq!(seen[0].text("Oncegate-Operation"), seen[1].text("Oncegate-Operation"));
        assert!(first.starts_with(&operation) && second.starts_with(&operation));
        assert_eq!(first != second, apart, "{guard}: {first} {second}");
        assert_eq!(first == operation, !apart, "{guard}: {first}");
    }
}

#[test]
fn strangers_are_not_told_when_and_prolong_nothing() {
    let shop = Shop::embedded("window: sliding\nretention: 2s\nscope: none");
    let send = |token: &str| {
        let call = Call::post("/orders").header("X-User", "ann").header("Authorization", token).json(r#"{"sku":"p"}"#);
        shop.gateways[0].send(&call)
    };
    let begun = Clock::instant();
    assert_eq!(send("Bearer one").status, 201);
    wait_until("the window has ended", || {
        let answer = send("Bearer two");
        let silent = !answer.text().contains("expires_at") && answer.header("idempotency-expires").is_none();
        assert!(answer.status == 201 || silent, "{}", answer.text());
        answer.status == 201
    });
    assert!(begun.elapsed() >= Duration::from_millis(1_990), "{:?}", begun.elapsed());
}

#[test]
fn a_tombstone_says_until_when() {
    let shop = Shop::embedded("retention: 1h\nresponse_body_limit: 0");
    assert_eq!(shop.order(0, "ann", "p1").status, 201);
    let answer = shop.order(0, "ann", "p1");
    assert_eq!(answer.code().as_deref(), Some("already-executed"));
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(problem["expires_at"].as_str().unwrap().ends_with('Z'), "{problem}");
}

#[test]
fn typed_variants_are_one_order_and_reach_the_upstream_as_they_were_typed() {
    let steps = "normalize: [trim, collapse_spaces, case_fold, nfkc]";
    let key = format!("key: [ {{ all: [ {{ header: X-User }}, {{ json: /address, {steps} }} ] }} ]");
    for backend in [None, Some(RedisServer::start())] {
        let store = backend.as_ref().map_or(String::new(), |redis| {
            format!("store: {{ kind: redis, url: \"{}\", command_timeout: 5s }}", redis.url())
        });
        let upstream = created();
        let guard = format!("{key}\nduplicate: reject\nwindow: sliding\nretention: 1h");
        let gateway = Gateway::start(&yaml(&upstream, &guard, &store));
        let order = |address: &str| {
            gateway.send(&Call::post("/orders").header("X-User", "ann").json(&format!(r#"{{"address":"{address}"}}"#)))
        };
        let first = " Rue de  l'E\u{301}té １2";
        assert_eq!(order(first).status, 201);
        for same in ["rue de l'été 12", "RUE DE L'ÉTÉ 12 ", "Rue\u{a0}de l'Été\\t12"] {
            refused_until(&order(same));
        }
        assert_eq!(order("rue de l'été 13").status, 201);
        let seen = upstream.requests();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].body, format!(r#"{{"address":"{first}"}}"#).as_bytes(), "as it was typed");
    }
}

#[test]
fn a_fingerprint_and_its_comparison_take_typed_values_for_one() {
    let steps = "fingerprint: { normalize: [ { json: /address, steps: [trim, collapse_spaces, case_fold] }, { query: q, steps: [digits] } ] }";
    let upstream = created();
    let by_print =
        Gateway::start(&yaml(&upstream, &format!("key: [ {{ fingerprint: {{}} }} ]\nretention: 1h\n{steps}"), ""));
    let send = |gateway: &Gateway, target: &str, body: &str| gateway.send(&Call::post(target).key("k").json(body));
    assert!(!send(&by_print, "/orders?q=1", r#"{"address":"Maple 1","n":1}"#).is_replay());
    assert!(send(&by_print, "/orders?q=%EF%BC%91", r#"{"n":1.0,"address":" MAPLE  1"}"#).is_replay());
    assert!(!send(&by_print, "/orders?q=1", r#"{"address":"Maple 2","n":1}"#).is_replay());
    let by_key = Gateway::start(&yaml(&upstream, steps, ""));
    assert!(!send(&by_key, "/orders", r#"{"address":"Maple 1"}"#).is_replay());
    assert!(send(&by_key, "/orders", r#"{"address":"maple  1 "}"#).is_replay());
    assert_eq!(send(&by_key, "/orders", r#"{"address":"maple 2"}"#).code().as_deref(), Some("key-reused"));
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn parts_that_are_missing_or_none_are_refused_by_name_and_nothing_is_forwarded() {
    let shop = Shop::embedded("missing: reject");
    let send = |body: &str| shop.gateways[0].send(&Call::post("/orders").header("X-User", "ann").json(body));
    for body in ["{}", r#"{"sku":null}"#, r#"{"sku":""}"#, r#"{"sku":" \u3000"}"#] {
        let answer = send(body);
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("key-missing")), "{body}");
        assert!(answer.text().contains("null or blank: JSON pointer /sku."), "{}", answer.text());
    }
    for body in [r#"{"sku":["p"]}"#, r#"{"sku":{"id":"p"}}"#] {
        let answer = send(body);
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("key-invalid")), "{body}");
        assert!(answer.text().contains("JSON pointer /sku"), "{}", answer.text());
    }
    let answer = shop.gateways[0].send(&Call::post("/orders").json(r#"{"sku":"p"}"#));
    assert!(answer.text().contains("null or blank: header x-user."), "{}", answer.text());
    assert_eq!(shop.upstream.requests().len(), 0);
    assert_eq!(send(r#"{"sku":true}"#).status, 201);
    assert!(send(r#"{"sku":true}"#).is_replay());
    assert!(!send(r#"{"sku":"true"}"#).is_replay());
}

#[test]
fn a_question_to_the_upstream_and_one_to_the_gateway_find_a_typed_key() {
    let upstream = ScriptedUpstream::start(|request| match request.method().as_str() {
        "GET" => Reply::whole(200, &[], "there"),
        _ => Reply::reset(),
    });
    let guard = "key: [ { header: X-Order, normalize: [case_fold, collapse_spaces] } ]\nin_doubt: probe
probe: { get: \"/orders?ref={key}\", schedule: [10m] }";
    let gateway = Gateway::start(&yaml(&upstream, guard, "operations: { path: /ops }"));
    let send = |key: &str| gateway.send(&Call::post("/orders").header("X-Order", key).body("x"));
    assert_eq!(send("Order  7").status, 502);
    let probed = send("order 7");
    assert_eq!((probed.status, probed.text()), (200, "there".to_owned()));
    let asked = upstream.requests().into_iter().find(|request| request.method() == "GET").unwrap();
    assert_eq!(asked.target(), "/orders?ref=Order%20%207", "the upstream saw it as it was typed");
    let told = gateway.send(&Call::new("GET", "/ops/ORDER%207"));
    assert!(told.text().contains(r#""state":"completed""#), "{}", told.text());
}
