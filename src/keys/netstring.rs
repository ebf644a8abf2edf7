//! Netstrings: bytes side by side that can be taken apart in one way only, and that people can read. It hashes nothing.

use std::io::Write;

/// Netstrings, one behind the other.
#[derive(Default)]
pub(super) struct Netstrings(Vec<u8>);

impl Netstrings {
    /// How many bytes there are, a colon, the bytes, a comma.
    pub(super) fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        // Writing to a vector cannot fail.
        drop(write!(self.0, "{}:", bytes.len()));
        self.0.extend_from_slice(bytes);
        self.0.push(b',');
        self
    }

    /// One whose bytes are netstrings themselves.
    pub(super) fn nest(&mut self, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        fill(&mut inner);
        self.put(inner.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_bytes_and_nest() {
        let mut list = Netstrings::default();
        list.put("h\u{e9}").put("").nest(|inner| {
            inner.put("a,1:b");
        });
        assert_eq!(String::from_utf8(list.into_bytes()).unwrap(), "3:h\u{e9},0:,8:5:a,1:b,,");
    }
}
