//! Single-use tokens: they are issued for a route and a caller, and nothing else passes; each is good for one operation.

use serde_json::Value;

use crate::client::{Answer, Call, exchange_to_end};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::yaml;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const HERE: &str = "/idempotency-tokens";
const HEADER: &str = "Idempotency-Token";

fn tokens(more: &str) -> String {
    format!("tokens: {{ secrets: [ \"{SECRET}\" ]{more} }}")
}

fn text(upstream: &ScriptedUpstream, guard: &str, top: &str) -> String {
    let scope = if guard.contains("scope:") { "" } else { "scope: { header: X-Customer-Id }\n" };
    yaml(upstream, &format!("key: [ {{ token: {{}} }} ]\n{scope}{guard}"), top)
}

fn start(upstream: &ScriptedUpstream, guard: &str) -> Gateway {
    Gateway::start(&text(upstream, guard, &tokens("")))
}

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

fn wish(query: &str) -> Call {
    Call::post(&format!("{HERE}{query}")).header("X-Customer-Id", "7")
}

fn token(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.text());
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    told["token"].as_str().unwrap().to_owned()
}

fn get(gateway: &Gateway) -> String {
    token(&gateway.send(&wish("?route=create-order")))
}

fn order(token: &str) -> Call {
    Call::post("/orders").header(HEADER, token).header("X-Customer-Id", "7").body("x")
}

fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

