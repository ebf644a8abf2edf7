//! Bodies on their way: how they are framed for each client, when they are read, and that nothing waits for their end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use socket2::SockRef;

use crate::client::{Call, connect, read_answer};
use crate::gateway;
use crate::gateway::Gateway;
use crate::raw::{self, expect, fields, read_head, talk};
use crate::upstream::{DeadPort, Gate, Reply, ScriptedUpstream};

fn request(method: &str, target: &str, version: &str, more: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/{version}\r\nHost: a\r\n{more}\r\n").into_bytes()
}

/// What came after the head.
fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

// Framing.

#[test]
fn answers_without_a_body_have_none() {
    let upstream = ScriptedUpstream::start(|request| match request.target().rsplit('/').next().unwrap() {
        "none" => Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        "same" => Reply::raw("HTTP/1.1 304 Not Modified\r\nETag: \"7\"\r\nContent-Length: 5\r\n\r\n"),
        "chunks" => Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        _ => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Own: 1\r\n\r\n"),
    });
    let text = crate::yaml(&upstream, "outcomes: { default: strict }\nsafe_methods: guard", "")
        .replace("methods: [POST], path: /orders", "methods: [HEAD, GET], path: \"/guarded/{*rest}\"");
    let text = text.replace("path: \"/{*rest}\"", "path: \"/plain/{*rest}\"");
    let gateway = Gateway::start(&text);
    for (method, path, status, length) in [
        ("HEAD", "any", "200", Some("5")),
        ("HEAD", "chunks", "200", None),
        ("GET", "none", "204", None),
        ("GET", "same", "304", None),
    ] {
        for (prefix, times) in [("plain", 1), ("guarded", 2)] {
            for round in 0..times {
                let fields_sent = format!("Connection: close\r\nIdempotency-Key: {method}-{path}\r\n");
                let answer = talk(gateway.address, &request(method, &format!("/{prefix}/{path}"), "1.1", &fields_sent));
                let shown = format!("{method} /{prefix}/{path}, round {round}: {answer}");
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}");
                assert_eq!(body_of(&answer), "", "{shown}");
                assert_eq!(fields(&answer, "Content-Length").first().map(String::as_str), length, "{shown}");
                assert!(fields(&answer, "Transfer-Encoding").is_empty(), "{shown}");
                assert_eq!(fields(&answer, "Idempotent-Replayed").len(), round, "{shown}");
            }
        }
    }
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let upstream = ScriptedUpstream::start(|request| match request.target().as_str() {
        "/sized" => Reply::whole(200, &[], "abcd"),
        _ => Reply::chunked(200, &[], &[b"ab", b"cd"]),
    });
    let gateway = gateway(&upstream, "response_body_limit: 1B");
    for (method, target) in [("GET", "/chunks"), ("POST", "/orders")] {
        let sent = "Idempotency-Key: k\r\nContent-Length: 0\r\nConnection: keep-alive\r\n";
        let answer = talk(gateway.address, &request(method, target, "1.0", sent));
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
        assert_eq!(body_of(&answer), "abcd", "{answer}");
        assert!(fields(&answer, "Transfer-Encoding").is_empty(), "{answer}");
        assert!(!fields(&answer, "Connection").contains(&"keep-alive".to_owned()), "it ends here: {answer}");
    }
    let mut kept = connect(gateway.address).unwrap();
    for _ in 0..2 {
        kept.write_all(&request("GET", "/sized", "1.0", "Connection: keep-alive\r\n")).unwrap();
        let head = read_head(&mut kept);
        assert_eq!(fields(&head, "Connection"), ["keep-alive"], "{head}");
        assert_eq!(fields(&head, "Content-Length"), ["4"], "{head}");
        expect(&mut kept, b"abcd");
    }
    let closed = talk(gateway.address, &request("GET", "/sized", "1.0", ""));
    assert!(closed.ends_with("\r\n\r\nabcd"), "{closed}");
}

/// Its body ends with its connection: a clean end would make half an answer a whole one.
#[test]
fn an_answer_that_breaks_off_ends_in_a_reset_where_its_end_is_the_connections() {
    let whole = Gate::new();
    let hold = whole.clone();
    let upstream = ScriptedUpstream::start(move |request| match request.target().as_str() {
        "/broken" => Reply::chunked_cut_short(200, &[], &[b"half"]).then_wait(&hold).then_close(),
        _ => Reply::chunked(200, &[], &[b"whole"]),
    });
    let gateway = gateway(&upstream, "");
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("GET", "/broken", "1.0", "")).unwrap();
    assert!(fields(&read_head(&mut client), "Content-Length").is_empty());
    expect(&mut client, b"half");
    whole.open();
    let end = client.read(&mut [0; 8]);
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(talk(gateway.address, &request("GET", "/whole", "1.0", "")).ends_with("\r\n\r\nwhole"));
}

