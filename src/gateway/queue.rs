//! Standing in line for an attempt that runs: here, or in another gateway.

use std::time::{Duration, Instant};

use super::problem::Problem;
use crate::arbiter::Lines;
use crate::clock::Clock;
use crate::machine::OperationId;

/// First and longest pause between two looks at an attempt that runs in another gateway.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// The time that somebody has for it.
pub(super) struct Queue {
    end: Instant,
    pause: Duration,
}

impl Queue {
    pub(super) fn new(patience: Duration) -> Self {
        Self { end: Clock::instant() + patience, pause: POLL.0 }
    }

    pub(super) fn is_over(&self) -> bool {
        Clock::instant() >= self.end
    }

    /// Waits until it is worth looking again, at most until the time is over.
    pub(super) async fn wait(&mut self, lines: &Lines, id: OperationId) -> Result<(), Problem> {
        let left = self.end.saturating_duration_since(Clock::instant());
        let place = lines.join(id).ok_or(Problem::Overloaded("waiting requests"))?;
        place.wait(self.pause, left).await;
        self.pause = (self.pause * 2).min(POLL.1);
        Ok(())
    }
}
