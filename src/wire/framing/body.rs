//! Bodies by how they are framed, read up to their end.

use super::chunks::Chunks;
use super::{Fault, Limits};

/// How a message's body is framed, and how much of it was read.
#[derive(Debug, Clone)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunks(Chunks),
    UntilClose,
}

impl Body {
    /// Reads on: how many bytes were good, and whether they are the body's last.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> (usize, Result<bool, Fault>) {
        match self {
            Self::None => (0, Ok(true)),
            Self::Length(left) => {
                let some = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= u64::try_from(some).unwrap_or(u64::MAX);
                (some, Ok(*left == 0))
            }
            Self::Chunks(chunks) => chunks.read(bytes, limits),
            Self::UntilClose => (bytes.len(), Ok(false)),
        }
    }
}
