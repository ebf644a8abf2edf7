//! The Bloom filter in front of the store. It saves work and decides nothing.

use std::time::Duration;

/// How large the filter is, and how long it remembers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Operations that one generation holds at the stated rate.
    pub capacity: usize,
    /// Share of new operations that may be called perhaps seen, at capacity.
    pub false_positive_rate: f64,
    /// How long a generation takes insertions: the longest time that any route's record may live.
    pub lifetime: Duration,
}
