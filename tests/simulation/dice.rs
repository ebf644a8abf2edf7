//! Chance under a seed. Not the `rand` crate: a seed must mean the same run for ever.

/// `SplitMix64`.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// A place in a list of `len`; none when it is empty.
    pub(crate) fn place(&mut self, len: usize) -> Option<usize> {
        let len = u64::try_from(len).ok().filter(|len| *len > 0)?;
        usize::try_from(self.next() % len).ok()
    }
}
