//! What a request is addressed to, how far it goes, and that its target arrives as it was sent.

use crate::client::{Answer, exchange};
use crate::gateway;
use crate::gateway::Gateway;
use crate::upstream::{Reply, ScriptedUpstream};

fn anything() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"))
}

/// Sends a head of these lines on a connection of its own.
fn send(gateway: &Gateway, line: &str, fields: &str) -> Answer {
    let request = format!("{line} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    exchange(gateway.address, request.as_bytes()).unwrap_or_else(|error| panic!("{line} {fields}: {error}"))
}

fn is_refused(answer: &Answer) -> bool {
    // The parser's own refusals have no problem to show.
    answer.status == 400 && (answer.body.is_empty() || answer.code().as_deref() == Some("bad-request"))
}

#[test]
fn a_request_names_one_host() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    for fields in [
        "",
        "Host:\r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nHOST: b\r\n",
        "Host: a b\r\n",
        "Host: user@a\r\n",
        "Host: a/b\r\n",
        "Host: a:x\r\n",
        "Host: a:65536\r\n",
        "Host: http://a\r\n",
        "Host: [::1\r\n",
        "Host: [a]\r\n",
        "Host: a, b\r\n",
        "Host: a\u{e9}\r\n",
    ] {
        assert!(is_refused(&send(&gateway, "GET /things", fields)), "{fields}");
        assert!(is_refused(&send(&gateway, "POST /orders", &format!("Idempotency-Key: k\r\n{fields}"))), "{fields}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn an_absolute_target_goes_before_a_host_that_agrees() {
    let upstream = anything();
    let text = crate::yaml(&upstream, "", "").replace("path: /orders }", "path: /orders, hosts: [shop.test] }");
    let gateway = Gateway::start(&text);
    for (target, host, line, told) in [
        ("http://shop.test/a%2Fb?c=1", "shop.test", "GET /a%2Fb?c=1 HTTP/1.1", "shop.test"),
        ("HTTP://SHOP.test:80/x", "shop.test", "GET /x HTTP/1.1", "SHOP.test:80"),
        ("https://shop.test:443/x?", "shop.test", "GET /x? HTTP/1.1", "shop.test:443"),
    ] {
        let answer = send(&gateway, &format!("GET {target}"), &format!("Host: {host}\r\n"));
        assert_eq!(answer.status, 200, "{target}");
        let seen = upstream.requests().pop().unwrap();
        assert_eq!(String::from_utf8_lossy(&seen.line), line);
        assert_eq!(seen.text("Host"), told);
    }
    let guarded = send(&gateway, "POST http://shop.test/orders", "Host: shop.test:80\r\nContent-Length: 0\r\n");
    assert_eq!(guarded.code().as_deref(), Some("key-missing"), "the target's authority is what is routed by");
    let seen = upstream.requests().len();
    for (target, host) in [
        ("http://shop.test/x", "other.test"),
        ("http://other.test/orders", "shop.test"),
        ("http://shop.test:8080/x", "shop.test"),
        ("http://user@shop.test/x", "shop.test"),
        ("ftp://shop.test/x", "shop.test"),
        ("shop.test", "shop.test"),
        ("shop.test:80", "shop.test:80"),
    ] {
        assert!(is_refused(&send(&gateway, &format!("GET {target}"), &format!("Host: {host}\r\n"))), "{target}");
    }
    assert!(is_refused(&send(&gateway, "GET http://shop.test/x", "")), "HTTP/1.1 has a Host field");
    assert_eq!(upstream.requests().len(), seen);
}

#[test]
fn what_is_about_the_gateway_is_answered_here() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    let answer = send(&gateway, "OPTIONS *", "Host: a\r\n");
    assert_eq!((answer.status, answer.header("oncegate-source")), (204, Some("gateway")));
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    assert_eq!(answer.header("via"), None, "it was handed on by nobody");
    for method in ["GET", "POST", "DELETE"] {
        assert!(is_refused(&send(&gateway, &format!("{method} *"), "Host: a\r\n")), "{method}");
    }
    assert!(is_refused(&send(&gateway, "OPTIONS *", "")));
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="",verdict="answered"}"#), 1.0);
    for line in ["TRACE /things", "CONNECT /things", "CONNECT a:443", "CONNECT a"] {
        let answer = send(&gateway, line, "Host: a\r\nMax-Forwards: 3\r\n");
        assert_eq!((answer.status, answer.code().as_deref()), (501, Some("method-refused")), "{line}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn an_options_request_goes_as_far_as_it_may() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    let options = |hops: &str| send(&gateway, "OPTIONS /things", &format!("Host: a\r\nMax-Forwards: {hops}\r\n"));
    assert_eq!(options("0").status, 204);
    for hops in ["", "-1", "x", "1, 2", "1\r\nMax-Forwards: 2"] {
        assert!(is_refused(&options(hops)), "{hops}");
    }
    assert_eq!(upstream.requests().len(), 0);
    for (hops, left) in [("1", "0"), ("10", "9")] {
        assert_eq!(options(hops).status, 200);
        assert_eq!(upstream.requests().pop().unwrap().text("Max-Forwards"), left);
    }
    assert_eq!(send(&gateway, "OPTIONS /things", "Host: a\r\n").status, 200, "without end");
    assert_eq!(send(&gateway, "GET /things", "Host: a\r\nMax-Forwards: 0\r\n").status, 200, "not for GET");
    assert_eq!(upstream.requests().pop().unwrap().text("Max-Forwards"), "0");
}

#[test]
fn targets_arrive_byte_for_byte() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    let targets: [&[u8]; 11] = [
        b"/x?",
        b"//x//y//",
        b"/a%2Fb%2fc?d=%2F%2f",
        b"/%7e~%41",
        b"/x?a=1?b=2&&c&=&d=",
        b"/x?q=/../%2e%2e//",
        b"/a;p=1,2;q?s;t",
        b"/x/y:z@!$&'()*+,=-._~",
        b"/[a]{b}|c\"d^e?[g]{h}|i^j`k\\l",
        b"/x?{a:[1,'2']}",
        "/caf\u{e9}?q=\u{fc}".as_bytes(),
    ];
    for target in targets {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
        let answer = exchange(gateway.address, &request).unwrap();
        let shown = target.escape_ascii();
        assert_eq!(answer.status, 200, "{shown}");
        let line = upstream.requests().pop().unwrap().line;
        assert_eq!(line, [b"GET ", target, b" HTTP/1.1"].concat(), "{shown}");
    }
}

/// What a URI may not hold, and the parser does not take: no server gets to see it.
#[test]
fn targets_that_are_none_are_refused() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    let targets: [&[u8]; 13] = [
        b"/a b", b"/a\x7f", b"/a\x01", b"/a\\b", b"/<a>", b"/a`", b"/x?\"", b"/x?<y>", b"/a\xff", b"/x?\xfe", b"a/b",
        b"?a", b"/%",
    ];
    for target in targets {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
        assert!(is_refused(&exchange(gateway.address, &request).unwrap()), "{}", target.escape_ascii());
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_fragment_goes_nowhere() {
    let upstream = anything();
    let gateway = gateway(&upstream, "");
    for target in ["/things#part", "/things?a=1#part", "/things#part?b", "http://a/things#x", "/things#"] {
        let answer = send(&gateway, &format!("GET {target}"), "Host: a\r\n");
        assert!(is_refused(&answer), "{target}: {}", answer.status);
    }
    let guarded = send(&gateway, "POST /orders#part", "Host: a\r\nContent-Length: 0\r\n");
    assert!(is_refused(&guarded));
    assert_eq!(upstream.requests().len(), 0);
}
