//! A connection in use by one request, up to the head of its answer: bytes go and come at the same time, driven by whoever
//! waits for that. What the bytes say is not its matter.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Request;

use super::Outgoing;
use super::behalf::Behalf;
use super::connection::Connection;
use super::inward::{Appetite, Inward};
use super::pool::Pool;
use super::sending::{Sending, Stopped};

/// A connection in use by one request. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) connection: Connection,
    pub(super) sending: Sending,
    /// The server began to answer before it had the whole request: see [`Inward`].
    overtaken: bool,
    appetite: Appetite,
}

impl Exchange {
    /// A request of which nothing was sent.
    pub(super) fn new(connection: Connection, request: &Request<Outgoing>, behalf: &dyn Behalf) -> Self {
        let sending = Sending::of(request, behalf, connection.stream.tls().is_some());
        Self { connection, sending, overtaken: false, appetite: Appetite::default() }
    }

    /// Reads more of the answer, sending the request on meanwhile: how many bytes came; none when the server has closed
    /// the connection.
    pub(super) fn poll_more(
        &mut self,
        body: &mut Outgoing,
        into: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Stopped>> {
        if !self.sending.has_begun() {
            // What comes before a byte of the request was written answers nothing.
            if let Poll::Ready(over) = self.connection.stream.news() {
                return Poll::Ready(Err(over.into()));
            }
        } else if let Poll::Ready(read) = self.poll_read(into, cx) {
            return Poll::Ready(read.map_err(Stopped::Wire));
        } else if self.sending.is_over() {
            return Poll::Pending;
        }
        if let Poll::Ready(Err(stopped)) = self.sending.poll(&mut self.connection.stream, body, cx) {
            return Poll::Ready(Err(stopped));
        }
        if self.sending.has_begun() { self.poll_read(into, cx).map_err(Stopped::Wire) } else { Poll::Pending }
    }

    fn poll_read(&mut self, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(self.appetite.poll_read(&mut self.connection.stream, into, cx))?;
        self.overtaken |= !self.sending.is_over();
        Poll::Ready(Ok(read))
    }

    /// The head of the answer is here: the way that its body comes on. What is left of the request's own is taken.
    pub(super) fn inward(self, body: &mut Outgoing, home: Option<&Arc<Pool>>, keep_alive: bool) -> Inward {
        if !self.sending.is_over() {
            let upload = std::mem::replace(body, Outgoing::Whole(Bytes::new()));
            return Inward::beside(self.connection, self.sending, upload, home);
        }
        let again = keep_alive && !self.overtaken && !self.sending.is_unheard();
        Inward::alone(self.connection, home, again)
    }
}
