//! A client's connection under a clock: how long a head may come, a rest may last, a write may wait. Of HTTP it knows
//! what its watch is told.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::Doorway;
use crate::clock::Clock;
use crate::telemetry::{Metrics, Timeout};
use crate::wire::{Ahead, Alarm, Phase, Watch};

/// How long a connection that is being closed still reads what its client sends, so that the client gets to read the
/// answer: closed with unread bytes, it would be reset.
const LINGER: Duration = Duration::from_secs(5);
/// How much it reads then, at most.
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A connection that can be cut: when it is dropped after that, what waits to be sent is thrown away and the client told.
/// Else the system would keep it for a client that does not read.
pub(super) trait Cut {
    /// From now on, the connection's end is a reset, or one no longer.
    fn cut(&self, resets: bool);
}

impl Cut for TcpStream {
    fn cut(&self, resets: bool) {
        if let Err(error) = SockRef::from(self).set_linger(resets.then_some(Duration::ZERO)) {
            tracing::debug!(%error, "SO_LINGER");
        }
    }
}

impl<IO: Cut> Cut for TlsStream<IO> {
    fn cut(&self, resets: bool) {
        self.get_ref().0.cut(resets);
    }
}

impl<IO: Cut> Cut for Ahead<IO> {
    fn cut(&self, resets: bool) {
        self.get_ref().cut(resets);
    }
}

impl<S: Cut> Cut for Pace<S> {
    fn cut(&self, resets: bool) {
        self.stream.cut(resets);
    }
}

/// A connection under a clock.
pub(super) struct Pace<S> {
    stream: S,
    watch: Arc<Watch>,
    metrics: Arc<Metrics>,
    header_timeout: Duration,
    keep_alive_timeout: Duration,
    send_timeout: Duration,
    alarm: Alarm,
    /// Since when a write makes no progress.
    stuck: Option<Instant>,
    /// What a client is told whose head comes too slowly.
    too_slow: Bytes,
    closing: Closing,
}

/// How far the connection's end has come.
enum Closing {
    No,
    /// The rest of what a slow client is told.
    Telling(Bytes, Instant),
    /// Nothing more is written, from then on it is not waited for.
    Ending(Instant),
    /// What still comes is read and thrown away: until then, and so much.
    Lingering(Instant, usize),
    Done,
}

impl<S: AsyncRead + AsyncWrite + Cut + Unpin> Pace<S> {
    pub(super) fn new(stream: S, watch: Arc<Watch>, doorway: &Doorway) -> Self {
        Self {
            stream,
            watch,
            metrics: Arc::clone(&doorway.metrics),
            header_timeout: doorway.limits.header_timeout,
            keep_alive_timeout: doorway.limits.keep_alive_timeout,
            send_timeout: doorway.limits.send_timeout,
            alarm: Alarm::default(),
            stuck: None,
            too_slow: doorway.too_slow.clone(),
            closing: Closing::No,
        }
    }

    /// Nothing has come: is it time to wait no longer? To a rest's end the answer is the end of input, to a head's an
    /// answer and an error.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.watch.waits(cx.waker()) {
            Phase::Busy => {
                // A rest may begin while nobody reads. It cannot end before this, and is looked at again then.
                let _ = self.alarm.poll_until(cx, Clock::lately() + self.keep_alive_timeout);
                Poll::Pending
            }
            Phase::Leaving => Poll::Ready(Ok(())),
            Phase::Rest(since) => {
                ready!(self.alarm.poll_until(cx, since + self.keep_alive_timeout));
                self.metrics.timed_out(Timeout::KeepAlive);
                Poll::Ready(Ok(()))
            }
            Phase::Head(since) => {
                ready!(self.alarm.poll_until(cx, since + self.header_timeout));
                self.metrics.timed_out(Timeout::Header);
                self.closing = Closing::Telling(std::mem::take(&mut self.too_slow), Clock::instant() + LINGER);
                self.poll_close(cx).map(|_| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Says what is left to say, ends the writing side, and reads on for a while if the client may be sending.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.closing = match &mut self.closing {
                Closing::No => Closing::Ending(Clock::instant() + LINGER),
                Closing::Telling(words, until) if words.is_empty() => Closing::Ending(*until),
                Closing::Telling(words, until) => {
                    let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, words) else {
                        ready!(self.alarm.poll_until(cx, *until));
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    };
                    words.advance(written?);
                    continue;
                }
                Closing::Ending(until) => {
                    let Poll::Ready(ended) = Pin::new(&mut self.stream).poll_shutdown(cx) else {
                        ready!(self.alarm.poll_until(cx, *until));
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    };
                    ended?;
                    if self.watch.closes() { Closing::Lingering(*until, LINGER_BYTES) } else { Closing::Done }
                }
                Closing::Lingering(..) => {
                    ready!(self.poll_linger(cx));
                    Closing::Done
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering(until, left) = &mut self.closing else { return Poll::Ready(()) };
        let mut bin = [0; 8 * 1024];
        loop {
            let mut bin = ReadBuf::new(&mut bin);
            match Pin::new(&mut self.stream).poll_read(cx, &mut bin) {
                Poll::Ready(Ok(())) if (1..*left).contains(&bin.filled().len()) => *left -= bin.filled().len(),
                Poll::Ready(_) => return Poll::Ready(()),
                // Whoever needs the place may have it.
                Poll::Pending if self.watch.waits(cx.waker()) == Phase::Leaving => return Poll::Ready(()),
                Poll::Pending => return self.alarm.poll_until(cx, *until),
            }
        }
    }

    /// What a write came to; one that has waited too long for its client ends the connection.
    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stuck.take().is_some() {
                self.watch.stuck(false);
            }
            return written;
        }
        let since = *self.stuck.get_or_insert_with(|| {
            self.watch.stuck(true);
            Clock::instant()
        });
        ready!(self.alarm.poll_until(cx, since + self.send_timeout));
        self.metrics.timed_out(Timeout::ClientWrite);
        self.stream.cut(true);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Cut + Unpin> AsyncRead for Pace<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !matches!(this.closing, Closing::No) {
            return this.poll_close(cx).map(|_| Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buf) else { return this.poll_wait(cx) };
        if buf.filled().len() > before && !this.watch.heard() {
            buf.set_filled(before);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + AsyncWrite + Cut + Unpin> AsyncWrite for Pace<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.judge(cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.judge(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.judge(cx, written)
    }
}
