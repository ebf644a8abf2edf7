//! Requests that share HTTP/2 connections: how many, what each says, and that none is in another's way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Response, Version};
use http_body_util::BodyExt;
use oncegate::telemetry::Metrics;
use oncegate::tls::client::Settings as Tls;
use oncegate::upstream::{Fleet, Outgoing, Protocol, SystemResolver, Upstream};
use oncegate::wire::{Cut, Inbound, feed};
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Semaphore};
use tokio_util::task::TaskTracker;

use super::certificates::{Authority, server};
use super::http2_server::{Http2Server, Script, saying};
use super::streamed::streamed;
use super::{body, http2, order, ordered, settings};

#[tokio::test]
async fn a_request_arrives_as_http2_says_it() {
    let server = Http2Server::start(saying("made"));
    let client = http2(&[server.address]);
    let mut order = order();
    order.headers_mut().append("x-line", http::HeaderValue::from_static("2"));
    order.headers_mut().append("x-line", http::HeaderValue::from_bytes(b"M\xfcller").unwrap());
    order.headers_mut().insert("upgrade", http::HeaderValue::from_static("websocket"));
    let answer = client.send(order).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (201, Version::HTTP_11));
    assert_eq!(answer.headers()["x-line"], "1");
    assert_eq!(body(answer).await.unwrap(), "made");
    let seen = server.seen().arrived.remove(0);
    assert_eq!(seen.head.method, Method::POST);
    assert_eq!(seen.head.uri, "http://shop.example/orders?a=%2B");
    let fields: Vec<_> = seen.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let expected: [(_, &[u8]); 4] =
        [("x-key", b"k"), ("x-line", b"2"), ("x-line", b"M\xfcller"), ("content-length", b"9")];
    assert_eq!(fields, expected);
    assert_eq!(seen.body, br#"{"sku":1}"#);
}

#[tokio::test]
async fn over_tls_it_is_agreed_on() {
    let (authority, clients) = (Authority::new(), Authority::new());
    for (version, demanded) in [(&TLS12, None), (&TLS13, None), (&TLS13, Some(&clients))] {
        let mut config = server(&authority.issue("localhost"), &[version], demanded);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let server = Http2Server::start_with(saying("made"), 100, Some(config));
        let tls = Tls { ca: Some(authority.file()), ..Tls::default() };
        let client = Upstream::new(settings(&[server.address.port()], Protocol::Http2, Some(tls)));
        if demanded.is_some() {
            // The ping tells, before anything was sent.
            super::not_sent(&client).await;
            assert!(server.seen().arrived.is_empty());
        } else {
            assert_eq!(ordered(&client).await, "made");
            assert_eq!(server.seen().arrived[0].head.uri, "https://shop.example/orders?a=%2B");
        }
    }
}

/// Answers when as many requests are there.
fn together(count: usize) -> Script {
    let barrier = Arc::new(Barrier::new(count));
    Arc::new(move |_| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            barrier.wait().await;
            Some(Bytes::from_static(b"made"))
        })
    })
}

#[tokio::test]
async fn requests_share_a_connection_as_far_as_the_server_lets_them() {
    for (requests, streams, connections) in [(100, 1000, 1), (150, 1000, 2), (25, 10, 3)] {
        let server = Http2Server::start_with(together(requests), streams, None);
        let client = http2(&[server.address]);
        let answers = tokio::time::timeout(Duration::from_secs(20), join_all((0..requests).map(|_| ordered(&client))));
        assert!(answers.await.unwrap().iter().all(|answer| answer == "made"));
        let seen = server.seen();
        assert_eq!((seen.arrived.len(), seen.connections), (requests, connections));
        ordered_later(&client, &server, connections).await;
    }
}

/// What comes later finds the connections still there.
async fn ordered_later(client: &Upstream, server: &Http2Server, connections: usize) {
    let waiting = client.send(order());
    let looked = async {
        let arrived = server.seen().arrived.len();
        while server.seen().arrived.len() == arrived {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        answered = waiting => panic!("{answered:?}"),
        () = looked => {}
    }
    assert_eq!(server.seen().connections, connections);
}

#[tokio::test]
async fn a_dropped_request_resets_its_stream_and_no_other() {
    let open = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&open);
    let arrived = Arc::new(AtomicUsize::new(0));
    let server = Http2Server::start(Arc::new(move |_| {
        let (gate, first) = (Arc::clone(&gate), arrived.fetch_add(1, Ordering::SeqCst) == 0);
        Box::pin(async move {
            if first {
                return None;
            }
            gate.acquire().await.unwrap().forget();
            Some(Bytes::from_static(b"made"))
        })
    }));
    let client = Arc::new(http2(&[server.address]));
    let send = |client: &Arc<Upstream>| {
        let client = Arc::clone(client);
        tokio::spawn(async move { ordered(&client).await })
    };
    let given_up = send(&client);
    until(|| server.seen().arrived.len() == 1).await;
    let other = send(&client);
    until(|| server.seen().arrived.len() == 2).await;
    given_up.abort();
    until(|| server.seen().given_up == 1).await;
    open.add_permits(1);
    assert_eq!(other.await.unwrap(), "made");
    assert_eq!(server.seen().connections, 1);
}

