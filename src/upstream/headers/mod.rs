//! What a proxy must change in header fields, and nothing else. Framing and `Host` are the client's matter.

mod fields;
mod forwarded;
mod replay;
mod trace;
mod via;

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, ORIGIN, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

pub use fields::{is_reserved, is_spelling_of, nominated};
pub use forwarded::{believed, is_forwarding};
pub use replay::{replayable, replayed, vary_by_origin};
pub use trace::{LONGEST_ID, ids};
pub use via::Via;

use crate::machine::{AttemptId, OperationId};

static OPERATION: HeaderName = HeaderName::from_static("oncegate-operation");
static ATTEMPT: HeaderName = HeaderName::from_static("oncegate-attempt");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The last step of a request's way to this gateway.
#[derive(Debug, Clone, Copy)]
pub struct Hop<'a> {
    /// Who is connected.
    pub peer: IpAddr,
    /// Whether the peer's own forwarding fields are believed.
    pub trusted: bool,
    /// How the request came: `http` or `https`.
    pub scheme: &'a str,
    /// The `Host` that the request was sent to, if it said one.
    pub host: Option<&'a str>,
    /// The protocol's version.
    pub version: Version,
}

/// How this gateway hands requests on.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// What it calls itself in `Via`, if it does.
    pub via: Option<&'a Via>,
    /// Whether fields with an underscore in their name stay behind.
    pub drop_underscores: bool,
}

/// The fields of a request as they go to the upstream.
///
/// Fields of this hop and the gateway's own are gone; forwarding and tracing fields say what this hop knows. All others
/// keep their bytes, their lines and their order.
pub fn outbound(headers: HeaderMap, hop: &Hop<'_>, manner: Manner<'_>) -> HeaderMap {
    let named = fields::named_by_connection(&headers);
    let chunked = headers.contains_key(http::header::TRANSFER_ENCODING);
    let said = forwarded::said(&headers, hop);
    let mut out = without(headers, |name, value| {
        fields::ends_here(name, &named, chunked)
            || fields::is_awaited_continue(name, value)
            || (manner.drop_underscores && name.as_str().contains('_'))
            || forwarded::is_replaced(name, hop.trusted)
    });
    said.set(&mut out);
    trace::set(&mut out);
    if let Some(via) = manner.via {
        via.sign(&mut out, hop.version);
    }
    out
}

/// The fields without some. All others keep their order, which removing one by one would shuffle.
fn without(headers: HeaderMap, gone: impl Fn(&HeaderName, &HeaderValue) -> bool) -> HeaderMap {
    if !headers.iter().any(|(name, value)| gone(name, value)) {
        return headers;
    }
    let mut kept = HeaderMap::with_capacity(headers.keys_len() + 8);
    for (name, value) in headers.iter().filter(|(name, value)| !gone(name, value)) {
        kept.append(name, value.clone());
    }
    kept
}

/// The origin of the page that asks, if one does: the field's one line.
pub fn origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut lines = headers.get_all(ORIGIN).iter();
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}

/// Says which operation and which attempt a request is, and gives it an `Idempotency-Key` if it has none: the operation's
/// own, or that of this claim.
pub fn mark_attempt(headers: &mut HeaderMap, operation: &OperationId, claim: Option<AttemptId>, number: u32) {
    let digest = operation.to_string();
    headers.reserve(3);
    if !headers.contains_key(&IDEMPOTENCY_KEY) {
        let key = claim.map_or_else(|| format!("og-{digest}"), |claim| format!("og-{digest}-{claim}"));
        set(headers, &IDEMPOTENCY_KEY, key.as_bytes());
    }
    set(headers, &OPERATION, digest.as_bytes());
    headers.insert(&ATTEMPT, HeaderValue::from(number));
}

/// The fields of a request by which the gateway itself asks about an operation; none when the given ones are no fields.
///
/// An answer from somebody's cache would say what was true once.
pub fn of_probe(given: &[(Bytes, Bytes)], operation: &OperationId) -> Option<HeaderMap> {
    let mut out = HeaderMap::with_capacity(given.len() + 8);
    for (name, value) in given {
        let (name, value) = (HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
        if !is_reserved(&name) && name != CONTENT_LENGTH {
            out.append(name, value);
        }
    }
    out.entry(USER_AGENT).or_insert(HeaderValue::from_static("oncegate"));
    out.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    set(&mut out, &OPERATION, operation.to_string().as_bytes());
    trace::set(&mut out);
    Some(out)
}

/// Takes from an answer what does not go to the client: fields of this hop, and marks that only the gateway sets.
pub fn inbound(headers: &mut HeaderMap) {
    let named = fields::named_by_connection(headers);
    let chunked = headers.contains_key(http::header::TRANSFER_ENCODING);
    *headers = without(std::mem::take(headers), |name, _| {
        fields::ends_here(name, &named, chunked) || fields::is_gateway_mark(name)
    });
}

/// Sets a field to one line. Bytes that cannot stand in a field are not sent.
fn set(headers: &mut HeaderMap, name: &HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
