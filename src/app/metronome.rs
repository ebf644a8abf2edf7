//! A short beat while requests come. It keeps no time for anybody: it spares a worker from waking itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Shorter than every timer that requests commonly set.
const BEAT: Duration = Duration::from_millis(20);

/// Wakes a busy worker at short intervals.
///
/// tokio tells a runtime's thread of each timer that ends before all others with a system call, also where that very
/// thread has set it. The time-outs of a request are set when few others are under way, so that is one such call, and
/// one turn of the event loop, for nearly each request. With a beat that comes before all of them there is none.
#[derive(Default)]
pub(super) struct Metronome {
    heard: AtomicBool,
    rouse: Notify,
}

impl Metronome {
    /// A request has come.
    pub(super) fn hear(&self) {
        // Nearly always somebody has been heard in this beat already.
        if !self.heard.load(Ordering::Relaxed) && !self.heard.swap(true, Ordering::Relaxed) {
            self.rouse.notify_one();
        }
    }

    /// Beats while requests come, and rests while none does.
    pub(super) async fn beat(&self) {
        loop {
            self.rouse.notified().await;
            while self.heard.swap(false, Ordering::Relaxed) {
                tokio::time::sleep(BEAT).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use futures_util::poll;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test]
    async fn it_beats_while_requests_come_and_rests_when_none_does() {
        let metronome = Metronome::default();
        let mut beating = pin!(metronome.beat());
        let taken = || !metronome.heard.load(Ordering::Relaxed);
        assert!(poll!(&mut beating).is_pending());
        for _ in 0..3 {
            metronome.hear();
            assert!(!taken());
            let begun: Instant = Clock::instant();
            while !taken() {
                assert!(begun.elapsed() < Duration::from_secs(10), "no beat");
                assert!(poll!(&mut beating).is_pending());
                tokio::task::yield_now().await;
            }
        }
        // Two beats without a request, and it waits for one again: then the next is taken at once.
        tokio::time::sleep(3 * BEAT).await;
        assert!(poll!(&mut beating).is_pending());
        metronome.hear();
        assert!(poll!(&mut beating).is_pending());
        assert!(taken(), "it has not rested");
    }
}
