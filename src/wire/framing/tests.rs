//! Unit tests of the framing: each rule broken by itself, and good streams.

pub(crate) mod streams;

use http::Version;

use super::{Answers, Behind, Fault, Follow, Kind, Limits, Requests};

const SMALL: Limits = Limits { target: 40, head: 400, fields: 12, trailers: 100 };

/// Shows a stream in pieces, as a connection would: what is left over is shown again with the next piece.
fn shown(machine: &mut impl Follow, stream: &[u8], mut cuts: Vec<usize>) -> (usize, Result<(), Fault>) {
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut good = 0;
    for cut in cuts {
        let (more, done) = machine.follow(&stream[good..cut.max(good)]);
        good += more;
        if done.is_err() {
            return (good, done);
        }
    }
    (good, Ok(()))
}

fn request(stream: impl AsRef<[u8]>) -> (Requests, usize, Result<(), Fault>) {
    let mut machine = Requests::new(SMALL);
    let (good, done) = shown(&mut machine, stream.as_ref(), Vec::new());
    (machine, good, done)
}

fn kind_of(stream: impl AsRef<[u8]>) -> Option<Kind> {
    request(stream).2.err().map(|fault| fault.kind)
}

fn with(fields: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")
}

#[test]
fn good_requests_pass_whole() {
    let streams = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.0\r\n\r\n".to_owned(),
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nhost:\r\n\r\n".to_owned(),
        "GET http://a/b?c=d HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".to_owned(),
        "GET /{a}|[b]\\^\"?`{}|\\^ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        with("X:\t a\tb \u{e9} \t") + "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        with("Content-Length: 5") + "hello",
        with("content-length:\t00005 ") + "hello\r\nGET / HTTP/1.0\r\n\r\n",
        with("Content-Length: 0"),
        with("Transfer-Encoding: chunked") + "0\r\n\r\n",
        with("transfer-encoding: CHUNKED") + "5\r\nhello\r\n00A;x;y=\"z;\"; w\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
    ];
    for stream in streams {
        let (machine, good, done) = request(&stream);
        assert_eq!((good, done), (stream.len(), Ok(())), "{stream:?}");
        assert!(machine.whole() > 0 && machine.whole() == machine.heads(), "{stream:?}");
    }
}

#[test]
fn malformed_requests_are_refused_at_their_head() {
    let heads = [
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00",
        "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\t HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /<a> HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /` HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /?\" HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET :// HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    for head in heads {
        let (machine, good, done) = request(head);
        assert_eq!(done.map_err(|fault| fault.kind), Err(Kind::Malformed), "{head:?}");
        assert_eq!((good, machine.heads()), (0, 0), "{head:?}");
    }
}

#[test]
fn malformed_fields_are_refused() {
    let fields = [
        "X : a",
        " X: a",
        "\tX: a",
        "X: a\r\n b",
        "X: a\r\n\tb",
        "X Y: a",
        ": a",
        "X",
        "X\u{e9}: a",
        "X: a\0b",
        "X: a\rb",
        "X: a\x7fb",
        "X: a\x0bb",
        "X\0: a",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 18446744073709551616",
        "Content-Length: 9223372036854775808",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: gzip\r\nContent-Length: 5",
        "Transfer-Encoding:",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked, chunked",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked chunked",
    ];
    for field in fields {
        assert_eq!(kind_of(with(field)), Some(Kind::Malformed), "{field:?}");
    }
}

#[test]
fn what_is_not_known_here_is_told_from_what_is_malformed() {
    for coding in ["gzip, chunked", "gzip;x=y , chunked", "gzip\r\nTransfer-Encoding: chunked", "identity, chunked"] {
        assert_eq!(kind_of(with(&format!("Transfer-Encoding: {coding}"))), Some(Kind::UnknownCoding), "{coding}");
    }
    for version in ["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/3", "HTTP/11"] {
        assert_eq!(kind_of(format!("GET / {version}\r\nHost: a\r\n\r\n")), Some(Kind::UnknownVersion), "{version}");
    }
    assert_eq!(kind_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Kind::UnknownVersion));
}

