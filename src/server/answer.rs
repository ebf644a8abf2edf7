//! An answer's body on its way to the client, and what ends with it.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

/// A body, and what is held until it is gone.
pub(super) struct Answer<B, H> {
    body: B,
    #[expect(dead_code, reason = "held until the body is gone")]
    held: H,
}

impl<B, H> Answer<B, H> {
    pub(super) fn new(body: B, held: H) -> Self {
        Self { body, held }
    }
}

impl<B: Body + Unpin, H: Unpin> Body for Answer<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
