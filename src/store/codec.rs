//! The bytes of a record: one compact binary string an operation, the same in every store.
//! It neither judges nor migrates: bytes of an unknown version are an error, never a guess.
//!
//! Layout: format version (1), attempt id (16), record version (4, big endian); then fingerprint version (1),
//! kind (1), attempt number, namespace (4), settings (4), raw print (16), canonical print (16), credentials (16, if the
//! kind says so), the operation held beside (32, if the further flags say so), expiry, the end of the key's right to act
//! (if the kind says so); then what the kind asks for. Numbers without a size are LEB128 varints; times other than the
//! expiry are distances to it. The first 21 bytes are the fence, so a store compares fences byte by byte.
//!
//! What the kind asks for comes in two parts: the clear one, which stores and operators may see, then the secret one:
//! what the upstream said, and the probe. If the kind says so, the secret part is sealed: a mark (2), the key's id, nonce
//! (12), ciphertext, tag (16).
//! A seal holds for its operation and for everything clear in front of it, the key's id included: no secret part opens
//! under another operation, attempt, version, state, status, expiry, or for other digests.

mod seal;
mod secret;

pub use seal::{BadKey, KEY_ID_LEN, Key, Keyring, SECRET_LEN, SealError};

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::{Buf, Bytes};

use crate::machine::{
    Answer, AttemptId, Cause, FINGERPRINT_VERSION, Fence, NamespaceTag, OperationId, Print, Prints, Probe, RawPrint,
    Record, Recorded, State, Time, Witness,
};
use crate::packed::{Malformed, Reader, Writer};

/// Length of [`fence_prefix`], in bytes.
pub const FENCE_PREFIX_LEN: usize = 21;

const FORMAT_VERSION: u8 = 1;

/// Set in the kind byte when the record holds a digest of credentials.
const WITH_CREDENTIALS: u8 = 0x80;
/// Set in the kind byte when the record holds a probe.
const WITH_PROBE: u8 = 0x40;

/// Set in the kind byte when the secret part is sealed.
const SEALED: u8 = 0x20;
/// Set in the kind byte when the record says until when its key is good.
const WITH_END: u8 = 0x10;

/// Set in the kind byte when a byte of further flags follows it. Gateways that do not know this take the kind for an unknown
/// one: a pair of which they see one half is none of theirs.
const WITH_MORE: u8 = 0x08;

/// The only further flag: the record names an operation that was held beside its own.
const BESIDE: u8 = 0x01;

/// What a sealed part begins with. A clear one begins with a number, and no number is spelt so: whatever becomes of the
/// flag, a sealed part is never taken for a clear one.
const SEAL_MARK: [u8; 2] = [0x80, 0x00];

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

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They are not packed as a record is.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Bytes are left over behind the record.
    #[error("{0} bytes too many behind the record")]
    Trailing(usize),
    /// The record was written in a format that this version does not know.
    #[error("record format {0} is not known")]
    UnknownFormat(u8),
    /// The record's digests were made by fingerprint rules that this version does not know.
    #[error("fingerprint version {0} is not known")]
    UnknownFingerprint(u8),
    /// The store holds something else than a string of bytes: another program wrote it.
    #[error("the stored value is not a string of bytes")]
    Foreign,
    /// The bytes are not those that were written: the medium has changed them.
    #[error("the stored bytes are damaged")]
    Damaged,
    /// The record is sealed under a key that this gateway does not have.
    #[error("the record is sealed under the key `{0}`, which is not in `store.encryption.keys`")]
    UnknownKey(String),
    /// The seal does not hold: the key's secret is another one, or the record was changed or moved.
    #[error("the record's seal does not hold under the key `{0}`: another secret, or the record was changed")]
    BrokenSeal(String),
}

/// Turns records into bytes and back; with keys, it seals what upstreams said. Clones share their keys.
#[derive(Debug, Clone, Default)]
pub struct Codec {
    keys: Arc<ArcSwap<Keyring>>,
}

/// What the encoding of every record with this fence begins with, and of no other record.
pub fn fence_prefix(fence: &Fence) -> [u8; FENCE_PREFIX_LEN] {
    let mut prefix = [FORMAT_VERSION; FENCE_PREFIX_LEN];
    prefix[1..17].copy_from_slice(&fence.attempt.0);
    prefix[17..].copy_from_slice(&fence.version.to_be_bytes());
    prefix
}

