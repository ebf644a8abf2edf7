//! Interim answers, such as 103: told as they come, never kept. 100 is each hop's own matter, and is told to nobody.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};

use super::headers;

/// As long as this is kept, interim answers are told.
#[derive(Debug, Default)]
pub struct Listening(Arc<()>);

/// Has `tell` get every interim answer to a request, as the bytes that an HTTP/1.1 client gets.
///
/// An attempt may outlive its client, and a connection may have gone on to its next request: who can do nothing with an
/// interim answer any more stops listening.
pub fn on_interim<B>(request: &mut Request<B>, listening: &Listening, tell: impl Fn(Bytes) + Send + Sync + 'static) {
    let ear = Arc::downgrade(&listening.0);
    hyper::ext::on_informational(request, move |answer| {
        if answer.status() != StatusCode::CONTINUE && ear.strong_count() > 0 {
            tell(head(answer.status(), answer.headers().clone()));
        }
    });
}

fn head(status: StatusCode, mut fields: HeaderMap) -> Bytes {
    headers::inbound(&mut fields);
    fields.remove(CONTENT_LENGTH);
    let mut head = BytesMut::new();
    for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or("Interim"), "\r\n"] {
        head.put_slice(part.as_bytes());
    }
    for (name, value) in &fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.put_slice(part);
        }
    }
    head.put_slice(b"\r\n");
    head.freeze()
}
