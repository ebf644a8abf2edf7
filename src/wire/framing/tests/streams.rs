//! Streams at random: good and damaged, cut in any way; and against hyper.

use proptest::prelude::*;

use super::*;

/// A good request of any framing.
pub(crate) fn good_request() -> impl Strategy<Value = Vec<u8>> {
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
pub(crate) fn damaged() -> impl Strategy<Value = Vec<u8>> {
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
