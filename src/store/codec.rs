//! The bytes of a record: one compact binary string an operation, the same in every store.
//! It neither judges nor migrates: bytes of an unknown version are an error, never a guess.
//!
//! Layout: format version (1), attempt id (16), record version (4, big endian); then fingerprint version (1),
//! kind (1), attempt number, namespace (4), settings (4), raw print (16), canonical print (16), credentials (16, if the
//! kind says so), expiry, probe (if the kind says so); then what the kind asks for. Numbers without a size are LEB128 varints; times other
//! than the expiry are distances to it. The first 21 bytes are the fence, so a store compares fences byte by byte.

mod reader;
mod writer;

use bytes::Bytes;

use crate::machine::{
    Answer, AttemptId, Cause, FINGERPRINT_VERSION, Fence, NamespaceTag, Print, Prints, Probe, Record, Recorded, State,
    Time, Witness,
};
use reader::Reader;
use writer::Writer;

/// Length of [`fence_prefix`], in bytes.
pub const FENCE_PREFIX_LEN: usize = 21;

const FORMAT_VERSION: u8 = 1;

/// Set in the kind byte when the record holds a digest of credentials.
const WITH_CREDENTIALS: u8 = 0x80;
/// Set in the kind byte when the record holds a probe.
const WITH_PROBE: u8 = 0x40;

/// What the kind byte says, without the flags.
mod kind {
    pub(super) const IN_FLIGHT: u8 = 0;
    pub(super) const IN_DOUBT: u8 = 1;
    pub(super) const RECORDED: u8 = 2;
    pub(super) const TOO_LARGE: u8 = 3;
    pub(super) const TOO_LARGE_WITH_LOCATION: u8 = 4;
    pub(super) const UNSEEN: u8 = 5;
    pub(super) const TOLD_BY_PROBE: u8 = 6;
    pub(super) const TOLD_BY_OPERATOR: u8 = 7;
}

/// What the byte of a cause says.
mod cause {
    pub(super) const LEASE_LOST: u8 = 0;
    pub(super) const BROKEN: u8 = 1;
    pub(super) const TIMED_OUT: u8 = 2;
    pub(super) const STATUS: u8 = 3;
    pub(super) const RETRY_NOT_SENT: u8 = 4;
    pub(super) const ABANDONED: u8 = 5;
    pub(super) const FORGOTTEN: u8 = 6;
}

