//! Problems as bytes, for listeners, which know nothing of HTTP's contents.

use bytes::Bytes;

use super::{LINES, Problem};
use crate::wire::heads::Lines;

impl Problem {
    /// The whole answer.
    fn raw(&self, types: &str) -> Bytes {
        let said = self.said(None);
        let (mut fields, body) = (Lines::with_capacity(LINES), self.json(types, said));
        self.set_fields(said, &mut fields);
        let status = format!("HTTP/1.1 {}\r\n", self.status());
        let rest = format!("connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        [status.as_bytes(), fields.as_bytes(), rest.as_bytes(), &body].concat().into()
    }
}

/// The whole answer to a connection over the limit.
pub fn turned_away(types: &str) -> Bytes {
    Problem::Overloaded("connections").raw(types)
}

/// The same for a client whose head does not come.
pub fn too_slow(types: &str) -> Bytes {
    Problem::HeaderTimeout.raw(types)
}

/// The whole answer to plain HTTP where TLS is spoken.
pub fn not_encrypted(types: &str) -> Bytes {
    Problem::BadRequest("This port speaks TLS: use https.".to_owned()).raw(types)
}
