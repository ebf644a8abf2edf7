//! Requests that want to become something else: a WebSocket on a plain route passes, and what does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc;

use crate::client::{Answer, Call, PATIENCE, connect, exchange, read_answer};
use crate::gateway;
use crate::gateway::{Gateway, wait_until};
use crate::raw::{self, expect, fields, read_head};
use crate::upstream::{Recorded, Reply, ScriptedUpstream};

const WISH: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn wish(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{WISH}\r\n").into_bytes()
}

/// A server that switches, and then gives back what it gets until its client ends.
fn echo() -> SocketAddr {
    raw::serve(|mut stream| {
        read_head(&mut stream);
        stream.write_all(SWITCH.as_bytes()).unwrap();
        let mut piece = [0; 1024];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..read]).is_err() {
                break;
            }
        }
    })
}

/// A client whose wish was granted, when there is a slot for it.
fn upgraded(gateway: &Gateway) -> TcpStream {
    let mut granted = None;
    wait_until("a slot is free", || {
        let mut client = connect(gateway.address).unwrap();
        client.write_all(&wish("/socket")).unwrap();
        let head = read_head(&mut client);
        granted = head.starts_with("HTTP/1.1 101 ").then_some(client);
        granted.is_some() || !head.starts_with("HTTP/1.1 503 ")
    });
    granted.expect("a switch of protocols")
}

fn is_at_its_end(stream: &mut TcpStream) -> bool {
    !matches!(stream.read(&mut [0]), Ok(1..))
}

#[test]
fn a_websocket_passes_and_carries_bytes_both_ways() {
    let (tell, heads) = mpsc::channel();
    let (go, switch) = mpsc::channel::<()>();
    let switch = std::sync::Arc::new(std::sync::Mutex::new(switch));
    let address = raw::serve(move |mut stream| {
        tell.send(read_head(&mut stream)).unwrap();
        // The client's eager bytes stay behind until the answer is given.
        stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "bytes before the switch");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        switch.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        stream.write_all(&[SWITCH.as_bytes(), b"\x81\x02hi"].concat()).unwrap();
        expect(&mut stream, b"\x81\x85eager\x00\xff");
        stream.write_all(b"\x88\x00").unwrap();
    });
    let gateway = Gateway::start(&crate::yaml_to(address, "", ""));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&[wish("/socket?a=1").as_slice(), b"\x81\x85eager"].concat()).unwrap();
    let head = heads.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("GET /socket?a=1 HTTP/1.1\r\n"), "{head}");
    assert_eq!(
        (fields(&head, "Connection"), fields(&head, "Upgrade")),
        (vec!["Upgrade".into()], vec!["websocket".into()])
    );
    assert_eq!(fields(&head, "Sec-WebSocket-Key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
    assert_eq!(fields(&head, "Sec-WebSocket-Version"), ["13"]);
    go.send(()).unwrap();
    let head = read_head(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(
        (fields(&head, "Connection"), fields(&head, "Upgrade")),
        (vec!["Upgrade".into()], vec!["websocket".into()])
    );
    assert!(head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "as it was spelled: {head}");
    assert!(fields(&head, "Content-Length").is_empty() && fields(&head, "Transfer-Encoding").is_empty(), "{head}");
    expect(&mut client, b"\x81\x02hi");
    client.write_all(b"\x00\xff").unwrap();
    expect(&mut client, b"\x88\x00");
    assert!(is_at_its_end(&mut client), "the server has closed");
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="rest",verdict="passed"}"#), 1.0);
}

#[test]
fn another_answer_passes_as_an_answer() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(403, &[], "no"));
    let gateway = gateway(&upstream, "");
    let mut client = connect(gateway.address).unwrap();
    for _ in 0..2 {
        client.write_all(&wish("/socket")).unwrap();
        let answer = read_answer(&mut client).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
    }
    client.write_all(b"GET /things HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut client).unwrap().status, 403, "the connection goes on");
    assert_eq!(upstream.connections(), 1, "on both sides");
}

#[test]
fn a_websocket_holds_its_slot_until_a_side_ends() {
    let gateway = Gateway::start(&crate::yaml_to(echo(), "", "limits: { in_flight: 1 }"));
    for leaves in [true, false] {
        let mut client = upgraded(&gateway);
        client.write_all(b"ping").unwrap();
        expect(&mut client, b"ping");
        assert_eq!(gateway.send(&Call::new("GET", "/things")).code().as_deref(), Some("overloaded"));
        if leaves {
            drop(client);
        } else {
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(is_at_its_end(&mut client), "half an end is one");
        }
    }
    drop(upgraded(&gateway));
}

