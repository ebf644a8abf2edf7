//! Answers at random, good and damaged, cut anywhere: what is taken of them is what hyper's client takes, or nothing.

use std::net::Ipv4Addr;

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::NotSent;
use super::super::stream::Stream;
use super::*;

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";

/// What came of an answer: its status and reason, fields and body.
type Taken = (u16, Option<Vec<u8>>, Vec<(String, Vec<u8>)>, Vec<u8>);

fn taken<B>(head: &Response<B>, body: Bytes) -> Taken {
    let fields = head.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    let reason = head.extensions().get::<ReasonPhrase>().map(|reason| reason.as_bytes().to_vec());
    (head.status().as_u16(), reason, fields.collect(), body.into())
}

/// A server of one connection: it reads a request, sends these pieces, each after the other side had time to read the one
/// before, and closes.
async fn server(pieces: Vec<Vec<u8>>) -> TcpStream {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    server.set_nodelay(true).unwrap();
    tokio::spawn(async move {
        server.read_exact(&mut [0; REQUEST.len()]).await.unwrap();
        for piece in pieces {
            if server.write_all(&piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
    });
    client
}

fn order(method: &Method) -> Request<Outgoing> {
    let request = Request::builder().method(method).uri("/").header("host", "x").header("content-length", 3);
    request.body(Outgoing::Whole(Bytes::from_static(b"abc"))).unwrap()
}

async fn as_we_read(pieces: Vec<Vec<u8>>) -> Option<Taken> {
    let connection = Connection::new(Stream::Plain(server(pieces).await));
    let (head, body) = connection.send(&mut order(&Method::POST), &(), None).await.ok()?.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some(taken(&Response::from_parts(head, ()), body))
}

async fn as_hyper_reads(pieces: Vec<Vec<u8>>) -> Option<Taken> {
    let stream = TokioIo::new(server(pieces).await);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(driver);
    let request = order(&Method::POST).map(|_| Full::new(Bytes::from_static(b"abc")));
    let (head, body) = sender.send_request(request).await.ok()?.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some(taken(&Response::from_parts(head, ()), body))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A good answer of any framing, perhaps with interim ones before it.
fn good() -> impl Strategy<Value = Vec<u8>> {
    let data = || prop::collection::vec(any::<u8>(), 0..60);
    let field = ("X-[a-zA-Z0-9_]{1,8}", "[ \t]{0,2}", "[\t -~\u{80}-\u{ff}]{0,20}");
    let framing = prop_oneof![
        data().prop_map(|body| [&format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes()[..], &body].concat()),
        data().prop_map(|body| [b"\r\n", &body[..]].concat()),
        (data(), 1..20_usize, "(;[a-z]{1,3}(=[a-z]{1,3})?)?", any::<bool>()).prop_map(
            |(body, size, extension, trailer)| {
                let mut bytes = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
                for chunk in body.chunks(size) {
                    bytes.extend([format!("{:X}{extension}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
                }
                bytes.extend_from_slice(if trailer { b"0\r\nX-T: y\r\n\r\n" } else { b"0\r\n\r\n" });
                bytes
            }
        ),
    ];
    let status = prop_oneof![Just("200 OK"), Just("201"), Just("404 "), Just("599 Odd\u{e9}"), Just("304 Not")];
    let interim = prop::collection::vec(prop_oneof![Just("100 Continue\r\n"), Just("103 Hints\r\nLink: x\r\n")], 0..2);
    (interim, status, prop::collection::vec(field, 0..4), framing).prop_map(|(interim, status, fields, framing)| {
        let mut bytes = Vec::new();
        for interim in interim {
            bytes.extend_from_slice(format!("HTTP/1.1 {interim}\r\n").as_bytes());
        }
        bytes.extend_from_slice(format!("HTTP/1.1 {status}\r\n").as_bytes());
        for (name, space, value) in fields {
            bytes.extend_from_slice(format!("{name}:{space}{value}\r\n").as_bytes());
        }
        [bytes, framing].concat()
    })
}

/// A good answer, a few bytes of which are overwritten, taken out or put in.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\r\n\t :;,0a\0".to_vec())];
    let damage = (any::<prop::sample::Index>(), byte, 0..3_u8);
    (good(), prop::collection::vec(damage, 0..3)).prop_map(|(mut stream, damages)| {
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

fn cut(stream: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| stream[cut[0]..cut[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_taken_of_an_answer_is_what_hyper_takes(
        stream in damaged(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let pieces = cut(&stream, &cuts);
        let (ours, hypers) = block_on(async { (as_we_read(pieces).await, as_hyper_reads(vec![stream.clone()]).await) });
        if ours.is_some() {
            prop_assert_eq!(ours, hypers, "{:?}", String::from_utf8_lossy(&stream));
        }
    }

    #[test]
    fn a_good_answer_is_taken_however_it_is_cut(
        stream in good(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        let ours = block_on(as_we_read(cut(&stream, &cuts)));
        prop_assert!(ours.is_some(), "{:?}", String::from_utf8_lossy(&stream));
        prop_assert_eq!(ours, block_on(as_hyper_reads(vec![stream])));
    }
}

#[tokio::test]
async fn what_comes_before_the_request_answers_nothing_and_proves_that_nothing_was_sent() {
    for unasked in [&b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"[..], b""] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(unasked).await.unwrap();
        server.shutdown().await.unwrap();
        client.readable().await.unwrap();
        let mut request = order(&Method::POST);
        let tried = Connection::new(Stream::Plain(client)).send(&mut request, &(), None).await;
        assert!(matches!(tried, Err(Tried::Returned(NotSent { .. }))), "{tried:?}");
        assert!(matches!(request.body(), Outgoing::Whole(body) if body == "abc"), "it is as it was");
        assert_eq!(server.read(&mut [0; 9]).await.unwrap_or(0), 0, "something was sent");
    }
}

#[tokio::test]
async fn answers_to_head_have_no_body_whatever_they_say() {
    let stream = server(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec()]).await;
    let mut request = order(&Method::HEAD);
    let answer = Connection::new(Stream::Plain(stream)).send(&mut request, &(), None).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "5");
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "");
}
