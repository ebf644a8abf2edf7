//! Connections as the doors see them: who is at the other end, how they came, what they are doing, where their messages
//! end, how long a body takes.

mod ahead;
mod alarms;
mod answer;
mod certificate;
mod closing;
mod exchange;
mod feed;
pub mod fields;
pub mod framing;
pub mod heads;
mod inbound;
mod network;
mod patience;
mod upgrade;
mod upload;
mod watch;
mod writer;

use std::net::IpAddr;
use std::sync::OnceLock;

use http::HeaderValue;

pub use ahead::Ahead;
pub use alarms::{Alarms, Lent};
pub use answer::AnswerBody;
pub use certificate::Certificate;
pub use closing::{Closing, Step};
pub use exchange::{Exchange, News};
pub use feed::{Cut, Feed, Feeder, feed};
pub use inbound::{Inbound, InboundError};
pub use network::Network;
pub use patience::{Alarm, Lapse, Patience};
pub use upgrade::{Duplex, Handover, OnUpgrade, Upgraded, upgrade};
pub use upload::{Unfinished, Upload};
pub use watch::{Phase, Turn, Watch};
pub use writer::{COPIED, Framing, Writer};

/// A client's connection, as each of its requests sees it.
#[derive(Debug)]
pub struct Client {
    /// Who is at the other end; behind a proxy that speaks the PROXY protocol, who that says it is.
    pub peer: IpAddr,
    /// Who is at the other end of the connection itself.
    pub direct: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The certificate by which the client has proven who it is.
    pub certificate: Option<Certificate>,
    /// What is going on there.
    pub exchange: Exchange,
    /// The peer in words, once somebody has asked for it.
    named: OnceLock<HeaderValue>,
}

impl Client {
    /// A connection of which nothing else is known yet.
    pub fn new(peer: IpAddr, secure: bool) -> Self {
        Self { peer, direct: peer, secure, certificate: None, exchange: Exchange::default(), named: OnceLock::new() }
    }

    /// The peer as fields name it.
    pub fn named(&self) -> &HeaderValue {
        self.named.get_or_init(|| {
            // An address has no other signs than a field may have.
            HeaderValue::try_from(self.peer.to_canonical().to_string()).unwrap_or(HeaderValue::from_static("unknown"))
        })
    }

    /// The scheme that requests on this connection came by.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}
