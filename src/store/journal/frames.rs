//! The journal's bytes: frames of entries, each frame with its length and a checksum. One frame is one sync, so that only
//! the last one can be torn. It reads and writes no file.

use sha2::{Digest, Sha256};

use crate::machine::OperationId;

/// What a journal begins with: whose file it is, and in which form.
pub(super) const MAGIC: &[u8; 8] = b"ogjrnl\0\x01";

/// Length (4, big endian), checksum of the length (4) and checksum of the entries (8) before a frame's entries. With a
/// length that proves itself, a frame that reaches beyond the end is a torn one, and not a damaged length.
const HEAD: usize = 16;
/// Tag, operation and length before an entry's record.
const ENTRY: usize = 37;

const PUT: u8 = 1;
const REMOVE: u8 = 2;

/// What happened to an operation's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is this from now on: its bytes.
    Put(OperationId, Vec<u8>),
    /// It is gone.
    Remove(OperationId),
}

/// Why bytes are no journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("it does not begin as a journal of this version does")]
    Foreign,
    #[error("it is damaged at byte {0}")]
    Damaged(usize),
}

impl Entry {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (tag, id, record) = match self {
            Self::Put(id, record) => (PUT, id, record.as_slice()),
            Self::Remove(id) => (REMOVE, id, [].as_slice()),
        };
        let mut bytes = Vec::with_capacity(ENTRY + record.len());
        bytes.push(tag);
        bytes.extend_from_slice(&id.0);
        bytes.extend_from_slice(&u32::try_from(record.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(record);
        bytes
    }
}

/// Entries as one frame.
pub(super) fn frame(entries: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + entries.len());
    let length = u32::try_from(entries.len()).unwrap_or(u32::MAX).to_be_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&checksum::<4>(&length));
    bytes.extend_from_slice(&checksum::<8>(entries));
    bytes.extend_from_slice(entries);
    bytes
}

/// What a file's bytes say, in order, and how many of them count: the last frame may be torn, which means that its writer
/// never heard that it was written. Anything else that does not fit is damage.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<Entry>, usize), Fault> {
    let mut entries = Vec::new();
    if !bytes.starts_with(MAGIC) {
        return Err(if MAGIC.starts_with(bytes) { Fault::Damaged(bytes.len()) } else { Fault::Foreign });
    }
    let mut at = MAGIC.len();
    while let Some(frame) = whole_frame(bytes, at)? {
        read_entries(frame, at + HEAD, &mut entries)?;
        at += HEAD + frame.len();
    }
    Ok((entries, at))
}

/// The entries of the frame that begins there; none at the end, and where the last one is torn.
fn whole_frame(bytes: &[u8], at: usize) -> Result<Option<&[u8]>, Fault> {
    let rest = &bytes[at..];
    let (Some(length), Some(sum)) = (array::<4>(rest, 0), array::<8>(rest, 8)) else { return Ok(None) };
    if array(rest, 4) != Some(checksum::<4>(&length)) {
        // A file that has grown before its bytes came holds zeros.
        return if rest.iter().all(|byte| *byte == 0) { Ok(None) } else { Err(Fault::Damaged(at)) };
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let Some(entries) = rest.get(HEAD..HEAD.saturating_add(length)) else { return Ok(None) };
    if checksum::<8>(entries) == sum {
        return Ok(Some(entries));
    }
    if rest.len() == HEAD + length { Ok(None) } else { Err(Fault::Damaged(at)) }
}

fn read_entries(mut rest: &[u8], mut at: usize, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    while !rest.is_empty() {
        let (Some(id), Some(length)) = (array::<32>(rest, 1), array::<4>(rest, 33)) else {
            return Err(Fault::Damaged(at));
        };
        let end = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX).saturating_add(ENTRY);
        let (id, record) = (OperationId(id), rest.get(ENTRY..end).ok_or(Fault::Damaged(at))?);
        entries.push(match rest[0] {
            PUT => Entry::Put(id, record.to_vec()),
            REMOVE => Entry::Remove(id),
            _ => return Err(Fault::Damaged(at)),
        });
        rest = &rest[end..];
        at += end;
    }
    Ok(())
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn checksum<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut sum = [0; N];
    sum.copy_from_slice(&Sha256::digest(bytes)[..N]);
    sum
}
