//! How large the blocks of a filter are, so that all of them together keep the stated rate; and one generation of a block.

use std::f64::consts::LN_2;

use bloomfilter::Bloom;

/// The room of half a block, in bytes: three pages.
const HALF: usize = 12 << 10;

/// What stands in front of the bits, and some room for what an uneven spread takes.
const FRONT: usize = 128;

/// Enough that the workers of one machine rarely meet at the same lock, which is held for less than a microsecond.
const LEAST_BLOCKS: usize = 16;

/// What each block's generations are made of.
pub(super) struct Layout {
    /// How many operations the bits are for.
    operations: usize,
    /// How many bytes each half takes.
    pub(super) half: usize,
    seed: [u8; 32],
    /// How many operations a generation takes before the next one begins.
    pub(super) capacity: usize,
}

/// What goes into a generation of an operation.
pub(super) type Marks = [u64; 2];

/// What a block has taken in one generation: two small Bloom filters, each with half the bits and half the marks in them.
/// In one of this size the false positives of two operations whose marks lie equally far apart would be a tenth of all.
pub(super) struct Generation([Bloom<u64>; 2]);

impl Generation {
    pub(super) fn check(&self, marks: &Marks) -> bool {
        self.0.iter().zip(marks).all(|(half, mark)| half.check(mark))
    }

    /// Whether it was there already.
    pub(super) fn check_and_set(&mut self, marks: &Marks) -> bool {
        self.0.iter_mut().zip(marks).fold(true, |all, (half, mark)| half.check_and_set(mark) && all)
    }

    pub(super) fn fill(&mut self) {
        self.0.iter_mut().for_each(Bloom::fill);
    }
}

impl Layout {
    /// Of a filter for so many operations; and how many blocks it has.
    pub(super) fn new(capacity: usize, rate: f64) -> (usize, Self) {
        let bits = -rate.ln() / (LN_2 * LN_2);
        let blocks = whole(float(capacity) * bits / float(2 * 8 * (HALF - FRONT))).max(LEAST_BLOCKS).min(capacity);
        let share = capacity.div_ceil(blocks);
        // Ids do not spread evenly: with six standard deviations more no block is full before its time.
        let most = share + 6 * share.isqrt();
        // Where they are few the bits are for all of these; else blocks with less make up for those with more.
        let operations = if blocks > LEAST_BLOCKS { share } else { most };
        // Two hash functions come from the seed's halves: were they equal, false positives would multiply.
        let layout = Self { operations, half: half(operations, rate), seed: rand::random(), capacity: most };
        (blocks, layout)
    }

    /// An empty one.
    pub(super) fn generation(&self) -> Result<Generation, &'static str> {
        let half = || Bloom::new_with_seed(self.half, self.operations, &self.seed);
        Ok(Generation([half()?, half()?]))
    }
}

/// The least bytes for each half that keep the rate for so many operations. A rate that is too small to be kept at all is
/// not striven after for long.
fn half(operations: usize, rate: f64) -> usize {
    let least = Bloom::<u64>::compute_bitmap_size(operations, rate.sqrt()).max(1);
    let most = least + least / 16;
    (least..most).find(|half| rate_of(operations, *half) <= rate).unwrap_or(most)
}

/// The share of new operations that are called perhaps seen, on average over blocks that have taken so many operations on
/// average.
fn rate_of(operations: usize, half: usize) -> f64 {
    let (count, bits) = (float(operations), 8.0 * float(half));
    // As many as the Bloom filter will use.
    let hashes = (bits / count * LN_2).round().max(1.0);
    let load = hashes * count / bits;
    let unset = (-load).exp();
    // Where the distance between an operation's bits is that of another one, both have most of them in common.
    let alike = 5.0 * count / (bits * bits);
    let even = ((1.0 - unset).powf(hashes) + alike).powi(2);
    // A block that has taken a few more has more false positives than one with as many less has fewer. By how much
    // follows from which power of the operations they grow with, and from the variance of these, which is their number.
    let power = 2.0 * hashes * load * unset / (1.0 - unset);
    even * (1.0 + power * (power - 1.0).max(0.0) / (2.0 * count))
}

#[expect(clippy::cast_precision_loss, reason = "of these numbers the first digits count")]
fn float(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and the largest one")]
fn whole(number: f64) -> usize {
    number.ceil() as usize
}
