//! Unit tests of the loop: interim answers, upgrades, bodies, the client's end; and streams at random, against hyper.

mod bodies;
mod streams;

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::server::pace::Cut;
use crate::server::{BoxError, Connections, Doorway, Limits};
use crate::telemetry::Metrics;
use crate::wire::framing::Fault;
use crate::wire::{AnswerBody, Client, Closing, Inbound, OnUpgrade};

const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

impl Cut for DuplexStream {
    fn cut(&self, _: bool) {}
}

fn doorway() -> Doorway {
    let long = Duration::from_mins(1);
    let limits = Limits {
        connections: 1,
        target: 8 << 10,
        header_bytes: 64 << 10,
        headers: 100,
        header_timeout: long,
        keep_alive_timeout: long,
        body_idle_timeout: long,
        send_timeout: long,
        connection_age: long,
    };
    Doorway {
        front: Arc::default(),
        connections: Connections::default(),
        limits,
        turned_away: Bytes::new(),
        too_slow: Bytes::new(),
        preserve_header_case: true,
        metrics: Arc::new(Metrics::new().unwrap()),
        linger: Duration::ZERO,
        closing: Closing::default(),
    }
}

/// The client's end of a connection whose pipe holds `size` bytes.
fn serve<H, F, B>(size: usize, handle: H) -> DuplexStream
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (near, far) = duplex(size);
    let client = Client::new(Ipv4Addr::LOCALHOST.into(), false);
    tokio::spawn(async move { super::serve(far, client, &doorway(), handle).await });
    near
}

fn hint(client: &Client) {
    client.exchange.interim(client.exchange.present().0, Bytes::from_static(HINTS));
}

fn answer(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(body.into()))
}

async fn read(from: &mut DuplexStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn rest(from: &mut DuplexStream) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).await.unwrap();
    text
}

/// Something that a handler waits for, and that notices when the handler is dropped.
fn gate() -> (UnboundedSender<()>, Arc<tokio::sync::Mutex<UnboundedReceiver<()>>>) {
    let (open, gate) = unbounded_channel();
    (open, Arc::new(tokio::sync::Mutex::new(gate)))
}

#[tokio::test]
async fn an_interim_answer_is_sent_at_once() {
    let (open, gate) = gate();
    let mut near = serve(1024, move |_, client| {
        let gate = Arc::clone(&gate);
        async move {
            hint(&client);
            gate.lock().await.recv().await;
            hint(&client);
            answer("done")
        }
    });
    near.write_all(LAST).await.unwrap();
    assert_eq!(read(&mut near, HINTS.len()).await.as_bytes(), HINTS);
    open.send(()).unwrap();
    assert_eq!(read(&mut near, HINTS.len()).await.as_bytes(), HINTS, "with the answer right behind it");
    let rest = rest(&mut near).await;
    assert!(rest.starts_with("HTTP/1.1 200 OK\r\n") && rest.ends_with("\r\n\r\ndone"), "{rest:?}");
}

/// Through pipes of all sizes, so that writes are cut anywhere; the first answer is long and read late.
#[tokio::test]
async fn an_interim_answer_never_comes_amid_another() {
    for size in [1, 7, 64, 4096] {
        let mut near = serve(size, |request, client| async move {
            // With a body, 100 is on its way by the time that the body is there.
            if request.method() == Method::GET {
                hint(&client);
            }
            let body = request.into_body().collect().await.unwrap().to_bytes();
            hint(&client);
            tokio::task::yield_now().await;
            answer([vec![b'x'; 3000].as_slice(), &body].concat())
        });
        let (mut from, mut to) = tokio::io::split(&mut near);
        let expecting = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab";
        let sent = [GET, expecting, LAST].concat();
        let mut text = String::new();
        let reading = async { from.read_to_string(&mut text).await.unwrap() };
        let (written, _) = tokio::join!(to.write_all(&sent), reading);
        written.unwrap();
        let kinds = messages(&text);
        let answers: Vec<_> = kinds.iter().filter(|kind| **kind > 199).collect();
        assert_eq!(answers, [&3000, &3002, &3000], "{size}: {text:?}");
        assert!(kinds.iter().filter(|kind| **kind == 103).count() >= 3, "{size}: {kinds:?}");
    }
}

/// The messages of a stream, read one after the other: the status of interim answers, the length of others.
fn messages(mut stream: &str) -> Vec<usize> {
    let mut found = Vec::new();
    while !stream.is_empty() {
        let (head, rest) = stream.split_once("\r\n\r\n").unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3)).unwrap().parse().unwrap();
        let length = match status {
            100 | 103 => 0,
            _ => head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap().parse().unwrap(),
        };
        assert!(head.matches("HTTP").count() == 1 && rest[..length].bytes().all(|byte| b"xab".contains(&byte)));
        found.push(if status < 200 { status } else { length });
        stream = &rest[length..];
    }
    found
}

#[tokio::test]
async fn no_interim_answer_goes_to_an_old_client_or_behind_the_answer() {
    let mut near = serve(1024, |_, client| async move {
        hint(&client);
        tokio::spawn(async move { hint(&client) });
        answer("done")
    });
    near.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
    near.write_all(LAST).await.unwrap();
    let text = rest(&mut near).await;
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text:?}");
    assert_eq!((text.matches("103").count(), text.matches("200 OK").count()), (1, 2), "{text:?}");
}

