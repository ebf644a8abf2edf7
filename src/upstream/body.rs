//! Bodies on their way: a request's outwards, an answer's inwards. An answer's body owns the connection it comes on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;
use super::pool::{Connection, Pool};
use crate::wire::{Inbound, InboundError, Patience, Upload};

/// A request's body.
#[derive(Debug)]
pub enum Outgoing {
    /// All of it, in one piece.
    Whole(Bytes),
    /// As the client sends it.
    Streaming(Inbound),
    /// What was read of it before it was decided to stream, and the rest as the client sends it.
    Resumed {
        /// The bytes read so far.
        begun: Bytes,
        /// What is still to come.
        rest: Inbound,
    },
}

impl Outgoing {
    /// The part that its client is still sending.
    fn inbound(&self) -> Option<&Inbound> {
        match self {
            Self::Whole(_) => None,
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => Some(body),
        }
    }

    /// Gives its client this long for the rest of it. Its progress, if there is a rest.
    pub fn within(&mut self, total: Duration) -> Option<Upload> {
        match self {
            Self::Whole(_) => None,
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => {
                body.within(total);
                body.follow()
            }
        }
    }

    /// Its progress, if somebody follows it.
    pub(super) fn upload(&self) -> Option<Upload> {
        self.inbound()?.upload().cloned()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = InboundError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Resumed { begun, .. } if !begun.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(begun)))))
            }
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Streaming(body) => body.is_end_stream(),
            Self::Resumed { begun, rest } => begun.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = |bytes: &Bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(length(bytes)),
            Self::Streaming(body) => body.size_hint(),
            Self::Resumed { begun, rest } => match rest.size_hint().exact() {
                Some(left) => SizeHint::with_exact(left.saturating_add(length(begun))),
                None => SizeHint::default(),
            },
        }
    }
}

/// An answer's body.
///
/// When it has ended cleanly, its connection goes back to the pool; dropped before that, its connection is closed. A
/// body that is cut short ends in an error, never in an end.
#[derive(Debug)]
pub struct Incoming {
    body: hyper::body::Incoming,
    /// What goes back to the pool, and which pool. Dropping the connection closes it.
    home: Option<(Arc<Pool>, Connection)>,
    /// None without a limit of time.
    patience: Option<Box<Patience>>,
}

impl Incoming {
    pub(super) fn new(
        body: hyper::body::Incoming,
        connection: Connection,
        pool: Arc<Pool>,
        idle: Option<Duration>,
    ) -> Self {
        let mut incoming = Self { body, home: Some((pool, connection)), patience: None };
        if idle.is_some() {
            incoming.patience.get_or_insert_default().between_bytes(idle);
        }
        if incoming.body.is_end_stream() {
            incoming.release();
        }
        incoming
    }

    /// It must have come whole by then.
    pub fn until(&mut self, end: Instant) {
        self.patience.get_or_insert_default().in_all(end);
    }

    fn release(&mut self) {
        if let Some((pool, connection)) = self.home.take() {
            pool.put(connection);
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let moved = self.patience.as_mut().map_or(Ok(()), |patience| patience.moved());
                Some(moved.map(|()| frame).map_err(BodyError::from))
            }
            Poll::Ready(frame) => frame.map(|frame| frame.map_err(BodyError::from)),
            Poll::Pending => match self.patience.as_mut().map(|patience| patience.poll_lapse(cx)) {
                Some(Poll::Ready(lapse)) => Some(Err(lapse.into())),
                Some(Poll::Pending) | None => return Poll::Pending,
            },
        };
        match &frame {
            Some(Err(_)) => self.home = None,
            Some(Ok(_)) if !self.body.is_end_stream() => {}
            Some(Ok(_)) | None => self.release(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
