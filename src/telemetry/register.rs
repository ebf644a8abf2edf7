//! How metrics come into a registry. What they count is said where they are defined.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{Opts, Registry};

use super::cells::Ledger;
use super::counted::{Bounds, Counter, Family, Gauge, Timing, family};

/// Upper bounds, in seconds, of the histograms of requests and upstream answers.
pub(super) const REQUEST_BUCKETS: Bounds =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

type Made<M> = Result<Family<M>, prometheus::Error>;

/// Where metrics are registered, and where those that requests count have their cells.
pub(super) struct Register {
    pub(super) registry: Registry,
    ledger: Arc<Ledger>,
}

impl Register {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, ledger: Ledger::new() }
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Made<Counter> {
        register(&self.registry, family(&self.ledger, Opts::new(name, help), labels, ()))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Made<Gauge> {
        register(&self.registry, family(&self.ledger, Opts::new(name, help), labels, ()))
    }

    pub(super) fn timings(&self, name: &str, help: &str, labels: &[&str], bounds: Bounds) -> Made<Timing> {
        register(&self.registry, family(&self.ledger, Opts::new(name, help), labels, bounds))
    }
}

pub(super) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = collector?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
