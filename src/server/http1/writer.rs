//! What goes to a client: gathered until it is worth a write, and sent. While nothing waits, it holds no memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncWrite;

/// Data up to this length is copied behind what it belongs to, to leave in one write.
const COPIED: usize = 16 * 1024;

/// The writing side of a connection.
#[derive(Default)]
pub(super) struct Writer {
    /// What goes first, of which so much is sent.
    small: BytesMut,
    sent: usize,
    /// What goes behind it: data that is not copied, and the line that ends it.
    large: Bytes,
    end: &'static [u8],
    /// Something was sent since the last flush.
    unflushed: bool,
}

impl Writer {
    /// Whether nothing waits to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.small.len() && self.large.is_empty() && self.end.is_empty()
    }

    /// Whether more may be put in before it has to be sent. Nothing may while a line's end waits: it would go before that.
    pub(super) fn has_room(&self) -> bool {
        self.small.len() < COPIED && self.large.is_empty() && self.end.is_empty()
    }

    /// For heads and lines. Nothing may be behind it yet.
    pub(super) fn lines(&mut self) -> &mut BytesMut {
        &mut self.small
    }

    /// Data, and the line that ends it, if any.
    pub(super) fn put(&mut self, data: Bytes, end: &'static [u8]) {
        if data.len() <= COPIED {
            self.small.reserve(data.len() + end.len());
            self.small.put_slice(&data);
            self.small.put_slice(end);
        } else {
            (self.large, self.end) = (data, end);
        }
    }

    /// Sends everything.
    pub(super) fn poll_send<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
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
        if self.unflushed {
            // TLS may have kept something back; for a socket this is nothing.
            ready!(Pin::new(io).poll_flush(cx))?;
            self.unflushed = false;
            self.small.clear();
            self.sent = 0;
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let small = written.min(self.small.len() - self.sent);
        let large = (written - small).min(self.large.len());
        self.unflushed = true;
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
