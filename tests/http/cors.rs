//! What browsers' pages on other origins can read, and where their preflights go.

use crate::client::{Answer, Call};
use crate::gateway::Gateway;
use crate::upstream::{Recorded, Reply, ScriptedUpstream};
use crate::yaml;

const PAGE: &str = "https://shop.example";
const OTHER: &str = "https://other.example";

/// An upstream that lets every page in by its name, and answers preflights.
fn upstream() -> ScriptedUpstream {
    ScriptedUpstream::start(|request: &Recorded| {
        let origin = request.text("origin");
        let own = ("X-Own", "1");
        let fields =
            [("Access-Control-Allow-Origin", origin.as_str()), ("Access-Control-Expose-Headers", "X-Own"), own];
        let status = if request.method() == "OPTIONS" { 200 } else { 201 };
        Reply::whole(status, if origin.is_empty() { &fields[2..] } else { &fields }, "ok")
    })
}

/// A gateway whose guarded route says this of pages.
fn gateway(upstream: &ScriptedUpstream, cors: &str) -> Gateway {
    let text =
        yaml(upstream, "in_flight: reject", "").replacen("    idempotency:", &format!("{cors}    idempotency:"), 1);
    Gateway::start(&text)
}

fn listed(upstream: &ScriptedUpstream) -> Gateway {
    gateway(upstream, &format!("    cors: {{ origins: [ \"{PAGE}\" ] }}\n"))
}

/// All values of a field, joined as browsers join them.
fn joined(answer: &Answer, name: &str) -> String {
    let values = answer.headers.iter().filter(|(own, _)| own == name);
    values.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>().join(", ")
}

fn exposes(answer: &Answer, name: &str) -> bool {
    joined(answer, "access-control-expose-headers").split(", ").any(|exposed| exposed.eq_ignore_ascii_case(name))
}

fn order(origin: Option<&str>, body: &str) -> Call {
    let call = Call::post("/orders").key("k").body(body);
    origin.map_or(call.clone(), |origin| call.header("Origin", origin))
}

#[test]
fn a_page_can_read_the_gateways_own_answers() {
    let upstream = upstream();
    let gateway = listed(&upstream);
    let bare = |origin| gateway.send(&Call::post("/orders").header("Origin", origin).body("x"));
    let refusal = bare(PAGE);
    assert_eq!(refusal.code().as_deref(), Some("key-missing"));
    assert_eq!(refusal.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(refusal.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(refusal.header("vary"), Some("Origin"));
    assert!(exposes(&refusal, "oncegate-source"));
    for origin in [OTHER, "null", "https://shop.example:444", "https://SHOP.example"] {
        let refusal = bare(origin);
        assert_eq!((refusal.header("access-control-allow-origin"), refusal.header("vary")), (None, Some("Origin")));
    }
    assert_eq!(gateway.send(&order(Some(PAGE), "x")).status, 201);
    let reused = gateway.send(&order(Some(PAGE), "y"));
    assert_eq!(reused.code().as_deref(), Some("key-reused"));
    assert!(exposes(&reused, "oncegate-operation") && reused.header("access-control-allow-origin") == Some(PAGE));
}

#[test]
fn any_origin_reads_them_without_credentials() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "    cors: { origins: [ \"*\" ] }\n");
    let refusal = gateway.send(&Call::post("/orders").header("Origin", OTHER).body("x"));
    assert_eq!(refusal.header("access-control-allow-origin"), Some("*"));
    assert_eq!((refusal.header("access-control-allow-credentials"), refusal.header("vary")), (None, None));
}

#[test]
fn a_page_can_read_the_marks_of_first_answers_and_replays() {
    let upstream = upstream();
    let gateway = listed(&upstream);
    let first = gateway.send(&order(Some(PAGE), "x"));
    let again = gateway.send(&order(Some(PAGE), "x"));
    assert!(again.is_replay());
    for answer in [&first, &again] {
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
        assert!(exposes(answer, "X-Own") && exposes(answer, "idempotency-expires"), "{:?}", answer.headers);
    }
    assert!(exposes(&again, "idempotent-replayed") && exposes(&again, "x-idempotent-retry"));
    assert_eq!(again.header("vary"), Some("Origin"));
    assert!(again.headers.iter().all(|(name, _)| !name.starts_with("oncegate-")), "{:?}", again.headers);
}