#[test]
fn an_http_1_0_server_does_not_make_its_clients_old() {
    let upstream = ScriptedUpstream::start(|_| Reply::raw("HTTP/1.0 200 OK\r\n\r\nuntil the end").then_close());
    let gateway = gateway(&upstream, "");
    for (method, target) in [("GET", "/old"), ("POST", "/orders")] {
        let sent = "Connection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n";
        let answer = talk(gateway.address, &request(method, target, "1.1", sent));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("until the end"), "{answer}");
    }
}

#[test]
fn trailers_end_here_and_join_no_head() {
    let upstream = ScriptedUpstream::start(|_| {
        Reply::raw("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")
            .then_send("2\r\nok\r\n0\r\nX-Sum: 1\r\nX-Own: forged\r\n\r\n")
    });
    let gateway = gateway(&upstream, "");
    for (target, connection) in [("/things", "close"), ("/orders", "close"), ("/things", "close, TE")] {
        let sent = format!("Connection: {connection}\r\nTE: trailers\r\nTrailer: X-Sum\r\nIdempotency-Key: k\r\n");
        let mut bytes = request("POST", target, "1.1", &format!("{sent}Transfer-Encoding: chunked\r\n"));
        bytes.extend_from_slice(b"3\r\nabc\r\n0\r\nX-Sum: 2\r\nIdempotency-Key: forged\r\n\r\n");
        let answer = talk(gateway.address, &bytes);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("ok"), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("x-sum"), "{answer}");
        assert!(!answer.contains("forged"), "{answer}");
        let seen = upstream.requests().pop().unwrap();
        assert_eq!(seen.body, b"abc");
        let raw = String::from_utf8_lossy(&seen.raw).to_ascii_lowercase();
        assert!(!raw.contains("x-sum") && !raw.contains("forged"), "{raw}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

// Expect: 100-continue.

const EXPECT: &str = "Expect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n";

#[test]
fn a_client_is_told_to_go_on_when_its_body_will_be_read() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "made"));
    let gateway = gateway(&upstream, "");
    for (target, expected) in [("/orders", "100-continue"), ("/things", "100-Continue")] {
        let mut client = connect(gateway.address).unwrap();
        let sent = EXPECT.replace("100-continue", expected);
        client.write_all(&request("POST", target, "1.1", &format!("Idempotency-Key: k\r\n{sent}"))).unwrap();
        expect(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(b"body").unwrap();
        assert_eq!(read_answer(&mut client).unwrap().status, 201);
        let seen = upstream.requests().pop().unwrap();
        assert_eq!((seen.body.as_slice(), seen.header("Expect")), (&b"body"[..], None));
    }
    let mut old = connect(gateway.address).unwrap();
    old.write_all(&request("POST", "/things", "1.0", EXPECT)).unwrap();
    old.write_all(b"body").unwrap();
    expect(&mut old, b"HTTP/1.0 201 ");
}

/// The refusal comes at once, though not a byte of the body was sent; and nobody says "go on".
#[test]
fn a_refused_client_is_told_so_at_once() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "made"));
    let text =
        crate::yaml(&upstream, "request_body_limit: 3B", "").replace("path: \"/{*rest}\"", "path: \"/x/{*rest}\"");
    let dead = DeadPort::refusing();
    let unreachable = Gateway::start(&crate::yaml_to(dead.address(), "", ""));
    let gateway = Gateway::start(&text);
    for (to, target, more, status) in [
        (&gateway, "/orders", "", 400),
        (&gateway, "/orders", "Idempotency-Key: \r\n", 400),
        (&gateway, "/orders", "Idempotency-Key: k\r\n", 413),
        (&gateway, "/nowhere", "", 404),
        (&gateway, "/x/%00", "", 400),
        (&unreachable, "/things", "", 502),
    ] {
        let mut client = connect(to.address).unwrap();
        client.write_all(&request("POST", target, "1.1", &format!("{more}{EXPECT}"))).unwrap();
        let head = read_head(&mut client);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {more}{head}");
        // The body that never came is not waited for.
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(b"{"), "{}", rest.escape_ascii());
    }
    assert_eq!(upstream.requests().len(), 0);
}