#[tokio::test]
async fn behind_a_granted_upgrade_all_bytes_pass_raw() {
    let (seen, mut raw) = unbounded_channel();
    let mut near = serve(1024, move |mut request, _| {
        let seen = seen.clone();
        async move {
            let asked = request.extensions_mut().remove::<OnUpgrade>().unwrap();
            tokio::spawn(async move {
                let mut far = asked.await.unwrap();
                let mut bytes = [0; 5];
                far.read_exact(&mut bytes).await.unwrap();
                far.write_all(b"\0raw\n").await.unwrap();
                seen.send(bytes).unwrap();
            });
            let mut granted = answer("");
            *granted.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            granted.headers_mut().insert("upgrade", HeaderValue::from_static("x"));
            granted
        }
    });
    near.write_all(&[ASK, b"\0\r\n\0 "].concat()).await.unwrap();
    assert_eq!(&raw.recv().await.unwrap(), b"\0\r\n\0 ");
    assert!(rest(&mut near).await.ends_with("\r\n\r\n\0raw\n"));
}

#[tokio::test]
async fn behind_a_refused_upgrade_requests_go_on() {
    let (open, gate) = gate();
    let mut near = serve(1024, move |_, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.lock().await.recv().await;
            answer("done")
        }
    });
    near.write_all(&[ASK, GET, LAST].concat()).await.unwrap();
    for _ in 0..3 {
        open.send(()).unwrap();
    }
    assert_eq!(rest(&mut near).await.matches("\r\n\r\ndone").count(), 3);
}

#[tokio::test]
async fn the_clients_end_waits_for_the_answer_unless_the_door_minds_it() {
    for minds in [false, true] {
        let (open, gate) = gate();
        let (asked, mut begun) = unbounded_channel();
        let mut near = serve(16, move |_, client| {
            let (gate, asked) = (Arc::clone(&gate), asked.clone());
            async move {
                let gate = gate.lock().await;
                asked.send(()).unwrap();
                if minds {
                    client.exchange.mind_end();
                }
                let mut gate = gate;
                gate.recv().await;
                answer(vec![b'x'; 3000])
            }
        });
        // The end is there before the handler has done anything.
        near.write_all(GET).await.unwrap();
        near.shutdown().await.unwrap();
        begun.recv().await.unwrap();
        if minds {
            assert_eq!(rest(&mut near).await, "", "the handler is dropped");
            assert!(begun.recv().await.is_none());
        } else {
            open.send(()).unwrap();
            let text = rest(&mut near).await;
            assert!(text.contains("connection: close\r\n") && text.ends_with(&"x".repeat(3000)), "{text:?}");
        }
    }
}

#[tokio::test]
async fn an_end_that_comes_during_the_answer_does_not_cut_it() {
    let mut near = serve(16, |_, _| async { answer(vec![b'x'; 3000]) });
    near.write_all(GET).await.unwrap();
    read(&mut near, 100).await;
    near.shutdown().await.unwrap();
    assert!(rest(&mut near).await.ends_with(&"x".repeat(2500)));
}

#[tokio::test]
async fn a_refused_request_is_known_by_its_fault_and_is_the_last() {
    let (tell, mut told) = unbounded_channel();
    let mut near = serve(1024, move |request, _| {
        tell.send(request.extensions().get::<Fault>().copied()).unwrap();
        async { answer("") }
    });
    near.write_all(&[GET, b"GET / HTTP/1.1\r\n\r\n", GET].concat()).await.unwrap();
    let text = rest(&mut near).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
    assert!(told.recv().await.unwrap().is_none() && told.recv().await.unwrap().is_some());
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn requests_that_come_together_are_answered_one_by_one() {
    let (open, gate) = gate();
    let (asked, mut begun) = unbounded_channel();
    let mut near = serve(1024, move |request, _| {
        let (gate, asked) = (Arc::clone(&gate), asked.clone());
        async move {
            asked.send(()).unwrap();
            gate.lock().await.recv().await;
            answer(request.uri().path().to_owned())
        }
    });
    let sent = ["/1", "/2", "/3"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    near.write_all(sent.concat().as_bytes()).await.unwrap();
    near.shutdown().await.unwrap();
    for _ in 0..3 {
        begun.recv().await.unwrap();
        assert!(begun.try_recv().is_err());
        open.send(()).unwrap();
    }
    let text = rest(&mut near).await;
    let bodies: Vec<_> = text.split("\r\n\r\n").skip(1).map(|rest| &rest[..2]).collect();
    assert_eq!(bodies, ["/1", "/2", "/3"], "{text}");
    assert_eq!(text.matches("connection: close").count(), 1, "the end is told with the last answer: {text}");
}

#[tokio::test]
async fn a_connection_goes_on_when_both_sides_have_it_so() {
    for (version, sent, own, goes_on) in [
        ("1.1", "", "", true),
        ("1.1", "Connection: x, CLOSE\r\n", "", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", "", false),
        ("1.1", "", "close", false),
        ("1.0", "", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", "", true),
        ("1.0", "Connection: keep-alive, close\r\n", "", false),
        ("1.0", "Connection: keep-alive\r\n", "close", false),
    ] {
        let mut near = serve(1024, move |_, _| {
            let mut answer = answer("done");
            if !own.is_empty() {
                answer.headers_mut().insert("connection", HeaderValue::from_static(own));
            }
            async { answer }
        });
        let first = format!("GET / HTTP/{version}\r\nHost: a\r\n{sent}\r\n");
        near.write_all(first.as_bytes()).await.unwrap();
        near.write_all(LAST).await.unwrap();
        let text = rest(&mut near).await;
        assert_eq!(text.matches("done").count(), if goes_on { 2 } else { 1 }, "{version} {sent:?} {own}: {text}");
        assert!(text.starts_with(&format!("HTTP/{version} 200 OK\r\n")), "{text}");
        let told = text.split("\r\n\r\n").next().unwrap().contains("connection: close");
        assert_eq!(told, !goes_on, "{text}");
        assert_eq!(text.contains("connection: keep-alive"), version == "1.0" && goes_on, "{text}");
    }
}
