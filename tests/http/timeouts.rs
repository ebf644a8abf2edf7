//! Every limit of time: what its passing says to the client, does to the connection, and counts as.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call, PATIENCE, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{DeadPort, Gate, Reply, ScriptedUpstream};
use crate::yaml;

const REQUEST: &[u8] = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n";
/// Between two bytes of a client that is slow but never silent.
const DRIBBLE: Duration = Duration::from_millis(30);

fn series(kind: &str) -> String {
    format!(r#"oncegate_timeouts_total{{kind="{kind}"}}"#)
}

fn counted(gateway: &Gateway, kind: &str) -> f64 {
    gateway.metric(&series(kind))
}

/// A gateway with these `limits`, and these further settings of its upstream.
fn limited(upstream: &ScriptedUpstream, limits: &str, more: &str) -> Gateway {
    let text = yaml(upstream, "", &format!("limits: {{ {limits} }}"));
    Gateway::start(&with_upstream(&text, more))
}

/// With further settings of the upstream; they replace those of the same name.
fn with_upstream(text: &str, more: &str) -> String {
    let settings: Vec<&str> = more.split(", ").filter(|setting| !setting.is_empty()).collect();
    let name = |line: &str| line.split(':').next().map(|name| name.trim().to_owned());
    let replaced = |line: &str| settings.iter().any(|setting| name(setting) == name(line));
    let mut lines: Vec<String> = text.lines().filter(|line| !replaced(line)).map(str::to_owned).collect();
    let place = lines.iter().position(|line| line == "  orders:").unwrap() + 1;
    lines.splice(place..place, settings.iter().map(|setting| format!("    {setting}")));
    lines.join("\n")
}

fn open(gateway: &Gateway, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// The head of an upload of `length` bytes.
fn upload(target: &str, length: usize) -> Vec<u8> {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

/// Sends byte after byte until the gateway has had enough; its answer.
fn dribble(mut stream: TcpStream) -> Answer {
    stream.set_read_timeout(Some(DRIBBLE)).unwrap();
    let mut first = [0];
    let started = Clock::instant();
    loop {
        assert!(started.elapsed() < PATIENCE, "it is waited for without an end");
        match stream.peek(&mut first) {
            Ok(_) => break,
            Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}"),
        }
        stream.write_all(b"x").unwrap();
    }
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    read_answer(&mut stream).unwrap()
}

fn assert_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

fn ok() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"))
}

#[test]
fn a_head_has_its_time_from_its_first_byte() {
    let upstream = ok();
    let gateway = limited(&upstream, "header_timeout: 400ms", "");
    let mut fresh = open(&gateway, b"GET /pl");
    let answer = read_answer(&mut fresh).unwrap();
    assert_eq!((answer.status, answer.code().as_deref()), (408, Some("header-timeout")));
    assert_closed(&mut fresh);
    let mut second = open(&gateway, REQUEST);
    assert_eq!(read_answer(&mut second).unwrap().status, 200);
    second.write_all(b"GET /plain HTTP/1.1\r\nX-Endless: ").unwrap();
    assert_eq!(dribble(second).code().as_deref(), Some("header-timeout"), "bytes do not renew it");
    assert_eq!(counted(&gateway, "header"), 2.0);
    assert_eq!(counted(&gateway, "keep_alive"), 0.0);
}

#[test]
fn a_rest_may_be_longer_than_a_head_and_ends_without_a_word() {
    let upstream = ok();
    let gateway = limited(&upstream, "header_timeout: 100ms, keep_alive_timeout: 1s", "");
    let mut stream = open(&gateway, REQUEST);
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    stream.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let silence = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(REQUEST).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    assert_closed(&mut stream);
    assert_closed(&mut connect(gateway.address).unwrap());
    assert_eq!((counted(&gateway, "keep_alive"), counted(&gateway, "header")), (2.0, 0.0));
}

#[test]
fn an_old_connection_ends_after_its_present_request() {
    let upstream = ok();
    let gateway = limited(&upstream, "connection_age: 300ms", "");
    let mut stream = connect(gateway.address).unwrap();
    let mut answers = 0;
    loop {
        stream.write_all(REQUEST).unwrap();
        let answer = read_answer(&mut stream).unwrap();
        assert_eq!(answer.status, 200);
        answers += 1;
        if answer.header("connection") == Some("close") {
            break;
        }
        std::thread::sleep(DRIBBLE);
    }
    assert!(answers > 1);
    assert_closed(&mut stream);
    assert_eq!(counted(&gateway, "connection_age"), 1.0);
}

#[test]
fn a_silent_body_is_not_waited_for() {
    let upstream = ok();
    let gateway = limited(&upstream, "body_idle_timeout: 300ms", "");
    for (target, unknown) in [("/orders", None), ("/plain", Some("unknown"))] {
        let mut stream = open(&gateway, &[upload(target, 10).as_slice(), b"half"].concat());
        let answer = read_answer(&mut stream).unwrap();
        assert_eq!((answer.status, answer.code().as_deref()), (408, Some("body-timeout")), "{target}");
        assert_eq!(answer.header("oncegate-outcome"), unknown, "{target}");
        assert_closed(&mut stream);
    }
    assert_eq!(counted(&gateway, "body_idle"), 2.0);
    upstream.wait_for_closed(1);
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="rest",verdict="body_aborted"}"#), 1.0);
}

