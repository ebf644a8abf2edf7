//! A connection that an answer's body comes on. What is left of its request goes out beside, by itself: a client that reads
//! slowly does not hold up what it sends. What the bytes say is not its matter.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, ReadHalf, split};
use tokio_util::task::AbortOnDropHandle;

use super::Outgoing;
use super::connection::Connection;
use super::pool::Pool;
use super::sending::{Sending, Stopped};
use super::stream::Stream;

/// How much is read at a time, at first and at most, in bytes.
const READ: usize = 8 * 1024;
const READ_MOST: usize = 128 * 1024;

/// The way that an answer's body comes on. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Inward {
    side: Side,
    appetite: Appetite,
    home: Option<Arc<Pool>>,
    /// Another request may follow on the connection.
    keep_alive: bool,
}

#[derive(Debug)]
enum Side {
    /// The request has left.
    Alone(Connection),
    /// The server began to answer before it had the whole request. Such a server may take what comes later for another
    /// request and answer that too: nobody's next answer on this connection can be trusted.
    Beside(ReadHalf<Stream>, Upload),
}

/// The rest of a request, on its way; none when it has left.
type Upload = Option<AbortOnDropHandle<Result<(), Stopped>>>;

impl Inward {
    /// A connection whose request has left.
    pub(super) fn alone(connection: Connection, home: Option<&Arc<Pool>>, keep_alive: bool) -> Self {
        Self { side: Side::Alone(connection), appetite: Appetite::default(), home: home.cloned(), keep_alive }
    }

    /// One whose request has been overtaken. A piece of it is taken from its client when the server has taken the last.
    pub(super) fn beside(
        connection: Connection,
        mut sending: Sending,
        mut upload: Outgoing,
        home: Option<&Arc<Pool>>,
    ) -> Self {
        let (from, mut to) = split(connection.stream);
        let rest = async move { poll_fn(|cx| sending.poll(&mut to, &mut upload, cx)).await };
        // A stop waits for it.
        let task = if let Some(home) = home { home.tasks.spawn(rest) } else { tokio::spawn(rest) };
        let side = Side::Beside(from, Some(AbortOnDropHandle::new(task)));
        Self { side, appetite: Appetite::default(), home: home.cloned(), keep_alive: false }
    }

    /// The same; so much is known to come.
    pub(super) fn awaiting(self, left: Option<u64>) -> Self {
        Self { appetite: Appetite::of(left), ..self }
    }

    /// Reads more of the answer: how many bytes came; none when the server has closed the connection. An error also when
    /// the client breaks its request off: then the server has none.
    pub(super) fn poll_read(&mut self, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<Result<usize, Stopped>> {
        let read = match &mut self.side {
            Side::Alone(connection) => self.appetite.poll_read(&mut connection.stream, into, cx),
            Side::Beside(from, upload) => {
                let read = self.appetite.poll_read(from, into, cx);
                if read.is_pending()
                    && let Poll::Ready(Err(stopped)) = poll_rest(upload, cx)
                {
                    return Poll::Ready(Err(stopped));
                }
                read
            }
        };
        let read = ready!(read)?;
        self.keep_alive &= read > 0;
        Poll::Ready(Ok(read))
    }

    /// The answer is whole; `clean` says that nothing came behind it. A request that is not is seen off: its server may
    /// want it.
    pub(super) fn end(self, clean: bool) {
        match (self.side, self.home) {
            (Side::Alone(connection), Some(home)) if self.keep_alive && clean => home.put(connection.answered()),
            (Side::Beside(_, Some(rest)), Some(home)) => {
                home.tasks.spawn(tokio::time::timeout(home.idle_timeout, rest));
            }
            _ => {}
        }
    }
}

/// How the rest of a request fares.
fn poll_rest(upload: &mut Upload, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
    let Some(rest) = upload else { return Poll::Ready(Ok(())) };
    let sent = ready!(Pin::new(rest).poll(cx));
    *upload = None;
    Poll::Ready(sent.unwrap_or_else(|error| Err(io::Error::other(error).into())))
}

/// How much is read at a time: more, the more comes.
#[derive(Debug)]
pub(super) struct Appetite(usize);

impl Default for Appetite {
    fn default() -> Self {
        Self(READ)
    }
}

impl Appetite {
    /// Where so much is known to come: it is read in pieces that fit.
    fn of(left: Option<u64>) -> Self {
        let left = left.and_then(|left| usize::try_from(left).ok());
        Self(left.unwrap_or(READ).clamp(READ, READ_MOST))
    }

    /// Reads so much. A little is read aside and copied, so that what is kept of an answer is no larger than it is.
    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        into: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let read = if self.0 > READ {
            into.reserve(self.0);
            ready!(pin!(stream.read_buf(into)).poll(cx))?
        } else {
            let mut aside = [const { MaybeUninit::uninit() }; READ];
            let mut aside = ReadBuf::uninit(&mut aside);
            ready!(Pin::new(stream).poll_read(cx, &mut aside))?;
            into.extend_from_slice(aside.filled());
            aside.filled().len()
        };
        self.0 = if read >= self.0 { (2 * read).min(READ_MOST) } else { READ };
        Poll::Ready(Ok(read))
    }
}
