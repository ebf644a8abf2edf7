//! A stream that was read further than it was understood: what was read comes again. It understands nothing itself.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// How much is read at once, in bytes: most requests' heads.
const STEP: usize = 2048;

/// A stream, and what was read of it but not used.
pub struct Ahead<IO> {
    io: IO,
    read: BytesMut,
}

impl<IO> Ahead<IO> {
    /// A stream of which nothing was read.
    pub fn new(io: IO) -> Self {
        Self { io, read: BytesMut::new() }
    }

    /// A stream of which this was read, by somebody who had no use for it.
    pub fn behind(read: Bytes, io: IO) -> Self {
        Self { io, read: read.into() }
    }

    /// The stream itself.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// What was read and not used.
    pub fn seen(&self) -> &[u8] {
        &self.read
    }

    /// Reads some more; false at the stream's end.
    ///
    /// # Errors
    /// When the stream is broken.
    pub async fn more(&mut self) -> io::Result<bool>
    where
        IO: AsyncRead + Unpin,
    {
        self.read.reserve(STEP);
        Ok(self.io.read_buf(&mut self.read).await? > 0)
    }

    /// Drops bytes that were seen: they do not come again.
    pub fn consume(&mut self, count: usize) {
        self.read.advance(count);
    }
}

impl<IO> fmt::Debug for Ahead<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Ahead<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let count = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..count]);
        self.read.advance(count);
        if self.read.is_empty() {
            // The connection may live long; its beginning need not be kept.
            self.read = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Ahead<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn what_was_seen_comes_again_and_what_was_consumed_does_not() {
        let (mut far, near) = tokio::io::duplex(64);
        far.write_all(b"abcdef").await.unwrap();
        let mut ahead = Ahead::new(near);
        assert!(ahead.more().await.unwrap());
        assert_eq!(ahead.seen(), b"abcdef");
        ahead.consume(2);
        far.write_all(b"gh").await.unwrap();
        drop(far);
        let mut rest = Vec::new();
        ahead.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"cdefgh");
        assert!(!ahead.more().await.unwrap());
    }
}
