//! An answer's body on its way to the client: with it, its request's turn ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::wire::Turn;

/// A body, and the turn that it belongs to.
pub(super) struct Answer<B> {
    body: B,
    #[expect(dead_code, reason = "held until the body is gone")]
    turn: Turn,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, turn: Turn) -> Self {
        Self { body, turn }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
