//! Bodies on their way: a request's outwards, an answer's inwards. An answer's body owns the connection it comes on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;
use super::pool::{Connection, Pool};

/// A request's body.
#[derive(Debug)]
pub enum Outgoing {
    /// All of it, in one piece.
    Whole(Bytes),
    /// As the client sends it.
    Streaming(hyper::body::Incoming),
    /// What was read of it before it was decided to stream, and the rest as the client sends it.
    Resumed {
        /// The bytes read so far.
        begun: Bytes,
        /// What is still to come.
        rest: hyper::body::Incoming,
    },
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
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
}

impl Incoming {
    pub(super) fn new(body: hyper::body::Incoming, connection: Connection, pool: Arc<Pool>) -> Self {
        let mut incoming = Self { body, home: Some((pool, connection)) };
        if incoming.body.is_end_stream() {
            incoming.release();
        }
        incoming
    }

    /// A body whose connection is somebody else's.
    pub(super) fn bare(body: hyper::body::Incoming) -> Self {
        Self { body, home: None }
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
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Err(_)) => self.home = None,
            Some(Ok(_)) if !self.body.is_end_stream() => {}
            Some(Ok(_)) | None => self.release(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
