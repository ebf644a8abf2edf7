//! What an answer's body tells its connection beside its bytes.

use bytes::Bytes;
use http_body::Body;

use super::heads::Written;

/// An answer's body. It brings along what HTTP/1.1 writes the head by; other versions leave that be.
pub trait AnswerBody: Body<Data = Bytes> + Unpin {
    /// How the answer's fields are written, where that is known.
    fn take_written(&mut self) -> Option<Written> {
        None
    }
}

/// The answers of the gateway's own doors.
impl AnswerBody for axum::body::Body {}

impl AnswerBody for http_body_util::Full<Bytes> {}
