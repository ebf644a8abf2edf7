//! Which fields end at this gateway. Only names are looked at, and what `Connection` names.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Kinds;

/// The kinds of fields that end here. Without them no other field ends here either.
pub(super) const ENDING: Kinds =
    Kinds::CONNECTION.and(Kinds::TRANSFER_ENCODING).and(Kinds::UPGRADE).and(Kinds::HOP).and(Kinds::OURS);

/// What `Connection` says on nearly every connection; it names no field.
const USUAL: [&[u8]; 2] = [b"keep-alive", b"close"];

/// The names that the lines of `Connection` list, lower case, but for its usual words. What is no field's name is passed
/// over.
pub fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let tokens = headers.get_all(CONNECTION).into_iter().flat_map(tokens);
    let others = tokens.filter(|token| !USUAL.iter().any(|usual| token.eq_ignore_ascii_case(usual)));
    others.filter_map(|token| HeaderName::from_bytes(token).ok())
}

fn tokens(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// What a message's framing fields say of its other fields.
pub(super) struct Ends {
    /// The lines of `Connection`.
    connection: Vec<HeaderValue>,
    /// Whether there is a `Transfer-Encoding`: a `Content-Length` beside it counts nothing.
    chunked: bool,
}

impl Ends {
    /// Those of a message whose fields are of these kinds.
    pub(super) fn of(headers: &HeaderMap, kinds: Kinds) -> Self {
        let connection = if kinds.any(Kinds::CONNECTION) {
            headers.get_all(CONNECTION).iter().cloned().collect()
        } else {
            Vec::new()
        };
        Self { connection, chunked: kinds.any(Kinds::TRANSFER_ENCODING) }
    }

    /// Whether a field of this kind speaks of one connection only, or is the gateway's own.
    pub(super) fn holds(&self, name: &HeaderName, kind: Kinds) -> bool {
        kind.any(ENDING) || self.names(name) || (self.chunked && *name == CONTENT_LENGTH)
    }

    /// Whether `Connection` names it. `Host` and `Content-Length` stay all the same: dropping these would change where a
    /// message goes and where it ends.
    fn names(&self, name: &HeaderName) -> bool {
        let named = |token: &[u8]| token.eq_ignore_ascii_case(name.as_str().as_bytes());
        self.connection.iter().flat_map(tokens).any(named) && *name != HOST && *name != CONTENT_LENGTH
    }
}

/// Whether a field of this name always belongs to one connection, to the way of the message, or to the gateway.
pub fn is_reserved(name: &HeaderName) -> bool {
    Kinds::one(name).any(ENDING.and(Kinds::VIA))
}

/// Whether the field asks for an interim answer before the body: the gateway gives that answer itself.
pub(super) fn is_awaited_continue(kind: Kinds, value: &HeaderValue) -> bool {
    kind.any(Kinds::EXPECT) && value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue")
}
