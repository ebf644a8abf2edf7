//! The way to one server: its name, its address, and TLS if it is wanted. What is spoken there is not its matter.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};

use super::stream::Stream;
use super::{NotSent, Reason, Server, Settings};
use crate::tls;

#[derive(Debug)]
pub(super) struct Way {
    /// Name or address, without brackets.
    host: String,
    port: u16,
    tls: Option<tls::client::Client>,
    connect_timeout: Duration,
}

impl Way {
    pub(super) fn new(server: &Server, settings: &Settings) -> Self {
        Self {
            host: server.host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: server.port,
            tls: settings.tls.clone(),
            connect_timeout: settings.connect_timeout,
        }
    }

    /// What stands before `://`.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The `Host` that names this server.
    pub(super) fn authority(&self) -> String {
        let name = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.tls.is_some() { 443 } else { 80 };
        if self.port == default { name } else { format!("{name}:{}", self.port) }
    }

    /// A new connection, or the proof that nothing was sent. `begin` says what has to be said before any request.
    pub(super) async fn connect<C, E: Display, B: Future<Output = Result<C, E>>>(
        &self,
        begin: impl FnOnce(Stream) -> B,
    ) -> Result<C, NotSent> {
        let limit = self.connect_timeout;
        let dial = async { begin(self.open().await?).await.map_err(|error| self.not_sent(Reason::Connect, error)) };
        let dialled = match tokio::time::timeout(limit, dial).await {
            Ok(dialled) => dialled,
            Err(_) => Err(self.not_sent(Reason::Timeout, format_args!("no connection within {limit:?}"))),
        };
        if let Err(why) = &dialled {
            tracing::warn!(%why, "no connection to an upstream");
        }
        dialled
    }

    async fn open(&self) -> Result<Stream, NotSent> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = found.map_err(|error| self.not_sent(Reason::Dns, error))?.collect();
        let socket = open(&addresses).await.map_err(|error| self.not_sent(Reason::Connect, error))?;
        let Some(tls) = &self.tls else { return Ok(Stream::Plain(socket)) };
        let secured = tls.secure(socket, &self.host).await.map_err(|error| self.not_sent(Reason::Tls, error))?;
        Ok(Stream::Tls(Box::new(secured)))
    }

    pub(super) fn not_sent(&self, reason: Reason, why: impl Display) -> NotSent {
        NotSent::new(reason, format!("{}:{}: {why}", self.host, self.port))
    }
}

/// Connects to the first of these addresses that lets us.
async fn open(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addresses).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
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
            let server = Server { host: host.to_owned(), port };
            let way = Way {
                host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
                port: server.port,
                tls: None,
                connect_timeout: Duration::ZERO,
            };
            assert_eq!(way.authority(), expected);
        }
    }
}
