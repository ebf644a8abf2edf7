//! The secret part of a record: what the upstream said, and what it would be asked. Seals nothing itself.

use bytes::Bytes;

use super::CodecError;
use crate::machine::{Answer, Record, Recorded, State};
use crate::packed::{Malformed, Reader, Writer};

/// Whether there is a secret part at all.
pub(super) fn is_in(record: &Record) -> bool {
    let answered = match &record.state {
        State::Completed { answer, .. } => !matches!(answer, Answer::TooLarge { location: None, .. } | Answer::Unseen),
        State::InFlight { .. } | State::InDoubt { .. } => false,
    };
    answered || record.probe.is_some()
}

/// Roughly how long it becomes, so that it is written without growing.
pub(super) fn hint(record: &Record) -> usize {
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } => {
            recorded.packed().len()
        }
        _ => 32,
    }
}

/// Its first bytes are a number in every case.
pub(super) fn encode(out: &mut Writer, record: &Record) {
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } => {
            out.bytes(recorded.packed());
        }
        State::Completed { answer: Answer::TooLarge { location: Some(location), .. }, .. } => out.text(location),
        State::Completed { answer: Answer::TooLarge { location: None, .. } | Answer::Unseen, .. }
        | State::InFlight { .. }
        | State::InDoubt { .. } => {}
    }
    if let Some(probe) = &record.probe {
        out.text(&probe.target);
        encode_headers(out, &probe.headers);
    }
}

/// Puts it in its place in a record that is bare of it. Its strings stay where they are.
pub(super) fn decode(mut secret: Bytes, record: &mut Record) -> Result<(), CodecError> {
    if let State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } =
        &mut record.state
    {
        *recorded = Recorded::unpack(recorded.status, &mut secret)?;
    }
    let mut from = Reader::new(&secret);
    if let State::Completed { answer: Answer::TooLarge { location: Some(location), .. }, .. } = &mut record.state {
        *location = secret.slice_ref(from.text("location")?);
    }
    if let Some(probe) = &mut record.probe {
        probe.target = secret.slice_ref(from.text("probe's target")?);
        probe.headers = decode_headers(&secret, &mut from)?;
    }
    match from.left() {
        0 => Ok(()),
        left => Err(CodecError::Trailing(left)),
    }
}

fn encode_headers(out: &mut Writer, headers: &[(Bytes, Bytes)]) {
    out.length(headers.len());
    for (name, value) in headers {
        out.field(name, value);
    }
}

/// How many fields there is room for at once: a count may be a lie, and must not decide on an allocation.
const ROOM: usize = 32;

fn decode_headers(secret: &Bytes, from: &mut Reader<'_>) -> Result<Vec<(Bytes, Bytes)>, Malformed> {
    let count = from.count("field count")?;
    let mut headers = Vec::with_capacity(count.min(ROOM));
    for _ in 0..count {
        let (name, value) = from.field()?;
        headers.push((name.shared(secret), value.shared(secret)));
    }
    Ok(headers)
}
