//! Interim answers, such as 103: told as they come, never kept. 100 is each hop's own matter, and is told to nobody.

use std::sync::{Arc, Weak};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};

use super::headers;

/// As long as this is kept, interim answers are told.
#[derive(Debug, Default)]
pub struct Listening(Arc<()>);

/// Who gets the interim answers to a request: in its extensions.
#[derive(Clone)]
pub(super) struct Ear {
    tell: Arc<dyn Fn(Bytes) + Send + Sync>,
    listening: Weak<()>,
}

/// Has `tell` get every interim answer to a request, as the bytes that an HTTP/1.1 client gets.
///
/// An attempt may outlive its client: who can do nothing with an interim answer any more stops listening.
pub fn on_interim<B>(request: &mut Request<B>, listening: &Listening, tell: impl Fn(Bytes) + Send + Sync + 'static) {
    let ear = Ear { tell: Arc::new(tell), listening: Arc::downgrade(&listening.0) };
    request.extensions_mut().insert(ear);
}

impl Ear {
    /// Tells of an interim answer.
    pub(super) fn hear(&self, status: StatusCode, fields: HeaderMap) {
        if status != StatusCode::CONTINUE && self.listening.strong_count() > 0 {
            (self.tell)(head(status, fields));
        }
    }
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
