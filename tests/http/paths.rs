//! Routing on the normal form, forwarding byte for byte.

use crate::client::{Call, exchange};
use crate::gateway;
use crate::upstream::{Reply, ScriptedUpstream};

#[test]
fn other_spellings_of_a_guarded_path_are_guarded_and_forwarded_as_they_came() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "");
    let spellings = ["//orders", "/./orders", "/x/../orders", "/%6Frders", "/orders/", "/orders?a=%2f", "/%2e/orders"];
    for (index, target) in spellings.iter().enumerate() {
        let bare = gateway.send(&Call::post(target).body("x"));
        assert_eq!(bare.code().as_deref(), Some("key-missing"), "{target} walks round the guard");
        assert_eq!(gateway.send(&Call::post(target).key(&format!("k-{index}")).body("x")).status, 201);
        let line = upstream.wait_for_requests(index + 1)[index].line.clone();
        assert_eq!(line, format!("POST {target} HTTP/1.1").into_bytes());
    }
}

#[test]
fn an_escape_that_most_servers_decode_does_not_lead_round_a_guard() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = crate::yaml(&upstream, "", "").replace("path: /orders", "path: '/orders:create'");
    let gateway = crate::Gateway::start(&text);
    for target in ["/orders:create", "/orders%3Acreate", "/orders%3acreate"] {
        let bare = gateway.send(&Call::post(target).body("x"));
        assert_eq!(bare.code().as_deref(), Some("key-missing"), "{target} walks round the guard");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn other_spellings_of_a_host_do_not_lead_round_a_guard() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = crate::yaml(&upstream, "", "").replace("path: /orders }", "path: /orders, hosts: [Shop.example] }");
    let gateway = crate::Gateway::start(&text);
    for host in ["shop.example", "SHOP.example:80", "shop.example.", "shop.example.:80"] {
        let request =
            format!("POST /orders HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let bare = exchange(gateway.address, request.as_bytes()).unwrap();
        assert_eq!(bare.code().as_deref(), Some("key-missing"), "{host} walks round the guard");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn paths_that_two_parsers_could_read_differently_are_refused() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "");
    for target in ["/x/..%2forders", "/x%2f..%2forders", "/..%5corders", "/orders%00", "/%zz"] {
        let answer = gateway.send(&Call::post(target).key("k").body("x"));
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some("bad-request")), "{target}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn an_escaped_slash_does_not_lead_round_a_guard() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "");
    for target in ["/orders%2F", "/%2forders", "/orders%5c"] {
        let bare = gateway.send(&Call::post(target).body("x"));
        assert_eq!(bare.code().as_deref(), Some("key-missing"), "{target} walks round the guard");
    }
    assert_eq!(gateway.send(&Call::new("GET", "/things/a%2Fb")).status, 201);
    assert_eq!(upstream.requests()[0].line, b"GET /things/a%2Fb HTTP/1.1");
}

#[test]
fn another_spelling_of_method_or_host_does_not_lead_round_a_guard() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = crate::yaml(&upstream, "", "").replace("path: /orders", "path: /orders, hosts: [shop.test]");
    let gateway = crate::Gateway::start(&text);
    let send = |method: &str, host: &str| {
        let head =
            format!("{method} /orders HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let answer = exchange(gateway.address, head.as_bytes()).unwrap();
        (answer.status, answer.code().unwrap_or_default())
    };
    for host in ["shop.test", "SHOP.test.", "shop.test.:80", "shop.test:"] {
        assert_eq!(send("POST", host), (400, "key-missing".to_owned()), "{host} walks round the guard");
    }
    for host in ["user@shop.test", "shop.test/x", "shop%2Etest", "shop.test:8x"] {
        assert_eq!(send("POST", host), (400, "bad-request".to_owned()), "{host}");
    }
    for method in ["post", "Post"] {
        assert_eq!(send(method, "shop.test"), (501, "method-refused".to_owned()), "{method}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn plain_routes_pass_everything_through() {
    let upstream = ScriptedUpstream::start(|request| match request.method().as_str() {
        "HEAD" => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        _ => Reply::chunked(200, &[("X-Own", "1")], &[b"stre", b"am"]),
    });
    let gateway = gateway(&upstream, "");
    let answer = gateway.send(&Call::new("GET", "/things/%7e?q=1").header("Idempotency-Key", "ignored"));
    assert_eq!((answer.status, answer.text().as_str(), answer.header("x-own")), (200, "stream", Some("1")));
    let request = upstream.wait_for_requests(1).remove(0);
    assert_eq!(request.line, b"GET /things/%7e?q=1 HTTP/1.1");
    assert_eq!(request.header("Oncegate-Operation"), None);
    gateway.send(&Call::new("GET", "/things").header("Idempotency-Key", "ignored"));
    assert_eq!(upstream.requests().len(), 2);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="rest",verdict="passed"}"#), 2.0);
}

#[test]
fn what_is_no_request_for_any_route_is_refused() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = crate::yaml(&upstream, "", "").replace("path: \"/{*rest}\"", "path: /things");
    let gateway = crate::Gateway::start(&text);
    let answer = gateway.send(&Call::new("GET", "/elsewhere"));
    assert_eq!((answer.status, answer.code().as_deref()), (404, Some("no-route")));
    let bad = |bytes: &[u8]| exchange(gateway.address, bytes).unwrap();
    let no_host = bad(b"POST /orders HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((no_host.status, no_host.code().as_deref()), (400, Some("bad-request")));
    let two = bad(b"POST /orders HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(two.status, 400);
    let trace = bad(b"TRACE /things HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((trace.status, trace.code().as_deref()), (501, Some("method-refused")));
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="",verdict="no_route"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="",verdict="bad_request"}"#), 3.0);
}

/// `/orders;x=1` names `/orders` to many servers, and `..;` the folder above to some.
#[test]
fn parameters_in_a_path_do_not_lead_round_a_guard() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "");
    let spellings = ["/orders;x=1", "/orders;", "/;a=b/orders", "/x/..;/orders", "/orders%3Bx", "/x;y/../orders;z?q=;"];
    for (index, target) in spellings.iter().enumerate() {
        let bare = gateway.send(&Call::post(target).body("x"));
        assert_eq!(bare.code().as_deref(), Some("key-missing"), "{target} walks round the guard");
        assert_eq!(gateway.send(&Call::post(target).key(&format!("k-{index}")).body("x")).status, 201);
        let line = upstream.wait_for_requests(index + 1)[index].line.clone();
        assert_eq!(line, format!("POST {target} HTTP/1.1").into_bytes());
    }
    let unsafe_without = gateway.send(&Call::post("/x%2f..;a/orders").key("k").body("x"));
    assert_eq!(unsafe_without.code().as_deref(), Some("bad-request"));
    let text = crate::yaml(&upstream, "", "").replace("path: /orders", "path: /orders, path_parameters: keep");
    let keeping = crate::Gateway::start(&text);
    assert_eq!(keeping.send(&Call::post("/orders;x=1").body("x")).status, 201);
    assert_eq!(keeping.send(&Call::post("/orders").body("x")).code().as_deref(), Some("key-missing"));
}

#[test]
fn a_changed_spelling_is_no_retry() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = crate::yaml(&upstream, "", "").replace("path: /orders", "path: /orders, case: insensitive");
    let gateway = crate::Gateway::start(&text);
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body("x")).status, 201);
    for target in ["/ORDERS", "/orders;x=1"] {
        assert_eq!(gateway.send(&Call::post(target).body("x")).code().as_deref(), Some("key-missing"), "{target}");
        let changed = gateway.send(&Call::post(target).key("k").body("x"));
        assert_eq!(changed.code().as_deref(), Some("key-reused"), "{target}");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn case_counts_unless_the_route_says_otherwise() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let sensitive = gateway(&upstream, "");
    assert_eq!(sensitive.send(&Call::post("/Orders").body("x")).status, 201);
    assert_eq!(upstream.wait_for_requests(1)[0].target(), "/Orders");
}

