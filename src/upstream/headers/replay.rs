//! What a record keeps of an answer's fields, and what of that a replay shows. Who may have a replay is decided
//! elsewhere.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, ORIGIN, VARY};
use http::{HeaderMap, HeaderValue};

use super::{Kinds, fields};
use crate::machine::Recorded;
use crate::wire::heads::{self, Lines};

/// For how many recorded fields there is room at once.
const ROOM: usize = 32;
/// How many a replay has beside them, as a rule.
const ADDED: usize = 4;
/// Room for the lines of most replays, in bytes, with those that are put to them.
const LINES: usize = 512;
/// More fields than any answer has, and so few that a map still takes what else is said on the way: a full one panics.
const MOST: usize = 16_384;
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
pub fn replayable<'a>(
    headers: &'a HeaderMap,
    allow: &'a [HeaderName],
    origin: Option<&'a HeaderValue>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let connection = if headers.contains_key(CONNECTION) { Kinds::CONNECTION } else { Kinds::default() };
    let ends = fields::Ends::of(headers, connection);
    let stays = move |name: &HeaderName| {
        let passing = is_passing(name) || (origin.is_none() && is_to_pages(name));
        if *name == CONTENT_LENGTH || passing && !allow.contains(name) {
            return false;
        }
        let kind = Kinds::one(name);
        !(ends.holds(name, kind) || kind.any(Kinds::MARK.and(Kinds::VIA)))
    };
    let kept = headers.iter().filter(move |(name, _)| stays(name));
    let kept = kept.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let origin = origin.filter(|_| headers.keys().any(is_to_pages));
    kept.chain(origin.map(|origin| (RECORDED_ORIGIN.as_bytes(), origin.as_bytes())))
}

/// The fields of a replay, from those that [`replayable`] kept; none when they are no fields, or too many.
///
/// What was said to the pages of one origin is repeated to no other: `origin` is the one that this request came from.
pub fn replayed(recorded: &Recorded, allow: &[HeaderName], origin: Option<&HeaderValue>) -> Option<HeaderMap> {
    let fields = recorded.shared_fields();
    if fields.size_hint().0 > MOST {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(fields.size_hint().0.min(ROOM) + ADDED);
    let (mut first, mut bound) = (None, false);
    let is_bound = |name: &HeaderName| is_to_pages(name) && !allow.contains(name);
    for (name, value) in fields {
        if name == RECORDED_ORIGIN.as_bytes() {
            first = Some(value);
            continue;
        }
        let name = heads::name(name)?;
        bound |= is_bound(&name);
        headers.try_append(name, HeaderValue::from_maybe_shared(value).ok()?).ok()?;
    }
    if bound && (first.is_none() || first.as_deref() != origin.map(HeaderValue::as_bytes)) {
        let free = headers.iter().filter(|(name, _)| !is_bound(name));
        headers = free.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    if first.is_some() {
        vary_by_origin(&mut headers);
    }
    Some(headers)
}

/// The same as lines; none of a record that nobody but the map's way should decide on: one with a field that is said anew on
/// the way out, or is not for everybody, or that is spelled as no field is.
pub fn replayed_as_lines(recorded: &Recorded) -> Option<Lines> {
    let fields = recorded.fields();
    if fields.size_hint().0 > MOST {
        return None;
    }
    let mut lines = Lines::with_capacity(LINES);
    for (name, value) in fields {
        if !is_plain(name) {
            return None;
        }
        lines.put_bytes(name, value)?;
    }
    Some(lines)
}

/// Whether a replay's field of this name stays what it is all the way to the client, whatever else the answer says.
fn is_plain(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let of_framing = Kinds::CONNECTION.and(Kinds::TRANSFER_ENCODING).and(Kinds::HOP);
    let said_anew = Kinds::OURS.and(Kinds::MARK);
    !(Kinds::named(name).any(of_framing.and(said_anew))
        || matches!(name, "age" | "date" | "content-length")
        || name.starts_with(TO_PAGES))
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

/// Whether a field speaks of one moment, one caller or one connection.
fn is_passing(name: &HeaderName) -> bool {
    let name = name.as_str();
    match name.as_bytes().first() {
        Some(b'a') => matches!(name, "age" | "alt-svc" | "authentication-info"),
        Some(b'd') => name == "date",
        Some(b'p') => name.starts_with("proxy-"),
        Some(b'r') => matches!(name, "retry-after" | "ratelimit") || name.starts_with("ratelimit-"),
        Some(b's') => matches!(name, "server" | "set-cookie"),
        Some(b't') => name == "traceparent",
        Some(b'w') => name == "www-authenticate",
        Some(b'x') => name == "x-request-id" || name.starts_with("x-ratelimit-"),
        _ => false,
    }
}

fn is_to_pages(name: &HeaderName) -> bool {
    name.as_str().starts_with(TO_PAGES)
}
