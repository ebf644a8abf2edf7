//! A connection's stream under watch: was a byte of the present request written, and was it written before the answer
//! began? It knows nothing of HTTP.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::Stream;

/// Nothing of the present request was written.
const CLEAN: u8 = 0;
/// A byte of it was written, or is being written now.
const TOUCHED: u8 = 1;
/// Nothing of it was written, and nothing ever will be.
const SEALED: u8 = 2;

/// What the sender of a request and the socket under it know of each other.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: AtomicU8,
    probe: AtomicBool,
    /// Something was read since the present request began to be written.
    heard: AtomicBool,
    /// Something was written after that.
    crossed: AtomicBool,
    /// No request was there before the present one.
    first: AtomicBool,
    /// The TLS between this line and the socket.
    tls: Option<ProtocolVersion>,
    /// The server takes nothing more, and yet may have answered.
    deaf: AtomicBool,
    /// The present request's answer has not begun; whether that request is HEAD.
    unanswered: AtomicBool,
    head: AtomicBool,
    /// Something came that is no answer.
    spoiled: AtomicBool,
}

impl Line {
    /// A line over a socket, or over TLS on it.
    pub(super) fn new(tls: Option<ProtocolVersion>) -> Self {
        Self { tls, ..Self::default() }
    }

    /// A new request begins. On a connection that lay idle, `probe` asks the socket itself whether the server has
    /// closed it, before anything is written: the event loop may not have heard of it yet. `head` says that the request
    /// is HEAD.
    pub(super) fn begin(&self, probe: bool, head: bool) {
        self.state.store(CLEAN, Ordering::Release);
        self.probe.store(probe, Ordering::Release);
        self.first.store(!probe, Ordering::Relaxed);
        self.heard.store(false, Ordering::Relaxed);
        self.crossed.store(false, Ordering::Relaxed);
        self.head.store(head, Ordering::Relaxed);
        self.unanswered.store(true, Ordering::Relaxed);
    }

    /// Whether bytes that come now begin the answer to the present request, and then, whether that is HEAD. What comes
    /// before a byte of the request was written answers nothing.
    pub(super) fn await_answer(&self) -> Option<bool> {
        let sent = self.state.load(Ordering::Relaxed) == TOUCHED;
        (sent && self.unanswered.swap(false, Ordering::Relaxed)).then(|| self.head.load(Ordering::Relaxed))
    }

