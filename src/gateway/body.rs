//! What an answer's body can be, and bytes of a body as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use super::limits::{Hold, Slot};
use crate::telemetry::{Metrics, Timeout};
use crate::upstream::{self, BodyError};

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
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    /// Whole, and counted against the gateway's budget for as long as it is kept.
    Held(Option<Bytes>, #[expect(dead_code, reason = "held until the body is gone")] Arc<Hold>),
    /// Straight from the upstream; the request counts as under way until the end.
    Upstream(upstream::Incoming, #[expect(dead_code, reason = "held until the body ends")] Slot, Arc<Metrics>),
    /// From an attempt that goes on whether or not anybody reads.
    Stream(mpsc::Receiver<Piece>, Option<u64>),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// These bytes.
    pub fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn held(bytes: Bytes, hold: Arc<Hold>) -> Self {
        Self(Kind::Held(Some(bytes).filter(|bytes| !bytes.is_empty()), hold))
    }

    pub(super) fn upstream(body: upstream::Incoming, slot: Slot, metrics: &Arc<Metrics>) -> Self {
        Self(Kind::Upstream(body, slot, Arc::clone(metrics)))
    }

    pub(super) fn stream(pieces: mpsc::Receiver<Piece>, length: Option<u64>) -> Self {
        Self(Kind::Stream(pieces, length))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) | Kind::Held(bytes, _) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Upstream(body, _, metrics) => Pin::new(body).poll_frame(cx).map_err(|error| {
                count(&error, metrics);
                error.into()
            }),
            Kind::Stream(pieces, _) => pieces.poll_recv(cx).map(|piece| match piece {
                Some(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(Piece::End) => None,
                None => Some(Err("the upstream's answer was cut short".into())),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) | Kind::Held(bytes, _) => bytes.is_none(),
            Kind::Upstream(body, ..) => body.is_end_stream(),
            Kind::Stream(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) | Kind::Held(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Upstream(body, ..) => body.size_hint(),
            Kind::Stream(_, length) => length.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// Counts an answer that came to no end, if it took too long.
pub(super) fn count(error: &BodyError, metrics: &Metrics) {
    match error {
        BodyError::Broken(_) => {}
        BodyError::Idle => metrics.timed_out(Timeout::UpstreamIdle),
        BodyError::Overtime => metrics.timed_out(Timeout::Total),
    }
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
}
