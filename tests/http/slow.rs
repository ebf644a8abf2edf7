//! Crowds of clients that are slow on purpose: each kind is shed in its time, and others are served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use oncegate::clock::Clock;
use socket2::{Domain, Socket, Type};

use crate::client::{Call, PATIENCE};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Reply, ScriptedUpstream};
use crate::yaml;

/// How many of each kind.
const CROWD: usize = 220;
/// The same, as metrics count.
const ALL: f64 = 220.0;
/// What a probe may take while they are there, on a machine that is busy with other tests.
const PROBE: Duration = Duration::from_secs(5);

const LIMITS: &str =
    "limits: { header_timeout: 1s, body_idle_timeout: 1s, body_timeout: 2s, upload_timeout: 2s, send_timeout: 1s }";

/// One slow client; it takes little at once.
struct Slow {
    stream: TcpStream,
    sent: bool,
}

impl Slow {
    fn connect(to: SocketAddr, bytes: &[u8]) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        socket.connect_timeout(&to.into(), PATIENCE).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, sent: true }
    }

    /// One more byte of a request that never ends.
    fn dribble(&mut self) {
        self.sent = self.stream.write_all(b"x").is_ok();
    }

    /// Whether the gateway has ended it; whatever it said is read.
    fn is_gone(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return !self.sent,
                Err(_) => return true,
            }
        }
    }
}

fn probe(gateway: &Gateway) {
    let started = Clock::instant();
    assert_eq!(gateway.send(&Call::new("GET", "/probe")).status, 200);
    assert!(started.elapsed() < PROBE, "the probe took {:?}", started.elapsed());
}

fn crowd(gateway: &Gateway, bytes: &[u8]) -> Vec<Slow> {
    (0..CROWD).map(|_| Slow::connect(gateway.address, bytes)).collect()
}

fn start() -> (ScriptedUpstream, Gateway) {
    let download = Reply::whole(200, &[], vec![b'x'; 4 << 20]);
    let upstream = ScriptedUpstream::start(move |request| match request.target().as_str() {
        "/download" => download.clone(),
        _ => Reply::whole(200, &[], "ok"),
    });
    // A crowd of uploads is a crowd of connections to the upstream, which takes them as fast as its threads start.
    let patient = "    connect_timeout: 20s\n    response_timeout:";
    let text = yaml(&upstream, "", LIMITS).replace("    response_timeout:", patient);
    let gateway = Gateway::start(&text);
    (upstream, gateway)
}

/// Dribbles on, and probes, until all are gone.
fn shed(gateway: &Gateway, mut crowd: Vec<Slow>) {
    wait_until("all are gone", || {
        probe(gateway);
        crowd.retain_mut(|slow| {
            slow.dribble();
            !slow.is_gone()
        });
        crowd.is_empty()
    });
}

#[test]
fn slow_heads_are_shed() {
    let (upstream, gateway) = start();
    shed(&gateway, crowd(&gateway, b"GET /probe HTTP/1.1\r\nHost: a\r\nX-Slow: "));
    assert_eq!(gateway.metric(r#"oncegate_timeouts_total{kind="header"}"#), ALL);
    assert!(upstream.requests().iter().all(|request| request.target() == "/probe"));
}

#[test]
fn slow_bodies_are_shed() {
    let (_upstream, gateway) = start();
    let head =
        |target| format!("POST {target} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 9999\r\n\r\n");
    let mut slow = crowd(&gateway, head("/orders").as_bytes());
    slow.extend(crowd(&gateway, head("/plain").as_bytes()));
    shed(&gateway, slow);
    let ended = |kind: &str| gateway.metric(&format!(r#"oncegate_timeouts_total{{kind="{kind}"}}"#));
    assert_eq!(ended("body_total") + ended("body_idle"), 2.0 * ALL);
}

#[test]
fn slow_readers_are_shed() {
    let (upstream, gateway) = start();
    let slow = crowd(&gateway, b"GET /download HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("nobody is waited for", || {
        probe(&gateway);
        gateway.metric(r#"oncegate_timeouts_total{kind="client_write"}"#) == ALL
    });
    drop(slow);
    upstream.wait_for_closed(CROWD);
}
