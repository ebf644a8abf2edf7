//! One connection to a server: dialled, and used by one request at a time. Which one a request gets is the pool's matter.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use tokio::net::{TcpStream, lookup_host};

use super::wire::{Line, Wire};
use super::{NotSent, Outgoing, Reason};

/// How long the head of an answer may be, in bytes.
const ANSWER_HEAD_LIMIT: usize = 64 * 1024;
/// How much of an answer a connection buffers, in bytes.
const BUFFER_LIMIT: usize = 128 * 1024;

/// The way to one server.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) connect_timeout: Duration,
}

/// An open connection, in use by one request or idle. Dropped, it closes, whatever is going on.
pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    line: Arc<Line>,
    used: bool,
}

impl Way {
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
        Ok(Connection { sender, line, used: false })
    }

    fn not_sent(&self, reason: Reason, why: impl fmt::Display) -> NotSent {
        NotSent::new(reason, format!("{}:{}: {why}", self.host, self.port))
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
        self.line.begin(self.used);
        self.used = true;
        self.sender.try_send_request(request).await
    }

    /// Whether it waits for a request. One that does not may still be about its last one, answered early.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Whether no further request can go over it.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
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
