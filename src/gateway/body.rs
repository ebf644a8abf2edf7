//! What an answer's body can be, and bytes of a body as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::mpsc;

use super::entry::Closing;
use super::limits::{Hold, Slot};
use crate::telemetry::{Metrics, Timeout};
use crate::upstream::{self, BodyError};
use crate::wire::AnswerBody;
use crate::wire::heads::{Lines, Spelling, Written};

/// Why an answer's body ends before its end.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A part of a streamed answer.
pub(super) enum Piece {
    /// Some bytes.
    Data(Bytes),
    /// The whole body was passed on. A stream that ends without this was cut short, and its client must see that.
    End,
}

/// An answer's body.
pub struct Body {
    kind: Kind,
    /// The answer's line in the access log, which is written when the body is gone.
    line: Option<Closing>,
    /// How the fields are written that it came with, if that is known.
    written: Option<Written>,
}

enum Kind {
    Whole(Option<Bytes>),
    /// Whole, and counted against the gateway's budget for as long as it is kept.
    Held(Option<Bytes>, #[expect(dead_code, reason = "held until the body is gone")] Arc<Hold>),
    /// Straight from the upstream. Boxed: answers are handed on by value, and most are whole.
    Upstream(Box<Passing>),
    /// From an attempt that goes on whether or not anybody reads.
    Stream(mpsc::Receiver<Piece>, Option<u64>),
}

/// A body on its way through; its request counts as under way until the end.
struct Passing {
    body: upstream::Incoming,
    _slot: Slot,
    metrics: Arc<Metrics>,
}

impl Body {
    fn of(kind: Kind) -> Self {
        Self { kind, line: None, written: None }
    }

    /// No bytes.
    pub fn empty() -> Self {
        Self::of(Kind::Whole(None))
    }