#[test]
fn what_was_said_to_one_origin_is_replayed_to_no_other() {
    let upstream = upstream();
    for (first, second, shown) in [
        (Some(PAGE), Some(PAGE), true),
        (Some(PAGE), Some(OTHER), false),
        (Some(PAGE), None, false),
        (None, Some(PAGE), false),
        (Some("null"), Some("null"), true),
    ] {
        for cors in ["", "    cors: { origins: [ \"*\" ] }\n"] {
            let gateway = gateway(&upstream, cors);
            assert_eq!(gateway.send(&order(first, "x")).status, 201);
            let again = gateway.send(&order(second, "x"));
            assert!(again.is_replay());
            let allowed = again.header("access-control-allow-origin");
            assert_eq!(allowed, first.filter(|_| shown), "{first:?} {second:?} {cors}");
            assert_eq!(exposes(&again, "X-Own"), shown);
            assert_eq!(again.header("x-own"), Some("1"));
        }
    }
}

fn preflight(path: &str, method: &str) -> Call {
    Call::new("OPTIONS", path).header("Origin", PAGE).header("Access-Control-Request-Method", method)
}

#[test]
fn a_preflight_passes_to_the_upstream_of_the_route_that_it_asks_about() {
    let (orders, rest) = (upstream(), upstream());
    let text = yaml(&orders, "", "").replacen(
        "routes:",
        &format!("  rest:\n    servers: [ \"http://{}\" ]\nroutes:", rest.address()),
        1,
    );
    let at = text.rfind("upstream: orders").unwrap();
    let text = format!("{}upstream: rest{}", &text[..at], &text[at + "upstream: orders".len()..]);
    let gateway = Gateway::start(&text);
    let answer = gateway.send(&preflight("/orders", "POST"));
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(PAGE)));
    assert_eq!(orders.wait_for_requests(1)[0].line, b"OPTIONS /orders HTTP/1.1");
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="passed"}"#), 1.0);
    assert_eq!(gateway.send(&preflight("/orders", "GET")).status, 200);
    assert_eq!(gateway.send(&Call::new("OPTIONS", "/orders")).status, 200);
    assert_eq!((orders.requests().len(), rest.requests().len()), (1, 2), "what is no preflight goes by its own method");
}

#[test]
fn without_an_options_route_only_preflights_for_a_route_pass() {
    let upstream = upstream();
    let text = yaml(&upstream, "", "").replace("path: \"/{*rest}\"", "methods: [GET], path: /things");
    let gateway = Gateway::start(&text);
    assert_eq!(gateway.send(&preflight("/orders", "POST")).status, 200);
    assert_eq!(gateway.send(&preflight("/things", "GET")).status, 200);
    for call in [
        preflight("/orders", "DELETE"),
        preflight("/orders", "CONNECT"),
        preflight("/elsewhere", "POST"),
        Call::new("OPTIONS", "/orders"),
        Call::new("OPTIONS", "/orders").header("Origin", PAGE),
    ] {
        assert_eq!(gateway.send(&call).code().as_deref(), Some("no-route"), "{call:?}");
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_guard_of_all_methods_lets_preflights_pass_unless_options_is_listed() {
    let upstream = upstream();
    let all = yaml(&upstream, "", "").replace("methods: [POST], path: /orders", "path: /orders");
    assert_eq!(Gateway::start(&all).send(&preflight("/orders", "POST")).status, 200);
    let listed = yaml(&upstream, "safe_methods: guard", "").replace("methods: [POST]", "methods: [POST, OPTIONS]");
    let refusal = Gateway::start(&listed).send(&preflight("/orders", "POST"));
    assert_eq!(refusal.code().as_deref(), Some("key-missing"));
}

#[test]
fn a_listed_page_may_send_the_key_though_the_upstream_does_not_know_it() {
    let upstream = upstream();
    let gateway = listed(&upstream);
    let answer = gateway.send(&preflight("/orders", "POST"));
    assert_eq!(joined(&answer, "access-control-allow-headers"), "idempotency-key");
    let other = Call::new("OPTIONS", "/orders").header("Origin", OTHER).header("Access-Control-Request-Method", "POST");
    assert_eq!(joined(&gateway.send(&other), "access-control-allow-headers"), "");
}

#[test]
fn without_cors_pages_are_told_nothing() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "");
    let refusal = gateway.send(&Call::post("/orders").header("Origin", PAGE).body("x"));
    assert!(refusal.headers.iter().all(|(name, _)| !name.starts_with("access-control") && name != "vary"));
    let first = gateway.send(&order(Some(PAGE), "x"));
    assert_eq!(joined(&first, "access-control-expose-headers"), "X-Own");
}
