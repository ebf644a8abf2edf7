//! Connections as the doors see them: who is at the other end, and how they came.

use std::net::IpAddr;

/// A client's connection, as each of its requests sees it.
#[derive(Debug)]
pub struct Client {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

impl Client {
    /// The scheme that requests on this connection came by.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}
