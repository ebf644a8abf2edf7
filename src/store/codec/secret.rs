//! The secret part of a record: what the upstream said, and what it would be asked. Seals nothing itself.

use bytes::Bytes;

use super::CodecError;
use super::reader::Reader;
use super::writer::Writer;
use crate::machine::{Answer, Record, Recorded, State};

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
            let headers: usize = recorded.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
            32 + headers + recorded.body.len()
        }
        _ => 32,
    }
}

/// Its first bytes are a number in every case.
pub(super) fn encode(out: &mut Writer, record: &Record) {
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } => {
            encode_headers(out, &recorded.headers);
            out.text(&recorded.body);
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

/// Puts it in its place in a record that is bare of it.
pub(super) fn decode(from: &mut Reader, record: &mut Record) -> Result<(), CodecError> {
    match &mut record.state {
        State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } => {
            let Recorded { headers, body, .. } = recorded;
            *headers = decode_headers(from)?;
            *body = from.text("body")?;
        }
        State::Completed { answer: Answer::TooLarge { location: Some(location), .. }, .. } => {
            *location = from.text("location")?;
        }
        State::Completed { answer: Answer::TooLarge { location: None, .. } | Answer::Unseen, .. }
        | State::InFlight { .. }
        | State::InDoubt { .. } => {}
    }
    if let Some(probe) = &mut record.probe {
        probe.target = from.text("probe's target")?;
        probe.headers = decode_headers(from)?;
    }
    Ok(())
}

fn encode_headers(out: &mut Writer, headers: &[(Bytes, Bytes)]) {
    out.length(headers.len());
    for (name, value) in headers {
        out.field(name, value);
    }
}

/// How many fields there is room for at once: a count may be a lie, and must not decide on an allocation.
const ROOM: usize = 32;

fn decode_headers(from: &mut Reader) -> Result<Vec<(Bytes, Bytes)>, CodecError> {
    let count = from.count("field count")?;
    let mut headers = Vec::with_capacity(count.min(ROOM));
    for _ in 0..count {
        headers.push(from.field()?);
    }
    Ok(headers)
}
