//! An answer as bytes: its head, and how its body is framed. When they go out is decided elsewhere.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, StatusCode, Version, response};
use http_body::Body;
use hyper::ext::ReasonPhrase;

use super::request::Asked;
use crate::clock::Clock;
use crate::server::BoxError;
use crate::wire::heads::{self, Written};
use crate::wire::{Framing, Writer};

/// Room for most heads.
const HEAD: usize = 1024;
/// How long a date is that HTTP writes.
const DATE_LENGTH: usize = 29;

/// An answer's body on its way into a connection. It is dropped at its end, and not only when the last of it is sent.
pub(super) struct Saying<B> {
    body: Option<B>,
    framing: Framing,
    end: io::Result<()>,
}

impl<B> Saying<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(body: B, framing: Framing) -> Self {
        let over = framing == Framing::Length(0);
        Self { body: Some(body).filter(|_| !over), framing, end: Ok(()) }
    }

    /// Puts in what there is of the body, and room for. Whether more is to come.
    pub(super) fn poll_more(&mut self, writer: &mut Writer, cx: &mut Context<'_>) -> Poll<bool> {
        while let Some(body) = &mut self.body {
            if !writer.has_room() {
                return Poll::Ready(true);
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers end here.
                    if let Ok(data) = frame.into_data() {
                        self.framing.put(data, writer);
                    }
                    if self.framing == Framing::Length(0) {
                        self.body = None;
                    }
                }
                Some(Err(error)) => (self.body, self.end) = (None, Err(io::Error::other(error))),
                None => {
                    self.body = None;
                    if !self.framing.end(writer) {
                        self.end = Err(io::Error::other("an answer's body is shorter than its length"));
                    }
                }
            }
        }
        Poll::Ready(false)
    }

    /// Whether it came to its end: if not, its client must see that.
    pub(super) fn end(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.end, Ok(()))
    }
}

/// Writes the head of an answer with this body. How the body is framed, and whether another request may follow: that is
/// said here, whatever the fields say. Lines say nothing of it.
pub(super) fn head(
    answer: &response::Parts,
    body: &impl Body,
    written: Option<&Written>,
    asked: &Asked,
    last: bool,
    out: &mut BytesMut,
) -> (Framing, bool) {
    let silent = has_none(answer.status);
    let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
    let framing = match length {
        _ if asked.bodiless || silent => Framing::Length(0),
        Some(length) => Framing::Length(length),
        None if asked.version == Version::HTTP_10 => Framing::UntilClose,
        None => Framing::Chunks,
    };
    out.reserve(HEAD);
    status_line(answer, asked.version, out);
    let switches = answer.status == StatusCode::SWITCHING_PROTOCOLS;
    let (mut dated, mut measured) = (false, false);
    let mut closes = last || !asked.keep_alive || framing == Framing::UntilClose;
    let passes = |name: &HeaderName, value: &HeaderValue| match name.as_str().len() {
        4 if *name == DATE => {
            dated = true;
            true
        }
        7 if *name == TRAILER => false,
        10 if *name == CONNECTION => {
            closes |= value.as_bytes().split(|byte| *byte == b',').any(|option| option.trim_ascii() == b"close");
            switches
        }
        14 if *name == CONTENT_LENGTH => {
            // The length of a body that is not sent is the door's to say.
            let holds = asked.bodiless || !silent && length.is_some() && number(value) == length;
            holds && !std::mem::replace(&mut measured, true)
        }
        17 if *name == TRANSFER_ENCODING => false,
        _ => true,
    };
    let spelling = match written {
        Some(Written::Spelled(spelling)) => Some(spelling),
        Some(Written::Lines(lines)) => {
            out.extend_from_slice(lines.as_bytes());
            None
        }
        None => None,
    };
    heads::write_some(&answer.headers, spelling, out, passes);
    // Writing to memory does not fail.
    let _ = match length {
        _ if framing == Framing::Chunks => out.write_str("transfer-encoding: chunked\r\n"),
        Some(length) if !(measured || silent || asked.bodiless && length == 0) => {
            write!(out, "content-length: {length}\r\n")
        }
        _ => Ok(()),
    };
    match asked.version {
        _ if switches => {}
        _ if closes => out.put_slice(b"connection: close\r\n"),
        Version::HTTP_10 => out.put_slice(b"connection: keep-alive\r\n"),
        _ => {}
    }
    if !dated {
        out.put_slice(b"date: ");
        put_date(out);
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
    (framing, !closes)
}

/// Whether an answer with this status has no body, nor says how long it is.
fn has_none(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn status_line(answer: &response::Parts, version: Version, out: &mut BytesMut) {
    let own = answer.extensions.get::<ReasonPhrase>();
    if (version, answer.status, own) == (Version::HTTP_11, StatusCode::OK, None) {
        return out.put_slice(b"HTTP/1.1 200 OK\r\n");
    }
    let reason =
        own.map_or_else(|| answer.status.canonical_reason().unwrap_or_default().as_bytes(), ReasonPhrase::as_bytes);
    out.put_slice(if version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.put_slice(answer.status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(reason);
    out.put_slice(b"\r\n");
}

fn number(value: &HeaderValue) -> Option<u64> {
    std::str::from_utf8(value.as_bytes()).ok()?.parse().ok()
}

/// The date, which a worker puts into words once a second.
fn put_date(out: &mut BytesMut) {
    thread_local! {
        static WORDS: Cell<(u64, [u8; DATE_LENGTH])> = const { Cell::new((u64::MAX, [0; DATE_LENGTH])) };
    }
    let now = Clock::wall_lately().0 / 1000;
    let (at, mut words) = WORDS.get();
    if at != now {
        let fresh = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        words.copy_from_slice(fresh.as_bytes());
        WORDS.set((now, words));
    }
    out.put_slice(&words);
}