#[test]
fn another_method_than_the_requests_own_cannot_be_asked_for_on_a_guarded_path() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "");
    for name in ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X_HTTP_Method_Override"] {
        for (method, target) in [("GET", "/orders"), ("POST", "/orders"), ("GET", "/orders;x"), ("PUT", "/./orders/")] {
            let call = Call::new(method, target).key("k").header(name, "POST").body("x");
            assert_eq!(gateway.send(&call).code().as_deref(), Some("bad-request"), "{method} {target} {name}");
        }
        let elsewhere = Call::new("GET", "/things").header(name, "POST");
        assert_eq!(gateway.send(&elsewhere).status, 201, "{name}");
    }
    let query = Call::new("PUT", "/orders?a=1&%5Fmethod=POST").body("x");
    assert_eq!(gateway.send(&query).code().as_deref(), Some("bad-request"));
    let seen = upstream.requests();
    assert!(seen.iter().all(|request| request.target() == "/things"), "{seen:?}");
    assert_eq!(seen[0].text("X-HTTP-Method-Override"), "POST");
    let text = crate::yaml(&upstream, "", "").replace("path: /orders", "path: /orders, method_override: ignore");
    let ignoring = crate::Gateway::start(&text);
    let call = Call::new("GET", "/orders?_method=POST").header("X-HTTP-Method-Override", "POST");
    assert_eq!(ignoring.send(&call).status, 201);
}
