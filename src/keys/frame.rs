//! Length-framed hashing: what is hashed can be taken apart in one way only, so no separator can be forged.
//! It does not know what the parts mean.

use sha2::{Digest, Sha256};

use crate::machine::Print;

/// A whole SHA-256.
pub(super) type Hash = [u8; 32];

/// A SHA-256 over framed parts.
pub(super) struct Frame(Sha256);

impl Frame {
    /// Begins a frame. Frames of different domains never collide.
    pub(super) fn new(domain: &str) -> Self {
        let mut frame = Self(Sha256::new());
        frame.part(domain);
        frame
    }

    /// One part: its length, then its bytes.
    pub(super) fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.count(bytes.len());
        self.0.update(bytes);
    }

    /// How many parts of a kind follow.
    pub(super) fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    /// A part that may be absent, which is not the same as empty.
    pub(super) fn optional(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        self.count(usize::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.part(bytes);
        }
    }

    /// A list of parts, with its length in front.
    pub(super) fn list(&mut self, parts: impl ExactSizeIterator<Item = impl AsRef<[u8]>>) {
        self.count(parts.len());
        parts.for_each(|part| self.part(part));
    }

    pub(super) fn finish(self) -> Hash {
        self.0.finalize().into()
    }
}

/// SHA-256 of plain bytes.
pub(super) fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// The first 128 bits.
pub(super) fn print(hash: &Hash) -> Print {
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    Print(first)
}

/// The first 32 bits.
pub(super) fn word(hash: &Hash) -> u32 {
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// Lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(parts: &[&str]) -> Hash {
        let mut frame = Frame::new("test");
        for part in parts {
            frame.part(part);
        }
        frame.finish()
    }

    #[test]
    fn parts_cannot_flow_into_each_other() {
        assert_eq!(framed(&["ab", "c"]), framed(&["ab", "c"]));
        assert_ne!(framed(&["ab", "c"]), framed(&["a", "bc"]));
        assert_ne!(framed(&["ab", ""]), framed(&["ab"]));
        assert_ne!(framed(&["ab"]), Frame::new("testab").finish());
    }

    #[test]
    fn absent_is_not_empty() {
        let optional = |part: Option<&str>| {
            let mut frame = Frame::new("test");
            frame.optional(part);
            frame.finish()
        };
        assert_ne!(optional(None), optional(Some("")));
    }
}
