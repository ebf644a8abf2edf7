//! The way to the API behind: sends requests on, and knows whether anything was sent. HTTP/1.1 or HTTP/2, plain
//! or over TLS.

mod ask;
mod balance;
mod behalf;
mod body;
mod check;
mod client;
mod connection;
mod endpoint;
mod exchange;
mod fleet;
pub mod headers;
mod health;
mod http2;
mod inward;
mod outcome;
mod pool;
mod received;
mod resolve;
mod run;
mod sending;
mod stream;
mod way;

use std::time::Duration;

pub use balance::Balance;
pub use behalf::Behalf;
pub use body::{Incoming, Outgoing};
pub use check::Checked;
pub use client::Upstream;
pub use fleet::{Census, Fleet};
pub use health::{Ejection, HealthCheck};
pub use outcome::{BodyError, Failure, NotSent, Reason};
pub use resolve::{Resolver, SystemResolver};

use crate::tls;

/// An API behind the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name that routes refer to.
    pub name: String,
    /// Its servers.
    pub servers: Vec<Server>,
    /// How requests are shared out among them.
    pub balance: Balance,
    /// When one is left out because requests fail there.
    pub ejection: Ejection,
    /// How they are asked whether they are well; none: not at all.
    pub health: Option<HealthCheck>,
    /// How often the addresses of their names are asked for.
    pub resolve_interval: Duration,
    /// How long a connection may take to be had.
    pub connect_timeout: Duration,
    /// How long a connection may lie idle and still be used again. Keep it below the server's own limit.
    pub idle_timeout: Duration,
    /// How many idle connections to an address each worker keeps.
    pub idle_connections: usize,
    /// How old a connection may be and still be used again.
    pub connection_age: Duration,
    /// How many connections may be in use at once, over all servers and workers; 0: any number.
    pub max_connections: usize,
    /// How long a client waits at most.
    pub response_timeout: Duration,
    /// How long an attempt may take at most.
    pub attempt_timeout: Duration,
    /// How long the upstream may be silent between the end of a request and the head of its answer.
    pub first_byte_timeout: Option<Duration>,
    /// How long it may be silent within an answer.
    pub answer_idle_timeout: Option<Duration>,
    /// How long an exchange on a plain route may take in all.
    pub total_timeout: Option<Duration>,
    /// Which `Host` the upstream sees.
    pub host: Host,
    /// What is spoken to the servers.
    pub protocol: Protocol,
    /// TLS with the servers, if it is wanted. Loaded for the protocol that is spoken.
    pub tls: Option<tls::client::Client>,
    /// Whether answers go on with the case of their field names.
    pub preserve_header_case: bool,
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

impl Server {
    /// Name or address, an IPv6 address without its brackets.
    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The server as a `Host` field names it, where this port goes without saying.
    fn authority(&self, usual_port: u16) -> String {
        let host = self.bare_host();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == usual_port { host } else { format!("{host}:{}", self.port) }
    }
}

/// Which `Host` the upstream sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The client's.
    Preserve,
    /// The server's own name.
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_as_a_host_field_wants_it() {
        let cases = [
            ("orders.internal", 80, "orders.internal"),
            ("orders.internal", 9001, "orders.internal:9001"),
            ("orders.internal", 443, "orders.internal:443"),
            ("127.0.0.1", 8080, "127.0.0.1:8080"),
            ("::1", 80, "[::1]"),
            ("[::1]", 9001, "[::1]:9001"),
        ];
        for (host, port, expected) in cases {
            assert_eq!(Server { host: host.to_owned(), port }.authority(80), expected);
        }
    }
}
