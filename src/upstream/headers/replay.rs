//! What a record keeps of an answer's fields. Who may see them is decided elsewhere.

use bytes::Bytes;
use http::header::{
    AGE, ALT_SVC, CONTENT_LENGTH, DATE, HeaderName, RETRY_AFTER, SERVER, SET_COOKIE, TRANSFER_ENCODING,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue};

use super::fields;

/// Families of fields that speak of one moment, one caller or one connection.
const PASSING_FAMILIES: [&str; 4] = ["proxy-", "access-control-", "ratelimit-", "x-ratelimit-"];
/// Further such fields.
const PASSING: [&str; 4] = ["authentication-info", "ratelimit", "traceparent", "x-request-id"];

/// Name and value of each field that a replay repeats, in order. Names are lower case; values are bytes as they came.
///
/// `allow` brings back fields that a replay drops by default. It brings back neither fields of one connection, nor
/// framing, nor the gateway's own marks.
pub fn replayable(headers: &HeaderMap, allow: &[HeaderName]) -> Vec<(Bytes, Bytes)> {
    let named = fields::named_by_connection(headers);
    let stays = |name: &HeaderName| {
        let framing = *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        let ours = fields::ends_here(name, &named, false) || fields::is_gateway_mark(name);
        !framing && !ours && (!is_passing(name) || allow.contains(name))
    };
    headers.iter().filter(|(name, _)| stays(name)).map(|(name, value)| kept(name, value)).collect()
}

fn is_passing(name: &HeaderName) -> bool {
    [SET_COOKIE, WWW_AUTHENTICATE, DATE, SERVER, AGE, ALT_SVC, RETRY_AFTER].contains(name)
        || PASSING.contains(&name.as_str())
        || PASSING_FAMILIES.iter().any(|family| name.as_str().starts_with(family))
}

fn kept(name: &HeaderName, value: &HeaderValue) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
}
