//! The way to the API behind: sends requests on, and knows whether anything was sent. HTTP/1.1 or HTTP/2, plain
//! or over TLS.

mod body;
mod client;
mod connection;
pub mod headers;
mod http2;
mod outcome;
mod pool;
mod stream;
mod way;
mod wire;

use std::time::Duration;

pub use body::{Incoming, Outgoing};
pub use client::Upstream;
pub use outcome::{BodyError, Failure, NotSent, Reason};

use crate::tls;

/// An API behind the gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name that routes refer to.
    pub name: String,
    /// Its servers, which take turns.
    pub servers: Vec<Server>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a connection may lie idle and still be used again. Keep it below the server's own limit.
    pub idle_timeout: Duration,
    /// How long a client waits at most.
    pub response_timeout: Duration,
    /// How long an attempt may take at most.
    pub attempt_timeout: Duration,
    /// Which `Host` the upstream sees.
    pub host: Host,
    /// What is spoken to the servers.
    pub protocol: Protocol,
    /// TLS with the servers, if it is wanted. Loaded for the protocol that is spoken.
    pub tls: Option<tls::client::Client>,
}

/// What is spoken to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    Http1,
    /// HTTP/2, requests sharing connections; without TLS known beforehand, with TLS agreed on (ALPN).
    Http2,
}

impl Protocol {
    /// The name for it when TLS is agreed on.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => tls::client::HTTP1,
            Self::Http2 => tls::client::HTTP2,
        }
    }
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Which `Host` the upstream sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The client's.
    Preserve,
    /// The server's own name.
    Server,
}
