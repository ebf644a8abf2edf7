//! What the arbiters of all workers of this gateway share. It decides nothing.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Dispatched, Lines, Outcomes, Probes, ReplayCache, Unconfirmed};
use crate::clock::Clock;
use crate::store::filter::Filter;
use crate::store::journal::Journal;
use crate::telemetry::Metrics;

/// What the arbiters of all workers of this gateway share.
pub struct Shared {
    /// The store's time.
    pub clock: Clock,
    /// Where facts are counted.
    pub metrics: Arc<Metrics>,
    /// What this gateway has seen recorded.
    pub filter: Filter,
    /// Completed records, in memory.
    pub cache: ReplayCache,
    /// Attempts that run here, and who waits for them.
    pub lines: Lines,
    /// What the store has to hold of this gateway's attempts.
    pub dispatched: Dispatched,
    /// Whether no other gateway uses the store.
    pub alone: bool,
    /// Claims whose reply was lost.
    pub unconfirmed: Unconfirmed,
    /// Doubts that the upstream is to be asked about.
    pub probes: Probes,
    /// Outcomes that the store has not taken yet.
    pub outcomes: Outcomes,
    /// What began while the store was away; only where this gateway is the only one.
    pub journal: Option<Arc<Journal>>,
    /// Attempts and settlements that outlive their requests.
    pub tasks: TaskTracker,
    /// Cancelled by [`give_up`](Self::give_up): for what is no attempt.
    pub given_up: CancellationToken,
}

/// What the workers' arbiters are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Completed records kept in memory, in bytes; 0: none.
    pub replay_cache: usize,
    /// Duplicates that wait for a running attempt.
    pub waiters: usize,
    /// Dispatched operations that are remembered exactly; 0: none.
    pub dispatched: usize,
    /// Outcomes that wait for a store that is away.
    pub outcomes_waiting: usize,
    /// Whether no other gateway uses the store.
    pub alone: bool,
}

impl Shared {
    /// What workers share at first.
    pub fn new(
        settings: Settings,
        filter: Filter,
        journal: Option<Journal>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        for (id, _) in journal.iter().flat_map(|journal| journal.some(usize::MAX, |_, _| true)) {
            filter.insert(&id);
        }
        Self {
            journal: journal.map(Arc::new),
            filter,
            cache: ReplayCache::new(settings.replay_cache),
            lines: Lines::new(settings.waiters),
            dispatched: Dispatched::new(settings.dispatched, Arc::clone(&metrics)),
            alone: settings.alone,
            unconfirmed: Unconfirmed::default(),
            probes: Probes::default(),
            outcomes: Outcomes::new(settings.outcomes_waiting, Arc::clone(&metrics)),
            tasks: TaskTracker::new(),
            given_up: CancellationToken::new(),
            metrics,
            clock,
        }
    }

    /// A stop has no time left: attempts under way end in doubt, written down while there is a store.
    pub fn give_up(&self) {
        self.lines.give_up();
        self.given_up.cancel();
    }

    /// Tells whether the filter knows every record that lives, where that matters.
    pub fn publish_completeness(&self) {
        self.metrics.kept().filter_completed(self.journal.is_some() && self.filter.is_complete());
    }

    /// Takes over what can change while it runs. Who stands in line already stays.
    pub fn limit(&self, settings: Settings) {
        self.lines.limit(settings.waiters);
        self.dispatched.limit(settings.dispatched);
        self.outcomes.limit(settings.outcomes_waiting);
    }
}
