//! How metrics come into a registry. What they count is said where they are defined.

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Upper bounds, in seconds, of the histograms of requests and upstream answers.
pub(super) const REQUEST_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

pub(super) fn counter_vec(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

pub(super) fn histogram_vec(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    bounds: &[f64],
) -> Result<HistogramVec, prometheus::Error> {
    register(registry, HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), labels))
}

pub(super) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = collector?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