/// A client that does not say whether it will close may go on with another request, or with the body after all.
#[test]
fn a_body_that_was_refused_is_not_taken_for_a_request() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "made"));
    let gateway = gateway(&upstream, "");
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let sent = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", smuggled.len());
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("POST", "/orders", "1.1", &sent)).unwrap();
    assert_eq!(read_answer(&mut client).unwrap().code().as_deref(), Some("key-missing"));
    let _ = client.write_all(smuggled.as_bytes());
    let mut rest = Vec::new();
    let ended = client.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn other_expectations_fail() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "made"));
    let gateway = gateway(&upstream, "");
    for expected in ["200-ok", "100-continue, x", "100-continue\r\nExpect: x", "100"] {
        for target in ["/orders", "/things"] {
            let answer = gateway.send(&Call::post(target).key("k").header("Expect", expected).body("x"));
            assert_eq!((answer.status, answer.code().as_deref()), (417, Some("expectation-failed")), "{expected}");
        }
    }
    assert_eq!(upstream.requests().len(), 0);
}

// Answers before the end of the request.

/// Answers as soon as the head is there, and closes: what is still coming meets a reset.
fn hasty(answer: &'static str) -> std::net::SocketAddr {
    raw::serve(move |mut stream| {
        read_head(&mut stream);
        // Something of the upload is there, and stays unread.
        let _ = stream.peek(&mut [0]);
        let _ = stream.write_all(answer.as_bytes());
    })
}

const TOO_LARGE: &str = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig";

#[test]
fn an_early_answer_reaches_a_client_that_is_still_sending() {
    let gateway = Gateway::start(&crate::yaml_to(hasty(TOO_LARGE), "", ""));
    for framing in ["Content-Length: 100000000", "Transfer-Encoding: chunked"] {
        for _ in 0..20 {
            let mut client = connect(gateway.address).unwrap();
            client.write_all(&request("POST", "/things", "1.1", &format!("{framing}\r\n"))).unwrap();
            let reader = client.try_clone().unwrap();
            let sending = std::thread::spawn(move || upload(client, framing.starts_with("Transfer")));
            let answer = read_answer(&mut { reader }).unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (413, "big"), "{framing}");
            sending.join().unwrap();
        }
    }
    // The answer that came may have come by luck; the failures that did not may not.
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="rest",verdict="upstream_failed"}"#), 0.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="rest",verdict="passed"}"#), 40.0);
}

/// Sends until the other side has had enough.
fn upload(mut client: TcpStream, chunked: bool) {
    let piece = vec![b'x'; 0x4000];
    let piece = if chunked { [b"4000\r\n", piece.as_slice(), b"\r\n"].concat() } else { piece };
    while client.write_all(&piece).is_ok() {}
}

/// Both are larger than what the sockets hold.
#[test]
fn an_upload_goes_on_while_nobody_reads_its_early_answer() {
    const LENGTH: usize = 64 << 20;
    let (told, read) = std::sync::mpsc::channel();
    let address = raw::serve(move |mut stream| {
        read_head(&mut stream);
        let told = told.clone();
        let upload = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let read = std::io::copy(&mut upload.take(LENGTH as u64), &mut std::io::sink());
            told.send(read.unwrap()).unwrap();
        });
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").as_bytes());
        let _ = stream.write_all(&vec![b'y'; LENGTH]);
    });
    let gateway = Gateway::start(&crate::yaml_to(address, "", "limits: { send_timeout: 1m }"));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("POST", "/things", "1.1", &format!("Content-Length: {LENGTH}\r\n"))).unwrap();
    client.write_all(&vec![b'x'; LENGTH]).unwrap();
    assert_eq!(read.recv().unwrap(), LENGTH as u64);
    assert_eq!(read_answer(&mut client).unwrap().body.len(), LENGTH);
}

#[test]
fn an_early_answer_to_a_guarded_request_is_its_answer() {
    let gateway = Gateway::start(&crate::yaml_to(hasty(TOO_LARGE), "request_body_limit: 64MiB", ""));
    let body = vec![b'x'; 16 << 20];
    for round in 0..5 {
        let answer = gateway.send(&Call::post("/orders").key(&format!("k-{round}")).body(&body));
        assert_eq!((answer.status, answer.text().as_str()), (413, "big"));
    }
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="released",route="create-order"}"#), 5.0);
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="doubted",route="create-order"}"#), 0.0);
}

