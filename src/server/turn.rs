//! One request's turn on an HTTP/1.1 connection: what the reader of the connection has to know of it, and what it knows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::wire::{Asked, Client};

/// A request begins. If it stands for one that was refused, it carries the refusal.
pub(super) fn begin(request: &mut Request<Incoming>, client: &Client) {
    let body = request.body();
    let chunked = body.size_hint().exact().is_none() && !body.is_end_stream();
    let takes_interim = request.version() == Version::HTTP_11;
    if let Some(refusal) = client.exchange.asked(Asked { takes_interim, chunked }) {
        request.extensions_mut().insert(refusal);
    }
}

/// Its answer begins. Where the connection has to end with it, it says so.
pub(super) fn answer<B>(mut response: Response<B>, client: Arc<Client>) -> Response<Answer<B>> {
    if client.exchange.answered(response.status() == StatusCode::SWITCHING_PROTOCOLS) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| Answer { body, client })
}

/// An answer's body, whose end is noticed.
pub(super) struct Answer<B> {
    body: B,
    client: Arc<Client>,
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.client.exchange.said();
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
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
