//! A connection in use by one request: bytes go and come at the same time, driven by whoever waits for the answer; nothing
//! here runs by itself. What the bytes say is not its matter.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::Outgoing;
use super::connection::Connection;
use super::pool::Pool;
use super::sending::{Sending, Stopped};
use super::stream::Stream;

/// How much is read at a time, at first and at most, in bytes.
const READ: usize = 8 * 1024;
const READ_MOST: usize = 128 * 1024;

/// A connection in use by one request. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) connection: Connection,
    pub(super) sending: Sending,
    /// The server began to answer before it had the whole request. Such a server may take what came later for another
    /// request and answer that too: nobody's next answer on this connection can be trusted.
    overtaken: bool,
    /// How much is read next.
    appetite: usize,
}

impl Exchange {
    /// A request of which nothing was sent.
    pub(super) fn new(connection: Connection, request: &Request<Outgoing>) -> Self {
        let sending = Sending::of(request, connection.stream.tls().is_some());
        Self { connection, sending, overtaken: false, appetite: READ }
    }

    /// So much is known to come: it is read in pieces that fit.
    pub(super) fn awaits(&mut self, left: Option<u64>) {
        let left = left.and_then(|left| usize::try_from(left).ok());
        self.appetite = left.unwrap_or(READ).clamp(READ, READ_MOST);
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
        let read = ready!(poll_read(&mut self.connection.stream, self.appetite, into, cx))?;
        self.appetite = if read >= self.appetite { (2 * read).min(READ_MOST) } else { READ };
        self.overtaken |= !self.sending.is_over();
        Poll::Ready(Ok(read))
    }

    /// The answer is whole. A request that is not, because its answer overtook it, is seen off: its server may want it.
    pub(super) fn end(mut self, mut upload: Outgoing, home: Option<&Arc<Pool>>, keep_alive: bool) {
        let Some(home) = home else { return };
        if !self.sending.is_over() {
            let rest = home.idle_timeout;
            tokio::spawn(tokio::time::timeout(rest, async move {
                poll_fn(|cx| self.sending.poll(&mut self.connection.stream, &mut upload, cx)).await
            }));
        } else if keep_alive && !self.overtaken && !self.sending.is_unheard() {
            home.put(self.connection.answered());
        }
    }
}

/// Reads so much. A little is read aside and copied, so that what is kept of an answer is no larger than it is.
fn poll_read(stream: &mut Stream, most: usize, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    if most > READ {
        into.reserve(most);
        return pin!(stream.read_buf(into)).poll(cx);
    }
    let mut aside = [const { MaybeUninit::uninit() }; READ];
    let mut aside = ReadBuf::uninit(&mut aside);
    ready!(Pin::new(stream).poll_read(cx, &mut aside))?;
    into.extend_from_slice(aside.filled());
    Poll::Ready(Ok(aside.filled().len()))
}
