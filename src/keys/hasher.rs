//! SHA-256 of bytes that come in pieces, most of them short. What they mean is not known here.

use sha2::block_api::compress256;

/// A whole SHA-256.
pub(super) type Hash = [u8; 32];

/// How many bytes are hashed at a time (FIPS 180-4, section 5.2.1).
const BLOCK: usize = 64;
/// So many bytes are held back: most of what is hashed is short, and what is held by a hasher of `sha2` is one block.
const HELD: usize = 4 * BLOCK;
/// What every SHA-256 begins with (FIPS 180-4, section 5.3.3).
const BEGIN: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// What hashes bytes that come in pieces.
pub(super) trait Pieces {
    fn add(&mut self, bytes: &[u8]);

    /// The length of these bytes, as eight of them with the highest first, and the bytes.
    #[inline]
    fn add_framed(&mut self, bytes: &[u8]) {
        self.add(&(bytes.len() as u64).to_be_bytes());
        self.add(bytes);
    }
}

/// A SHA-256 on its way.
pub(super) struct Hasher {
    state: [u32; 8],
    /// How many blocks went into it.
    blocks: usize,
    /// What is still to be hashed, with room for a block that ends it.
    held: [u8; HELD + BLOCK],
    length: usize,
}

impl Hasher {
    #[inline]
    pub(super) fn new() -> Self {
        Self { state: BEGIN, blocks: 0, held: [0; HELD + BLOCK], length: 0 }
    }

    /// The hash. Nothing more can be added.
    pub(super) fn finish(&mut self) -> Hash {
        self.pad();
        let mut hash = [0; 32];
        hash.as_chunks_mut().0.iter_mut().zip(self.state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        hash
    }

    /// Hashes what is held up to the end of a block, and what follows it as it stands.
    #[inline(never)]
    fn overflow(&mut self, bytes: &[u8]) {
        let end = self.length.next_multiple_of(BLOCK);
        let (first, rest) = bytes.split_at(bytes.len().min(end - self.length));
        self.held[self.length..self.length + first.len()].copy_from_slice(first);
        self.compress(end);
        let (whole, rest) = rest.as_chunks();
        compress256(&mut self.state, whole);
        self.blocks += whole.len();
        self.held[..rest.len()].copy_from_slice(rest);
        self.length = rest.len();
    }

    /// Hashes what is held, up to there.
    fn compress(&mut self, end: usize) {
        let (whole, _) = self.held[..end].as_chunks();
        compress256(&mut self.state, whole);
        self.blocks += whole.len();
    }

    /// Hashes what is held and how much it was in all (FIPS 180-4, section 5.1.1).
    fn pad(&mut self) {
        let bits = 8 * (self.blocks * BLOCK + self.length) as u64;
        let end = (self.length + 9).next_multiple_of(BLOCK);
        self.held[self.length] = 0x80;
        self.held[self.length + 1..end - 8].fill(0);
        self.held[end - 8..end].copy_from_slice(&bits.to_be_bytes());
        self.compress(end);
    }
}

impl Pieces for Hasher {
    #[inline]
    fn add(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.held[..HELD].get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        } else {
            self.overflow(bytes);
        }
    }

    #[inline]
    fn add_framed(&mut self, bytes: &[u8]) {
        let end = self.length + 8 + bytes.len();
        let length = (bytes.len() as u64).to_be_bytes();
        if let Some(place) = self.held[..HELD].get_mut(self.length..end)
            && let Some((first, rest)) = place.split_first_chunk_mut()
        {
            *first = length;
            rest.copy_from_slice(bytes);
            self.length = end;
        } else {
            self.add(&length);
            self.add(bytes);
        }
    }
}

/// Adds pieces, some of them framed, and returns what they are in one.
#[cfg(test)]
pub(super) fn add_all(hasher: &mut impl Pieces, pieces: &[(Vec<u8>, bool)]) -> Vec<u8> {
    let mut whole = Vec::new();
    for (piece, framed) in pieces {
        if *framed {
            hasher.add_framed(piece);
            whole.extend((piece.len() as u64).to_be_bytes());
        } else {
            hasher.add(piece);
        }
        whole.extend(piece);
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn hash(pieces: &[&[u8]]) -> Hash {
        let mut hasher = Hasher::new();
        for piece in pieces {
            hasher.add(piece);
        }
        hasher.finish()
    }

    #[test]
    fn every_length_is_hashed_as_by_sha2() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_200).collect();
        for length in 0..bytes.len() {
            let (expected, bytes) = (Hash::from(Sha256::digest(&bytes[..length])), &bytes[..length]);
            assert_eq!(hash(&[bytes]), expected, "{length}");
            for first in [1, 7, 55, 56, 63, 64, 65, 119, 255, 256, 257, 320] {
                let (one, other) = bytes.split_at(first.min(length));
                assert_eq!(hash(&[one, other]), expected, "{first} of {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_pieces_are_hashed_as_one(pieces in vec((vec(any::<u8>(), 0..300), any::<bool>()), 0..20)) {
            let mut hasher = Hasher::new();
            let whole = add_all(&mut hasher, &pieces);
            prop_assert_eq!(hasher.finish(), Hash::from(Sha256::digest(&whole)));
        }
    }
}
