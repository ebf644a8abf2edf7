//! The record codec: what it reads was written so, and what it writes is read back. It knows no layout but the fence's.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use oncegate::machine::{
    Answer, AttemptId, Cause, Fence, NamespaceTag, OperationId, Print, Prints, Probe, RawPrint, Record, Recorded,
    State, Time, Witness,
};
use oncegate::store::codec::{Codec, CodecError, FENCE_PREFIX_LEN, Key, Keyring, SECRET_LEN, fence_prefix};

use super::dice::Dice;

/// Takes the input for a record's bytes, and then for the choices that make up a record.
pub fn check(data: &[u8]) {
    read_only_what_was_written(data);
    if let Ok(record) = record(&mut Unstructured::new(data)) {
        let mut dice = Dice::of(data);
        round_trip(&record, &mut dice);
        sealed(&record, &mut dice);
    }
}

/// The operation that all records here belong to.
const ID: OperationId = OperationId([0x1D; 32]);

fn encode(record: &Record) -> Vec<u8> {
    Codec::default().encode(&ID, record).expect("nothing is sealed")
}

fn decode(bytes: &[u8]) -> std::result::Result<Record, CodecError> {
    Codec::default().decode(&ID, bytes)
}

/// Bytes are refused, or are what their record is written as.
fn read_only_what_was_written(bytes: &[u8]) {
    let Ok(record) = decode(bytes) else { return };
    assert_eq!(bytes[..FENCE_PREFIX_LEN], fence_prefix(&record.fence));
    let written = encode(&record);
    if written == bytes {
        return;
    }
    // The one thing with two spellings is a field's name: it may have come into the list of common names later.
    assert!(written.len() < bytes.len(), "{record:?} has another spelling");
    assert!(has_headers(&record), "{record:?} has another spelling");
    assert_eq!(decode(&written), Ok(record));
}

fn has_headers(record: &Record) -> bool {
    let answered = match &record.state {
        State::Completed { answer: Answer::Recorded(answer) | Answer::Told { answer, .. }, .. } => {
            answer.fields().count()
        }
        _ => 0,
    };
    answered > 0 || record.probe.as_ref().is_some_and(|probe| !probe.headers.is_empty())
}

fn round_trip(record: &Record, dice: &mut Dice) {
    let mut bytes = encode(record);
    assert_eq!(bytes[..FENCE_PREFIX_LEN], fence_prefix(&record.fence));
    assert_eq!(decode(&bytes).as_ref(), Ok(record));
    let cuts = [0, bytes.len() - 1, dice.below(bytes.len()), dice.below(bytes.len()), dice.below(bytes.len().min(120))];
    for cut in cuts {
        assert!(decode(&bytes[..cut]).is_err(), "cut to {cut} of {}", bytes.len());
    }
    bytes.push(dice.next().to_le_bytes()[0]);
    assert_eq!(decode(&bytes), Err(CodecError::Trailing(1)));
    bytes.pop();
    // The head is where lengths and tags are; further behind there may be much body.
    for end in [bytes.len(), bytes.len().min(120)] {
        let at = dice.below(end);
        let bit = 1 << dice.below(8);
        bytes[at] ^= bit;
        assert_ne!(decode(&bytes).as_ref(), Ok(record), "bit {bit} of byte {at} says nothing");
        read_only_what_was_written(&bytes);
        bytes[at] ^= bit;
    }
}

/// What is sealed opens as it was, for its operation alone, and with no bit changed.
fn sealed(record: &Record, dice: &mut Dice) {
    let key = Key::new("k1", &[dice.next().to_le_bytes()[0]; SECRET_LEN]).expect("a key");
    let codec = Codec::new(Keyring::new(vec![key]));
    let mut bytes = codec.encode(&ID, record).expect("it is sealed");
    assert_eq!(bytes[..FENCE_PREFIX_LEN], fence_prefix(&record.fence));
    assert_eq!(codec.decode(&ID, &bytes).as_ref(), Ok(record));
    if bytes == encode(record) {
        // There is nothing secret in it.
        return;
    }
    assert_eq!(decode(&bytes), Err(CodecError::UnknownKey("k1".to_owned())));
    assert!(codec.decode(&OperationId([0x2E; 32]), &bytes).is_err());
    for end in [bytes.len(), bytes.len().min(120)] {
        let at = dice.below(end);
        let bit = 1 << dice.below(8);
        bytes[at] ^= bit;
        assert!(codec.decode(&ID, &bytes).is_err(), "bit {bit} of byte {at} is not sealed");
        bytes[at] ^= bit;
    }
    let cut = dice.below(bytes.len());
    assert!(codec.decode(&ID, &bytes[..cut]).is_err(), "cut to {cut} of {}", bytes.len());
}

