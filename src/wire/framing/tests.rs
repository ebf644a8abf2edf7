//! Unit tests of the framing: each rule broken by itself, good streams, and both cut in any way; and against hyper.

use proptest::prelude::*;

use super::{Answers, Fault, Follow, Kind, Limits, Requests};

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
fn behind_an_upgrade_nothing_is_read_until_it_is_decided() {
    let ask = "GET /s HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (raw, then) in [(true, "\x00\x01 anything"), (false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")] {
        let stream = format!("{ask}{then}");
        let (mut machine, good, done) = request(&stream);
        assert_eq!((good, done, machine.waits()), (ask.len(), Ok(()), true));
        machine.decided(raw);
        assert_eq!((machine.follow(then.as_bytes()), machine.waits()), ((then.len(), Ok(())), false));
        assert_eq!((machine.is_raw(), machine.heads()), (raw, if raw { 1 } else { 2 }));
    }
    let plain = ask.replace("keep-alive, Upgrade", "keep-alive") + "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(request(&plain).0.heads(), 2);
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

/// A good request of any framing.
fn good_request() -> impl Strategy<Value = Vec<u8>> {
    let line = ("[A-Z]{1,9}", "/[a-z0-9%./;,=]{0,20}(\\?[a-z&=]{0,9})?", prop::bool::weighted(0.9));
    let field = ("X-[a-zA-Z0-9_!#$]{1,8}", "[ \t]{0,2}", "[\t -~\u{80}-\u{ff}]{0,20}");
    let framing = prop_oneof![
        Just(None),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|body| Some((body, None))),
        (prop::collection::vec(any::<u8>(), 0..40), 1..9_usize, "(;[a-z]{1,3}(=[a-z]{1,3})?)?", prop::bool::ANY)
            .prop_map(|(body, size, extension, trailer)| Some((body, Some((size, extension, trailer))))),
    ];
    (line, prop::collection::vec(field, 0..4), framing).prop_map(|((method, target, newer), fields, framing)| {
        let version = if newer || matches!(framing, Some((_, Some(_)))) { "1.1" } else { "1.0" };
        let mut bytes = format!("{method} {target} HTTP/{version}\r\nhOST: a\r\n").into_bytes();
        for (name, space, value) in fields {
            bytes.extend_from_slice(format!("{name}:{space}{value}\r\n").as_bytes());
        }
        match framing {
            None => bytes.extend_from_slice(b"\r\n"),
            Some((body, None)) => {
                bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                bytes.extend_from_slice(&body);
            }
            Some((body, Some((size, extension, trailer)))) => {
                bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(size) {
                    bytes.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(if trailer { b"0\r\nX: y\r\n\r\n" } else { b"0\r\n\r\n" });
            }
        }
        bytes
    })
}

/// Good requests one behind the other, and a few bytes of them overwritten, taken out or put in.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\r\n\t :;,0a\0".to_vec())];
    let damage = (any::<prop::sample::Index>(), byte, 0..3_u8);
    let requests = prop::collection::vec(good_request(), 1..3);
    (requests, prop::collection::vec(damage, 0..3)).prop_map(|(requests, damages)| {
        let mut stream = requests.concat();
        for (at, byte, how) in damages {
            let at = at.index(stream.len());
            match how {
                0 => stream[at] = byte,
                1 => drop(stream.remove(at)),
                _ => stream.insert(at, byte),
            }
        }
        stream
    })
}

/// How many requests hyper sees in a stream, with their bodies' lengths; none when it finds anything wrong with it.
fn as_hyper_reads(stream: &[u8]) -> Option<Vec<usize>> {
    use http_body_util::{BodyExt, Empty};
    use tokio::io::AsyncWriteExt;

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        client.write_all(stream).await.unwrap();
        client.shutdown().await.unwrap();
        let seen = std::sync::Mutex::new(Some(Vec::new()));
        let service = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async {
            let length = request.into_body().collect().await.ok().map(|body| body.to_bytes().len());
            let mut seen = seen.lock().unwrap();
            *seen = seen.take().zip(length).map(|(seen, length)| [seen, vec![length]].concat());
            // So that one request of HTTP/1.0 does not end the stream.
            let answer =
                http::Response::builder().header("Connection", "keep-alive").body(Empty::<bytes::Bytes>::new());
            Ok::<_, std::convert::Infallible>(answer.unwrap())
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        let done = http.half_close(true).serve_connection(hyper_util::rt::TokioIo::new(server), service).await;
        done.ok().and_then(|()| seen.into_inner().unwrap())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_streams_pass(requests in prop::collection::vec(good_request(), 1..4)) {
        let (machine, good, done) = {
            let mut machine = Requests::new(Limits::REQUEST);
            let (good, done) = shown(&mut machine, &requests.concat(), Vec::new());
            (machine, good, done)
        };
        prop_assert_eq!((good, done), (requests.concat().len(), Ok(())));
        prop_assert_eq!(machine.whole(), requests.len() as u64);
    }

    #[test]
    fn the_verdict_does_not_depend_on_how_a_stream_is_cut(
        stream in damaged(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        let cuts = cuts.into_iter().map(|cut| cut.index(stream.len())).collect();
        let (mut whole, mut cut) = (Requests::new(SMALL), Requests::new(SMALL));
        let mut bytewise = Requests::new(SMALL);
        let verdict = shown(&mut whole, &stream, Vec::new());
        prop_assert_eq!(&shown(&mut cut, &stream, cuts), &verdict);
        prop_assert_eq!(&shown(&mut bytewise, &stream, (0..stream.len()).collect()), &verdict);
        prop_assert_eq!((whole.heads(), whole.whole()), (bytewise.heads(), bytewise.whole()));
    }

    #[test]
    fn answers_are_judged_the_same_however_they_are_cut(stream in damaged()) {
        let line = stream.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let stream = [b"HTTP/1.1 200 OK\r\n", &stream[line..]].concat();
        let (mut whole, mut bytewise) = (Answers::new(SMALL), Answers::new(SMALL));
        whole.asked(false);
        bytewise.asked(false);
        let verdict = shown(&mut whole, &stream, Vec::new());
        prop_assert_eq!(&shown(&mut bytewise, &stream, (0..stream.len()).collect()), &verdict);
    }

    #[test]
    fn hyper_reads_what_is_good_in_the_same_way(stream in damaged()) {
        let mut machine = Requests::new(Limits::REQUEST);
        let (good, done) = shown(&mut machine, &stream, Vec::new());
        prop_assume!(done.is_ok() && good == stream.len() && machine.whole() == machine.heads());
        // hyper reads on behind HTTP/1.0 only when the request says so.
        prop_assume!(machine.whole() == 1 || !stream.windows(8).any(|eight| eight == b"HTTP/1.0"));
        let seen = as_hyper_reads(&stream);
        prop_assert_eq!(seen.map(|seen| seen.len() as u64), Some(machine.whole()));
    }
}
