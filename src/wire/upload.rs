//! How far a body has come that is passed on while it is read: for whoever waits for what it leads to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::Clock;

/// A body that is passed on while it is read. Clones are the same body.
#[derive(Debug, Clone)]
pub struct Upload(Arc<Mutex<Stage>>);

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The client's bytes are waited for.
    Awaited,
    /// All that came has been handed on, since then: it is the upstream's turn.
    Handed(Instant),
    Failed(Unfinished),
}

/// Why a body came to no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Its client took too long.
    Slow,
    /// Its client left, or sent what is no body.
    Broken,
}

impl Upload {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Stage::Handed(Clock::instant()))))
    }

    pub(super) fn awaited(&self) {
        self.set(Stage::Awaited);
    }

    pub(super) fn handed_on(&self) {
        self.set(Stage::Handed(Clock::instant()));
    }

    pub(super) fn failed(&self, fault: Unfinished) {
        self.set(Stage::Failed(fault));
    }

    /// Why it came to no end, if so.
    pub fn fault(&self) -> Option<Unfinished> {
        match self.stage() {
            Stage::Failed(fault) => Some(fault),
            Stage::Awaited | Stage::Handed(_) => None,
        }
    }

    /// Until the upstream has had its turn for `limit` without a pause. Time in which the client is waited for is the
    /// client's.
    pub async fn overdue(&self, limit: Duration) {
        loop {
            // Where it is not the upstream's turn, that begins now at the earliest.
            let left = limit.saturating_sub(self.turn());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// How long it has been the upstream's turn.
    pub fn turn(&self) -> Duration {
        match self.stage() {
            Stage::Handed(since) => since.elapsed(),
            Stage::Awaited | Stage::Failed(_) => Duration::ZERO,
        }
    }

    fn stage(&self) -> Stage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_upstreams_own_time_counts() {
        let limit = Duration::from_millis(30);
        let upload = Upload::new();
        upload.awaited();
        let overdue = upload.overdue(limit);
        tokio::pin!(overdue);
        assert!(tokio::time::timeout(2 * limit, &mut overdue).await.is_err(), "the client was waited for");
        upload.handed_on();
        let handed = Clock::instant();
        overdue.await;
        assert!(handed.elapsed() >= limit);
        assert_eq!(upload.fault(), None);
        upload.failed(Unfinished::Slow);
        assert_eq!(upload.fault(), Some(Unfinished::Slow));
    }
}