fn record(from: &mut Unstructured<'_>) -> Result<Record> {
    Ok(Record {
        fence: Fence { attempt: AttemptId(from.arbitrary()?), version: from.arbitrary()? },
        number: from.arbitrary()?,
        prints: Prints { raw: RawPrint(from.arbitrary()?), canonical: print(from)?, settings: from.arbitrary()? },
        credentials: if from.arbitrary()? { Some(print(from)?) } else { None },
        namespace: NamespaceTag(from.arbitrary()?),
        expires: time(from)?,
        probe: if from.arbitrary()? { Some(Box::new(probe(from)?)) } else { None },
        state: state(from)?,
        beside: if from.arbitrary()? { Some(Box::new(OperationId(from.arbitrary()?))) } else { None },
        good_until: if from.arbitrary()? { Some(time(from)?) } else { None },
    })
}

fn state(from: &mut Unstructured<'_>) -> Result<State> {
    Ok(match from.int_in_range(0..=5)? {
        0 => State::InFlight { since: time(from)?, lease: time(from)? },
        1 => State::InDoubt { since: time(from)?, cause: cause(from)? },
        2 => State::Completed { at: time(from)?, answer: Answer::Unseen },
        3 => {
            let location = if from.arbitrary()? { Some(text(from)?) } else { None };
            State::Completed { at: time(from)?, answer: Answer::TooLarge { status: from.arbitrary()?, location } }
        }
        4 => State::Completed { at: time(from)?, answer: Answer::Recorded(recorded(from)?) },
        _ => {
            let by = *from.choose(&[Witness::Probe, Witness::Operator])?;
            State::Completed { at: time(from)?, answer: Answer::Told { by, answer: recorded(from)? } }
        }
    })
}

fn cause(from: &mut Unstructured<'_>) -> Result<Cause> {
    let status = Cause::Status(from.arbitrary()?);
    from.choose(&[
        Cause::LeaseLost,
        Cause::Broken,
        Cause::TimedOut,
        status,
        Cause::RetryNotSent,
        Cause::Abandoned,
        Cause::Forgotten,
    ])
    .copied()
}

fn recorded(from: &mut Unstructured<'_>) -> Result<Recorded> {
    let headers = headers(from)?;
    Ok(Recorded::new(from.arbitrary()?, headers, &text(from)?))
}

fn probe(from: &mut Unstructured<'_>) -> Result<Probe> {
    Ok(Probe { target: text(from)?, headers: headers(from)? })
}

fn headers(from: &mut Unstructured<'_>) -> Result<Vec<(Bytes, Bytes)>> {
    let count = from.int_in_range(0..=12)?;
    (0..count).map(|_| Ok((name(from)?, text(from)?))).collect()
}

fn name(from: &mut Unstructured<'_>) -> Result<Bytes> {
    const NAMES: [&str; 4] = ["content-type", "location", "content-security-policy", "x-order"];
    if from.arbitrary()? { text(from) } else { from.choose(&NAMES).map(|name| Bytes::from_static(name.as_bytes())) }
}

fn text(from: &mut Unstructured<'_>) -> Result<Bytes> {
    from.arbitrary().map(Bytes::copy_from_slice)
}

fn time(from: &mut Unstructured<'_>) -> Result<Time> {
    from.arbitrary().map(Time)
}

fn print(from: &mut Unstructured<'_>) -> Result<Print> {
    from.arbitrary().map(Print)
}
