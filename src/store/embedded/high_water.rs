//! The embedded store's time: it never runs backwards, and never jumps. It reads no file; the high-water mark is handed in.

use std::time::Duration;

use crate::clock::Clock;
use crate::machine::Time;

/// From the larger of the high-water mark and the wall clock at the start, on with the monotonic clock.
///
/// A wall clock that is set while the store runs changes nothing. Followed, it would end all leases at once, and what is
/// written by the time from before the jump could be over when it arrives: reserved, and free all the same.
#[derive(Debug)]
pub(super) struct HighWater(Clock);

impl HighWater {
    /// Goes on from `stored`, the mark that the last run has left, or from `wall`, at the speed of `pace`.
    pub(super) fn new(pace: Clock, stored: Time, wall: Time) -> Self {
        pace.calibrate(stored.max(wall), Duration::ZERO);
        Self(pace)
    }

    /// The store's time.
    pub(super) fn now(&self) -> Time {
        self.0.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_where_mark_or_wall_clock_is_ahead_and_runs_on() {
        for (stored, wall) in [(1_000, 9_000_000), (9_000_000, 1_000)] {
            let pace = Clock::manual(Time(0));
            let time = HighWater::new(pace.clone(), Time(stored), Time(wall));
            assert_eq!(time.now(), Time(9_000_000));
            pace.advance(Duration::from_secs(2));
            assert_eq!(time.now(), Time(9_002_000));
        }
    }
}
