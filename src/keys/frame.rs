//! Length-framed hashing: what is hashed can be taken apart in one way only, so no separator can be forged.
//! It does not know what the parts mean.

use sha2::{Digest, Sha256};

use crate::machine::Print;

/// A whole SHA-256.
pub(super) type Hash = [u8; 32];

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

/// A SHA-256 over framed parts. One that is shown remembers them, by the names that they are given in between.
pub(super) struct Frame {
    hash: Sha256,
    shown: Option<Shown>,
}

#[derive(Default)]
struct Shown {
    item: String,
    label: &'static str,
    framed: Vec<Framed>,
}

impl Frame {
    /// Begins a frame. Frames of different domains never collide.
    pub(super) fn new(domain: &str) -> Self {
        Self::begin(domain, None)
    }

    /// Begins a frame that can be shown.
    pub(super) fn shown(domain: &str) -> Self {
        Self::begin(domain, Some(Shown::default()))
    }

    /// Begins a frame whose digest is to be a part of this one.
    pub(super) fn inner(&self, domain: &str) -> Self {
        Self::begin(domain, self.shown.is_some().then(Shown::default))
    }

    fn begin(domain: &str, shown: Option<Shown>) -> Self {
        let mut frame = Self { hash: Sha256::new(), shown };
        frame.label("domain").part(domain);
        frame
    }

    /// Says what the next parts are.
    pub(super) fn label(&mut self, label: &'static str) -> &mut Self {
        if let Some(shown) = &mut self.shown {
            shown.item.clear();
            shown.label = label;
        }
        self
    }

    /// Says what the next parts are, and of which one of a kind.
    pub(super) fn label_of(&mut self, kind: &str, name: impl AsRef<[u8]>, label: &'static str) -> &mut Self {
        if let Some(shown) = &mut self.shown {
            shown.item = format!("{kind} {}", String::from_utf8_lossy(name.as_ref()));
            shown.label = label;
        }
        self
    }

    /// One part: its length, then its bytes.
    pub(super) fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.update(bytes);
        self.show(|| Hashed::Part(bytes.to_vec()));
    }

    /// A part that is the digest of other parts.
    pub(super) fn digest(&mut self, mut inner: Self) {
        let framed = inner.take_shown();
        let digest = inner.finish();
        self.update(&digest);
        self.show(|| Hashed::Digest(digest.to_vec(), framed));
    }

    /// How many parts of a kind follow.
    pub(super) fn count(&mut self, count: usize) {
        self.hash.update((count as u64).to_be_bytes());
        self.show(|| Hashed::Count(count as u64));
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
        self.hash.finalize().into()
    }

    /// What was framed so far; nothing unless it is shown.
    pub(super) fn take_shown(&mut self) -> Vec<Framed> {
        self.shown.take().map(|shown| shown.framed).unwrap_or_default()
    }

    fn update(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_be_bytes();
        // Most parts are short, and each update costs more than its bytes.
        let mut whole = [0; 64];
        let end = length.len() + bytes.len();
        if let Some(whole) = whole.get_mut(..end) {
            whole[..length.len()].copy_from_slice(&length);
            whole[length.len()..].copy_from_slice(bytes);
            self.hash.update(&*whole);
        } else {
            self.hash.update(length);
            self.hash.update(bytes);
        }
    }

    fn show(&mut self, hashed: impl FnOnce() -> Hashed) {
        if let Some(shown) = &mut self.shown {
            shown.framed.push(Framed { item: shown.item.clone(), label: shown.label, hashed: hashed() });
        }
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
