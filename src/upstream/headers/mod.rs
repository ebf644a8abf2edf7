//! What a proxy must change in header fields, and nothing else. Framing and `Host` are the client's matter.

mod added;
mod fields;
mod forwarded;
mod kinds;
mod replay;
mod trace;
mod via;

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, ORIGIN, USER_AGENT, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

pub use added::Added;
pub use fields::{is_reserved, nominated};
pub use forwarded::{believed, is_forwarding};
pub use kinds::Kinds;
pub use replay::{replayable, replayed, replayed_as_lines, vary_by_origin};
pub use trace::{Going, Ids, LONGEST_ID, ids_that_came};
pub use via::Via;

use crate::machine::{AttemptId, OperationId};

static OPERATION: HeaderName = HeaderName::from_static("oncegate-operation");
static ATTEMPT: HeaderName = HeaderName::from_static("oncegate-attempt");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The most fields that a request or an answer gets among its own, as a rule.
const ADDED: usize = 4;

/// The last step of a request's way to this gateway.
#[derive(Debug, Clone, Copy)]
pub struct Hop<'a> {
    /// Who is connected.
    pub peer: IpAddr,
    /// The same as `X-Forwarded-For` names it.
    pub named: &'a HeaderValue,
    /// Whether the peer's own forwarding fields are believed.
    pub trusted: bool,
    /// How the request came: `http` or `https`.
    pub scheme: &'static str,
    /// The `Host` that the request was sent to, if it said one.
    pub host: Option<&'a HeaderValue>,
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

/// A request's fields as they go to the upstream.
#[derive(Debug)]
pub struct Outbound {
    /// What came, and what the gateway says in the place of what came.
    pub fields: HeaderMap,
    /// What it says besides.
    pub added: Added,
    /// The ids that the request goes on with.
    pub going: Going,
}

/// The fields of a request, which are of these kinds, as they go to the upstream.
///
/// Fields of this hop and the gateway's own are gone; forwarding and tracing fields say what this hop knows. All others
/// keep their bytes, their lines and their order.
pub fn outbound(headers: HeaderMap, kinds: Kinds, hop: &Hop<'_>, manner: Manner<'_>) -> Outbound {
    let said = kinds.any(Kinds::FORWARDING).then(|| forwarded::said(&headers, hop));
    let mut out = headers;
    let dropped = if manner.drop_underscores { Kinds::UNDERSCORE } else { Kinds::default() };
    if kinds.any(fields::ENDING.and(Kinds::EXPECT).and(Kinds::FORWARDING).and(dropped)) {
        let ends = fields::Ends::of(&out, kinds);
        out = without(out, |name, value| {
            let kind = Kinds::one(name);
            ends.holds(name, kind)
                || kind.any(dropped)
                || fields::is_awaited_continue(kind, value)
                || forwarded::is_replaced(name, kind, hop.trusted)
        });
    }
    let mut added = Added::new();
    match said {
        Some(said) => said.set(&mut out),
        None => forwarded::say(&mut added, hop),
    }
    let going = trace::set(&mut out, &mut added, kinds);
    match manner.via {
        Some(via) if kinds.any(Kinds::VIA) => via.sign(&mut out, hop.version),
        Some(via) => added.say(&VIA, via.line(hop.version).as_bytes()),
        None => {}
    }
    Outbound { fields: out, added, going }
}

/// The fields without some. All others keep their order, which removing one by one would shuffle.
fn without(headers: HeaderMap, gone: impl Fn(&HeaderName, &HeaderValue) -> bool) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.keys_len() + ADDED);
    let mut name = None;
    for (next, value) in headers {
        // A further line of a field comes without its name.
        name = next.or(name);
        if let Some(name) = name.as_ref().filter(|name| !gone(name, &value)) {
            kept.append(name, value);
        }
    }
    kept
}

/// Takes a field away; the others keep their order.
pub(super) fn take_away(headers: &mut HeaderMap, gone: &HeaderName) {
    if headers.contains_key(gone) {
        *headers = without(std::mem::take(headers), |name, _| name == gone);
    }
}

/// The origin of the page that asks, if one does: the field's one line. The fields are of these kinds.
pub fn origin(headers: &HeaderMap, kinds: Kinds) -> Option<&HeaderValue> {
    if !kinds.any(Kinds::ORIGIN) {
        return None;
    }
    let mut lines = headers.get_all(ORIGIN).iter();
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}

/// Says which operation and which attempt a request is, and gives it an `Idempotency-Key` if it has none: the operation's
/// own, or that of this claim. What came with it, some of which may have stayed behind, is of these kinds.
pub fn mark_attempt(
    headers: &HeaderMap,
    added: &mut Added,
    kinds: Kinds,
    operation: &OperationId,
    claim: Option<AttemptId>,
    number: u32,
) {
    let digest = operation.digits();
    if !(kinds.any(Kinds::IDEMPOTENCY_KEY) && headers.contains_key(&IDEMPOTENCY_KEY)) {
        let mut key = [b"og-", &digest[..]].concat();
        if let Some(claim) = claim {
            key.extend_from_slice(format!("-{claim}").as_bytes());
        }
        added.say(&IDEMPOTENCY_KEY, &key);
    }
    added.say(&OPERATION, &digest);
    added.say(&ATTEMPT, itoa::Buffer::new().format(number).as_bytes());
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
    let (kinds, mut added) = (Kinds::of(&out), Added::new());
    added.say(&OPERATION, &operation.digits());
    trace::set(&mut out, &mut added, kinds);
    added.add_to(&mut out);
    Some(out)
}

/// Takes from an answer what does not go to the client: fields of this hop, and marks that only the gateway sets.
pub fn inbound(headers: &mut HeaderMap) {
    let kinds = Kinds::of(headers);
    if kinds.any(fields::ENDING.and(Kinds::MARK)) {
        let ends = fields::Ends::of(headers, kinds);
        *headers = without(std::mem::take(headers), |name, _| {
            let kind = Kinds::one(name);
            ends.holds(name, kind) || kind.any(Kinds::MARK)
        });
    }
}

#[cfg(test)]
mod tests;
