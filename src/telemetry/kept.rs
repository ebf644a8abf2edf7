//! Metrics of what a store keeps, may lose or does not take, and of what this gateway keeps meanwhile.

use std::time::Duration;

use prometheus::{IntCounter, IntGauge, Registry};

use super::register::register;

/// What a sweep found in doubt.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoubtsFound {
    /// How many operations.
    pub count: usize,
    /// How many of them are forgotten soon.
    pub expiring: usize,
    /// The age of the oldest.
    pub oldest: Duration,
}

/// Facts about what is kept, and where.
pub struct KeptMetrics {
    store_may_evict: IntGauge,
    store_amnesia: IntCounter,
    dispatched_dropped: IntCounter,
    outcomes_waiting: IntGauge,
    journalled: IntGauge,
    filter_complete: IntGauge,
    outcomes_given_up: IntCounter,
}

impl KeptMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| register(registry, IntGauge::new(name, help));
        let counter = |name, help| register(registry, IntCounter::new(name, help));
        Ok(Self {
            store_may_evict: gauge("store_may_evict", "1 while the store's eviction policy may drop records.")?,
            store_amnesia: counter("store_amnesia_total", "Records of dispatched operations that the store had lost.")?,
            dispatched_dropped: counter(
                "dispatched_dropped_total",
                "Dispatched operations forgotten early for want of room.",
            )?,
            outcomes_waiting: gauge("outcomes_waiting", "Outcomes that wait in memory for a store that is away.")?,
            journalled: gauge("journalled", "Operations that began while the store was away, not handed over yet.")?,
            filter_complete: gauge("filter_complete", "1 while every record that lives is surely in the filter.")?,
            outcomes_given_up: counter(
                "outcomes_given_up_total",
                "Outcomes that the store did not take in time: in doubt.",
            )?,
        })
    }

    /// Whether the store may drop records under memory pressure.
    pub fn store_may_evict(&self, may: bool) {
        self.store_may_evict.set(i64::from(may));
    }

    /// The store has lost the record of an operation that this gateway dispatched.
    pub fn store_forgot(&self) {
        self.store_amnesia.inc();
    }

    /// So many dispatched operations are no longer known, because others needed their room.
    pub fn dispatched_dropped(&self, count: u64) {
        self.dispatched_dropped.inc_by(count);
    }

    /// An outcome begins to wait for its store (1), or waits no longer (-1).
    pub fn outcomes_wait(&self, change: i64) {
        self.outcomes_waiting.add(change);
    }

    /// How many operations the journal speaks of.
    pub fn journal_holds(&self, count: usize) {
        self.journalled.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Whether every record that lives is surely in the filter.
    pub fn filter_completed(&self, complete: bool) {
        self.filter_complete.set(i64::from(complete));
    }

    /// An outcome that the store did not take was given up.
    pub fn outcome_given_up(&self) {
        self.outcomes_given_up.inc();
    }
}