#[test]
fn a_dribbled_body_has_its_time_in_all() {
    let upstream = ok();
    let gateway = limited(&upstream, "body_timeout: 500ms, upload_timeout: 700ms", "");
    for target in ["/orders", "/plain"] {
        let answer = dribble(open(&gateway, &upload(target, 100_000)));
        assert_eq!((answer.status, answer.code().as_deref()), (408, Some("body-timeout")), "{target}");
    }
    assert_eq!((counted(&gateway, "body_total"), counted(&gateway, "body_idle")), (2.0, 0.0));
    assert_eq!(upstream.requests().len(), 0);
    upstream.wait_for_closed(1);
}

#[test]
fn a_slow_upload_takes_nothing_from_the_upstreams_time() {
    let upstream = ok();
    let gateway = limited(&upstream, "", "response_timeout: 500ms, first_byte_timeout: 400ms");
    let mut stream = open(&gateway, &upload("/plain", 30));
    for _ in 0..30 {
        std::thread::sleep(DRIBBLE);
        stream.write_all(b"x").unwrap();
    }
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    assert_eq!(upstream.requests()[0].body.len(), 30);
}

#[test]
fn an_answer_that_nobody_reads_is_let_go() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], vec![b'x'; 32 << 20]));
    let gateway = limited(&upstream, "send_timeout: 500ms", "");
    let mut stream = open(&gateway, REQUEST);
    gateway.wait_for_metric(&series("client_write"), 1.0);
    upstream.wait_for_closed(1);
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    assert!(read.len() < 32 << 20, "all of it was delivered");
}

#[test]
fn a_connection_that_cannot_be_made_in_time_counts() {
    let silent = DeadPort::silent();
    let upstream = ok();
    let text = with_upstream(&yaml(&upstream, "", ""), "connect_timeout: 200ms");
    let gateway = Gateway::start(&text.replace(&upstream.address().to_string(), &silent.address().to_string()));
    for call in [Call::post("/orders").key("k"), Call::new("GET", "/plain")] {
        assert_eq!(gateway.send(&call).code().as_deref(), Some("upstream-unreachable"));
    }
    assert_eq!(counted(&gateway, "upstream_connect"), 2.0);
}

#[test]
fn an_upstream_that_never_begins_to_answer_is_dropped() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let gateway = limited(&upstream, "", "first_byte_timeout: 300ms");
    let call = Call::post("/orders").key("k").body("x");
    for call in [&call, &Call::new("GET", "/plain")] {
        let answer = gateway.send(call);
        assert_eq!((answer.status, answer.code().as_deref()), (504, Some("upstream-timeout")));
        assert_eq!(answer.header("oncegate-outcome"), Some("unknown"));
    }
    assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
    assert_eq!(counted(&gateway, "first_byte"), 2.0);
    upstream.wait_for_closed(2);
}

#[test]
fn an_upstream_that_falls_silent_within_its_answer_broke() {
    let upstream = ScriptedUpstream::start(|_| Reply::sized(200, &[], 100, "half").then_hang());
    let gateway = limited(&upstream, "", "answer_idle_timeout: 300ms");
    let call = Call::post("/orders").key("k").body("x");
    assert_eq!(gateway.send(&call).code().as_deref(), Some("upstream-failed"));
    assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
    let cut = Call::new("GET", "/plain").try_send(gateway.address).unwrap_err();
    assert!(matches!(cut.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{cut}");
    assert_eq!(counted(&gateway, "upstream_idle"), 2.0);
    upstream.wait_for_closed(2);
}

#[test]
fn a_plain_exchange_can_have_a_limit_in_all() {
    let gate = Gate::new();
    let hold = gate.clone();
    let events = Reply::chunked_cut_short(200, &[("Content-Type", "text/event-stream")], &[b"data: 1\n\n"]);
    let upstream = ScriptedUpstream::start(move |request| match request.target().as_str() {
        "/events" => Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").then_hang(),
        "/orders" => events.clone().after(&hold),
        _ => Reply::silence(),
    });
    let gateway = limited(&upstream, "", "total_timeout: 400ms");
    let late = gateway.send(&Call::new("GET", "/plain"));
    assert_eq!((late.status, late.code().as_deref()), (504, Some("upstream-timeout")));
    assert!(Call::new("GET", "/events").try_send(gateway.address).is_err());
    assert_eq!(counted(&gateway, "total"), 2.0);
    // A guarded attempt has its own.
    std::thread::scope(|scope| {
        let guarded = scope.spawn(|| gateway.send(&Call::post("/orders").key("k")));
        upstream.wait_for_requests(3);
        upstream.wait_for_closed(2);
        gate.open();
        assert_eq!(guarded.join().unwrap().code().as_deref(), Some("upstream-failed"));
    });
    assert_eq!(counted(&gateway, "total"), 2.0);
}

#[test]
fn the_clients_deadline_and_the_attempts_count_apart() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let text = yaml(&upstream, "lease: 1s", "");
    let gateway = Gateway::start(&with_upstream(&text, "response_timeout: 300ms, attempt_timeout: 1200ms"));
    for call in [Call::post("/orders").key("k"), Call::new("GET", "/plain")] {
        assert_eq!(gateway.send(&call).code().as_deref(), Some("upstream-timeout"));
    }
    assert_eq!(counted(&gateway, "response"), 2.0);
    gateway.wait_for_metric(&series("attempt"), 1.0);
    wait_until("in doubt", || {
        gateway.send(&Call::post("/orders").key("k")).code().as_deref() == Some("outcome-unknown")
    });
}
