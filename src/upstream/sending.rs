//! A request on its way out: its head, then its body as that comes. It knows whether a byte has left, and nothing of
//! answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http::header::TRANSFER_ENCODING;
use http_body::Body;
use tokio::io::AsyncWrite;

use super::Outgoing;
use super::behalf::Behalf;
use super::headers::Added;
use crate::wire::heads;
use crate::wire::{COPIED, Framing, InboundError, Writer};

/// Room for most heads.
const HEAD: usize = 1024;

/// A request, as far as it has been sent.
#[derive(Debug)]
pub(super) struct Sending {
    /// What goes next.
    out: Writer,
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
    pub(super) fn of(request: &Request<Outgoing>, behalf: &dyn Behalf, secure: bool) -> Self {
        // As the head says: since that was made, a body whose length was not known may have come to its end.
        let chunked = request.headers().contains_key(TRANSFER_ENCODING);
        let length = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
        let length = length.filter(|_| !chunked);
        let whole = if let Outgoing::Whole(bytes) = request.body() { bytes.clone() } else { Bytes::new() };
        let mut out = Writer::default();
        out.lines().reserve(HEAD + if whole.len() <= COPIED { whole.len() } else { 0 });
        write_head(request, behalf, out.lines());
        out.put(whole, b"");
        Self {
            out,
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
            if !self.whole && (first || full || self.out.is_empty()) {
                match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Ready(frame) => {
                        self.take(frame.transpose()?.map(http_body::Frame::into_data))?;
                        if !self.whole && matches!(self.body, Framing::Length(0)) {
                            continue;
                        }
                    }
                    Poll::Pending if self.out.is_empty() => {
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
        if !self.body.has_room_for(data.len()) {
            return Err(Stopped::Length);
        }
        self.body.put(data, &mut self.out);
        if ended && !self.body.end(&mut self.out) {
            return Err(Stopped::Length);
        }
        self.whole = ended;
        Ok(())
    }

    /// Writes what goes next.
    fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.out.poll_write(stream, cx);
        if !self.has_begun() && self.out.has_begun() {
            self.stage = Stage::Begun;
            self.taken = Bytes::new();
        }
        written.map_err(|error| self.failed(error))
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
}

/// Whether the other side takes nothing more: reading then ends by itself, with or without an answer.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The target in origin form, byte for byte, the fields as they are, and those that are added.
fn write_head(request: &Request<Outgoing>, behalf: &dyn Behalf, out: &mut BytesMut) {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let slash = if target.starts_with(['/', '*']) { "" } else { "/" };
    for part in [request.method().as_str(), " ", slash, target, " HTTP/1.1\r\n"] {
        out.put_slice(part.as_bytes());
    }
    heads::write(request.headers(), behalf.spelling(), out);
    out.put_slice(behalf.added().map_or(&[], Added::lines));
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
