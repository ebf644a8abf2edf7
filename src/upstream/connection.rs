//! One HTTP/1 connection to a server, used by one request at a time. Which one a request gets is the pool's matter.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, Response};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::Outgoing;
use super::stream::Stream;
use super::strict::Strict;
use super::wire::{Line, Wire};
use crate::clock::Clock;
use crate::wire::framing::Limits;

/// How much of an answer a connection buffers, in bytes.
const BUFFER_LIMIT: usize = 128 * 1024;

/// An open connection, in use by one request or idle. Dropped, it closes, whatever is going on.
pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    line: Arc<Line>,
    made: Instant,
    used: bool,
}

impl Connection {
    /// Makes a connection ready for its first request. Nothing is sent yet.
    pub(super) async fn begin(stream: Stream, preserve_header_case: bool) -> hyper::Result<Self> {
        let line = Arc::new(Line::new(stream.tls()));
        let stream = Strict::new(Wire::new(stream, Arc::clone(&line)), Arc::clone(&line));
        let (sender, driver) = http1::Builder::new()
            .preserve_header_case(preserve_header_case)
            .max_header_size(Limits::ANSWER.head + 1)
            .max_headers(Limits::ANSWER.fields)
            .max_buf_size(BUFFER_LIMIT)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(async move {
            if let Err(error) = driver.with_upgrades().await {
                tracing::debug!(%error, "connection to an upstream ended");
            }
        });
        Ok(Self { sender, line, made: Clock::instant(), used: false })
    }

    /// Puts a request on the connection and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<hyper::body::Incoming>, TrySendError<Request<Outgoing>>> {
        self.line.begin(self.used, request.method() == Method::HEAD);
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

    /// When it was made.
    pub(super) fn made(&self) -> Instant {
        self.made
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
