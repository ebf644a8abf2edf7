//! When a call to a server has taken as long as it may. It measures one call, and decides nothing.

use std::future::Future;
use std::time::{Duration, Instant};

use super::StoreError;
use super::faults::unavailable;
use crate::clock::Clock;

/// When a call has taken as long as it may.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) end: Instant,
    pub(super) whole: Duration,
}

impl Deadline {
    /// From now on, by a reading of its own: a large body may have been hashed since the last one, for as long as that.
    pub(super) fn within(whole: Duration) -> Self {
        Self { end: Clock::instant() + whole, whole }
    }

    /// What comes of it in time, if anything.
    pub(super) async fn hold<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        let held = tokio::time::timeout_at(self.end.into(), work).await;
        held.map_err(|_| self.passed())
    }

    /// What a call says that it was too late for.
    pub(super) fn passed(&self) -> StoreError {
        unavailable(format!("no answer within {:?}", self.whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: what a thread keeps, it keeps.
    #[test]
    fn a_call_has_all_of_its_time_however_long_its_thread_has_worked_before() {
        let work = || {
            Clock::rests();
            let before = Clock::lately();
            std::thread::sleep(Duration::from_millis(2));
            assert!(Deadline::within(Duration::ZERO).end > before);
        };
        std::thread::spawn(work).join().unwrap();
    }
}
