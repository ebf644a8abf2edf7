//! The way to the API behind: sends requests on, and knows whether anything was sent.

pub mod headers;

use std::time::Duration;

/// An API behind the gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name that routes refer to.
    pub name: String,
    /// `host:port` of each server, with the text of the `Host` header for `host: server`.
    pub servers: Vec<Server>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a client waits at most.
    pub response_timeout: Duration,
    /// How long an attempt may take at most.
    pub attempt_timeout: Duration,
    /// Which `Host` the upstream sees.
    pub host: Host,
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