#[test]
fn limits_hold_to_the_byte_and_before_the_end() {
    let target = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - 1));
    assert_eq!(kind_of(target(SMALL.target)), None);
    assert_eq!(kind_of(target(SMALL.target + 1)), Some(Kind::TargetTooLong));
    assert_eq!(kind_of(&target(60)[..=4 + SMALL.target]), Some(Kind::TargetTooLong));
    let head = |length: usize| with(&format!("X: {}", "x".repeat(length - with("X: ").len())));
    assert_eq!(kind_of(head(SMALL.head)), None);
    assert_eq!(kind_of(head(SMALL.head + 1)), Some(Kind::HeadTooLarge));
    assert_eq!(kind_of(&head(1000)[..SMALL.head]), Some(Kind::HeadTooLarge));
    let fields = |count: usize| with("X: y\r\n".repeat(count - 1).trim_end());
    assert_eq!(kind_of(fields(SMALL.fields)), None);
    assert_eq!(kind_of(fields(SMALL.fields + 1)), Some(Kind::HeadTooLarge));
    assert_eq!(kind_of("A".repeat(65)), Some(Kind::Malformed));
}

#[test]
fn malformed_chunks_are_refused_where_they_are() {
    let long = format!("1;{}\r\n", "x".repeat(9000));
    let trailers = format!("0\r\n{}\r\n", "X: y\r\n".repeat(20));
    let cases = [
        ("x\r\n", 0),
        ("\r\n", 0),
        ("-1\r\n", 0),
        ("+1\r\n", 0),
        (" 1\r\n", 0),
        ("0x1\r\n", 1),
        ("1 \r\n", 1),
        ("1 ;x\r\n", 1),
        ("1\n", 1),
        ("1\rx", 2),
        ("11111111111111111\r\n", 16),
        ("1;\r\n", 2),
        ("1;=x\r\n", 2),
        ("1;x\n", 3),
        ("1;x\rx", 4),
        ("1;x\0\r\n", 3),
        (long.as_str(), 2 + 8192),
        ("1\r\nab\r\n", 4),
        ("1\r\na\n", 4),
        ("1\r\na\r\r", 5),
        ("0\r\nX : y\r\n\r\n", 3),
        ("0\r\nX: y\r\n z\r\n\r\n", 3),
        ("0\r\nX: y\n\r\n", 3),
        ("0\r\nX: \0\r\n\r\n", 3),
        ("0\r\nContent-Length: 1\r\n\r\n", 3),
        ("0\r\ntransfer-encoding: chunked\r\n\r\n", 3),
        ("0\r\nHOST: b\r\n\r\n", 3),
        ("0\r\n\n", 3),
        ("0\r\n\rX", 3),
        (trailers.as_str(), 3),
    ];
    let head = with("Transfer-Encoding: chunked");
    for (body, good) in cases {
        let (machine, passed, done) = request(format!("{head}{body}"));
        assert_eq!(done.map_err(|fault| fault.kind), Err(Kind::Malformed), "{body:?}");
        assert_eq!((passed - head.len(), machine.heads(), machine.whole()), (good, 1, 0), "{body:?}");
    }
}

