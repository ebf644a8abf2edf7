//! What a record keeps of an answer's fields, and what of that a replay shows. Who may have a replay is decided
//! elsewhere.

use bytes::Bytes;
use http::header::{
    AGE, ALT_SVC, CONTENT_LENGTH, DATE, HeaderName, ORIGIN, RETRY_AFTER, SERVER, SET_COOKIE, TRANSFER_ENCODING, VARY,
    VIA, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue};

use super::fields;

/// Families of fields that speak of one moment, one caller or one connection.
const PASSING_FAMILIES: [&str; 3] = ["proxy-", "ratelimit-", "x-ratelimit-"];
/// Further such fields.
const PASSING: [&str; 4] = ["authentication-info", "ratelimit", "traceparent", "x-request-id"];
/// The family of fields that speak to the pages of one origin.
const TO_PAGES: &str = "access-control-";
/// Under this name a record keeps the origin that its `Access-Control-*` fields were meant for. No answer has a field of
/// this name by the time it is recorded.
const RECORDED_ORIGIN: &str = "oncegate-origin";

/// Name and value of each field that a replay may repeat, in order. Names are lower case; values are bytes as they came.
///
/// `allow` brings back fields that a replay drops by default. It brings back neither fields of one connection, nor
/// framing, nor the gateway's own marks. `origin` is the one that the request came from: what the answer says to its
/// pages is kept together with it.
pub fn replayable(headers: &HeaderMap, allow: &[HeaderName], origin: Option<&HeaderValue>) -> Vec<(Bytes, Bytes)> {
    let named = fields::named_by_connection(headers);
    let stays = |name: &HeaderName| {
        let framing = *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        let ours = fields::ends_here(name, &named, false) || fields::is_gateway_mark(name) || *name == VIA;
        let passing = is_passing(name) || (origin.is_none() && is_to_pages(name));
        !framing && !ours && (!passing || allow.contains(name))
    };
    let kept = headers.iter().filter(|(name, _)| stays(name));
    let mut kept: Vec<_> = kept.map(|(name, value)| (bytes(name), bytes(value))).collect();
    if let Some(origin) = origin.filter(|_| headers.keys().any(is_to_pages)) {
        kept.push((Bytes::from_static(RECORDED_ORIGIN.as_bytes()), bytes(origin)));
    }
    kept
}

/// The fields of a replay, from those that [`replayable`] kept; none when they are no fields.
///
/// What was said to the pages of one origin is repeated to no other: `origin` is the one that this request came from.
pub fn replayed(
    recorded: Vec<(Bytes, Bytes)>,
    allow: &[HeaderName],
    origin: Option<&HeaderValue>,
) -> Option<HeaderMap> {
    let first = recorded.iter().find(|(name, _)| name == RECORDED_ORIGIN).map(|(_, value)| value.clone());
    let same = first.is_some() && first.as_deref() == origin.map(HeaderValue::as_bytes);
    let mut headers = HeaderMap::with_capacity(recorded.len() + 4);
    for (name, value) in recorded.into_iter().filter(|(name, _)| name != RECORDED_ORIGIN) {
        let name = HeaderName::from_bytes(&name).ok()?;
        if same || !is_to_pages(&name) || allow.contains(&name) {
            headers.append(name, HeaderValue::from_maybe_shared(value).ok()?);
        }
    }
    if first.is_some() {
        vary_by_origin(&mut headers);
    }
    Some(headers)
}

/// Says that another origin may get another answer.
pub fn vary_by_origin(headers: &mut HeaderMap) {
    let said = |line: &HeaderValue| {
        let mut names = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(ORIGIN.as_str().as_bytes()))
    };
    if !headers.get_all(VARY).iter().any(said) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

fn is_passing(name: &HeaderName) -> bool {
    [SET_COOKIE, WWW_AUTHENTICATE, DATE, SERVER, AGE, ALT_SVC, RETRY_AFTER].contains(name)
        || PASSING.contains(&name.as_str())
        || PASSING_FAMILIES.iter().any(|family| name.as_str().starts_with(family))
}

fn is_to_pages(name: &HeaderName) -> bool {
    name.as_str().starts_with(TO_PAGES)
}

fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}