/// Field names that are stored as one byte: their place in this list, from 1. 0 announces a name in full.
/// Records in stores refer to these places: only ever add at the end.
const COMMON_NAMES: [&str; 20] = [
    "content-type",
    "content-length",
    "location",
    "cache-control",
    "etag",
    "last-modified",
    "content-encoding",
    "content-language",
    "vary",
    "expires",
    "link",
    "content-disposition",
    "accept-ranges",
    "allow",
    "pragma",
    "content-location",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "content-security-policy",
];

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes end within a field.
    #[error("the record ends within its {0}")]
    Truncated(&'static str),
    /// Bytes are left over behind the record.
    #[error("{0} bytes too many behind the record")]
    Trailing(usize),
    /// The record was written in a format that this version does not know.
    #[error("record format {0} is not known")]
    UnknownFormat(u8),
    /// The record's digests were made by fingerprint rules that this version does not know.
    #[error("fingerprint version {0} is not known")]
    UnknownFingerprint(u8),
    /// A field holds a number that stands for nothing.
    #[error("{tag} is no known {field}")]
    UnknownTag {
        /// The field.
        field: &'static str,
        /// What it holds.
        tag: u8,
    },
    /// A field holds a number beyond its range, or claims more bytes than there are.
    #[error("the {0} is out of range")]
    OutOfRange(&'static str),
    /// The store holds something else than a string of bytes: another program wrote it.
    #[error("the stored value is not a string of bytes")]
    Foreign,
    /// The bytes are not those that were written: the medium has changed them.
    #[error("the stored bytes are damaged")]
    Damaged,
}

/// What the encoding of every record with this fence begins with, and of no other record.
pub fn fence_prefix(fence: &Fence) -> [u8; FENCE_PREFIX_LEN] {
    let mut prefix = [FORMAT_VERSION; FENCE_PREFIX_LEN];
    prefix[1..17].copy_from_slice(&fence.attempt.0);
    prefix[17..].copy_from_slice(&fence.version.to_be_bytes());
    prefix
}

/// The bytes of a record.
pub fn encode(record: &Record) -> Vec<u8> {
    let mut out = Writer::new(body_hint(record));
    out.bytes(&fence_prefix(&record.fence));
    out.byte(FINGERPRINT_VERSION);
    let credentials = if record.credentials.is_some() { WITH_CREDENTIALS } else { 0 };
    let probe = if record.probe.is_some() { WITH_PROBE } else { 0 };
    out.byte(kind_of(&record.state) | credentials | probe);
    out.varint(record.number.into());
    out.bytes(&record.namespace.0.to_be_bytes());
    out.bytes(&record.prints.settings.to_be_bytes());
    out.bytes(&record.prints.raw.0);
    out.bytes(&record.prints.canonical.0);
    if let Some(credentials) = record.credentials {
        out.bytes(&credentials.0);
    }
    out.varint(record.expires.0);
    if let Some(probe) = &record.probe {
        out.text(&encode_probe(probe));
    }
    encode_state(&mut out, &record.state, record.expires);
    out.finish()
}

/// Reads the bytes of a record.
///
/// # Errors
/// When the bytes are not exactly one record of a format and fingerprint version that this version knows.
pub fn decode(bytes: &[u8]) -> Result<Record, CodecError> {
    let mut from = Reader::new(bytes);
    let format = from.byte("format version")?;
    if format != FORMAT_VERSION {
        return Err(CodecError::UnknownFormat(format));
    }
    let fence = Fence { attempt: AttemptId(from.array("attempt id")?), version: from.u32("record version")? };
    let fingerprint = from.byte("fingerprint version")?;
    if fingerprint != FINGERPRINT_VERSION {
        return Err(CodecError::UnknownFingerprint(fingerprint));
    }
    let kind = from.byte("kind")?;
    let number = from.small("attempt number")?;
    let namespace = NamespaceTag(from.u32("namespace")?);
    let settings = from.u32("settings digest")?;
    let prints =
        Prints { raw: Print(from.array("raw print")?), canonical: Print(from.array("canonical print")?), settings };
    let credentials = if kind & WITH_CREDENTIALS == 0 { None } else { Some(Print(from.array("credentials digest")?)) };
    let expires = Time(from.varint("expiry")?);
    let probe = if kind & WITH_PROBE == 0 { None } else { Some(Box::new(decode_probe(&from.text("probe")?)?)) };
    let state = decode_state(&mut from, kind & !(WITH_CREDENTIALS | WITH_PROBE), expires)?;
    from.end()?;
    Ok(Record { fence, number, state, prints, credentials, namespace, expires, probe })
}

/// Roughly how long the encoding becomes, so that it is written without growing.
fn body_hint(record: &Record) -> usize {
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } => {
            let headers: usize = recorded.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
            128 + headers + recorded.body.len()
        }
        _ => 128,
    }
}

/// A probe is one part of the record, with a length of its own.
fn encode_probe(probe: &Probe) -> Vec<u8> {
    let mut out = Writer::new(128);
    out.text(&probe.target);
    encode_headers(&mut out, &probe.headers);
    out.finish()
}

fn decode_probe(bytes: &[u8]) -> Result<Probe, CodecError> {
    let mut from = Reader::new(bytes);
    let probe = Probe { target: from.text("probe's target")?, headers: decode_headers(&mut from)? };
    from.end()?;
    Ok(probe)
}

fn kind_of(state: &State) -> u8 {
    match state {
        State::InFlight { .. } => kind::IN_FLIGHT,
        State::InDoubt { .. } => kind::IN_DOUBT,
        State::Completed { answer: Answer::Recorded(_), .. } => kind::RECORDED,
        State::Completed { answer: Answer::TooLarge { location: None, .. }, .. } => kind::TOO_LARGE,
        State::Completed { answer: Answer::TooLarge { location: Some(_), .. }, .. } => kind::TOO_LARGE_WITH_LOCATION,
        State::Completed { answer: Answer::Unseen, .. } => kind::UNSEEN,
        State::Completed { answer: Answer::Told { by: Witness::Probe, .. }, .. } => kind::TOLD_BY_PROBE,
        State::Completed { answer: Answer::Told { by: Witness::Operator, .. }, .. } => kind::TOLD_BY_OPERATOR,
    }
}

