//! The embedded store's time: wall time that never runs backwards. It reads no file; the high-water mark is handed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::machine::Time;

/// The larger of the high-water mark and the wall clock.
///
/// The mark moves with the monotonic clock. Were it to stand until a wall clock that was set back has caught up, no
/// lease would end and no record expire for that long.
#[derive(Debug)]
pub(super) struct HighWater {
    pace: Clock,
    told: AtomicU64,
}

impl HighWater {
    /// Goes on from `stored`, the mark that the last run has left, at the speed of `pace`.
    pub(super) fn new(pace: Clock, stored: Time) -> Self {
        pace.calibrate(stored, Duration::ZERO);
        Self { pace, told: AtomicU64::new(stored.0) }
    }

    /// The store's time.
    pub(super) fn now(&self) -> Time {
        self.now_by(Clock::wall())
    }

    fn now_by(&self, wall: Time) -> Time {
        let paced = self.pace.now();
        if wall > paced {
            self.pace.calibrate(wall, Duration::ZERO);
        }
        let now = wall.max(paced).0;
        Time(self.told.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_wall_clock_that_is_ahead() {
        let time = HighWater::new(Clock::manual(Time(0)), Time(1_000));
        assert_eq!(time.now_by(Time(5_000)), Time(5_000));
        assert_eq!(time.now_by(Time(5_500)), Time(5_500));
    }

    #[test]
    fn runs_on_from_the_mark_while_the_wall_clock_is_behind() {
        let pace = Clock::manual(Time(0));
        let time = HighWater::new(pace.clone(), Time(9_000_000));
        assert_eq!(time.now_by(Time(1_000)), Time(9_000_000));
        pace.advance(Duration::from_secs(2));
        assert_eq!(time.now_by(Time(3_000)), Time(9_002_000));
    }

    #[test]
    fn a_wall_clock_that_jumps_there_and_back_leaves_time_running() {
        let pace = Clock::manual(Time(0));
        let time = HighWater::new(pace.clone(), Time(1_000));
        assert_eq!(time.now_by(Time(301_000)), Time(301_000));
        pace.advance(Duration::from_secs(1));
        assert_eq!(time.now_by(Time(2_000)), Time(302_000));
    }

    #[test]
    fn the_monotonic_clock_of_a_later_run_does_not_undo_what_was_told() {
        let pace = Clock::manual(Time(0));
        let time = HighWater::new(pace.clone(), Time(1_000));
        assert_eq!(time.now_by(Time(2_000)), Time(2_000));
        pace.calibrate(Time(0), Duration::ZERO);
        assert_eq!(time.now_by(Time(0)), Time(2_000));
    }
}
