//! Which fields end at this gateway. Only names are looked at, and what `Connection` names.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The names that the `Connection` field lists, lower case.
///
/// `Host` and `Content-Length` are never among them: dropping these would change where a request goes and where it ends.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect()
}

/// Whether a field speaks of one connection only, or is the gateway's own.
///
/// `chunked` says that the message has a `Transfer-Encoding`: a `Content-Length` beside it counts nothing.
pub(super) fn ends_here(name: &HeaderName, named: &[HeaderName], chunked: bool) -> bool {
    is_reserved(name) || named.contains(name) || (chunked && *name == CONTENT_LENGTH)
}

/// Whether a field of this name always belongs to one connection, or to the gateway.
pub fn is_reserved(name: &HeaderName) -> bool {
    is_hop_by_hop(name) || starts_with(name, "oncegate-")
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-connection", "proxy-authentication-info", "http2-settings"].contains(&name.as_str())
}

/// Whether the field asks for an interim answer before the body: the gateway gives that answer itself.
pub(super) fn is_awaited_continue(name: &HeaderName, value: &HeaderValue) -> bool {
    *name == EXPECT && value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// Whether the field says that an answer is a replay, or until when it is remembered.
pub(super) fn is_gateway_mark(name: &HeaderName) -> bool {
    ["idempotent-replayed", "x-idempotent-retry", "idempotency-expires"].contains(&name.as_str())
}

/// Whether a name begins so, an underscore counting as a hyphen: CGI-like servers cannot tell them apart.
pub(super) fn starts_with(name: &HeaderName, prefix: &str) -> bool {
    let name = name.as_str().bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.take(prefix.len()).eq(prefix.bytes())
}
