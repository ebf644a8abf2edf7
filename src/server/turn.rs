//! One request's turn on an HTTP/1.1 connection: what the reader of the connection has to know of it, and what it knows.

use std::sync::Arc;

use http::{Request, Response, StatusCode, Version};
use http_body::Body;
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

/// Its answer begins. Whether the connection has to end with it.
pub(super) fn answer<B>(response: &Response<B>, client: &Client) -> bool {
    client.exchange.answered(response.status() == StatusCode::SWITCHING_PROTOCOLS)
}

/// An answer that is not at its end. Dropped, it is.
pub(super) struct Saying(pub(super) Arc<Client>);

impl Drop for Saying {
    fn drop(&mut self) {
        self.0.exchange.said();
    }
}
