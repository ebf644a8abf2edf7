//! The way to one server: its name, its address, and TLS if it is wanted. What is spoken there is not its matter.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::stream::Stream;
use super::{NotSent, Reason, Server, Settings};
use crate::tls;

#[derive(Debug)]
pub(super) struct Way {
    /// The server as its `Host` field and logs name it.
    authority: String,
    /// Its name or address, without brackets.
    host: String,
    address: SocketAddr,
    tls: Option<tls::client::Client>,
    connect_timeout: Duration,
}

impl Way {
    pub(super) fn new(server: &Server, address: SocketAddr, settings: &Settings) -> Self {
        Self {
            authority: server.authority(if settings.tls.is_some() { 443 } else { 80 }),
            host: server.bare_host().to_owned(),
            address,
            tls: settings.tls.clone(),
            connect_timeout: settings.connect_timeout,
        }
    }

    /// What stands before `://`.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The `Host` that names this server.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// A new connection, or the proof that nothing was sent. `begin` says what has to be said before any request.
    pub(super) async fn connect<C, E: Display, B: Future<Output = Result<C, E>>>(
        &self,
        begin: impl FnOnce(Stream) -> B,
    ) -> Result<C, NotSent> {
        let limit = self.connect_timeout;
        let dial = async { begin(self.open().await?).await.map_err(|error| self.not_sent(Reason::Connect, error)) };
        let in_time = tokio::time::timeout(limit, dial).await;
        in_time.unwrap_or_else(|_| Err(self.not_sent(Reason::Timeout, format_args!("no connection within {limit:?}"))))
    }

    async fn open(&self) -> Result<Stream, NotSent> {
        let socket = open(self.address).await.map_err(|error| self.not_sent(Reason::Connect, error))?;
        let Some(tls) = &self.tls else { return Ok(Stream::Plain(socket)) };
        let secured = tls.secure(socket, &self.host).await.map_err(|error| self.not_sent(Reason::Tls, error))?;
        Ok(Stream::Tls(Box::new(secured)))
    }

    pub(super) fn not_sent(&self, reason: Reason, why: impl Display) -> NotSent {
        NotSent::new(reason, format!("{} at {}: {why}", self.authority, self.address))
    }
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
