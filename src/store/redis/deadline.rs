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
    pub(super) fn within(whole: Duration) -> Self {
        Self { end: Clock::lately() + whole, whole }
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
