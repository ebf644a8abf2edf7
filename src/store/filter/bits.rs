//! One generation of the filter: bits, of which each operation sets a few. It forgets all or nothing, and knows no time.
//!
//! How much room it takes is the `bloomfilter` crate's word, whose own filter is the measure of this one in the tests: that
//! hashes what is a digest already, and divides twice for each bit.
//!
//! An operation's name is a digest, so that its bytes choose the bits; keyed, so that nobody who may choose keys can choose
//! bits with them.

use std::f64::consts::LN_2;

use bloomfilter::Bloom;

use crate::machine::OperationId;

/// How large a generation is, and by what its bits are chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    words: usize,
    /// How many bits an operation sets.
    bits_each: u64,
    keys: [u64; 4],
}

/// The bits of a generation.
pub(super) struct Bits {
    layout: Layout,
    words: Vec<u64>,
}

impl Layout {
    /// The least room that holds so many operations at this rate of false positives, which lies between 0 and 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "of billions of operations a few more or less make no difference"
    )]
    pub(super) fn of(operations: usize, rate: f64, keys: [u64; 4]) -> Self {
        let words = Bloom::<OperationId>::compute_bitmap_size(operations, rate).div_ceil(size_of::<u64>()).max(1);
        let bits_each = (words as f64 * f64::from(u64::BITS) / operations as f64 * LN_2).round().max(1.0);
        Self { words, bits_each: bits_each as u64, keys }
    }

    /// Where the bits of an operation are: in which words, and which there.
    ///
    /// Two numbers out of its name make all of them, as far as false positives show (Kirsch and Mitzenmacher, 2006).
    fn places(&self, id: &OperationId) -> impl Iterator<Item = (usize, u64)> + use<> {
        let [a, b, c, d] = self.keys;
        // The first byte has chosen the shard.
        let (one, other) = (number(&id.0, 8), number(&id.0, 16));
        let (first, step) = (folded(one ^ a, other ^ b), folded(one ^ c, other ^ d));
        let bits = 64 * self.words as u64;
        (0..self.bits_each).map(move |turn| {
            let bit = scaled(first.wrapping_add(turn.wrapping_mul(step)), bits);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}

/// Eight bytes of a name.
fn number(name: &[u8; 32], at: usize) -> u64 {
    name[at..].first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// A number that depends on all bits of two.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

/// A number of any size as one below `most`, evenly: without a division, which takes longer than all the rest.
fn scaled(number: u64, most: u64) -> u64 {
    ((u128::from(number) * u128::from(most)) >> 64) as u64
}

impl Bits {
    /// With no operation in it. Memory is used as bits are set.
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, words: vec![0; layout.words] }
    }

    /// Whether the operation was perhaps put in.
    pub(super) fn has(&self, id: &OperationId) -> bool {
        self.layout.places(id).all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Puts an operation in. Whether it perhaps was in before.
    pub(super) fn put(&mut self, id: &OperationId) -> bool {
        let mut had = true;
        for (word, bit) in self.layout.places(id) {
            let word = &mut self.words[word];
            had &= *word & bit != 0;
            *word |= bit;
        }
        had
    }

    /// Takes all operations out.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Has every operation perhaps in it.
    pub(super) fn fill(&mut self) {
        self.words.fill(u64::MAX);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Each byte that chooses bits counts, and each key.
    #[test]
    fn operations_that_differ_in_any_byte_have_bits_of_their_own() {
        let places = |keys, name| {
            let layout = Layout::of(1_000_000, 0.000_01, keys);
            layout.places(&OperationId(name)).collect::<Vec<_>>()
        };
        let (keys, name) = ([1, 2, 3, 4].map(|key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15)), [7; 32]);
        let own = places(keys, name);
        assert_eq!(own.len(), 17);
        let shared = |others: Vec<(usize, u64)>| others.iter().filter(|place| own.contains(place)).count();
        for at in 8..24 {
            let mut other = name;
            other[at] ^= 1;
            assert!(shared(places(keys, other)) < 2, "{at}");
        }
        for at in 0..4 {
            let mut other = keys;
            other[at] ^= 1;
            assert!(shared(places(other, name)) < 17, "{at}");
        }
    }

    #[test]
    fn a_stranger_is_taken_for_known_as_rarely_as_by_the_crate() {
        let name = |number: usize| OperationId(Sha256::digest(number.to_be_bytes()).into());
        let operations = 20_000;
        let strangers: Vec<_> = (operations..10 * operations).map(name).collect();
        for rate in [0.1, 0.01, 0.001] {
            let mut own = Bits::new(Layout::of(operations, rate, [3, 5, 7, 11].map(|key: u64| key.wrapping_pow(27))));
            let seed = Sha256::digest(b"seed").into();
            let mut theirs = Bloom::new_for_fp_rate_with_seed(operations, rate, &seed).unwrap();
            for id in (0..operations).map(name) {
                own.put(&id);
                theirs.set(&id.0);
            }
            let known = |knows: &dyn Fn(&OperationId) -> bool| strangers.iter().filter(|id| knows(id)).count();
            let (own, theirs) = (known(&|id| own.has(id)), known(&|id| theirs.check(&id.0)));
            assert!(theirs > 0 && own * 10 <= theirs * 13, "{rate}: {own}, the crate {theirs}");
        }
    }

    #[test]
    fn the_smallest_and_the_strictest_have_room_too() {
        for (operations, rate) in [(1, 0.999_999), (1, 1e-300), (3, 0.5)] {
            let mut bits = Bits::new(Layout::of(operations, rate, [1, 2, 3, 4]));
            let id = OperationId([9; 32]);
            assert_eq!((bits.has(&id), bits.put(&id), bits.put(&id), bits.has(&id)), (false, false, true, true));
            bits.clear();
            assert!(!bits.has(&id));
            bits.fill();
            assert!(bits.has(&id));
        }
    }
}
