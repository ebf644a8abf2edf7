//! One id through the whole chain: `traceparent` (W3C Trace Context) and `X-Request-Id`. Spans are not recorded here.

use std::num::NonZero;

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Builder;

use super::{Added, Kinds, take_away};
use crate::clock::Clock;
use crate::machine::hex_digits;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest `X-Request-Id` that is passed on, in bytes.
pub const LONGEST_ID: usize = 128;

/// What a step of a trace takes over from the one before.
struct Trace<'a> {
    id: &'a str,
    flags: u8,
}

/// The ids that a request goes on with.
#[derive(Debug, Clone, Copy)]
pub struct Going {
    /// Its trace.
    pub trace: [u8; 32],
    /// Its own, unless it goes on with the one that came.
    pub made: Option<[u8; 36]>,
}

/// Continues or begins the trace; keeps or makes the request's id. The fields that came are of these kinds.
pub(super) fn set(headers: &mut HeaderMap, added: &mut Added, kinds: Kinds) -> Going {
    let mut parent = *b"00-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-SSSSSSSSSSSSSSSS-01";
    hex_digits(&rand::random::<NonZero<u64>>().get().to_be_bytes(), &mut parent[36..52]);
    let came = if kinds.any(Kinds::TRACE) { only(headers, &TRACEPARENT) } else { None };
    let came = came.and_then(|value| std::str::from_utf8(value).ok()).and_then(Trace::parse);
    if let Some(Trace { id, flags }) = came {
        parent[3..35].copy_from_slice(id.as_bytes());
        hex_digits(&[flags], &mut parent[53..]);
    } else {
        // A state without its trace means nothing.
        if kinds.any(Kinds::TRACE) {
            take_away(headers, &TRACESTATE);
        }
        // Sampled: a trace that begins unsampled would switch the tracing of most servers behind us off.
        hex_digits(&rand::random::<NonZero<u128>>().get().to_be_bytes(), &mut parent[3..35]);
    }
    set_line(headers, added, kinds.any(Kinds::TRACE), &TRACEPARENT, &parent);
    let keeps = kinds.any(Kinds::REQUEST_ID) && only(headers, &REQUEST_ID).is_some_and(is_sane);
    let made = (!keeps).then(|| {
        let [random @ .., _, _, _, _, _, _] = rand::random::<u128>().to_be_bytes();
        let id = Builder::from_unix_timestamp_millis(Clock::wall_lately().0, &random).into_uuid();
        let mut text = [0; 36];
        id.hyphenated().encode_lower(&mut text);
        set_line(headers, added, kinds.any(Kinds::REQUEST_ID), &REQUEST_ID, &text);
        text
    });
    let mut trace = [0; 32];
    trace.copy_from_slice(&parent[3..35]);
    Going { trace, made }
}

/// Says a field in one line: in the place of what came of it, or behind all others.
fn set_line(headers: &mut HeaderMap, added: &mut Added, came: bool, name: &HeaderName, value: &[u8]) {
    if !came {
        added.say(name, value);
    } else if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

/// A request's id, and that of its trace.
pub type Ids<'a> = (Option<&'a HeaderValue>, Option<[u8; 32]>);

/// The ids that came with a request, each if it is what it should be. Its fields are of these kinds.
pub fn ids_that_came(headers: &HeaderMap, kinds: Kinds) -> Ids<'_> {
    if !kinds.any(Kinds::TRACE.and(Kinds::REQUEST_ID)) {
        return (None, None);
    }
    let id = headers.get(&REQUEST_ID).filter(|id| is_sane(id.as_bytes()));
    let trace = headers.get(&TRACEPARENT).and_then(|trace| Trace::parse(trace.to_str().ok()?));
    (id, trace.and_then(|trace| trace.id.as_bytes().try_into().ok()))
}

impl<'a> Trace<'a> {
    /// Reads a `traceparent`. Later versions may add fields at the end, version 00 may not.
    fn parse(value: &'a str) -> Option<Self> {
        let mut fields = value.split('-');
        let version = fields.next().filter(|version| is_hex(version, 2) && *version != "ff")?;
        let id = fields.next().filter(|id| is_id(id, 32))?;
        fields.next().filter(|parent| is_id(parent, 16))?;
        let flags = fields.next().filter(|flags| is_hex(flags, 2))?;
        if version == "00" && fields.next().is_some() {
            return None;
        }
        // Sampled, and random id: the flags with a known meaning.
        Some(Self { id, flags: u8::from_str_radix(flags, 16).ok()? & 0b11 })
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

fn is_sane(id: &[u8]) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// The field's value if it is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    lines.next().is_none().then_some(line.as_bytes())
}
