//! Connections as the doors see them: who is at the other end, and how they came.

mod exchange;
pub mod framing;
mod sieve;

use std::net::IpAddr;

pub use exchange::{Asked, Exchange};
pub use sieve::{Sieve, Sifted};

/// A client's connection, as each of its requests sees it.
#[derive(Debug)]
pub struct Client {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// What is going on there.
    pub exchange: Exchange,
}

impl Client {
    /// A connection of which nothing else is known yet.
    pub fn new(peer: IpAddr, secure: bool) -> Self {
        Self { peer, secure, exchange: Exchange::default() }
    }

    /// The scheme that requests on this connection came by.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}