#[test]
fn a_silent_websocket_ends() {
    let gateway = Gateway::start(&crate::yaml_to(echo(), "", "limits: { websocket_idle_timeout: 1s }"));
    let mut client = upgraded(&gateway);
    let since = oncegate::clock::Clock::instant();
    for _ in 0..3 {
        client.write_all(b"x").unwrap();
        expect(&mut client, b"x");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(is_at_its_end(&mut client));
    assert!(since.elapsed() >= std::time::Duration::from_millis(1200), "counted from the last byte");
}

#[test]
fn a_stop_waits_for_a_websocket_until_its_time_is_up() {
    let mut gateway = Gateway::start(&crate::yaml_to(echo(), "", "drain_timeout: 2s"));
    let mut client = upgraded(&gateway);
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    client.write_all(b"still").unwrap();
    expect(&mut client, b"still");
    assert!(is_at_its_end(&mut client));
    assert!(gateway.wait().success());
}

#[test]
fn a_switch_that_nobody_asked_for_is_a_failure() {
    for switch in [SWITCH.to_owned(), SWITCH.replace("WebSocket\r\n", "h2c\r\n"), "HTTP/1.1 101 Odd\r\n\r\n".to_owned()]
    {
        let sent = switch.clone();
        let gateway = Gateway::start(&crate::yaml_to(
            raw::serve(move |mut stream| {
                read_head(&mut stream);
                stream.write_all(sent.as_bytes()).unwrap();
                let _ = stream.read(&mut [0]);
            }),
            "",
            "",
        ));
        let plain = gateway.send(&Call::new("GET", "/things"));
        assert_eq!((plain.status, plain.code().as_deref()), (502, Some("upstream-failed")), "{switch}");
        let guarded = gateway.send(&Call::post("/orders").key("k").body("x"));
        assert_eq!((guarded.status, guarded.code().as_deref()), (502, Some("upstream-failed")), "{switch}");
        if switch != SWITCH {
            let asked = exchange(gateway.address, &wish("/socket")).unwrap();
            assert_eq!((asked.status, asked.code().as_deref()), (502, Some("upstream-failed")), "{switch}");
        }
    }
}

/// The answer to a request that wants an upgrade by these fields.
fn ask(gateway: &Gateway, line: &str, fields: &str, body: &str) -> Answer {
    let request = format!("{line} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {}\r\n{fields}\r\n{body}", fields.len());
    exchange(gateway.address, request.as_bytes()).unwrap()
}

fn is_bad(answer: &Answer) -> bool {
    (answer.status, answer.code().as_deref()) == (400, Some("bad-request"))
}

fn saw_no_upgrade(request: &Recorded) -> bool {
    ["Connection", "Upgrade", "HTTP2-Settings"].iter().all(|name| request.header(name).is_none())
}

#[test]
fn guarded_requests_and_bodies_take_no_upgrade() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"));
    let text =
        crate::yaml(&upstream, "safe_methods: guard", "").replace("methods: [POST], path: /orders", "path: /orders");
    let gateway = Gateway::start(&text);
    for upgrade in ["websocket", "foo/2", "h2c, foo", "TLS/1.0, HTTP/1.1"] {
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {upgrade}\r\n");
        assert!(is_bad(&ask(&gateway, "GET /orders", &upgrade, "")), "{upgrade}");
        assert!(is_bad(&ask(&gateway, "POST /orders", &format!("{upgrade}Content-Length: 0\r\n"), "")), "{upgrade}");
        for line in ["GET /socket", "POST /things", "POST /orders"] {
            let sized = format!("{upgrade}Content-Length: 1\r\n");
            assert!(is_bad(&ask(&gateway, line, &sized, "x")), "{line} {sized}");
            let chunked = format!("{upgrade}Transfer-Encoding: chunked\r\n");
            assert!(is_bad(&ask(&gateway, line, &chunked, "1\r\nx\r\n0\r\n\r\n")), "{line} {chunked}");
        }
    }
    assert!(is_bad(&ask(&gateway, "GET /orders", "Upgrade: websocket\r\n", "")), "nominated or not");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_shadow_refuses_no_websocket() {
    let text = crate::yaml_to(echo(), "mode: shadow\nsafe_methods: guard", "")
        .replace("methods: [POST], path: /orders", "path: /socket");
    let gateway = Gateway::start(&text);
    let mut client = upgraded(&gateway);
    client.write_all(b"ping").unwrap();
    expect(&mut client, b"ping");
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="shadowed"}"#), 1.0);
}

#[test]
fn other_upgrades_are_not_passed_on() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"));
    let text = crate::yaml(&upstream, "", "");
    let closed = text.replace("match: { path: \"/{*rest}\" }", "match: { path: \"/{*rest}\" }\n    websocket: false");
    let (open, closed) = (Gateway::start(&text), Gateway::start(&closed));
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    for (gateway, line, fields, body) in [
        (&open, "GET /things", "Connection: Upgrade\r\nUpgrade: foo\r\n", ""),
        (&open, "GET /things", "Upgrade: websocket\r\n", ""),
        (&open, "POST /things", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n", ""),
        (&open, "GET /things", h2c, ""),
        (&open, "GET /things", "HTTP2-Settings: AAMAAABk\r\n", ""),
        (&open, "POST /things", &format!("{h2c}Content-Length: 1\r\n"), "x"),
        (&open, "POST /orders", &format!("{h2c}Content-Length: 1\r\n"), "x"),
        (&closed, "GET /socket", WISH, ""),
    ] {
        assert_eq!(ask(gateway, line, fields, body).status, 200, "{line} {fields}");
        let seen = upstream.requests().pop().unwrap();
        assert!(saw_no_upgrade(&seen), "{}", seen.raw.escape_ascii());
        assert_eq!(seen.body, body.as_bytes());
    }
}

/// `curl --http2` asks for an upgrade to HTTP/2 with every first request, bodies included.
#[test]
fn curl_may_ask_for_http2() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "made"));
    let gateway = gateway(&upstream, "");
    let curl = |arguments: &[&str]| {
        let common = ["--silent", "--show-error", "--http2", "--max-time", "20", "--write-out", " %{http_code}"];
        let output = Command::new("curl").env_remove("http_proxy").args(common).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let url = |path: &str| format!("http://{}{path}", gateway.address);
    assert_eq!(curl(&[&url("/things")]), "made 201");
    assert_eq!(curl(&[&url("/things"), "--data", "x=1"]), "made 201");
    let order = ["--header", "Idempotency-Key: k-1", "--data", "x=1"];
    assert_eq!(curl(&[&[url("/orders").as_str()], &order[..]].concat()), "made 201");
    assert_eq!(curl(&[&[url("/orders").as_str()], &order[..]].concat()), "made 201");
    assert_eq!(upstream.requests().len(), 3, "the order ran once");
    assert!(upstream.requests().iter().all(saw_no_upgrade));
}