impl Codec {
    /// A codec with these keys.
    pub fn new(keys: Keyring) -> Self {
        Self { keys: Arc::new(ArcSwap::from_pointee(keys)) }
    }

    /// Has this codec and its clones use other keys from now on.
    pub fn exchange(&self, keys: Keyring) {
        self.keys.store(Arc::new(keys));
    }

    /// The bytes of an operation's record.
    ///
    /// # Errors
    /// When it cannot be sealed.
    pub fn encode(&self, id: &OperationId, record: &Record) -> Result<Vec<u8>, SealError> {
        self.encode_behind(Vec::new(), id, record)
    }

    /// The same behind what stands there already.
    ///
    /// # Errors
    /// As above.
    pub fn encode_behind(&self, front: Vec<u8>, id: &OperationId, record: &Record) -> Result<Vec<u8>, SealError> {
        // Only where there is something to seal: most claims have nothing.
        let keys = secret::is_in(record).then(|| self.keys.load());
        let key = keys.as_ref().and_then(|keys| keys.sealing());
        let mut out = Writer::behind(front, 128 + secret::hint(record));
        encode_clear(&mut out, record, if key.is_some() { SEALED } else { 0 });
        if let Some(key) = key {
            out.bytes(&SEAL_MARK);
            out.text(key.id().as_bytes());
            let mut part = Writer::behind(Vec::new(), secret::hint(record));
            secret::encode(&mut part, record);
            let sealed = key.seal(&bound(id, out.so_far()), part.finish())?;
            out.bytes(&sealed);
        } else {
            secret::encode(&mut out, record);
        }
        Ok(out.finish())
    }

    /// Reads the bytes of an operation's record.
    ///
    /// # Errors
    /// When the bytes are not exactly one record of a format and fingerprint version that this version knows, or are sealed
    /// under a key that is not there, or for another record.
    pub fn decode(&self, id: &OperationId, bytes: &[u8]) -> Result<Record, CodecError> {
        self.decode_own(id, Bytes::copy_from_slice(bytes))
    }

    /// The same of bytes that nothing else is kept in: the record's answer stays where it is.
    ///
    /// # Errors
    /// As above.
    pub fn decode_own(&self, id: &OperationId, mut bytes: Bytes) -> Result<Record, CodecError> {
        let mut from = Reader::new(&bytes);
        let (mut record, sealed) = decode_clear(&mut from)?;
        let read = bytes.len() - from.left();
        if sealed {
            bytes = self.open(id, &bytes, from)?;
        } else {
            bytes.advance(read);
        }
        secret::decode(bytes, &mut record)?;
        Ok(record)
    }

    /// The secret part of a record, of which all that is clear has been read.
    fn open(&self, id: &OperationId, record: &[u8], mut from: Reader<'_>) -> Result<Bytes, CodecError> {
        if from.array("seal")? != SEAL_MARK {
            return Err(Malformed::OutOfRange("seal").into());
        }
        let key = from.text("key id")?;
        let (clear, seal) = record.split_at(record.len() - from.left());
        self.keys.load().open(key, &bound(id, clear), seal)
    }
}

/// What a seal holds for besides the secret part.
fn bound(id: &OperationId, clear: &[u8]) -> Vec<u8> {
    [&id.0, clear].concat()
}

fn encode_clear(out: &mut Writer, record: &Record, sealed: u8) {
    out.bytes(&fence_prefix(&record.fence));
    out.byte(FINGERPRINT_VERSION);
    let credentials = if record.credentials.is_some() { WITH_CREDENTIALS } else { 0 };
    let probe = if record.probe.is_some() { WITH_PROBE } else { 0 };
    let end = if record.good_until.is_some() { WITH_END } else { 0 };
    let more = if record.beside.is_some() { WITH_MORE } else { 0 };
    out.byte(kind_of(&record.state) | credentials | probe | sealed | end | more);
    if record.beside.is_some() {
        out.byte(BESIDE);
    }
    out.varint(record.number.into());
    out.bytes(&prints(record));
    if let Some(credentials) = record.credentials {
        out.bytes(&credentials.0);
    }
    if let Some(beside) = &record.beside {
        out.bytes(&beside.0);
    }
    out.varint(record.expires.0);
    if let Some(end) = record.good_until {
        out.distance(end.0, record.expires.0);
    }
    encode_state(out, &record.state, record.expires);
}

