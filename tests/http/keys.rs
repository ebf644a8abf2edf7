//! Keys and scopes as clients send them, also badly.

use crate::client::{Answer, Call};
use crate::gateway::Gateway;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

fn counting() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{}", answer.text());
}

#[test]
fn keys_that_are_none_are_refused_and_nothing_is_forwarded() {
    let upstream = counting();
    let gateway = gateway(&upstream, "");
    let post = || Call::post("/orders").body("x");
    refused(&gateway.send(&post()), 400, "key-missing");
    refused(&gateway.send(&post().key("a").key("b")), 400, "key-invalid");
    refused(&gateway.send(&post().key("")), 400, "key-invalid");
    refused(&gateway.send(&post().key("   ")), 400, "key-invalid");
    refused(&gateway.send(&post().key(&"k".repeat(256))), 400, "key-invalid");
    refused(&gateway.send(&post().header("Idempotency-Key", b"k\xc3\xa9")), 400, "key-invalid");
    refused(&gateway.send(&post().key("a,b")), 400, "key-invalid");
    refused(&gateway.send(&post().key("\"open")), 400, "key-invalid");
    refused(&gateway.send(&post().key("k").header("Connection", "Idempotency-Key")), 400, "key-invalid");
    refused(&gateway.send(&post().key("k").header("Idempotency_Key", "k")), 400, "key-invalid");
    refused(&gateway.send(&post().header("Idempotency_Key", "k")), 400, "key-invalid");
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(gateway.send(&post().key(&"k".repeat(255))).status, 201);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="key_invalid"}"#), 10.0);
}

#[test]
fn the_quoted_and_the_bare_form_are_one_key() {
    let upstream = counting();
    let gateway = gateway(&upstream, "");
    let send = |key: &str| gateway.send(&Call::post("/orders").key(key).body("x"));
    assert!(!send("8e03978e-40d5").is_replay());
    assert!(send("\"8e03978e-40d5\"").is_replay());
    assert!(send("\"8e03978e-40d5\";v=1").is_replay());
}

/// Sends each body and says how many of them reached the upstream.
fn distinct(guard: &str, target: &[&str], content_type: &str, bodies: &[&str]) -> usize {
    let upstream = counting();
    let gateway = gateway(&upstream, guard);
    for target in target {
        for body in bodies {
            gateway.send(&Call::post(target).header("Content-Type", content_type).body(body));
        }
    }
    upstream.requests().len()
}

