//! The way to the API behind: sends requests on, and knows whether anything was sent. HTTP/1.1 over plain TCP.

mod body;
mod client;
pub mod headers;
mod interim;
mod outcome;
mod pool;
mod strict;
mod wire;

use std::time::Duration;

pub use body::{Incoming, Outgoing};
pub use client::Upstream;
pub use interim::{Listening, on_interim};
pub use outcome::{BodyError, Failure, NotSent, Reason};

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
    /// Whether answers go on with the case of their field names.
    pub preserve_header_case: bool,
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
