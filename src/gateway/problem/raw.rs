//! Problems as bytes, for listeners, which know nothing of HTTP's contents.

use bytes::Bytes;

use super::Problem;

impl Problem {
    /// The whole answer.
    fn raw(&self, types: &str) -> Bytes {
        let said = self.said(None);
        let (headers, body) = (self.headers(said), self.json(types, said));
        let mut answer = format!("HTTP/1.1 {}\r\n", self.status()).into_bytes();
        for (name, value) in &headers {
            answer.extend_from_slice(name.as_ref());
            answer.extend_from_slice(b": ");
            answer.extend_from_slice(value.as_bytes());
            answer.extend_from_slice(b"\r\n");
        }
        let rest = format!("connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        answer.extend_from_slice(rest.as_bytes());
        answer.into()
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