#[test]
fn a_head_says_where_its_parts_stand_and_what_comes_behind() {
    let read = |stream: &str| Requests::new(SMALL).head(stream.as_bytes()).unwrap().unwrap();
    // What only keeps a connection is no field of the message.
    let text = "\r\nPOST /a?b HTTP/1.1\r\nHost:  a\r\nConnection: keep-alive\r\nX:\r\nContent-Length: 5\r\n\r\nhello";
    let head = read(text);
    assert_eq!((&text[head.method.clone()], &text[head.target.clone()]), ("POST", "/a?b"));
    let fields: Vec<_> = head.spans.iter().map(|span| (&text[span.name.clone()], &text[span.value.clone()])).collect();
    assert_eq!(fields, [("Host", "a"), ("X", ""), ("Content-Length", "5")]);
    for (line, kept) in [("Close, keep-alive", 1), ("close, x", 2), ("", 2), ("upgrade", 2)] {
        assert_eq!(read(&with(&format!("Connection: {line}"))).spans.len(), kept, "{line:?}");
    }
    let many = with(&"Connection: close\r\n".repeat(SMALL.fields));
    assert_eq!(kind_of(many), Some(Kind::HeadTooLarge), "each of them counts");
    assert_eq!((head.length, head.body, head.version), (text.len() - 5, Behind::Length(5), Version::HTTP_11));
    assert_eq!(read(&with("Transfer-Encoding: chunked")).body, Behind::Chunks);
    for (version, fields, keep_alive, upgrade, expects) in [
        ("1.1", "X: y", true, false, false),
        ("1.1", "Connection: x, Close", false, false, false),
        ("1.0", "X: y", false, false, false),
        ("1.0", "Connection: Keep-Alive", true, false, false),
        ("1.0", "Connection: keep-alive\r\nConnection: close", false, false, false),
        ("1.1", "Connection: x, Upgrade\r\nUpgrade: y", true, true, false),
        ("1.1", "Connection: x\r\nUpgrade: y", true, false, false),
        ("1.1", "Connection: upgrade", true, false, false),
        ("1.0", "Connection: keep-alive, upgrade\r\nUpgrade: y", true, false, false),
        ("1.1", "eXPECT: 100-Continue", true, false, true),
        ("1.1", "Expect: 100-continue, x", true, false, false),
        ("1.0", "Expect: 100-continue", false, false, false),
    ] {
        let head = read(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n\r\n"));
        assert_eq!((head.keep_alive, head.upgrade, head.expects), (keep_alive, upgrade, expects), "{version} {fields}");
    }
}

#[test]
fn a_body_is_told_from_what_frames_it() {
    let mut machine = Requests::new(SMALL);
    let stream = with("Transfer-Encoding: chunked") + "2;x\r\nab\r\n3\r\ncde\r\n0\r\nT: u\r\n\r\nGET";
    let mut rest = stream.as_bytes();
    rest = &rest[machine.head(rest).unwrap().unwrap().length..];
    let mut data = Vec::new();
    loop {
        let (part, done) = machine.body(rest);
        assert_eq!(done, Ok(()));
        data.extend_from_slice(&rest[part.read - part.data..part.read]);
        rest = &rest[part.read..];
        if part.last {
            break;
        }
    }
    assert_eq!((&data[..], rest), (&b"abcde"[..], &b"GET"[..]));
    assert!(!machine.is_in_body());
}

fn answer(stream: impl AsRef<[u8]>, head: bool) -> (bool, usize, Result<(), Fault>) {
    let mut machine = Answers::new(SMALL);
    machine.asked(head);
    let (good, done) = shown(&mut machine, stream.as_ref(), Vec::new());
    (machine.is_idle(), good, done)
}

#[test]
fn good_answers_pass_and_end_where_they_end() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", false, false),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, true),
        ("HTTP/1.0 200 \r\nContent-Length: 0\r\n\r\n", false, true),
        ("HTTP/1.1 999 \u{e9}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, true),
        ("HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n", false, true),
        ("HTTP/1.1 204 No\r\n\r\n", false, true),
        ("HTTP/1.1 200 OK\r\n\r\nto the end", false, false),
        ("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", false, true),
        ("HTTP/1.1 100 Continue\r\n\r\n", false, false),
        ("HTTP/1.1 101 Switching\r\n\r\n\0\0\0", false, false),
    ];
    for (stream, head, idle) in cases {
        assert_eq!(answer(stream, head), (idle, stream.len(), Ok(())), "{stream:?}");
    }
}

#[test]
fn malformed_answers_are_refused() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 0),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na", 0),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 0),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nX : a\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\nX: a\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\nX: \0\r\n\r\n", 0),
        ("HTTP/1.1  200 OK\r\n\r\n", 0),
        ("HTTP/1.1 20 OK\r\n\r\n", 0),
        ("HTTP/1.1 2000 OK\r\n\r\n", 0),
        ("HTTP/1.1 099 OK\r\n\r\n", 0),
        ("HTTP/1.1 +20 OK\r\n\r\n", 0),
        ("HTTP/2.0 200 OK\r\n\r\n", 0),
        ("http/1.1 200 OK\r\n\r\n", 0),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", 0),
        ("<html>\r\n", 0),
        ("HTTP/1.1 204 No\r\n\r\nmore", 19),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 39),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", 47),
    ];
    for (stream, good) in cases {
        let (_, passed, done) = answer(stream, false);
        assert_eq!((passed, done.map_err(|fault| fault.kind)), (good, Err(Kind::Malformed)), "{stream:?}");
    }
    let mut idle = Answers::new(SMALL);
    assert!(matches!(idle.follow(b"HTTP/1.1 408 Late\r\n"), (0, Err(_))));
}
