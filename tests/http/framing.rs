//! Where a request ends: bytes that could be read in two ways are refused, and nothing of them reaches the upstream.

use std::io::Write;

use crate::client::{Answer, Call, connect, exchange, exchange_to_end, read_answer, read_answers};
use crate::gateway::Gateway;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const SMUGGLED: &str = "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: s\r\nContent-Length: 1\r\n\r\nx";

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

/// Sends bytes, and a request behind them that must never be taken for one. The one answer.
fn refused(gateway: &Gateway, bytes: &[u8]) -> Answer {
    let sent = [bytes, SMUGGLED.as_bytes()].concat();
    let mut answers = exchange_to_end(gateway.address, &sent)
        .unwrap_or_else(|error| panic!("{error} for {:?}", String::from_utf8_lossy(bytes)));
    assert_eq!(answers.len(), 1, "{:?}", String::from_utf8_lossy(bytes));
    let answer = answers.remove(0);
    assert_eq!(answer.header("connection"), Some("close"), "{:?}", String::from_utf8_lossy(bytes));
    answer
}

fn with(target: &str, fields: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n{fields}\r\n\r\n")
}

#[test]
fn every_ambiguous_head_is_refused_and_ends_its_connection() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let (bad, coding) = ((400, "bad-request"), (501, "coding-refused"));
    let fields = [
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", bad),
        ("Transfer-Encoding: chunked\r\nContent-Length: 1", bad),
        ("Transfer-Encoding: gzip", bad),
        ("Transfer-Encoding: identity", bad),
        ("Transfer-Encoding: chunked, chunked", bad),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", bad),
        ("Transfer-Encoding: chunked, gzip", bad),
        ("Transfer-Encoding: xchunked", bad),
        ("Transfer-Encoding: gzip, chunked", coding),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", coding),
        ("Content-Length: 1\r\nContent-Length: 1", bad),
        ("Content-Length: 1\r\nContent-Length: 2", bad),
        ("Content-Length: 1, 1", bad),
        ("Content-Length: +1", bad),
        ("Content-Length: -1", bad),
        ("Content-Length: 0x1", bad),
        ("Content-Length: 99999999999999999999", bad),
        ("Content-Length:", bad),
        ("X: a\r\n folded", bad),
        ("X: a\r\n\tfolded", bad),
        ("X : a", bad),
        (" X: a", bad),
        ("X: a\rb", bad),
        ("X: a\0b", bad),
        ("X: a\nY: b", bad),
        ("X: a\n\r\nGET /smuggled HTTP/1.1", bad),
        ("Host: b", bad),
    ];
    let of_fields = |(fields, told)| ["/orders", "/things"].map(|target| (with(target, fields), told));
    let heads = [
        ("POST /orders HTTP/1.1\r\nIdempotency-Key: k\r\n\r\n".to_owned(), bad),
        ("POST /orders HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), bad),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), bad),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), bad),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), bad),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), bad),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), bad),
        ("GET /\r\n\r\n".to_owned(), bad),
        ("\u{16}\u{3}\u{1}\u{2}".to_owned(), bad),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n".to_owned(), (505, "version-refused")),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(8192)), (414, "target-too-long")),
        (with("/orders", &format!("X: {}", "x".repeat(64 << 10))), (431, "headers-too-large")),
        (with("/orders", "X: y\r\n".repeat(99).trim_end()), (431, "headers-too-large")),
    ];
    let rows: Vec<_> = fields.into_iter().flat_map(of_fields).chain(heads).collect();
    for (bytes, (status, code)) in &rows {
        let answer = refused(&gateway, bytes.as_bytes());
        assert_eq!((answer.status, answer.code().as_deref()), (*status, Some(*code)), "{bytes:?}");
        assert!(answer.text().contains(r#""retry":"stop""#), "{}", answer.text());
    }
    assert_eq!((upstream.requests().len(), upstream.connections()), (0, 0));
    let counted = gateway.metric(r#"oncegate_requests_total{route="",verdict="bad_request"}"#);
    assert_eq!(counted, f64::from(u32::try_from(rows.len()).unwrap()));
}

#[test]
fn what_the_limits_allow_passes() {
    let upstream = created();
    let gateway = Gateway::start(&yaml(&upstream, "", "underscore_headers: pass"));
    let target = format!("/{}", "x".repeat(8191));
    let fields = "X-Own_Name: y\r\n".repeat(96) + "cONTENT-lENGTH: 0\r\nConnection: close";
    let head = with(&target, &fields);
    for pieces in [head.len(), 1000, 7] {
        let mut stream = connect(gateway.address).unwrap();
        for piece in head.as_bytes().chunks(pieces) {
            stream.write_all(piece).unwrap();
        }
        assert_eq!(read_answer(&mut stream).unwrap().status, 201);
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.target(), target);
        assert_eq!(request.headers.iter().filter(|line| *line == b"X-Own_Name: y").count(), 96);
    }
}

#[test]
fn a_refusal_comes_after_the_answers_before_it() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let good = "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: 1\r\nContent-Length: 1\r\n\r\nx";
    let bad = with("/orders", "Content-Length: 1\r\nTransfer-Encoding: chunked");
    let bytes = format!("{good}{good}{bad}{SMUGGLED}");
    for pieces in [bytes.len(), 1] {
        let mut stream = connect(gateway.address).unwrap();
        for piece in bytes.as_bytes().chunks(pieces) {
            // The connection may end before the last bytes are sent.
            let _ = stream.write_all(piece);
        }
        let answers = read_answers(&mut stream).unwrap();
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [201, 201, 400]);
        assert!(answers[1].is_replay());
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_malformed_chunk_is_refused_with_its_reason() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let chunks = [
        "5\r\nhello\r\nx\r\n",
        "5\r\nhello\r\n-1\r\n",
        "5\r\nhello\r\n0x1\r\nx\r\n0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5;x\n\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
    ];
    for chunks in chunks {
        for target in ["/orders", "/things"] {
            let answer = refused(&gateway, (with(target, "Transfer-Encoding: chunked") + chunks).as_bytes());
            assert_eq!((answer.status, answer.code().as_deref()), (400, Some("bad-request")), "{target} {chunks:?}");
        }
    }
    // The plain route streams: its upstream may have seen a beginning, and never an end.
    assert_eq!(upstream.requests().len(), 0);
    for fragment in upstream.fragments() {
        let text = String::from_utf8_lossy(&fragment).into_owned();
        assert!(text.starts_with("POST /things") && !text.contains("\r\n0\r\n\r\n"), "{text:?}");
    }
    let guarded = r#"oncegate_requests_total{route="create-order",verdict="bad_request"}"#;
    assert_eq!(gateway.metric(guarded), 13.0);
}

#[test]
fn good_chunks_arrive_whole_with_extensions_and_trailers() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let body = "5;a;b=c;d=\"e;\"\r\nhello\r\n0001\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n";
    let bytes = with("/orders", "Transfer-Encoding: Chunked\r\nConnection: close") + body;
    for pieces in [bytes.len(), 1] {
        let mut stream = connect(gateway.address).unwrap();
        for piece in bytes.as_bytes().chunks(pieces) {
            stream.write_all(piece).unwrap();
        }
        assert_eq!(read_answer(&mut stream).unwrap().status, 201);
    }
    assert_eq!(upstream.wait_for_requests(1)[0].body, b"hello!");
}

