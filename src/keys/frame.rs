//! Length-framed hashing: what is hashed can be taken apart in one way only, so no separator can be forged.
//! It does not know what the parts mean.

use sha2::{Digest, Sha256};

use super::hasher::Hasher;
pub(super) use super::hasher::{Hash, Pieces};
use super::keyed::Keyed;
use crate::machine::{Print, Salt};

/// One thing that went into a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framed {
    /// Which one of several it belongs to, such as `query sku`; empty where there is but one.
    pub item: String,
    /// What it is.
    pub label: &'static str,
    /// What was hashed.
    pub hashed: Hashed,
}

/// What was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hashed {
    /// A number, as eight bytes, the highest first: how many parts follow.
    Count(u64),
    /// The length of these bytes as such a number, then the bytes.
    Part(Vec<u8>),
    /// The same with a digest, and what went into that.
    Digest(Vec<u8>, Vec<Framed>),
}

/// A hash over framed parts, mostly SHA-256. One that is shown remembers them, by the names that they are given in between.
pub(super) struct Frame<H = Hasher> {
    hasher: H,
    shown: Option<Box<Shown>>,
}

#[derive(Default)]
struct Shown {
    item: String,
    label: &'static str,
    framed: Vec<Framed>,
}

impl Frame {
    /// Begins a frame. Frames of different domains never collide.
    #[inline]
    pub(super) fn new(domain: &str) -> Self {
        Self::begin(domain, None)
    }

    /// Begins a frame that can be shown.
    pub(super) fn shown(domain: &str) -> Self {
        Self::begin(domain, Some(Box::default()))
    }

    /// Begins a frame whose digest is to be a part of this one.
    pub(super) fn inner(&self, domain: &str) -> Self {
        Self::begin(domain, self.shown.is_some().then(Box::default))
    }

    #[inline]
    fn begin(domain: &str, shown: Option<Box<Shown>>) -> Self {
        let mut frame = Self { hasher: Hasher::new(), shown };
        frame.label("domain").part(domain);
        frame
    }

    /// A part that is the digest of other parts.
    pub(super) fn digest(&mut self, mut inner: Self) {
        let framed = inner.take_shown();
        let digest = inner.finish();
        self.hasher.add_framed(&digest);
        if let Some(shown) = &mut self.shown {
            shown.show(Hashed::Digest(digest.to_vec(), framed));
        }
    }

    #[inline]
    pub(super) fn finish(mut self) -> Hash {
        self.hasher.finish()
    }

    /// What was framed so far; nothing unless it is shown.
    pub(super) fn take_shown(&mut self) -> Vec<Framed> {
        self.shown.take().map(|shown| shown.framed).unwrap_or_default()
    }
}

impl<H: Pieces> Frame<H> {
    /// Says what the next parts are.
    #[inline]
    pub(super) fn label(&mut self, label: &'static str) -> &mut Self {
        if let Some(shown) = &mut self.shown {
            shown.label(String::new(), label);
        }
        self
    }

    /// Says what the next parts are, and of which one of a kind.
    #[inline]
    pub(super) fn label_of(&mut self, kind: &str, name: impl AsRef<[u8]>, label: &'static str) -> &mut Self {
        if let Some(shown) = &mut self.shown {
            shown.label(format!("{kind} {}", String::from_utf8_lossy(name.as_ref())), label);
        }
        self
    }

    /// One part: its length, then its bytes.
    #[inline]
    pub(super) fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.hasher.add_framed(bytes);
        if let Some(shown) = &mut self.shown {
            shown.show(Hashed::Part(bytes.to_vec()));
        }
    }

    /// How many parts of a kind follow.
    #[inline]
    pub(super) fn count(&mut self, count: usize) {
        self.hasher.add(&(count as u64).to_be_bytes());
        if let Some(shown) = &mut self.shown {
            shown.show(Hashed::Count(count as u64));
        }
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
}

impl Shown {
    #[cold]
    fn label(&mut self, item: String, label: &'static str) {
        (self.item, self.label) = (item, label);
    }

    #[cold]
    fn show(&mut self, hashed: Hashed) {
        self.framed.push(Framed { item: self.item.clone(), label: self.label, hashed });
    }
}

/// The digest of a frame that is filled in here. It stays where it is: to move one costs as much as to hash a short part.
#[inline]
pub(super) fn hash(domain: &str, fill: impl FnOnce(&mut Frame)) -> Hash {
    let mut frame = Frame { hasher: Hasher::new(), shown: None };
    frame.part(domain);
    fill(&mut frame);
    frame.hasher.finish()
}

/// The keyed hash of a frame that is filled in here.
#[inline]
pub(super) fn keyed(salt: Salt, domain: &str, fill: impl FnOnce(&mut Frame<Keyed>)) -> [u8; 8] {
    let mut frame = Frame { hasher: Keyed::new(salt), shown: None };
    frame.part(domain);
    fill(&mut frame);
    frame.hasher.finish()
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

    /// However much of it goes in at once.
    #[test]
    fn parts_of_all_lengths_are_hashed_as_they_are() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for first in [0, 1, 200, 220, 224, 225, 226, 240, 256, 257, 300, 700] {
            for second in [0, 1, 7, 8, 9, 200, 247, 248, 249, 255, 256, 257, 600] {
                let mut frame = Frame::new("test");
                frame.part(&bytes[..first]);
                frame.count(7);
                frame.part(&bytes[..second]);
                let length = |length: usize| (length as u64).to_be_bytes();
                let parts = [
                    &length(4)[..],
                    b"test",
                    &length(first),
                    &bytes[..first],
                    &length(7),
                    &length(second),
                    &bytes[..second],
                ];
                assert_eq!(frame.finish(), sha256(&parts.concat()), "{first} {second}");
            }
        }
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
