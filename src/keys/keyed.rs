//! A keyed hash of bytes that come in pieces, most of them short: `HighwayHash`, which is the same on every processor. What
//! the bytes mean is not known here.

use highway::{HighwayHash, HighwayHasher, Key};

use super::hasher::Pieces;
use crate::machine::Salt;

/// So many bytes are held back, to be hashed in one go: a request's head, in most cases.
const HELD: usize = 256;

/// A keyed hash on its way.
pub(super) struct Keyed {
    hasher: HighwayHasher,
    held: [u8; HELD],
    length: usize,
}

impl Keyed {
    #[inline]
    pub(super) fn new(salt: Salt) -> Self {
        Self { hasher: HighwayHasher::new(key(salt)), held: [0; HELD], length: 0 }
    }

    /// The hash. Nothing more can be added.
    #[inline]
    pub(super) fn finish(mut self) -> [u8; 8] {
        self.hasher.append(&self.held[..self.length]);
        self.hasher.finalize64().to_le_bytes()
    }

    /// Hashes what is held, and what follows it as it stands.
    #[inline(never)]
    fn overflow(&mut self, bytes: &[u8]) {
        self.hasher.append(&self.held[..self.length]);
        self.hasher.append(bytes);
        self.length = 0;
    }
}

impl Pieces for Keyed {
    #[inline]
    fn add(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.held.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        } else {
            self.overflow(bytes);
        }
    }
}

/// A whole key of a salt, spread by `SplitMix64`. No word of it may be known: until its end `HighwayHash` mixes its lanes in
/// pairs only, so that who knew the key of one pair could look for bytes that make no difference there.
fn key(salt: Salt) -> Key {
    let mut state = u64::from_le_bytes(salt.0);
    Key(std::array::from_fn(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }))
}

#[cfg(test)]
mod tests {
    use highway::PortableHash;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::hasher::add_all;

    const SALT: Salt = Salt(*b"saltsalt");

    fn keyed(salt: Salt, pieces: &[&[u8]]) -> [u8; 8] {
        let mut hasher = Keyed::new(salt);
        for piece in pieces {
            hasher.add(piece);
        }
        hasher.finish()
    }

    /// The vectors that came with `HighwayHash`, here of 0 to 64 bytes, which count up from 0.
    #[test]
    fn highway_hash_is_the_one_that_was_frozen() {
        let key = Key([0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908, 0x1716_1514_1312_1110, 0x1F1E_1D1C_1B1A_1918]);
        let expected = [
            (0, 0x907A_56DE_22C2_6E53),
            (1, 0x7EAB_43AA_C7CD_DD78),
            (3, 0x5C6B_EFAB_8A46_3D80),
            (7, 0x4D02_AE17_38F5_9482),
            (15, 0x4079_3F86_A449_F33B),
            (16, 0xCFAB_3489_F97E_B832),
            (31, 0x9FC7_007C_CF03_5A68),
            (32, 0xA0C9_64D9_ECD5_80FC),
            (33, 0x2C90_F73C_A031_81FC),
            (63, 0xAB8E_EBE9_BF21_39A0),
            (64, 0x7554_2C5D_4CD2_A6FF),
        ];
        let bytes: Vec<u8> = (0..64).collect();
        for (length, expected) in expected {
            assert_eq!(HighwayHasher::new(key).hash64(&bytes[..length]), expected, "{length}");
            assert_eq!(PortableHash::new(key).hash64(&bytes[..length]), expected, "{length}");
        }
    }

    /// Gateways on unlike processors share records.
    #[test]
    fn every_length_is_hashed_as_without_the_processors_help() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_200).collect();
        for length in 0..bytes.len() {
            let bytes = &bytes[..length];
            let expected = PortableHash::new(key(SALT)).hash64(bytes).to_le_bytes();
            assert_eq!(keyed(SALT, &[bytes]), expected, "{length}");
            for first in [1, 31, 32, 33, 255, 256, 257, 300] {
                let (one, other) = bytes.split_at(first.min(length));
                assert_eq!(keyed(SALT, &[one, other]), expected, "{first} of {length}");
            }
        }
    }

    /// The first numbers of `SplitMix64` from 1234567 on, as its author's program prints them.
    #[test]
    fn all_of_the_key_depends_on_the_salt() {
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(key(Salt(1_234_567_u64.to_le_bytes())).0[..3], expected);
        let (one, other) = (key(SALT), key(Salt(*b"saltsalu")));
        assert!(one.0.iter().zip(other.0).all(|(one, other)| *one != other));
    }

    proptest! {
        #[test]
        fn any_pieces_are_hashed_as_one(salt: [u8; 8], pieces in vec((vec(any::<u8>(), 0..300), any::<bool>()), 0..20)) {
            let mut hasher = Keyed::new(Salt(salt));
            let whole = add_all(&mut hasher, &pieces);
            prop_assert_eq!(hasher.finish(), keyed(Salt(salt), &[&whole]));
        }

        #[test]
        fn another_byte_or_another_salt_makes_another_hash(
            salt: [u8; 8],
            bytes in vec(any::<u8>(), 1..700),
            at: prop::sample::Index,
            change in 1_u8..,
        ) {
            let mut other = bytes.clone();
            other[at.index(bytes.len())] ^= change;
            let hash = keyed(Salt(salt), &[&bytes]);
            prop_assert_ne!(keyed(Salt(salt), &[&other]), hash);
            let mut other = salt;
            other[at.index(8)] ^= change;
            prop_assert_ne!(keyed(Salt(other), &[&bytes]), hash);
        }
    }
}