fn refusal(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

fn count(gateway: &Gateway, verdict: &str) -> f64 {
    gateway.metric(&format!("oncegate_requests_total{{route=\"create-order\",verdict=\"{verdict}\"}}"))
}

#[test]
fn a_token_is_issued_without_a_write_and_is_good_for_one_operation() {
    let upstream = created();
    let gateway = start(&upstream, "");
    let before = oncegate::clock::Clock::wall().0 / 1000;
    let issued = gateway.send(&wish("?route=create-order"));
    assert_eq!(issued.header("cache-control"), Some("no-store"));
    assert_eq!(issued.header("oncegate-source"), Some("gateway"));
    assert_eq!(issued.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_slice(&issued.body).unwrap();
    let expires: jiff::Timestamp = body["expires_at"].as_str().unwrap().parse().unwrap();
    let left = u64::try_from(expires.as_second()).unwrap() - before;
    assert!((1795..=1860).contains(&left), "{left} s");
    for op in ["reserve", "load", "settle"] {
        assert_eq!(gateway.metric(&format!("oncegate_store_seconds_count{{op=\"{op}\"}}")), 0.0, "{op}");
    }
    assert_eq!(gateway.metric(r#"oncegate_tokens_issued_total{route="create-order"}"#), 1.0);
    assert_eq!(count(&gateway, "token_issued"), 1.0);
    let token = token(&issued);
    let first = gateway.send(&order(&token));
    assert_eq!(first.status, 201);
    let again = gateway.send(&order(&token));
    assert!(again.is_replay(), "{}", again.text());
    assert_eq!(told(&gateway.send(&order(&token).body("y"))), refusal(422, "key-reused"), "requests are compared");
    let seen = upstream.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].text(HEADER), token, "the token's field goes through untouched");
    assert_eq!(seen[0].text("Idempotency-Key"), format!("og-{}", seen[0].text("Oncegate-Operation")));
    assert_ne!(get(&gateway), get(&gateway));
    let log = gateway.log();
    assert!(!log.contains(&token) && !log.contains(SECRET), "{log}");
}

#[test]
fn only_what_was_issued_for_route_and_caller_passes() {
    let upstream = created();
    let other = "  - name: pay\n    match: { methods: [POST], path: /pay }\n    upstream: orders\n    idempotency: \
                 { key: [ { token: {} } ], scope: { header: X-Customer-Id } }\n";
    let text = text(&upstream, "", &tokens("")).replace("  - name: rest\n", &format!("{other}  - name: rest\n"));
    let gateway = Gateway::start(&text);
    let (own, foreign) = (get(&gateway), token(&gateway.send(&wish("?route=pay"))));
    let stranger = token(&gateway.send(&Call::post(&format!("{HERE}?route=pay")).header("X-Customer-Id", "8")));
    let forged = own.chars().rev().collect::<String>();
    let flipped = format!("{}{}", &own[..91], if own.ends_with('A') { 'B' } else { 'A' });
    let longer = format!("{own}A");
    let bad = [&foreign, &stranger, &forged, &flipped, &longer, &own[..91], "", " ", "k-1", "\u{e9}", "a b"];
    for bad in bad {
        let answer = gateway.send(&order(bad));
        assert_eq!(told(&answer), refusal(400, "token-invalid"), "{bad}");
        assert!(answer.text().contains(r#""retry":"new-key""#), "{}", answer.text());
    }
    assert_eq!(told(&gateway.send(&order(&own).header(HEADER, &own))), refusal(400, "token-invalid"), "on two lines");
    let unnamed = Call::post("/orders").header("X-Customer-Id", "7").body("x");
    assert_eq!(told(&gateway.send(&unnamed)), refusal(400, "key-missing"));
    let nobody = Call::post("/orders").header(HEADER, &own).body("x");
    assert_eq!(told(&gateway.send(&nobody)), refusal(400, "scope-missing"));
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(count(&gateway, "token_invalid"), 12.0);
    assert_eq!(gateway.send(&order(&own)).status, 201);
}

#[test]
fn routes_of_one_namespace_take_each_others_tokens_for_one_operation() {
    let upstream = created();
    let other = "  - name: pay\n    match: { methods: [POST], path: /pay }\n    upstream: orders\n    idempotency: { key: [ \
                 { token: {} } ], namespace: create-order, scope: { header: X-Customer-Id }, fingerprint: { compare: false } }\n";
    let text = text(&upstream, "fingerprint: { compare: false }", &tokens(""))
        .replace("  - name: rest\n", &format!("{other}  - name: rest\n"));
    let gateway = Gateway::start(&text);
    let token = get(&gateway);
    assert_eq!(gateway.send(&order(&token)).status, 201);
    let there = Call::post("/pay").header(HEADER, &token).header("X-Customer-Id", "7").body("x");
    assert!(gateway.send(&there).is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_expired_token_runs_nothing_and_a_used_one_is_still_known() {
    let upstream = created();
    let gateway = Gateway::start(&text(&upstream, "", &format!("{}\noperations: {{}}", tokens(", lifetime: 2s"))));
    let (used, unused) = (get(&gateway), get(&gateway));
    assert_eq!(gateway.send(&order(&used)).status, 201);
    let ask = |token: &str| {
        gateway.send(&Call::new("GET", &format!("/_oncegate/operations/{token}")).header("X-Customer-Id", "7"))
    };
    assert_eq!(ask(&used).status, 200);
    assert_eq!(told(&ask("k-1")), refusal(400, "token-invalid"));
    let stranger = Call::new("GET", &format!("/_oncegate/operations/{used}")).header("X-Customer-Id", "8");
    assert_eq!(told(&gateway.send(&stranger)), refusal(400, "token-invalid"));
    // Only asking does not use it up, so it is the time that ends it.
    wait_until("the token's time is over", || {
        let answer = ask(&unused);
        assert!(told(&answer) == refusal(404, "operation-unknown") || answer.status == 410, "{}", answer.text());
        answer.status == 410
    });
    let refused = gateway.send(&order(&unused));
    assert_eq!(told(&refused), refusal(410, "token-expired"));
    assert!(refused.text().contains(r#""retry":"new-key""#), "{}", refused.text());
    assert_eq!(count(&gateway, "token_expired"), 2.0, "the question counts so too");
    assert!(gateway.send(&order(&used)).is_replay());
    assert_eq!(ask(&used).status, 200);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_token_that_was_burnt_by_nothing_works_again() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let upstream = ScriptedUpstream::start(|request| match request.text("X-Wish").as_str() {
        "refuse" => Reply::whole(422, &[], "no"),
        _ => Reply::whole(201, &[], "ok"),
    });
    let good = text(&upstream, "fingerprint: { compare: false }", &tokens(""));
    let gateway = Gateway::start(&good.replace(&upstream.address().to_string(), &closed.to_string()));
    let token = get(&gateway);
    for _ in 0..2 {
        let missed = gateway.send(&order(&token));
        assert_eq!(told(&missed), refusal(502, "upstream-unreachable"));
        assert_eq!(missed.header("oncegate-outcome"), Some("not-executed"));
    }
    gateway.rewrite(&good);
    gateway.signal("HUP");
    gateway.wait_for_metric(r#"oncegate_reloads_total{result="ok"}"#, 1.0);
    assert_eq!(gateway.send(&order(&token).header("X-Wish", "refuse")).status, 422, "the outcome table frees the key");
    assert_eq!(gateway.send(&order(&token)).status, 201);
    assert!(gateway.send(&order(&token)).is_replay());
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_bad_token_is_refused_where_requests_without_one_pass() {
    let upstream = created();
    let gateway = start(&upstream, "missing: pass");
    let without = Call::post("/orders").header("X-Customer-Id", "7").body("x");
    assert_eq!(gateway.send(&without).status, 201);
    assert_eq!(told(&gateway.send(&order("k-1"))), refusal(400, "token-invalid"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_used_token_is_remembered_whatever_the_upstream_asks() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[("Oncegate-TTL", "1")], "ok"));
    let gateway = start(&upstream, "outcome_headers: trust");
    let issued = gateway.send(&wish("?route=create-order"));
    let body: Value = serde_json::from_slice(&issued.body).unwrap();
    let expires: jiff::Timestamp = body["expires_at"].as_str().unwrap().parse().unwrap();
    let first = gateway.send(&order(&token(&issued)));
    let kept = httpdate::parse_http_date(first.header("idempotency-expires").unwrap()).unwrap();
    let kept = i64::try_from(kept.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()).unwrap();
    assert!(kept >= expires.as_second(), "forgotten before its token expires");
}

#[test]
fn what_is_no_wish_for_a_token_is_told_so() {
    let upstream = created();
    let other = "  - name: pay\n    match: { methods: [POST], path: /pay }\n    upstream: orders\n    idempotency: \
                 { key: [ { token: {} } ], scope: none }\n";
    let base = text(&upstream, "", &tokens(""))
        .replace("    idempotency:\n", "    cors: { origins: [\"https://shop.example\"] }\n    idempotency:\n");
    let gateway = Gateway::start(&base.replace("  - name: rest\n", &format!("{other}  - name: rest\n")));
    for query in ["", "?route=rest", "?route=none", "?route=pay&route=pay", "?route=%zz"] {
        assert_eq!(told(&gateway.send(&wish(query))), refusal(400, "bad-request"), "{query}");
    }
    assert_eq!(told(&gateway.send(&Call::post(&format!("{HERE}?route=create-order")))), refusal(400, "scope-missing"));
    for method in ["GET", "PUT", "DELETE"] {
        let call = Call::new(method, &format!("{HERE}?route=create-order")).header("X-Customer-Id", "7");
        let refused = gateway.send(&call);
        assert_eq!(told(&refused), refusal(405, "method-not-allowed"));
        assert_eq!(refused.header("allow"), Some("POST, OPTIONS"));
    }
    let of = |call: Call| gateway.send(&call.header("Origin", "https://shop.example"));
    let page = of(wish("?route=create-order"));
    assert_eq!((page.status, page.header("access-control-allow-origin")), (201, Some("https://shop.example")));
    let preflight = Call::new("OPTIONS", &format!("{HERE}?route=create-order"));
    let preflight = of(preflight.header("Access-Control-Request-Method", "POST"));
    assert_eq!((preflight.status, preflight.header("allow")), (204, Some("POST, OPTIONS")));
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("x-customer-id") && allowed.contains("idempotency-token"), "{allowed}");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_body_that_comes_with_a_wish_is_not_taken_for_the_next_request() {
    let upstream = created();
    let gateway = start(&upstream, "");
    let smuggled = "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n";
    let head =
        format!("POST {HERE}?route=create-order HTTP/1.1\r\nHost: a\r\nX-Customer-Id: 7\r\nContent-Length: 100\r\n");
    let answers = exchange_to_end(gateway.address, format!("{head}\r\n{smuggled}").as_bytes()).unwrap();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [201]);
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_scopes_word_counts_from_trusted_proxies_alone() {
    let upstream = created();
    let top = format!("{}\ntrusted_proxies: [10.0.0.0/8]", tokens(""));
    let gateway = Gateway::start(&text(&upstream, "scope: { trusted_header: X-Customer-Id }", &top));
    assert_eq!(told(&gateway.send(&wish("?route=create-order"))), refusal(400, "scope-missing"));
}

#[test]
fn path_and_header_are_settings_and_a_trial_refuses_nothing() {
    let upstream = created();
    let top = tokens(", path: /api/numbers, header: Idempotency-Key");
    let gateway = Gateway::start(&text(&upstream, "", &top));
    let number = token(&gateway.send(&Call::post("/api/numbers").header("X-Customer-Id", "7")));
    let call = |key: &str| Call::post("/orders").key(key).header("X-Customer-Id", "7").body("x");
    assert_eq!(gateway.send(&call(&number)).status, 201);
    assert!(gateway.send(&call(&format!("\"{number}\""))).is_replay(), "the same key, as an RFC 8941 string");
    assert_eq!(upstream.requests()[0].text("Idempotency-Key"), number);
    let shadow = start(&upstream, "mode: shadow");
    let number = get(&shadow);
    assert_eq!(shadow.send(&order(&number)).status, 201);
    assert_eq!(shadow.send(&order("k-1")).status, 201);
    assert_eq!(shadow.send(&order(&number)).status, 201);
    assert_eq!((count(&shadow, "executed"), count(&shadow, "shadowed")), (1.0, 2.0));
}

#[test]
fn nothing_is_issued_before_the_stores_time_is_known_and_nothing_expired_passes_without_the_store() {
    let upstream = created();
    let redis = RedisServer::start();
    let url = redis.url();
    let top =
        |lifetime: &str| format!("store: {{ kind: redis, url: '{url}', command_timeout: 5s }}\n{}", tokens(lifetime));
    let gateway = Gateway::start(&text(&upstream, "store_failure: open", &top(", lifetime: 1s")));
    let (late, early) = (get(&gateway), oncegate::clock::Clock::instant());
    drop(redis);
    // The clock was set: tokens are issued and checked without the store.
    assert_eq!(gateway.send(&wish("?route=create-order")).status, 201);
    wait_until("a token of a second is over", || early.elapsed().as_millis() > 1_200);
    assert_eq!(told(&gateway.send(&order(&late))), refusal(503, "store-unavailable"));
    let blind = Gateway::start(&text(&upstream, "", &top("")));
    assert_eq!(told(&blind.send(&wish("?route=create-order"))), refusal(503, "store-unavailable"));
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_running_use_is_told_as_such() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let gateway = start(&upstream, "");
    let token = get(&gateway);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| gateway.send(&order(&token)));
        upstream.wait_for_requests(1);
        assert_eq!(told(&gateway.send(&order(&token))), refusal(409, "request-in-flight"));
        gate.open();
        assert_eq!(running.join().unwrap().status, 201);
    });
}