    /// The server said something that is no answer, or began to answer before it had the whole request. Such a server may
    /// take what came later for another request and answer that too: on this connection, nobody's next answer can be
    /// trusted. Nor to one that takes nothing more.
    pub(super) fn is_spoiled(&self) -> bool {
        [&self.crossed, &self.spoiled, &self.deaf].into_iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Something came that is no answer, or none that can be read.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    /// Whether a server that turns down this gateway's certificate cannot have read the present request. TLS 1.3 lets
    /// a client speak before its certificate was looked at; the server reads nothing of it until it has looked.
    pub(super) fn is_before_admission(&self) -> bool {
        self.tls == Some(ProtocolVersion::TLSv1_3) && self.first.load(Ordering::Relaxed)
    }

    fn hear(&self) {
        if self.state.load(Ordering::Relaxed) == TOUCHED {
            self.heard.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nothing of the present request was written. If so, nothing will be: the socket refuses from now on.
    pub(super) fn seal(&self) -> bool {
        self.state.compare_exchange(CLEAN, SEALED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Runs a write of `length` bytes, marked as begun before the first byte can leave, so that no byte slips past a
    /// seal.
    ///
    /// A server may answer an upload early and close. hyper gives up at the failed write, and with it the answer that
    /// waits to be read. So in the middle of a request a deaf server is not told: what is left of the request goes
    /// nowhere, and the reading side finds the answer, or the end.
    fn write(&self, length: usize, write: impl FnOnce() -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let first = match self.state.compare_exchange(CLEAN, TOUCHED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(SEALED) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Err(_) => false,
        };
        if !first && self.deaf.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(length));
        }
        let written = write();
        let moved = matches!(written, Poll::Ready(Ok(1..)));
        if moved && self.heard.load(Ordering::Relaxed) {
            self.crossed.store(true, Ordering::Relaxed);
        }
        let moved_nothing = match &written {
            Poll::Pending | Poll::Ready(Ok(0)) => true,
            Poll::Ready(Ok(_)) => false,
            // TLS may have written a part before it failed.
            Poll::Ready(Err(_)) => self.tls.is_none(),
        };
        if first && moved_nothing {
            self.state.store(CLEAN, Ordering::Release);
        }
        if !first && matches!(&written, Poll::Ready(Err(error)) if is_closed(error)) {
            self.deaf.store(true, Ordering::Relaxed);
            return Poll::Ready(Ok(length));
        }
        written
    }
}

/// Whether the other side takes nothing more: reading then ends by itself, with or without an answer.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The stream. Only its first write of a request costs more than without a watch.
pub(super) struct Wire {
    io: Stream,
    line: Arc<Line>,
}

impl Wire {
    pub(super) fn new(stream: Stream, line: Arc<Line>) -> Self {
        Self { io: stream, line }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        // hyper reads an idle connection before it takes the next request from its queue. So an end found here
        // gives the request back unsent.
        if read.is_pending() && self.line.probe.swap(false, Ordering::AcqRel) {
            return self.io.look();
        }
        if read.is_ready() {
            self.line.hear();
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.line.write(buf.len(), || Pin::new(&mut this.io).poll_write(cx, buf))
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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let length = bufs.iter().map(|buf| buf.len()).sum();
        this.line.write(length, || Pin::new(&mut this.io).poll_write_vectored(cx, bufs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_overtakes_its_request_is_noticed() {
        let line = Line::default();
        let write = || drop(line.write(9, || Poll::Ready(Ok(1))));
        line.begin(false, false);
        line.hear();
        write();
        write();
        assert!(!line.is_spoiled(), "what is read before the request is none of its answer");
        line.hear();
        assert!(!line.is_spoiled(), "an answer after the last byte is as it should be");
        write();
        assert!(line.is_spoiled());
        line.begin(false, false);
        assert!(!line.is_spoiled());
    }

    #[test]
    fn a_written_byte_cannot_be_sealed_away() {
        let line = Line::default();
        assert!(matches!(line.write(9, || Poll::Ready(Ok(1))), Poll::Ready(Ok(1))));
        assert!(!line.seal());
        assert!(matches!(line.write(9, || Poll::Ready(Ok(7))), Poll::Ready(Ok(7))));
    }

    #[test]
    fn a_write_that_moved_nothing_leaves_the_line_clean() {
        let outcomes = [Poll::Pending, Poll::Ready(Ok(0)), Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))];
        for outcome in outcomes {
            let line = Line::default();
            let shown = format!("{outcome:?}");
            drop(line.write(9, || outcome));
            assert!(line.seal(), "{shown}");
        }
    }

    #[test]
    fn a_write_that_failed_under_tls_may_have_moved_something() {
        let line = Line::new(Some(ProtocolVersion::TLSv1_3));
        drop(line.write(9, || Poll::Pending));
        assert!(line.write(9, || Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))).is_ready());
        assert!(!line.seal());
    }

    #[test]
    fn only_the_first_request_in_tls_1_3_comes_before_the_certificate_was_looked_at() {
        for (tls, expected) in
            [(None, false), (Some(ProtocolVersion::TLSv1_2), false), (Some(ProtocolVersion::TLSv1_3), true)]
        {
            let line = Line::new(tls);
            line.begin(false, false);
            assert_eq!(line.is_before_admission(), expected, "{tls:?}");
            line.begin(true, false);
            assert!(!line.is_before_admission());
        }
    }

    #[test]
    fn a_server_that_takes_nothing_more_is_heard_out() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset] {
            let line = Line::default();
            assert!(line.write(9, || Poll::Ready(Ok(5))).is_ready());
            assert!(!line.is_spoiled());
            assert!(matches!(line.write(9, || Poll::Ready(Err(kind.into()))), Poll::Ready(Ok(9))));
            let more = line.write(7, || panic!("the socket was asked to write"));
            assert!(matches!(more, Poll::Ready(Ok(7))));
            assert!(line.is_spoiled(), "no further request");
            line.begin(true, false);
            assert!(line.is_spoiled(), "whoever asks");
        }
    }

    #[test]
    fn a_failed_write_after_a_good_one_proves_nothing() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::TimedOut] {
            let line = Line::default();
            assert!(line.write(9, || Poll::Ready(Ok(5))).is_ready());
            let failed = line.write(9, || Poll::Ready(Err(kind.into())));
            assert_eq!(matches!(failed, Poll::Ready(Err(_))), kind == io::ErrorKind::TimedOut);
            assert!(!line.seal());
        }
    }

    #[test]
    fn a_sealed_line_writes_nothing_more() {
        let line = Line::default();
        assert!(line.seal());
        let written = line.write(9, || panic!("the socket was asked to write"));
        assert!(matches!(written, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn nobody_can_seal_a_line_while_it_writes() {
        let line = Line::default();
        let written = line.write(9, || {
            assert!(!line.seal());
            Poll::Ready(Ok(3))
        });
        assert!(matches!(written, Poll::Ready(Ok(3))));
    }
}
