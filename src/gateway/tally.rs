//! What is known of a request on its way: for counting it exactly once, also when its client leaves and its handler is
//! dropped, and for naming its operation in a refusal.

use std::sync::Arc;
use std::time::Instant;

use crate::clock::Clock;
use crate::machine::OperationId;
use crate::telemetry::{Metrics, RouteMetrics, Verdict};

/// A request that has not been counted yet.
pub(super) struct Tally {
    metrics: Arc<Metrics>,
    route: Option<usize>,
    operation: Option<OperationId>,
    started: Instant,
    /// What the request counts as if its client leaves now.
    if_left: Verdict,
    counted: bool,
}

impl Tally {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let started = Clock::instant();
        Self { metrics, route: None, operation: None, started, if_left: Verdict::BadRequest, counted: false }
    }

    /// The request belongs to this route.
    pub(super) fn routed(&mut self, route: usize) {
        self.route = Some(route);
    }

    /// The request's route, once it is known.
    pub(super) fn route(&self) -> Option<usize> {
        self.route
    }

    /// The request names this operation.
    pub(super) fn named(&mut self, operation: OperationId) {
        self.operation = Some(operation);
    }

    /// The operation that the request names, once that is known.
    pub(super) fn operation(&self) -> Option<OperationId> {
        self.operation
    }

    /// From here on, a client that leaves makes the request count as `verdict`.
    pub(super) fn if_left(&mut self, verdict: Verdict) {
        self.if_left = verdict;
    }

    /// The request has its answer.
    pub(super) fn answered(mut self, verdict: Verdict) {
        self.counted = true;
        self.counters().answered(verdict, self.started.elapsed());
    }

    fn counters(&self) -> &RouteMetrics {
        self.route.map_or_else(|| self.metrics.no_route(), |route| self.metrics.route(route))
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !self.counted {
            self.counters().answered(self.if_left, self.started.elapsed());
            self.counters().client_gone();
        }
    }
}