/// Without an answer it is a broken exchange, as before.
#[test]
fn a_reset_in_the_middle_of_an_upload_is_no_answer() {
    let address = raw::serve(|mut stream| {
        read_head(&mut stream);
        let _ = SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO));
    });
    let gateway = Gateway::start(&crate::yaml_to(address, "request_body_limit: 64MiB", ""));
    let answer = gateway.send(&Call::post("/orders").key("k").body(vec![b'x'; 16 << 20]));
    assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-failed")));
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="doubted",route="create-order"}"#, 1.0);
}

// Interim answers.

#[test]
fn hints_pass_before_the_answer_and_are_not_recorded() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| {
        let hints =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nOncegate-Source: forged\r\n\r\n";
        Reply::raw(hints).then_wait(&hold).then_send("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade")
    });
    let gateway = gateway(&upstream, "");
    let sent = "Idempotency-Key: k\r\nContent-Length: 0\r\nConnection: close\r\n";
    for target in ["/things", "/orders"] {
        let mut client = connect(gateway.address).unwrap();
        client.write_all(&request("POST", target, "1.1", sent)).unwrap();
        expect(&mut client, b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
        gate.open();
        assert_eq!(read_answer(&mut client).unwrap().text(), "made", "{target}");
    }
    let again = talk(gateway.address, &request("POST", "/orders", "1.1", sent));
    assert!(again.starts_with("HTTP/1.1 201 ") && !again.contains("103"), "{again}");
    let old = talk(gateway.address, &request("POST", "/things", "1.0", sent));
    assert!(old.starts_with("HTTP/1.0 201 "), "{old}");
}

/// An attempt outlives its client's patience; its hints must not end up before the next request's answer.
#[test]
fn late_hints_go_to_nobody() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        if request.method() == "POST" {
            return Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </late>\r\n\r\n")
                .after(&hold)
                .then_send("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade");
        }
        hold.open();
        Reply::whole(200, &[], "plain").after(&Gate::new())
    });
    let text = crate::yaml(&upstream, "", "").replace("response_timeout: 10s", "response_timeout: 300ms");
    let gateway = Gateway::start(&text);
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("POST", "/orders", "1.1", "Idempotency-Key: k\r\nContent-Length: 0\r\n")).unwrap();
    assert_eq!(read_answer(&mut client).unwrap().status, 504);
    client.write_all(&request("GET", "/things", "1.1", "Connection: close\r\n")).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 504 "), "{}", rest.escape_ascii());
}

// Streams.

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let doors = gates.clone();
    let upstream = ScriptedUpstream::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut reply = Reply::raw(head);
        for (number, gate) in doors.iter().enumerate() {
            reply = reply.then_wait(gate).then_send(format!("9\r\ndata: {number}\n\n\r\n"));
        }
        reply.then_hang()
    });
    let gateway = gateway(&upstream, "");
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("GET", "/events", "1.1", "")).unwrap();
    let head = read_head(&mut client);
    assert_eq!(fields(&head, "Content-Type"), ["text/event-stream"]);
    for (number, gate) in gates.iter().enumerate() {
        gate.open();
        expect(&mut client, format!("9\r\ndata: {number}\n\n\r\n").as_bytes());
    }
    drop(client);
    upstream.wait_for_closed(1);
}

#[test]
fn an_upload_is_passed_on_as_it_comes() {
    let (tell, told) = std::sync::mpsc::channel();
    let address = raw::serve(move |mut stream| {
        read_head(&mut stream);
        for piece in ["one", "two"] {
            expect(&mut stream, format!("3\r\n{piece}\r\n").as_bytes());
            tell.send(piece).unwrap();
        }
        expect(&mut stream, b"0\r\n\r\n");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let gateway = Gateway::start(&crate::yaml_to(address, "", ""));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("POST", "/things", "1.1", "Transfer-Encoding: chunked\r\n")).unwrap();
    for piece in ["one", "two"] {
        client.write_all(format!("3\r\n{piece}\r\n").as_bytes()).unwrap();
        assert_eq!(told.recv_timeout(crate::client::PATIENCE).unwrap(), piece);
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut client).unwrap().status, 200);
}

#[test]
fn a_download_ends_at_the_upstream_when_its_client_leaves() {
    let upstream = ScriptedUpstream::start(|_| Reply::sized(200, &[], 1 << 30, vec![b'x'; 32 << 20]).then_hang());
    let gateway = gateway(&upstream, "");
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&request("GET", "/large", "1.1", "")).unwrap();
    read_head(&mut client);
    expect(&mut client, &vec![b'x'; 1 << 20]);
    drop(client);
    upstream.wait_for_closed(1);
}
