//! Connections to one server: made, kept while idle, taken again newest first. Which request goes where is not its matter.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderValue, Method, Request, Response};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};

use super::strict::Strict;
use super::wire::{Line, Wire};
use super::{NotSent, Outgoing, Reason, Server};
use crate::clock::Clock;
use crate::wire::framing::Limits;

/// How many idle connections to a server each worker keeps.
const MOST_IDLE: usize = 128;
/// How much of an answer a connection buffers, in bytes.
const BUFFER_LIMIT: usize = 128 * 1024;

/// One server's connections.
#[derive(Debug)]
pub(super) struct Pool {
    host: String,
    port: u16,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    preserve_header_case: bool,
    /// Oldest first.
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// An open connection, in use by one request or idle. Dropped, it closes, whatever is going on.
pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    line: Arc<Line>,
    used: bool,
}

impl Pool {
    pub(super) fn new(
        server: &Server,
        connect_timeout: Duration,
        idle_timeout: Duration,
        preserve_header_case: bool,
    ) -> Self {
        let host = server.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = server.port;
        let name = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if port == 80 { name } else { format!("{name}:{port}") };
        let authority = HeaderValue::from_str(&authority).ok();
        let idle = Mutex::default();
        Self { host, port, authority, connect_timeout, idle_timeout, preserve_header_case, idle }
    }

    /// The idle connection that was used last, unless it has been idle for too long.
    ///
    /// A connection that is not ready is passed over: it may still be about its last request, answered early. One whose
    /// answer overtook its request, or was followed by more, is passed over for good.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Clock::instant();
        let mut idle = self.idle();
        idle.retain(|idle| !idle.connection.line.is_spoiled());
        let newest = idle.iter().rposition(|idle| self.fresh(idle, now) && idle.connection.sender.is_ready())?;
        idle.remove(newest).map(|idle| idle.connection)
    }

    /// Keeps a connection for the next request, unless it is closed or there are enough.
    pub(super) fn put(&self, connection: Connection) {
        let now = Clock::instant();
        let mut idle = self.idle();
        while idle.front().is_some_and(|oldest| oldest.connection.sender.is_closed() || !self.fresh(oldest, now)) {
            idle.pop_front();
        }
        if !connection.sender.is_closed() && idle.len() < MOST_IDLE {
            idle.push_back(Idle { connection, since: now });
        }
    }

    /// A new connection, or the proof that nothing was sent.
    pub(super) async fn connect(&self) -> Result<Connection, NotSent> {
        let limit = self.connect_timeout;
        let dialled = match tokio::time::timeout(limit, self.dial()).await {
            Ok(dialled) => dialled,
            Err(_) => Err(self.not_sent(Reason::Timeout, format_args!("no connection within {limit:?}"))),
        };
        if let Err(why) = &dialled {
            tracing::warn!(%why, "no connection to an upstream");
        }
        dialled
    }

    async fn dial(&self) -> Result<Connection, NotSent> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = found.map_err(|error| self.not_sent(Reason::Dns, error))?.collect();
        let stream = open(&addresses).await.map_err(|error| self.not_sent(Reason::Connect, error))?;
        let line = Arc::new(Line::default());
        let stream = Strict::new(Wire::new(stream, Arc::clone(&line)), Arc::clone(&line));
        let (sender, driver) = http1::Builder::new()
            .preserve_header_case(self.preserve_header_case)
            .max_header_size(Limits::ANSWER.head + 1)
            .max_headers(Limits::ANSWER.fields)
            .max_buf_size(BUFFER_LIMIT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.not_sent(Reason::Connect, error))?;
        tokio::spawn(async move {
            if let Err(error) = driver.with_upgrades().await {
                tracing::debug!(%error, "connection to an upstream ended");
            }
        });
        Ok(Connection { sender, line, used: false })
    }

    fn not_sent(&self, reason: Reason, why: impl fmt::Display) -> NotSent {
        NotSent::new(reason, format!("{}:{}: {why}", self.host, self.port))
    }

    fn fresh(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) < self.idle_timeout
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the first of these addresses that lets us.
async fn open(addresses: &[std::net::SocketAddr]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addresses).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    /// Puts a request on the connection and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<hyper::body::Incoming>, TrySendError<Request<Outgoing>>> {
        self.line.begin(self.used, request.method() == Method::HEAD);
        self.used = true;
        self.sender.try_send_request(request).await
    }

    /// What the socket knows of the present request.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_as_a_host_field_wants_it() {
        let cases = [
            ("orders.internal", 80, "orders.internal"),
            ("orders.internal", 9001, "orders.internal:9001"),
            ("127.0.0.1", 8080, "127.0.0.1:8080"),
            ("::1", 80, "[::1]"),
            ("[::1]", 9001, "[::1]:9001"),
        ];
        for (host, port, expected) in cases {
            let server = Server { host: host.to_owned(), port };
            let pool = Pool::new(&server, Duration::ZERO, Duration::ZERO, true);
            assert_eq!(pool.authority.unwrap(), expected);
        }
    }
}
