//! Bodies by how they are framed, read up to their end.

use super::chunks::Chunks;
use super::{Fault, Limits, Part};

/// How a message's body is framed, and how much of it was read.
#[derive(Debug, Clone)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunks(Chunks),
    UntilClose,
}

impl Body {
    /// Reads on, up to where a run of data ends: what was good.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> (Part, Result<(), Fault>) {
        let all_data = |data, last| (Part { read: data, data, last }, Ok(()));
        match self {
            Self::None => all_data(0, true),
            Self::Length(left) => {
                let some = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= u64::try_from(some).unwrap_or(u64::MAX);
                all_data(some, *left == 0)
            }
            Self::Chunks(chunks) => chunks.read(bytes, limits),
            Self::UntilClose => all_data(bytes.len(), false),
        }
    }
}
