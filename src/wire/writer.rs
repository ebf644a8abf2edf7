//! What goes out on a connection, to a client or to a server: gathered until it is worth a write, and sent; and how a body
//! is framed in it. What the heads before it say is not its matter.

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncWrite;

/// Data up to this length is copied behind what it belongs to, to leave in one write.
pub const COPIED: usize = 16 * 1024;

/// The writing side of a connection.
#[derive(Debug, Default)]
pub struct Writer {
    /// What goes first, of which so much is sent.
    small: BytesMut,
    sent: usize,
    /// What goes behind it: data that is not copied, and the line that ends it.
    large: Bytes,
    end: &'static [u8],
    /// Something was sent at all; and since the last flush.
    begun: bool,
    unflushed: bool,
}

/// How a body is framed, and how much of it is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks, up to one of no bytes.
    Chunks,
    /// It ends with the connection.
    UntilClose,
}

impl Framing {
    /// Whether so much more may belong to the body.
    pub fn has_room_for(&self, length: usize) -> bool {
        !matches!(self, Self::Length(left) if u64::try_from(length).is_ok_and(|length| length > *left))
    }

    /// Puts in a piece of the body. What is too much is left out: it would be read as the next message.
    pub fn put(&mut self, mut data: Bytes, writer: &mut Writer) {
        match self {
            Self::Length(left) => {
                data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= u64::try_from(data.len()).unwrap_or(*left);
                writer.put(data, b"");
            }
            // That would be the end.
            Self::Chunks if data.is_empty() => {}
            Self::Chunks => {
                // Writing to memory does not fail.
                let _ = write!(writer.lines(), "{:x}\r\n", data.len());
                writer.put(data, b"\r\n");
            }
            Self::UntilClose => writer.put(data, b""),
        }
    }

    /// Puts in the body's end. False when bytes of it are missing: then it has none.
    pub fn end(self, writer: &mut Writer) -> bool {
        if self == Self::Chunks {
            writer.lines().put_slice(b"0\r\n\r\n");
        }
        !matches!(self, Self::Length(1..))
    }
}

impl Writer {
    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.sent == self.small.len() && self.large.is_empty() && self.end.is_empty()
    }

    /// Whether a byte of it was sent, as far as the connection says.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether more may be put in before it has to be sent. Nothing may while a line's end waits: it would go before that.
    pub fn has_room(&self) -> bool {
        self.small.len() < COPIED && self.large.is_empty() && self.end.is_empty()
    }

    /// For heads and lines. Nothing may be behind it yet.
    pub fn lines(&mut self) -> &mut BytesMut {
        &mut self.small
    }

    /// Data, and the line that ends it, if any.
    pub fn put(&mut self, data: Bytes, end: &'static [u8]) {
        if data.len() <= COPIED {
            self.small.reserve(data.len() + end.len());
            self.small.put_slice(&data);
            self.small.put_slice(end);
        } else {
            (self.large, self.end) = (data, end);
        }
    }

    /// Writes everything, and sees that it leaves.
    pub fn poll_send<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        ready!(self.poll_write(io, cx))?;
        if self.unflushed {
            // TLS may have kept something back; for a socket this is nothing.
            ready!(Pin::new(io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes everything. Some of it may still wait under TLS.
    pub fn poll_write<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        while !self.is_empty() {
            let small = &self.small[self.sent..];
            let written = if self.large.is_empty() && self.end.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, small))?
            } else {
                let all = [IoSlice::new(small), IoSlice::new(&self.large), IoSlice::new(self.end)];
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, &all))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        self.small.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let small = written.min(self.small.len() - self.sent);
        let large = (written - small).min(self.large.len());
        (self.begun, self.unflushed) = (true, true);
        self.sent += small;
        self.large.advance(large);
        self.end = self.end.get(written - small - large..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes so many bytes.
    struct Strait {
        left: usize,
        came: Vec<u8>,
    }

    impl AsyncWrite for Strait {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let some = bytes.len().min(self.left);
            if some == 0 {
                return Poll::Pending;
            }
            self.left -= some;
            self.came.extend_from_slice(&bytes[..some]);
            Poll::Ready(Ok(some))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn nothing_is_put_before_an_end_that_waits() {
        let data = Bytes::from(vec![b'x'; COPIED + 1]);
        let whole = [b"head".as_slice(), &data, b"\r\nnext"].concat();
        for left in 1..whole.len() {
            let mut io = Strait { left, came: Vec::new() };
            let mut writer = Writer::default();
            writer.lines().put_slice(b"head");
            writer.put(data.clone(), b"\r\n");
            let mut next = Some(Bytes::from_static(b"next"));
            while io.came.len() < whole.len() {
                let _ = writer.poll_send(&mut io, &mut Context::from_waker(Waker::noop()));
                if writer.has_room()
                    && let Some(next) = next.take()
                {
                    writer.put(next, b"");
                }
                io.left = if io.left == 0 { usize::MAX } else { io.left };
            }
            assert!(io.came == whole, "stopped after {left} bytes");
        }
    }
}
