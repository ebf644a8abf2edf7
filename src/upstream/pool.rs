//! One worker's connections to one address: made, kept while idle, taken again newest first. Which request goes where is
//! not its matter.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, Response};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use tokio::net::TcpStream;

use super::wire::{Line, Wire};
use super::{NotSent, Outgoing, Reason, Server, Settings};
use crate::clock::Clock;

/// How long the head of an answer may be, in bytes.
const ANSWER_HEAD_LIMIT: usize = 64 * 1024;
/// How much of an answer a connection buffers, in bytes.
const BUFFER_LIMIT: usize = 128 * 1024;

/// One worker's connections to one address of a server.
#[derive(Debug)]
pub(super) struct Pool {
    /// The server as logs name it.
    name: String,
    address: SocketAddr,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    /// How many are kept.
    idle_connections: usize,
    connection_age: Duration,
    /// Oldest first. None: nothing is kept any longer.
    idle: Mutex<Option<VecDeque<Idle>>>,
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
    made: Instant,
    used: bool,
}

impl Pool {
    pub(super) fn new(server: &Server, address: SocketAddr, settings: &Settings) -> Self {
        let name = server.authority();
        Self {
            address,
            authority: HeaderValue::from_str(&name).ok(),
            name,
            connect_timeout: settings.connect_timeout,
            idle_timeout: settings.idle_timeout,
            idle_connections: settings.idle_connections,
            connection_age: settings.connection_age,
            idle: Mutex::new(Some(VecDeque::new())),
        }
    }

    /// The idle connection that was used last, unless it has been idle for too long or is too old.
    ///
    /// A connection that is not ready is passed over: it may still be about its last request, answered early. One whose
    /// answer overtook its request is passed over for good.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Clock::instant();
        let mut idle = self.idle();
        let idle = idle.as_mut()?;
        idle.retain(|idle| !idle.connection.line.is_crossed());
        let newest = idle.iter().rposition(|idle| self.fresh(idle, now) && idle.connection.sender.is_ready())?;
        idle.remove(newest).map(|idle| idle.connection)
    }

    /// Keeps a connection for the next request, unless it is closed or there are enough.
    pub(super) fn put(&self, connection: Connection) {
        let now = Clock::instant();
        let mut idle = self.idle();
        let Some(idle) = idle.as_mut() else { return };
        while idle.front().is_some_and(|oldest| oldest.connection.sender.is_closed() || !self.fresh(oldest, now)) {
            idle.pop_front();
        }
        let back = Idle { connection, since: now };
        if !back.connection.sender.is_closed() && idle.len() < self.idle_connections && self.fresh(&back, now) {
            idle.push_back(back);
        }
    }

    /// Closes the idle connections that will not be used again.
    pub(super) fn tidy(&self) {
        let now = Clock::instant();
        if let Some(idle) = self.idle().as_mut() {
            idle.retain(|idle| !idle.connection.sender.is_closed() && self.fresh(idle, now));
        }
    }

    /// Closes what is idle, and from now on whatever comes back.
    pub(super) fn retire(&self) {
        *self.idle() = None;
    }

    /// A new connection, or the proof that nothing was sent.
    pub(super) async fn connect(&self) -> Result<Connection, NotSent> {
        let limit = self.connect_timeout;
        match tokio::time::timeout(limit, self.dial()).await {
            Ok(dialled) => dialled,
            Err(_) => Err(self.not_sent(Reason::Timeout, format_args!("no connection within {limit:?}"))),
        }
    }

    async fn dial(&self) -> Result<Connection, NotSent> {
        let stream = open(self.address).await.map_err(|error| self.not_sent(Reason::Connect, error))?;
        let line = Arc::new(Line::default());
        let (sender, driver) = http1::Builder::new()
            .preserve_header_case(true)
            .max_header_size(ANSWER_HEAD_LIMIT)
            .max_buf_size(BUFFER_LIMIT)
            .handshake(Wire::new(stream, Arc::clone(&line)))
            .await
            .map_err(|error| self.not_sent(Reason::Connect, error))?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection to an upstream ended");
            }
        });
        Ok(Connection { sender, line, made: Clock::instant(), used: false })
    }

    fn not_sent(&self, reason: Reason, why: impl fmt::Display) -> NotSent {
        NotSent::new(reason, format!("{} at {}: {why}", self.name, self.address))
    }

    fn fresh(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) < self.idle_timeout
            && now.saturating_duration_since(idle.connection.made) < self.connection_age
    }

    fn idle(&self) -> MutexGuard<'_, Option<VecDeque<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    /// Puts a request on the connection and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<hyper::body::Incoming>, TrySendError<Request<Outgoing>>> {
        self.line.begin(self.used);
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
