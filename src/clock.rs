//! The store's time, kept by this gateway's monotonic clock. The only place that reads a clock.
//!
//! Reading a clock costs as much as a look-up in a table, and a request has many uses for the time. So a worker's thread
//! keeps *turns*: one begins when the thread has rested, and what needs no more precision takes the last reading of the
//! turn ([`Clock::lately`]), which is from before and never from after. What decides that a lease is still good takes
//! a reading of its own.

use std::cell::Cell;
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

/// What a thread has read of the clock.
#[derive(Clone, Copy)]
enum Turn {
    /// Nothing counts: it does not say when it rests.
    Unkept,
    /// Nothing since it has rested.
    Begun,
    Read(Instant),
}

/// How often a thread looks at the wall clock.
const LOOKS: Duration = Duration::from_secs(1);

thread_local! {
    /// When this thread looked at the wall clock last, and what that said.
    static SEEN: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
    static TURN: Cell<Turn> = const { Cell::new(Turn::Unkept) };
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
        self.at(Self::instant())
    }

    /// The store's time as it was, or will be, at this instant. A clock that is moved by hand knows of no other time than
    /// its own.
    fn at(&self, instant: Instant) -> Time {
        let offset = self.0.offset.load(Ordering::Relaxed);
        Time(u64::try_from(offset.saturating_add(self.elapsed(instant))).unwrap_or(0))
    }

    /// The store's time at this thread's last reading: see [`lately`](Self::lately).
    pub fn now_lately(&self) -> Time {
        self.at(Self::lately())
    }

    /// Whether the store has told its time yet.
    pub fn is_calibrated(&self) -> bool {
        self.0.calibrated.load(Ordering::Relaxed)
    }

    /// Takes over the store's time. `round_trip` is how long the question took: the answer is as old as half of it.
    pub fn calibrate(&self, store: Time, round_trip: Duration) {
        let store = i64::try_from(store.plus(round_trip / 2).0).unwrap_or(i64::MAX);
        self.0.offset.store(store.saturating_sub(self.elapsed(Self::instant())), Ordering::Relaxed);
        self.0.calibrated.store(true, Ordering::Relaxed);
    }

    /// Moves a manual clock on; a clock that runs by itself stays as it is.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual(millis) = &self.0.source {
            millis.fetch_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The wall clock, for the embedded store's high-water mark.
    pub fn wall() -> Time {
        millis(Self::since_epoch())
    }

    #[expect(clippy::disallowed_methods, reason = "the clock is where clocks are read")]
    fn since_epoch() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// The wall clock at this thread's last reading: see [`lately`](Self::lately). For what people read.
    ///
    /// It is looked at once a second, and goes with the monotonic clock in between.
    pub fn wall_lately() -> Time {
        let now = Self::lately();
        let seen = SEEN.get().and_then(|(at, wall)| {
            let since = now.checked_duration_since(at).filter(|since| *since < LOOKS)?;
            Some(wall + since)
        });
        millis(seen.unwrap_or_else(|| {
            let wall = Self::since_epoch();
            SEEN.set(Some((Self::instant(), wall)));
            wall
        }))
    }

    /// A monotonic instant, for measuring how long something took.
    #[expect(clippy::disallowed_methods, reason = "the clock is where clocks are read")]
    pub fn instant() -> Instant {
        let now = Instant::now();
        TURN.with(|turn| {
            if !matches!(turn.get(), Turn::Unkept) {
                turn.set(Turn::Read(now));
            }
        });
        now
    }

    /// This thread's last reading within its turn; a new one where there is none, or where the thread keeps no turns.
    ///
    /// It lies in the past, by as much as the thread has worked since: for deadlines, for measuring, and for whatever is
    /// on the safe side with an earlier time. A request takes a reading of its own when it begins (over HTTP/1.1: those of
    /// an HTTP/2 connection begin at once), and whenever the store or its upstream has answered.
    pub fn lately() -> Instant {
        match TURN.get() {
            Turn::Read(instant) => instant,
            Turn::Unkept | Turn::Begun => Self::instant(),
        }
    }

    /// This thread rests, and its next turn begins: for a runtime to call whenever it has nothing to do. Where nobody
    /// calls it, every reading is a new one.
    pub fn rests() {
        TURN.set(Turn::Begun);
    }

    fn elapsed(&self, now: Instant) -> i64 {
        let millis = match &self.0.source {
            Source::Monotonic(start) => {
                u64::try_from(now.saturating_duration_since(*start).as_millis()).unwrap_or(u64::MAX)
            }
            Source::Manual(millis) => millis.load(Ordering::Relaxed),
        };
        i64::try_from(millis).unwrap_or(i64::MAX)
    }
}

fn millis(since_epoch: Duration) -> Time {
    Time(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: what a thread keeps, it keeps.
    #[test]
    fn the_wall_clock_goes_on_between_two_looks_and_a_jump_is_seen_by_the_next() {
        let looks = || {
            let first = Clock::wall_lately();
            assert!(Clock::wall().since(first) < Duration::from_secs(1));
            let (at, wall) = SEEN.get().unwrap();
            let ago = |span| at.checked_sub(span).unwrap();
            let behind = wall.saturating_sub(Duration::from_hours(1));
            SEEN.set(Some((ago(LOOKS / 2), behind)));
            let kept = Clock::wall_lately();
            assert!(first.since(kept) > Duration::from_mins(59) && first.since(kept) <= Duration::from_hours(1));
            SEEN.set(Some((ago(LOOKS), behind)));
            assert!(Clock::wall_lately() >= first);
        };
        std::thread::spawn(looks).join().unwrap();
    }

    /// In a thread of its own: what a thread keeps, it keeps.
    #[test]
    fn a_turn_has_one_reading_until_somebody_takes_another_one_or_rests() {
        let pause = || std::thread::sleep(Duration::from_millis(2));
        let turns = move || {
            let unkept = Clock::lately();
            pause();
            assert!(Clock::lately() > unkept, "the thread has not said that it keeps turns");
            Clock::rests();
            let first = Clock::lately();
            pause();
            assert_eq!(Clock::lately(), first);
            let second = Clock::instant();
            assert!(second > first);
            pause();
            assert_eq!(Clock::lately(), second);
            Clock::rests();
            assert!(Clock::lately() > second);
        };
        std::thread::spawn(turns).join().unwrap();
    }

    #[test]
    fn the_time_at_an_instant_is_as_far_from_now_as_the_instant() {
        let clock = Clock::system();
        let now = Clock::instant();
        assert_eq!(clock.at(now + Duration::from_secs(5)), clock.at(now).plus(Duration::from_secs(5)));
    }

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
