//! TLS and HTTP/2 towards upstreams: who is believed, what counts as sent, what streams share. Plain HTTP/1.1 is in
//! `tests/upstream/`.
#![allow(clippy::unwrap_used, reason = "clippy does not take functions that tests share for test code")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/streamed.rs"]
mod streamed;
#[path = "../support/upstream.rs"]
mod upstream;

mod certificates;
mod end_to_end;
mod frames;
mod gate;
mod goodbyes;
mod http2_server;
mod shared;
mod tls;
mod tls_server;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use oncegate::tls::client::{Client, Settings as Tls};
use oncegate::upstream::{Balance, BodyError, Ejection, Failure, Host, Incoming};
use oncegate::upstream::{NotSent, Outgoing, Protocol, Server, Settings, Upstream};

/// Settings for servers on this machine, by the name that their certificates bear.
fn settings(ports: &[u16], protocol: Protocol, tls: Option<Tls>) -> Settings {
    Settings {
        name: "orders".to_owned(),
        servers: ports.iter().map(|port| Server { host: "localhost".to_owned(), port: *port }).collect(),
        balance: Balance::RoundRobin,
        ejection: Ejection { failures: 3, lasts: Duration::from_mins(1) },
        health: None,
        resolve_interval: Duration::from_mins(1),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_mins(1),
        idle_connections: 128,
        connection_age: Duration::from_hours(1),
        max_connections: 0,
        response_timeout: Duration::from_secs(30),
        attempt_timeout: Duration::from_mins(1),
        first_byte_timeout: None,
        answer_idle_timeout: None,
        total_timeout: None,
        preserve_header_case: true,
        host: Host::Preserve,
        protocol,
        tls: tls.map(|tls| Client::load(tls, protocol.alpn()).unwrap()),
    }
}

/// A way over plain HTTP/2.
fn http2(servers: &[SocketAddr]) -> Upstream {
    let ports: Vec<_> = servers.iter().map(SocketAddr::port).collect();
    Upstream::new(settings(&ports, Protocol::Http2, None))
}

fn order() -> Request<Outgoing> {
    let request = Request::post("/orders?a=%2B").header("Host", "shop.example").header("X-Key", "k");
    request.body(Outgoing::Whole(Bytes::from_static(br#"{"sku":1}"#))).unwrap()
}

async fn body(answer: Response<Incoming>) -> Result<Bytes, BodyError> {
    answer.into_body().collect().await.map(http_body_util::Collected::to_bytes)
}

/// Sends an order and reads the whole answer.
async fn ordered(client: &Upstream) -> Bytes {
    body(client.send(order()).await.unwrap()).await.unwrap()
}

async fn not_sent(client: &Upstream) -> NotSent {
    match client.send(order()).await {
        Err(Failure::NotSent(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn unknown(client: &Upstream) -> String {
    match client.send(order()).await {
        Err(Failure::Unknown(why)) => why,
        other => panic!("{other:?}"),
    }
}
