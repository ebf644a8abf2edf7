//! Servers that answer a request before they have read it: what becomes of the rest of it, and of the connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use oncegate::telemetry::Metrics;
use oncegate::upstream::{BodyError, Fleet, Outgoing, SystemResolver, Upstream};
use oncegate::wire::{Inbound, feed};
use tokio_util::task::TaskTracker;

use super::settings;
use super::support::Gate;

const MADE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmade";
const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nmade";
/// More than the sockets' buffers hold, so that the rest is written after the answer has come.
const LARGE: usize = 64 << 20;

fn upload(body: usize) -> Request<Outgoing> {
    let request = Request::post("/orders").header("host", "api.test").header("content-length", body);
    request.body(Outgoing::Whole(vec![b'x'; body].into())).unwrap()
}

/// A server that answers each request when it has its head, and reads the body once the gate is open. It counts
/// connections, and bodies read to their end.
struct Hasty {
    address: SocketAddr,
    answer: &'static str,
    gate: Gate,
    connections: AtomicUsize,
    bodies: AtomicUsize,
}

impl Hasty {
    fn start(answer: &'static str, body: usize) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, bodies) = Default::default();
        let hasty = Arc::new(Self { address, answer, gate: Gate::new(), connections, bodies });
        let server = Arc::clone(&hasty);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                server.connections.fetch_add(1, Ordering::SeqCst);
                let server = Arc::clone(&server);
                std::thread::spawn(move || while server.answer(stream.as_ref().unwrap(), body).is_ok() {});
            }
        });
        hasty
    }

    /// Until it has read so many bodies.
    async fn has_read(&self, bodies: usize) {
        let read = async {
            while self.bodies.load(Ordering::SeqCst) < bodies {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
    }

    fn answer(&self, mut stream: &TcpStream, body: usize) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        stream.write_all(self.answer.as_bytes())?;
        self.gate.pass();
        let read = std::io::copy(&mut stream.take(body as u64), &mut std::io::sink())?;
        // One that breaks off may end cleanly.
        self.bodies.fetch_add(usize::from(read == body as u64), Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn a_connection_whose_answer_overtook_its_request_is_not_used_again() {
    for (body, connections) in [(LARGE, 2), (10, 1)] {
        let server = Hasty::start(MADE, body);
        let client = Upstream::new(settings(&[server.address]));
        for bodies in 1..=2 {
            let answer = client.send(upload(body)).await.unwrap().into_body().collect().await.unwrap().to_bytes();
            assert_eq!(answer, "made");
            server.gate.open();
            server.has_read(bodies).await;
        }
        assert_eq!(server.connections.load(Ordering::SeqCst), connections, "{body}");
    }
}

/// Nobody asks for a byte of the answer's body.
#[tokio::test]
async fn the_rest_of_a_request_goes_out_whether_or_not_its_answer_is_read() {
    let server = Hasty::start(HALF, LARGE);
    let client = Upstream::new(settings(&[server.address]));
    let answer = client.send(upload(LARGE)).await.unwrap();
    server.gate.open();
    server.has_read(1).await;
    drop(answer);
}

#[tokio::test]
async fn a_request_that_breaks_off_ends_its_answer() {
    let server = Hasty::start(HALF, LARGE);
    let client = Upstream::new(settings(&[server.address]));
    let (feeder, feed) = feed(None);
    feeder.give(Bytes::from_static(b"some"), &Context::from_waker(Waker::noop()));
    let body = Inbound::fed(feed, Duration::from_mins(1), &Arc::new(Metrics::new().unwrap()));
    let request = Request::post("/orders").header("host", "api.test").body(Outgoing::Streaming(body)).unwrap();
    let mut answer = client.send(request).await.unwrap().into_body();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "made");
    drop(feeder);
    assert!(matches!(answer.frame().await, Some(Err(BodyError::Broken(why))) if why.contains("client")));
}

#[tokio::test]
async fn an_answer_that_is_let_go_ends_its_request() {
    let server = Hasty::start(HALF, LARGE);
    let tasks = TaskTracker::new();
    let fleet = Fleet::new(settings(&[server.address]), 1, Arc::new(SystemResolver), tasks.clone());
    drop(Upstream::of(&Arc::new(fleet), 0).send(upload(LARGE)).await.unwrap());
    tasks.close();
    tokio::time::timeout(Duration::from_secs(20), tasks.wait()).await.unwrap();
    server.gate.open();
    assert_eq!(server.bodies.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stop_can_wait_for_the_rest_of_a_request() {
    let server = Hasty::start(MADE, LARGE);
    let tasks = TaskTracker::new();
    let fleet = Fleet::new(settings(&[server.address]), 1, Arc::new(SystemResolver), tasks.clone());
    let client = Upstream::of(&Arc::new(fleet), 0);
    client.send(upload(LARGE)).await.unwrap().into_body().collect().await.unwrap();
    assert!(!tasks.is_empty(), "the answer is whole, the request is not");
    tasks.close();
    server.gate.open();
    tokio::time::timeout(Duration::from_secs(20), tasks.wait()).await.unwrap();
    drop(client);
    server.has_read(1).await;
}
