//! A worker's turns: what its thread does from one rest to the next.
//!
//! Who sends the next request, and the store and the API that answer, often share their processors with the workers. A
//! worker that sleeps as soon as nothing is left to do is woken for each message by itself, and takes the processor from
//! whoever was about to send the next. So after a turn with many requests it gives the processor up before it sleeps
//! (`sched_yield`): when it comes back, more has come, and nobody had to wake it. Where nobody waits for the processor, it
//! comes back at once.
//!
//! One who computes for long keeps the processor for all of its slice, some milliseconds: too long for those who wait for
//! an answer. A worker that has come back late keeps the processor for a while.

use std::cell::Cell;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use crate::clock::Clock;

/// So many requests in a turn are many.
const MANY: u32 = 8;
/// Who comes back after so long is late: with clients, store and API on the same processors, nineteen in twenty come back
/// within half of it.
const LATE: Duration = Duration::from_millis(1);
/// For how long the processor is kept after that; twice as long each time that it happens again.
const FIRST: Duration = Duration::from_millis(100);
/// And for how long at most.
const LONGEST: Duration = Duration::from_secs(30);

thread_local! {
    static BEGUN: Cell<u32> = const { Cell::new(0) };
    static MANNERS: Cell<Manners> = const { Cell::new(Manners::NEW) };
}

/// How a thread treats others, by how they have treated it.
#[derive(Debug, Clone, Copy)]
struct Manners {
    /// Until when it keeps the processor, after it has come back late.
    keeps: Option<Instant>,
    /// For how long it will, when that happens next.
    then: Duration,
}

impl Manners {
    const NEW: Self = Self { keeps: None, then: FIRST };

    /// Whether it lets others go first at this time.
    fn gives_way(self, now: Instant) -> bool {
        self.keeps.is_none_or(|until| now >= until)
    }

    /// It let others go first, and is back.
    fn back(self, left: Instant, now: Instant) -> Self {
        if now.saturating_duration_since(left) < LATE {
            return Self::NEW;
        }
        Self { keeps: Some(now + self.then), then: (2 * self.then).min(LONGEST) }
    }
}

/// A request begins on this thread.
pub(super) fn begins() {
    BEGUN.set(BEGUN.get().saturating_add(1));
}

/// This thread has nothing left to do: for a worker's runtime to call before it waits.
pub fn rests() {
    if BEGUN.take() >= MANY {
        let (manners, left) = (MANNERS.get(), Clock::lately());
        if manners.gives_way(left) {
            yield_now();
            MANNERS.set(manners.back(left, Clock::instant()));
        }
    }
    Clock::rests();
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_micros(300);

    #[test]
    fn whoever_comes_back_soon_gives_way_the_next_time() {
        let start = Clock::instant();
        let manners = Manners::NEW.back(start, start + MOMENT);
        assert!(Manners::NEW.gives_way(start) && manners.gives_way(start + MOMENT));
    }

    #[test]
    fn whoever_comes_back_late_keeps_the_processor_each_time_for_longer() {
        let (mut now, mut manners, mut kept) = (Clock::instant(), Manners::NEW, Vec::new());
        for _ in 0..12 {
            assert!(manners.gives_way(now));
            manners = manners.back(now, now + LATE);
            let until = manners.keeps.unwrap();
            assert!(!manners.gives_way(until.checked_sub(MOMENT).unwrap()));
            kept.push(until.duration_since(now + LATE));
            now = until;
        }
        assert_eq!(kept[..3], [FIRST, 2 * FIRST, 4 * FIRST]);
        assert_eq!(kept[9..], [LONGEST; 3], "some two yields a minute: {kept:?}");
        let manners = manners.back(now, now + MOMENT);
        assert!(manners.gives_way(now + MOMENT) && manners.then == FIRST, "who had kept it is gone");
    }

    /// In a thread of its own: what a thread keeps, it keeps.
    #[test]
    fn a_turn_with_few_requests_gives_nothing_up() {
        let turns = || {
            let late = Manners { keeps: Some(Clock::instant()), then: LONGEST };
            let rest_after = |requests| {
                MANNERS.set(late);
                (0..requests).for_each(|_| begins());
                rests();
                MANNERS.get().then
            };
            assert_eq!((rest_after(MANY - 1), rest_after(1)), (LONGEST, LONGEST), "no turn counts for another");
            // Back soon, or as late as ever: a thread alone cannot tell.
            rest_after(MANY);
            assert_ne!(MANNERS.get().keeps, late.keeps);
        };
        std::thread::spawn(turns).join().unwrap();
    }
}
