//! Connections as the doors see them: who is at the other end, how they came, what they are doing, how long a body takes.

mod inbound;
mod patience;
mod upload;
mod watch;

pub use inbound::{Inbound, InboundError};
pub use patience::{Alarm, Lapse, Patience};
pub use upload::{Fault, Upload};
pub use watch::{Phase, Turn, Watch};

mod certificate;
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
