//! A request on its way out: its head, then its body as that comes. It knows whether a byte has left, and nothing of
//! answers.

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Request;
use http::header::TRANSFER_ENCODING;
use http_body::Body;
use tokio::io::AsyncWrite;

use super::Outgoing;
use crate::wire::InboundError;
use crate::wire::heads::{self, Spelling};

/// Data up to this length is copied behind the lines before it, to leave with them.
const COPIED: usize = 16 * 1024;
/// Room for most heads.
const HEAD: usize = 1024;

/// A request, as far as it has been sent.
#[derive(Debug)]
pub(super) struct Sending {
    /// What goes next: lines, then data as it came, then the line that ends it.
    lines: BytesMut,
    data: Bytes,
    end: &'static [u8],
    body: Framing,
    /// No more comes of the body.
    whole: bool,
    stage: Stage,
    /// What was taken of the body before a byte left.
    taken: Bytes,
    /// There is TLS between this and the socket.
    secure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not a byte of the request was given away.
    Unsent,
    Begun,
    /// All of it has left.
    Over,
    /// The server takes nothing more, and yet may have answered: the rest goes nowhere.
    Deaf,
}

#[derive(Debug)]
enum Framing {
    /// So many bytes are to come.
    Length(u64),
    Chunks,
}

/// Why a request goes no further.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error(transparent)]
    Wire(#[from] io::Error),
    /// The client's fault.
    #[error(transparent)]
    Body(#[from] InboundError),
    #[error("the client's body has another length than it said")]
    Length,
}

impl Sending {
    /// A request of which nothing was sent. It stays as it is until a byte of it leaves.
    pub(super) fn of(request: &Request<Outgoing>, secure: bool) -> Self {
        // As the head says: since that was made, a body whose length was not known may have come to its end.
        let chunked = request.headers().contains_key(TRANSFER_ENCODING);
        let length = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
        let length = length.filter(|_| !chunked);
        let whole = if let Outgoing::Whole(bytes) = request.body() { bytes.clone() } else { Bytes::new() };
        let (copied, data) = if whole.len() <= COPIED { (whole, Bytes::new()) } else { (Bytes::new(), whole) };
        let mut lines = BytesMut::with_capacity(HEAD + copied.len());
        write_head(request, &mut lines);
        lines.put_slice(&copied);
        Self {
            lines,
            data,
            end: b"",
            whole: length == Some(0) && request.body().is_end_stream() || matches!(request.body(), Outgoing::Whole(_)),
            body: length.map_or(Framing::Chunks, Framing::Length),
            stage: Stage::Unsent,
            taken: Bytes::new(),
            secure,
        }
    }

    /// Whether a byte of it was written, as far as anybody can tell.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Unsent
    }

    /// Whether nothing more of it will be written.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over | Stage::Deaf)
    }

    /// Whether the server stopped taking it.
    pub(super) fn is_unheard(&self) -> bool {
        self.stage == Stage::Deaf
    }

    /// Makes the body again what it was, when no byte of the request was written.
    pub(super) fn give_back(&mut self, body: &mut Outgoing) {
        let begun = std::mem::take(&mut self.taken);
        if begun.is_empty() {
            return;
        }
        *body = match std::mem::replace(body, Outgoing::Whole(Bytes::new())) {
            Outgoing::Streaming(rest) | Outgoing::Resumed { rest, .. } => Outgoing::Resumed { begun, rest },
            whole @ Outgoing::Whole(_) => whole,
        };
    }

    /// Sends on. Ready when it is over.
    ///
    /// A server may answer an upload early and close. So in the middle of a request, one that takes nothing more is no
    /// error: the rest goes nowhere, and whoever reads finds the answer, or the end.
    pub(super) fn poll(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        body: &mut Outgoing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        if self.is_over() {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.poll_all(stream, body, cx)) {
            Ok(()) => self.stage = Stage::Over,
            Err(Stopped::Wire(_)) if self.is_unheard() => {}
            Err(stopped) => return Poll::Ready(Err(stopped)),
        }
        Poll::Ready(Ok(()))
    }

    fn poll_all(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        body: &mut Outgoing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            // What the body has already goes along with the head.
            let first = !self.has_begun() && self.taken.is_empty();
            // One that has its length and goes on is none: nothing of it should leave.
            let full = !self.has_begun() && matches!(self.body, Framing::Length(0));
            if !self.whole && (first || full || self.is_empty()) {
                match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Ready(frame) => {
                        self.take(frame.transpose()?.map(http_body::Frame::into_data))?;
                        if !self.whole && matches!(self.body, Framing::Length(0)) {
                            continue;
                        }
                    }
                    Poll::Pending if self.is_empty() => {
                        ready!(self.flush(stream, cx))?;
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
            }
            ready!(self.write(stream, cx))?;
            if self.whole {
                return self.flush(stream, cx).map_err(Stopped::Wire);
            }
        }
    }

    /// Takes what the body has to say next; none is its end. Trailers end here.
    fn take<T>(&mut self, data: Option<Result<Bytes, T>>) -> Result<(), Stopped> {
        let ended = data.is_none();
        let data = data.and_then(Result::ok).unwrap_or_default();
        if !self.has_begun() && !data.is_empty() {
            self.taken = data.clone();
        }
        match &mut self.body {
            Framing::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(Stopped::Length)?;
                if ended && *left > 0 {
                    return Err(Stopped::Length);
                }
                self.whole = ended;
                self.put(data, b"");
            }
            Framing::Chunks if ended => {
                self.whole = true;
                self.lines.put_slice(b"0\r\n\r\n");
            }
            Framing::Chunks if data.is_empty() => {}
            Framing::Chunks => {
                // Writing to memory cannot fail.
                let _ = write!(self.lines, "{:x}\r\n", data.len());
                self.put(data, b"\r\n");
            }
        }
        Ok(())
    }

    fn put(&mut self, data: Bytes, end: &'static [u8]) {
        if data.len() <= COPIED {
            self.lines.put_slice(&data);
            self.lines.put_slice(end);
        } else {
            (self.data, self.end) = (data, end);
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.data.is_empty() && self.end.is_empty()
    }

    /// Writes what goes next.
    fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let written = if self.data.is_empty() && self.end.is_empty() {
                Pin::new(&mut *stream).poll_write(cx, &self.lines)
            } else {
                let all = [IoSlice::new(&self.lines), IoSlice::new(&self.data), IoSlice::new(self.end)];
                Pin::new(&mut *stream).poll_write_vectored(cx, &all)
            };
            match ready!(written) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => self.wrote(written),
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn flush(&mut self, stream: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_flush(cx).map_err(|error| self.failed(error))
    }

    fn failed(&mut self, error: io::Error) -> io::Error {
        if self.has_begun() && is_closed(&error) {
            self.stage = Stage::Deaf;
        } else if self.secure {
            // TLS may have written a part before it failed.
            self.stage = Stage::Begun;
        }
        error
    }

    fn wrote(&mut self, written: usize) {
        if !self.has_begun() {
            self.stage = Stage::Begun;
            self.taken = Bytes::new();
        }
        let lines = written.min(self.lines.len());
        self.lines.advance(lines);
        let data = (written - lines).min(self.data.len());
        self.data.advance(data);
        self.end = &self.end[written - lines - data..];
    }
}

/// Whether the other side takes nothing more: reading then ends by itself, with or without an answer.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The target in origin form, byte for byte, and the fields as they are.
fn write_head(request: &Request<Outgoing>, out: &mut BytesMut) {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let slash = if target.starts_with(['/', '*']) { "" } else { "/" };
    for part in [request.method().as_str(), " ", slash, target, " HTTP/1.1\r\n"] {
        out.put_slice(part.as_bytes());
    }
    heads::write(request.headers(), request.extensions().get::<Spelling>(), out);
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
