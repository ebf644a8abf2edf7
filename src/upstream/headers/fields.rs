//! Which fields end at this gateway. Only names are looked at, and what `Connection` names.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, VIA};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The names that the lines of `Connection` list, lower case. What is no field's name is passed over.
pub fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let tokens = headers.get_all(CONNECTION).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    tokens.filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
}

/// The same without `Host` and `Content-Length`: dropping these would change where a message goes and where it ends.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    nominated(headers).filter(|name| *name != HOST && *name != CONTENT_LENGTH).collect()
}

/// Whether a field speaks of one connection only, or is the gateway's own.
///
/// `chunked` says that the message has a `Transfer-Encoding`: a `Content-Length` beside it counts nothing.
pub(super) fn ends_here(name: &HeaderName, named: &[HeaderName], chunked: bool) -> bool {
    is_hop_by_hop(name) || is_ours(name) || named.contains(name) || (chunked && *name == CONTENT_LENGTH)
}

/// Whether a field of this name always belongs to one connection, to the way of the message, or to the gateway.
pub fn is_reserved(name: &HeaderName) -> bool {
    is_hop_by_hop(name) || is_ours(name) || *name == VIA
}

fn is_ours(name: &HeaderName) -> bool {
    starts_with(name, "oncegate-")
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether the field asks for an interim answer before the body: the gateway gives that answer itself.
pub(super) fn is_awaited_continue(name: &HeaderName, value: &HeaderValue) -> bool {
    *name == EXPECT && value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// Whether the field says that an answer is a replay, or until when it is remembered.
pub(super) fn is_gateway_mark(name: &HeaderName) -> bool {
    matches!(name.as_str(), "idempotent-replayed" | "x-idempotent-retry" | "idempotency-expires")
}

/// Whether two names are the same, an underscore counting as a hyphen: CGI-like servers cannot tell them apart.
pub fn is_spelling_of(name: &HeaderName, known: &str) -> bool {
    name.as_str().len() == known.len() && starts_with(name, known)
}

/// Whether a name begins so, an underscore counting as a hyphen.
pub(super) fn starts_with(name: &HeaderName, prefix: &str) -> bool {
    let name = name.as_str().bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.take(prefix.len()).eq(prefix.bytes())
}