fn encode_state(out: &mut Writer, state: &State, expires: Time) {
    match state {
        State::InFlight { since, lease } => {
            out.distance(*since, expires);
            out.distance(*lease, expires);
        }
        State::InDoubt { since, cause } => {
            out.distance(*since, expires);
            encode_cause(out, *cause);
        }
        State::Completed { at, answer } => {
            out.distance(*at, expires);
            encode_answer(out, answer);
        }
    }
}

fn encode_cause(out: &mut Writer, cause: Cause) {
    match cause {
        Cause::LeaseLost => out.byte(cause::LEASE_LOST),
        Cause::Broken => out.byte(cause::BROKEN),
        Cause::TimedOut => out.byte(cause::TIMED_OUT),
        Cause::Status(status) => {
            out.byte(cause::STATUS);
            out.bytes(&status.to_be_bytes());
        }
        Cause::RetryNotSent => out.byte(cause::RETRY_NOT_SENT),
        Cause::Abandoned => out.byte(cause::ABANDONED),
        Cause::Forgotten => out.byte(cause::FORGOTTEN),
    }
}

fn encode_answer(out: &mut Writer, answer: &Answer) {
    match answer {
        Answer::Recorded(Recorded { status, headers, body })
        | Answer::Told { answer: Recorded { status, headers, body }, .. } => {
            out.bytes(&status.to_be_bytes());
            encode_headers(out, headers);
            out.text(body);
        }
        Answer::TooLarge { status, location } => {
            out.bytes(&status.to_be_bytes());
            if let Some(location) = location {
                out.text(location);
            }
        }
        Answer::Unseen => {}
    }
}

fn encode_headers(out: &mut Writer, headers: &[(Bytes, Bytes)]) {
    out.length(headers.len());
    for (name, value) in headers {
        out.name(name);
        out.text(value);
    }
}

fn decode_state(from: &mut Reader, kind: u8, expires: Time) -> Result<State, CodecError> {
    let begin = from.distance("time", expires)?;
    let answer = match kind {
        kind::IN_FLIGHT => {
            return Ok(State::InFlight { since: begin, lease: from.distance("lease", expires)? });
        }
        kind::IN_DOUBT => return Ok(State::InDoubt { since: begin, cause: decode_cause(from)? }),
        kind::RECORDED => Answer::Recorded(decode_recorded(from)?),
        kind::TOO_LARGE => Answer::TooLarge { status: from.u16("status")?, location: None },
        kind::TOO_LARGE_WITH_LOCATION => {
            Answer::TooLarge { status: from.u16("status")?, location: Some(from.text("location")?) }
        }
        kind::UNSEEN => Answer::Unseen,
        kind::TOLD_BY_PROBE => Answer::Told { by: Witness::Probe, answer: decode_recorded(from)? },
        kind::TOLD_BY_OPERATOR => Answer::Told { by: Witness::Operator, answer: decode_recorded(from)? },
        tag => return Err(CodecError::UnknownTag { field: "kind", tag }),
    };
    Ok(State::Completed { at: begin, answer })
}

fn decode_recorded(from: &mut Reader) -> Result<Recorded, CodecError> {
    Ok(Recorded { status: from.u16("status")?, headers: decode_headers(from)?, body: from.text("body")? })
}

fn decode_cause(from: &mut Reader) -> Result<Cause, CodecError> {
    Ok(match from.byte("cause")? {
        cause::LEASE_LOST => Cause::LeaseLost,
        cause::BROKEN => Cause::Broken,
        cause::TIMED_OUT => Cause::TimedOut,
        cause::STATUS => Cause::Status(from.u16("status")?),
        cause::RETRY_NOT_SENT => Cause::RetryNotSent,
        cause::ABANDONED => Cause::Abandoned,
        cause::FORGOTTEN => Cause::Forgotten,
        tag => return Err(CodecError::UnknownTag { field: "cause", tag }),
    })
}

fn decode_headers(from: &mut Reader) -> Result<Vec<(Bytes, Bytes)>, CodecError> {
    // A field takes two bytes at least: a count beyond that is a lie, and must not decide on an allocation.
    let count = from.count("field count", 2)?;
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        headers.push((from.name()?, from.text("field value")?));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