#[test]
fn an_answer_before_the_body_is_whole_ends_the_connection() {
    let upstream = created();
    let gateway = gateway(&upstream, "request_body_limit: 1KiB");
    let half = |fields: &str, sent: &str| format!("POST /orders HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{sent}");
    let cases = [
        (half("Content-Length: 100000", ""), "key-missing"),
        (half("Idempotency-Key: k\r\nContent-Length: 100000", ""), "body-too-large"),
        (half("Transfer-Encoding: chunked", "1\r\nx\r\n"), "key-missing"),
        // Whole, but nobody has read it.
        (half("Transfer-Encoding: chunked", "1\r\nx\r\n1\r\ny\r\n0\r\n\r\n"), "key-missing"),
    ];
    for (bytes, code) in cases {
        assert_eq!(refused(&gateway, bytes.as_bytes()).code().as_deref(), Some(code), "{bytes:?}");
    }
    // A small body that came whole is passed over, and the connection goes on.
    let bytes = half("Content-Length: 1", "x") + &SMUGGLED.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let answers = exchange_to_end(gateway.address, bytes.as_bytes()).unwrap();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [400, 201]);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_client_that_is_still_sending_can_read_its_refusal() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let heads = [
        (with("/orders", "Content-Length: 1\r\nTransfer-Encoding: chunked"), 400),
        (with("/orders", &format!("Content-Length: {}", 3 << 20)), 413),
    ];
    for (head, status) in heads {
        let answers = exchange_to_end(gateway.address, &[head.as_bytes(), &vec![b'x'; 3 << 20]].concat()).unwrap();
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [status]);
    }
}

#[test]
fn the_operators_door_refuses_too() {
    let upstream = created();
    let gateway = gateway(&upstream, "");
    let bytes = "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n";
    let answer = exchange(gateway.admin, bytes.as_bytes()).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
    assert_eq!(exchange(gateway.admin, b"GET /livez HTTP/9.9\r\nHost: a\r\n\r\n").unwrap().status, 505);
    assert_eq!(gateway.get_admin("/livez").status, 200);
}

#[test]
fn a_shadow_route_does_not_pass_malformed_bodies_on() {
    let upstream = created();
    let gateway = Gateway::start(&yaml(&upstream, "mode: shadow", ""));
    let answer = refused(&gateway, (with("/orders", "Transfer-Encoding: chunked") + "1\r\nx\r\nz").as_bytes());
    assert_eq!((answer.status, answer.code().as_deref()), (400, Some("bad-request")));
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body("x")).status, 201);
    assert_eq!((upstream.requests().len(), upstream.fragments().len()), (1, 0));
}