    /// These bytes.
    pub fn whole(bytes: Bytes) -> Self {
        Self::of(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn held(bytes: Bytes, hold: Arc<Hold>) -> Self {
        Self::of(Kind::Held(Some(bytes).filter(|bytes| !bytes.is_empty()), hold))
    }

    pub(super) fn upstream(mut body: upstream::Incoming, slot: Slot, metrics: &Arc<Metrics>) -> Self {
        let spelling = body.take_spelling();
        let passing = Passing { body, _slot: slot, metrics: Arc::clone(metrics) };
        Self::of(Kind::Upstream(Box::new(passing))).spelled(spelling)
    }

    pub(super) fn stream(pieces: mpsc::Receiver<Piece>, length: Option<u64>) -> Self {
        Self::of(Kind::Stream(pieces, length))
    }

    /// The same, whose head was spelled so.
    pub(super) fn spelled(self, spelling: Option<Spelling>) -> Self {
        Self { written: spelling.map(Written::Spelled), ..self }
    }

    /// Has these lines written in the head before it. Nothing but HTTP/1.1 does that.
    pub(super) fn follows(&mut self, lines: Lines) {
        self.written = Some(Written::Lines(lines));
    }

    /// The lines of its head, where it has such.
    pub(super) fn lines(&mut self) -> Option<&mut Lines> {
        match &mut self.written {
            Some(Written::Lines(lines)) => Some(lines),
            Some(Written::Spelled(_)) | None => None,
        }
    }

    /// Has a line written when the body is gone.
    pub(super) fn closes(&mut self, line: Closing) {
        self.line = Some(line);
    }
}

impl AnswerBody for Body {
    fn take_written(&mut self) -> Option<Written> {
        self.written.take()
    }
}

impl Kind {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Whole(bytes) | Self::Held(bytes, _) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Upstream(passing) => Pin::new(&mut passing.body).poll_frame(cx).map_err(|error| {
                count(&error, &passing.metrics);
                error.into()
            }),
            Self::Stream(pieces, _) => pieces.poll_recv(cx).map(|piece| match piece {
                Some(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(Piece::End) => None,
                None => Some(Err("the upstream's answer was cut short".into())),
            }),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = self.kind.poll_frame(cx);
        if let (Some(line), Poll::Ready(Some(Ok(frame)))) = (&mut self.line, &polled) {
            line.sends(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) | Kind::Held(bytes, _) => bytes.is_none(),
            Kind::Upstream(passing) => passing.body.is_end_stream(),
            Kind::Stream(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) | Kind::Held(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Upstream(passing) => passing.body.size_hint(),
            Kind::Stream(_, length) => length.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// Whether a client's connection writes heads that are lines already.
pub(super) fn takes_lines(version: Version) -> bool {
    version < Version::HTTP_2
}

/// Counts an answer that came to no end, if it took too long.
pub(super) fn count(error: &BodyError, metrics: &Metrics) {
    match error {
        BodyError::Broken(_) => {}
        BodyError::Idle => metrics.timed_out(Timeout::UpstreamIdle),
        BodyError::Overtime => metrics.timed_out(Timeout::Total),
    }
}

/// Makes an answer's head say of its body what is true of it, in the client's version of HTTP.
///
/// A length that is not the body's own stands only where there is no body to have one.
pub(super) fn frame(response: &mut Response<Body>, method: &Method, version: Version) {
    let length = response.body().size_hint().exact();
    let bodiless = *method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
    let stated = response.headers().get(CONTENT_LENGTH);
    let is_true = |stated: &HeaderValue| length.is_some_and(|length| says(stated.as_bytes(), length));
    if !bodiless && stated.is_some_and(|stated| !is_true(stated)) {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    // HTTP/1.0 knows no chunks: there a body of unknown length ends with its connection, which then is not kept alive.
    let until_close = version == Version::HTTP_10 && length.is_none();
    *response.version_mut() = if until_close { Version::HTTP_10 } else { Version::HTTP_11 };
}

/// Whether a text is this number in its one spelling.
fn says(text: &[u8], number: u64) -> bool {
    let value = |sum: u64, digit: &u8| {
        sum.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0').filter(|value| *value < 10)?))
    };
    let one_spelling = matches!(text, [b'0'] | [b'1'..=b'9', ..]);
    one_spelling && text.iter().try_fold(0, value) == Some(number)
}

/// Bytes of a body as they come. The usual body comes in one frame and is not copied.
pub(super) struct Gathered {
    first: Bytes,
    more: Vec<u8>,
    /// How much is announced; none of it is made room for before it comes.
    announced: usize,
}

impl Gathered {
    /// Of a body that says this about its size.
    pub(super) fn of(size: &SizeHint) -> Self {
        let announced = size.exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        Self { first: Bytes::new(), more: Vec::new(), announced }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    /// The memory that they take.
    pub(super) fn held(&self) -> usize {
        self.first.len() + self.more.capacity()
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.first = bytes;
            return;
        }
        let first = std::mem::take(&mut self.first);
        let needed = self.more.len() + first.len() + bytes.len();
        if needed > self.more.capacity() {
            let room = needed.max((2 * self.more.capacity()).min(self.announced));
            self.more.reserve_exact(room - self.more.len());
        }
        self.more.extend_from_slice(&first);
        self.more.extend_from_slice(&bytes);
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(size: &SizeHint, pieces: usize) -> Gathered {
        let mut gathered = Gathered::of(size);
        for _ in 0..pieces {
            gathered.push(Bytes::from_static(&[b'x'; 100]));
        }
        gathered
    }

    #[test]
    fn memory_follows_the_bytes_and_ends_at_what_is_announced() {
        let announced = SizeHint::with_exact(900);
        for (size, pieces, held) in [(&announced, 1, 100), (&announced, 2, 200), (&announced, 9, 900)] {
            let gathered = gather(size, pieces);
            assert_eq!((gathered.len(), gathered.held()), (100 * pieces, held), "{pieces}");
        }
        let unannounced = gather(&SizeHint::default(), 9);
        assert!((900..=1_800).contains(&unannounced.held()), "{}", unannounced.held());
        assert_eq!(unannounced.into_bytes(), vec![b'x'; 900]);
    }

    /// Version and Content-Length of an answer that came with `stated` before a body of these bytes.
    fn framed(method: &Method, status: u16, version: Version, stated: &str, body: Body) -> (Version, Option<String>) {
        let mut response = Response::builder().status(status).header(CONTENT_LENGTH, stated).body(body).unwrap();
        frame(&mut response, method, version);
        let stated = response.headers().get(CONTENT_LENGTH).map(|stated| stated.to_str().unwrap().to_owned());
        (response.version(), stated)
    }

    #[test]
    fn a_length_is_the_bodys_own_or_that_of_a_body_that_is_not_sent() {
        let of = |method: &Method, status, stated, body: &'static str| {
            framed(method, status, Version::HTTP_11, stated, Body::whole(body.into())).1
        };
        assert_eq!(of(&Method::GET, 200, "3", "abc").as_deref(), Some("3"));
        assert_eq!(of(&Method::GET, 200, "5", "abc"), None);
        for other in ["+3", "03", "3 ", "", "-", "18446744073709551619"] {
            assert_eq!(of(&Method::GET, 200, other, "abc"), None, "{other}");
        }
        assert_eq!(of(&Method::GET, 200, "0", "").as_deref(), Some("0"));
        assert_eq!(of(&Method::GET, 200, "00", ""), None);
        assert_eq!(of(&Method::GET, 200, "12", "abcdefghijkl").as_deref(), Some("12"));
        assert_eq!(of(&Method::HEAD, 200, "5", "").as_deref(), Some("5"));
        assert_eq!(of(&Method::GET, 304, "5", "").as_deref(), Some("5"));
        assert_eq!(of(&Method::GET, 204, "5", ""), None);
    }

    #[test]
    fn a_body_of_unknown_length_ends_with_the_connection_of_an_old_client() {
        let of = |version, length| {
            let (_, pieces) = mpsc::channel(1);
            framed(&Method::GET, 200, version, "3", Body::stream(pieces, length))
        };
        assert_eq!(of(Version::HTTP_10, None), (Version::HTTP_10, None));
        assert_eq!(of(Version::HTTP_10, Some(3)), (Version::HTTP_11, Some("3".to_owned())));
        assert_eq!(of(Version::HTTP_11, None), (Version::HTTP_11, None));
    }
}
