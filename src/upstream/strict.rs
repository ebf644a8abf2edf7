//! An upstream's connection under hyper, read strictly: hyper sees only answers that have one meaning, each to a request
//! that was sent. It works on any stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::Line;
use crate::wire::Sieve;
use crate::wire::framing::{Answers, Limits};

/// The connection.
pub(super) struct Strict<S> {
    stream: S,
    line: Arc<Line>,
    sieve: Sieve<Answers>,
}

impl<S> Strict<S> {
    pub(super) fn new(stream: S, line: Arc<Line>) -> Self {
        Self { stream, line, sieve: Sieve::new(Answers::new(Limits::ANSWER)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, line, sieve } = self.get_mut();
        if sieve.machine().is_idle()
            && let Some(head) = line.await_answer()
        {
            sieve.machine_mut().asked(head);
        }
        let before = buf.filled().len();
        ready!(sieve.poll_read(stream, cx, buf))?;
        let Some(fault) = sieve.fault() else { return Poll::Ready(Ok(())) };
        line.spoil();
        // An answer that is whole goes to whom it belongs, whatever comes after it. Of a broken one nothing more is
        // needed: where its head came along with the fault, its client gets an error rather than half an answer.
        if sieve.machine().is_idle() && buf.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        buf.set_filled(before);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
