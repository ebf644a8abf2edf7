//! The store's time, kept by this gateway's monotonic clock. The only place that reads a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine::Time;

/// A clock that follows the store's time. Clones share the calibration.
///
/// Between calibrations it runs on the monotonic clock, so a jump of this machine's wall clock changes nothing.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Store time at the source's zero, in milliseconds.
    offset: AtomicI64,
    calibrated: AtomicBool,
}

#[derive(Debug)]
enum Source {
    Monotonic(Instant),
    /// Milliseconds, moved by hand.
    Manual(AtomicU64),
}

impl Clock {
    /// A clock that starts from the wall clock and waits to be calibrated.
    #[expect(clippy::disallowed_methods, reason = "the clock is where clocks are read")]
    pub fn system() -> Self {
        Self::new(Source::Monotonic(Instant::now()), Self::wall())
    }

    /// A clock that stands still until it is moved: for tests and simulations.
    pub fn manual(start: Time) -> Self {
        Self::new(Source::Manual(AtomicU64::new(0)), start)
    }

    fn new(source: Source, start: Time) -> Self {
        let offset = AtomicI64::new(i64::try_from(start.0).unwrap_or(i64::MAX));
        Self(Arc::new(Inner { source, offset, calibrated: AtomicBool::new(false) }))
    }

    /// The store's time, as far as this gateway knows it.
    pub fn now(&self) -> Time {
        let offset = self.0.offset.load(Ordering::Relaxed);
        Time(u64::try_from(offset.saturating_add(self.elapsed())).unwrap_or(0))
    }

    /// Whether the store has told its time yet.
    pub fn is_calibrated(&self) -> bool {
        self.0.calibrated.load(Ordering::Relaxed)
    }

    /// Takes over the store's time. `round_trip` is how long the question took: the answer is as old as half of it.
    pub fn calibrate(&self, store: Time, round_trip: Duration) {
        let store = i64::try_from(store.plus(round_trip / 2).0).unwrap_or(i64::MAX);
        self.0.offset.store(store.saturating_sub(self.elapsed()), Ordering::Relaxed);
        self.0.calibrated.store(true, Ordering::Relaxed);
    }

    /// Moves a manual clock on; a clock that runs by itself stays as it is.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual(millis) = &self.0.source {
            millis.fetch_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The wall clock, for the embedded store's high-water mark.
    #[expect(clippy::disallowed_methods, reason = "the clock is where clocks are read")]
    pub fn wall() -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// A monotonic instant, for measuring how long something took.
    #[expect(clippy::disallowed_methods, reason = "the clock is where clocks are read")]
    pub fn instant() -> Instant {
        Instant::now()
    }

    fn elapsed(&self) -> i64 {
        let millis = match &self.0.source {
            Source::Monotonic(start) => u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            Source::Manual(millis) => millis.load(Ordering::Relaxed),
        };
        i64::try_from(millis).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_store_and_not_the_wall_clock() {
        let clock = Clock::manual(Time(1_000));
        assert!(!clock.is_calibrated());
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now(), Time(6_000));
        clock.calibrate(Time(900_000), Duration::from_millis(10));
        assert_eq!(clock.now(), Time(900_005));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), Time(901_005));
    }
}