/// Namespace and digests: in one piece, as they always have the same size.
fn prints(record: &Record) -> [u8; 40] {
    let mut all = [0; 40];
    all[..4].copy_from_slice(&record.namespace.0.to_be_bytes());
    all[4..8].copy_from_slice(&record.prints.settings.to_be_bytes());
    all[8..24].copy_from_slice(&record.prints.raw.0);
    all[24..].copy_from_slice(&record.prints.canonical.0);
    all
}

/// A record whose secret part is still to be read, and whether that is sealed.
fn decode_clear(from: &mut Reader<'_>) -> Result<(Record, bool), CodecError> {
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
    let more = if kind & WITH_MORE == 0 { None } else { Some(from.byte("flags")?) };
    if let Some(tag) = more.filter(|more| *more != BESIDE) {
        return Err(Malformed::UnknownTag { field: "flag", tag }.into());
    }
    let number = from.small("attempt number")?;
    let namespace = NamespaceTag(from.u32("namespace")?);
    let settings = from.u32("settings digest")?;
    let prints =
        Prints { raw: RawPrint(from.array("raw print")?), canonical: Print(from.array("canonical print")?), settings };
    let credentials = if kind & WITH_CREDENTIALS == 0 { None } else { Some(Print(from.array("credentials digest")?)) };
    let beside = if more.is_none() { None } else { Some(Box::new(OperationId(from.array("operation beside")?))) };
    let expires = Time(from.varint("expiry")?);
    let good_until = if kind & WITH_END == 0 { None } else { Some(Time(from.distance("end", expires.0)?)) };
    let state = decode_state(from, kind & !(WITH_CREDENTIALS | WITH_PROBE | SEALED | WITH_END | WITH_MORE), expires)?;
    let probe = (kind & WITH_PROBE != 0).then(|| Box::new(Probe { target: Bytes::new(), headers: Vec::new() }));
    let record = Record { fence, number, state, prints, credentials, namespace, expires, probe, beside, good_until };
    Ok((record, kind & SEALED != 0))
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
            out.distance(since.0, expires.0);
            out.distance(lease.0, expires.0);
        }
        State::InDoubt { since, cause } => {
            out.distance(since.0, expires.0);
            encode_cause(out, *cause);
        }
        State::Completed { at, answer } => {
            out.distance(at.0, expires.0);
            match answer {
                Answer::Recorded(Recorded { status, .. })
                | Answer::Told { answer: Recorded { status, .. }, .. }
                | Answer::TooLarge { status, .. } => out.bytes(&status.to_be_bytes()),
                Answer::Unseen => {}
            }
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

/// The clear part of a state. Its answer is bare: without what is secret.
fn decode_state(from: &mut Reader<'_>, kind: u8, expires: Time) -> Result<State, CodecError> {
    let begin = Time(from.distance("time", expires.0)?);
    let answer = match kind {
        kind::IN_FLIGHT => {
            return Ok(State::InFlight { since: begin, lease: Time(from.distance("lease", expires.0)?) });
        }
        kind::IN_DOUBT => return Ok(State::InDoubt { since: begin, cause: decode_cause(from)? }),
        kind::RECORDED => Answer::Recorded(Recorded::empty(from.u16("status")?)),
        kind::TOO_LARGE => Answer::TooLarge { status: from.u16("status")?, location: None },
        kind::TOO_LARGE_WITH_LOCATION => Answer::TooLarge { status: from.u16("status")?, location: Some(Bytes::new()) },
        kind::UNSEEN => Answer::Unseen,
        kind::TOLD_BY_PROBE => Answer::Told { by: Witness::Probe, answer: Recorded::empty(from.u16("status")?) },
        kind::TOLD_BY_OPERATOR => Answer::Told { by: Witness::Operator, answer: Recorded::empty(from.u16("status")?) },
        tag => return Err(Malformed::UnknownTag { field: "kind", tag }.into()),
    };
    Ok(State::Completed { at: begin, answer })
}

fn decode_cause(from: &mut Reader<'_>) -> Result<Cause, CodecError> {
    Ok(match from.byte("cause")? {
        cause::LEASE_LOST => Cause::LeaseLost,
        cause::BROKEN => Cause::Broken,
        cause::TIMED_OUT => Cause::TimedOut,
        cause::STATUS => Cause::Status(from.u16("status")?),
        cause::RETRY_NOT_SENT => Cause::RetryNotSent,
        cause::ABANDONED => Cause::Abandoned,
        cause::FORGOTTEN => Cause::Forgotten,
        tag => return Err(Malformed::UnknownTag { field: "cause", tag }.into()),
    })
}

#[cfg(test)]
mod tests;