/// Looks again and again, and lets connections be driven meanwhile.
async fn until(mut holds: impl FnMut() -> bool) {
    let looked = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looked).await.expect("never came true");
}

#[tokio::test]
async fn readers_who_stand_still_hold_nobody_up() {
    const LARGE: usize = 1 << 20;
    let server = Http2Server::start(Arc::new(|_| Box::pin(async { Some(Bytes::from(vec![b'x'; LARGE])) })));
    let client = http2(&[server.address]);
    let mut still = Vec::new();
    // All but one of the streams of a connection.
    for _ in 0..99 {
        still.push(client.send(order()).await.unwrap().into_body());
    }
    for _ in 0..2 {
        let whole = tokio::time::timeout(Duration::from_secs(20), ordered(&client)).await.unwrap();
        assert_eq!(whole.len(), LARGE);
    }
    assert_eq!(server.seen().connections, 1);
    let late = still.remove(0).collect().await.unwrap().to_bytes();
    assert_eq!(late.len(), LARGE);
}

#[tokio::test]
async fn a_streamed_body_arrives_whole() {
    let server = Http2Server::start(saying("made"));
    let client = http2(&[server.address]);
    for begun in ["", "zero,"] {
        let stream = streamed(&[b"one,", b"two"], Ok(()));
        let outgoing = match stream {
            Outgoing::Streaming(rest) if !begun.is_empty() => Outgoing::Resumed { begun: Bytes::from(begun), rest },
            stream => stream,
        };
        assert_eq!(body(client.send(order().map(|_| outgoing)).await.unwrap()).await.unwrap(), "made");
        let seen = server.seen().arrived.pop().unwrap();
        assert_eq!(seen.body, format!("{begun}one,two").into_bytes());
        assert!(!seen.head.headers.contains_key("content-length"));
        assert!(!seen.head.headers.contains_key("transfer-encoding"));
    }
}

#[tokio::test]
async fn a_streamed_body_that_breaks_off_is_never_ended() {
    let server = Http2Server::start(saying("made"));
    let client = http2(&[server.address]);
    let failed = client.send(order().map(|_| streamed(&[b"some"], Err(Cut::Left)))).await;
    assert!(matches!(failed, Err(oncegate::upstream::Failure::Unknown(_))), "{failed:?}");
    until(|| server.seen().given_up == 1).await;
    assert!(server.seen().arrived.is_empty());
    assert_eq!(ordered(&client).await, "made");
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let server = Http2Server::start(saying("made"));
    let large = Bytes::from(vec![b'x'; 3 << 20]);
    let request = order().map(|_| Outgoing::Whole(large.clone()));
    assert_eq!(body(http2(&[server.address]).send(request).await.unwrap()).await.unwrap(), "made");
    assert_eq!(server.seen().arrived[0].body.len(), large.len());
}

#[tokio::test]
async fn a_connection_that_idled_too_long_is_not_used() {
    let server = Http2Server::start(saying("made"));
    let mut settings = settings(&[server.address.port()], Protocol::Http2, None);
    settings.idle_timeout = Duration::ZERO;
    let client = Upstream::new(settings);
    for _ in 0..3 {
        // Room on a connection that was just made is there for whom it was made.
        ordered(&client).await;
    }
    assert_eq!(server.seen().connections, 3);
}

/// A server that answers as soon as it has a request's head, and reads the body from then on. Counts bodies read whole.
async fn hasty() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, read) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&read);
    tokio::spawn(async move {
        let mut requests = h2::server::handshake(listener.accept().await.unwrap().0).await.unwrap();
        while let Some(Ok((request, mut respond))) = requests.accept().await {
            let mut answer = respond.send_response(Response::new(()), false).unwrap();
            answer.send_data(Bytes::from_static(b"made"), true).unwrap();
            let (mut body, count) = (request.into_body(), Arc::clone(&count));
            tokio::spawn(async move {
                let _answer = answer;
                while let Some(Ok(_)) = body.data().await {}
                count.fetch_add(usize::from(body.is_end_stream()), Ordering::SeqCst);
            });
        }
    });
    (address, read)
}

#[tokio::test]
async fn the_rest_of_a_request_behind_its_whole_answer_is_waited_for() {
    let (address, read) = hasty().await;
    let tasks = TaskTracker::new();
    let fleet =
        Fleet::new(settings(&[address.port()], Protocol::Http2, None), 1, Arc::new(SystemResolver), tasks.clone());
    let client = Upstream::of(&Arc::new(fleet), 0);
    let (feeder, feed) = feed(None);
    let sent = Inbound::fed(feed, Duration::from_mins(1), &Arc::new(Metrics::new().unwrap()));
    let answer = client.send(order().map(|_| Outgoing::Streaming(sent))).await.unwrap();
    assert_eq!(body(answer).await.unwrap(), "made");
    tasks.close();
    assert_eq!((tasks.is_empty(), read.load(Ordering::SeqCst)), (false, 0));
    feeder.end(Ok(()), &Context::from_waker(Waker::noop()));
    tokio::time::timeout(Duration::from_secs(20), tasks.wait()).await.expect("it never ends");
    until(|| read.load(Ordering::SeqCst) == 1).await;
}
