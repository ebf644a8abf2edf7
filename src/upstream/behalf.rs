//! On whose behalf a request goes: what that one brings beside the request, and hears of its way. Who that is, is not said
//! here.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use super::headers::{self, Added};
use crate::wire::heads::Spelling;

/// On whose behalf a request goes.
pub trait Behalf: Send + Sync {
    /// How the fields were spelled that the request came with.
    fn spelling(&self) -> Option<&Spelling> {
        None
    }

    /// The fields that go behind the request's own.
    fn added(&self) -> Option<&Added> {
        None
    }

    /// It is to go to this server.
    fn goes_to(&self, _: SocketAddr) {}

    /// An interim answer came, such as 103: told as it comes, as the bytes that an HTTP/1.1 client gets. 100 is each hop's
    /// own matter, and is told to nobody.
    fn hears(&self, _: Bytes) {}
}

/// The gateway's own, which wants to know nothing.
impl Behalf for () {}

/// Tells of an interim answer.
pub(super) fn tell(behalf: &dyn Behalf, status: StatusCode, fields: HeaderMap) {
    if status != StatusCode::CONTINUE {
        behalf.hears(head(status, fields));
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
