//! Requests of which nothing is looked at but how they compare.

use oncegate::machine::{Comparable, Print, Salt};

/// A request whose bytes, and whose meaning, are those of any other with the same number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alike {
    pub(crate) raw: u8,
    pub(crate) canonical: u8,
}

impl Alike {
    /// One whose bytes and meaning change together.
    pub(crate) fn to(number: u8) -> Self {
        Self { raw: number, canonical: number }
    }
}

impl Comparable for Alike {
    fn raw(&self, Salt(salt): Salt) -> [u8; 8] {
        salt.map(|byte| byte ^ self.raw)
    }

    fn canonical(&self) -> Print {
        Print([self.canonical; 16])
    }
}