#[test]
fn fingerprints_tell_apart_what_differs() {
    let by_print = "key: [ { fingerprint: {} } ]\nretention: 1h";
    let form = "application/x-www-form-urlencoded";
    let json = "application/json";
    let apart =
        |kind, bodies: &[&str]| assert_eq!(distinct(by_print, &["/orders"], kind, bodies), bodies.len(), "{bodies:?}");
    apart(json, &[r#"{"order_id":9007199254740992}"#, r#"{"order_id":9007199254740993}"#]);
    apart(json, &[r#"{"qty":1,"qty":5}"#, r#"{"qty":5}"#]);
    apart(form, &["memo=x%26amount%3D5", "memo=x&amount=5"]);
    apart(form, &["sum=1%2B2", "sum=1+2"]);
    assert_eq!(distinct(by_print, &["/orders?p=&p=q&r=", "/orders?p=&q=r&q="], json, &["{}"]), 2);
    assert_eq!(distinct(by_print, &["/orders?b=2&a=1", "/orders?a=1&b=2"], json, &["{}"]), 1);
    assert_eq!(distinct(by_print, &["/orders"], json, &[r#"{"a":1,"b":[2]}"#, r#"{ "b":[2.0], "a":1e0 }"#]), 1);
}

#[test]
fn multipart_with_another_boundary_is_the_same_request() {
    let upstream = counting();
    let gateway = gateway(&upstream, "key: [ { fingerprint: {} } ]\nretention: 1h");
    let send = |boundary: &str, file: &str| {
        let part = |name: &str, rest: &str, content: &str| {
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{rest}\r\n\r\n{content}\r\n")
        };
        let body = part("no", "", "7") + &part("file", "; filename=\"a.txt\"", file) + &format!("--{boundary}--\r\n");
        gateway.send(
            &Call::post("/orders")
                .header("Content-Type", format!("multipart/form-data; boundary={boundary}"))
                .body(body),
        )
    };
    assert!(!send("one", "content").is_replay());
    assert!(send("two", "content").is_replay());
    assert!(!send("two", "other").is_replay());
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn two_customers_with_the_same_basket_are_two_orders() {
    let upstream = counting();
    let guard = "key: [ { fingerprint: {} } ]\nretention: 1h\nscope: { header: X-Customer }";
    let gateway = gateway(&upstream, guard);
    let send = |customer: &str| gateway.send(&Call::post("/orders").header("X-Customer", customer).json("{}"));
    assert!(!send("1").is_replay());
    assert!(!send("2").is_replay());
    assert!(send("1").is_replay());
    refused(&gateway.send(&Call::post("/orders").json("{}")), 400, "scope-missing");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn keys_come_from_query_json_form_and_several_parts() {
    let upstream = counting();
    let start = |key: &str| Gateway::start(&yaml(&upstream, &format!("key: {key}"), ""));
    let replays = |gateway: &Gateway, first: &Call, second: &Call| {
        assert!(!gateway.send(first).is_replay());
        gateway.send(second).is_replay()
    };
    let by_query = start("[ { query: requestId } ]");
    let call = |id: &str| Call::post(&format!("/orders?requestId={id}")).body("x");
    assert!(replays(&by_query, &call("1"), &call("1")));
    assert!(replays(&by_query, &call("2"), &call("2")));
    let by_form = start("[ { form: order_no } ]");
    let form =
        |body: &str| Call::post("/orders").header("Content-Type", "application/x-www-form-urlencoded").body(body);
    assert!(replays(&by_form, &form("order_no=7&a=1"), &form("a=2&order_no=7")));
    let by_parts = start("[ { all: [ { header: X-User }, { json: /sku } ] } ]");
    let parts =
        |user: &str, sku: &str| Call::post("/orders").header("X-User", user).json(&format!(r#"{{"sku":"{sku}"}}"#));
    assert!(replays(&by_parts, &parts("a", "bc"), &parts("a", "bc")));
    assert!(!by_parts.send(&parts("ab", "c")).is_replay());
    refused(&by_parts.send(&Call::post("/orders").json(r#"{"sku":"1"}"#)), 400, "key-missing");
    let first_present = start("[ { header: Idempotency-Key }, { json: /no } ]");
    let json = || Call::post("/orders").json(r#"{"no":7}"#);
    assert!(replays(&first_present, &json(), &json()));
    assert!(!first_present.send(&json().key("k")).is_replay());
}

#[test]
fn a_route_may_let_requests_without_a_key_pass() {
    let upstream = counting();
    let gateway = gateway(&upstream, "missing: pass");
    let bare = Call::post("/orders").body("x");
    assert_eq!((gateway.send(&bare).status, gateway.send(&bare).status), (201, 201));
    assert_eq!(upstream.requests().len(), 2);
    refused(&gateway.send(&bare.clone().key("")), 400, "key-invalid");
    assert!(!gateway.send(&bare.clone().key("k")).is_replay());
    assert!(gateway.send(&bare.key("k")).is_replay());
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="passed"}"#), 2.0);
}

#[test]
fn callers_are_told_apart_by_cookie_and_by_several_values() {
    let upstream = counting();
    let by_cookie = Gateway::start(&yaml(&upstream, "scope: { cookie: sid }", ""));
    let send = |cookie: &str| by_cookie.send(&Call::post("/orders").key("k").header("Cookie", cookie).body("x"));
    assert!(!send("theme=dark; sid=alice").is_replay());
    assert!(!send("sid=bob").is_replay());
    assert!(send("sid=alice; lang=en").is_replay());
    refused(&send("theme=dark"), 400, "scope-missing");
    let scope = "scope: { all: [ { header: X-Shop }, { header: X-Customer } ] }";
    let by_both = Gateway::start(&yaml(&upstream, scope, ""));
    let send = |shop: &str, customer: &str| {
        by_both.send(&Call::post("/orders").key("k").header("X-Shop", shop).header("X-Customer", customer).body("x"))
    };
    assert!(!send("1", "23").is_replay());
    assert!(!send("12", "3").is_replay());
    assert!(send("12", "3").is_replay());
    refused(&by_both.send(&Call::post("/orders").key("k").header("X-Shop", "1").body("x")), 400, "scope-missing");
    assert_eq!(upstream.requests().len(), 4);
}
