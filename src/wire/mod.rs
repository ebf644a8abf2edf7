//! Connections as the doors see them: who is at the other end, and how they came.

mod certificate;
pub mod fields;
mod network;

pub use certificate::Certificate;
pub use network::Network;

use std::net::IpAddr;

/// A client's connection, as each of its requests sees it.
#[derive(Debug)]
pub struct Client {
    /// Who is at the other end; behind a proxy that speaks the PROXY protocol, who that says it is.
    pub peer: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The certificate by which the client has proven who it is.
    pub certificate: Option<Certificate>,
}

impl Client {
    /// The scheme that requests on this connection came by.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}
