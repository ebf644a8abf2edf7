//! What is known of a request on its way: for counting it exactly once, also when its client leaves and its handler is
//! dropped, and for naming its operation in a refusal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use super::Gateway;
use super::entry::{Closing, Entry};
use crate::clock::Clock;
use crate::machine::OperationId;
use crate::telemetry::{RouteMetrics, Verdict};

/// A request that has not been counted yet.
pub(super) struct Tally {
    /// Where it came to, and what it is counted in there.
    gateway: Arc<Gateway>,
    /// Its route's place in the configuration; none: it belongs to none yet.
    place: Option<usize>,
    operation: Option<OperationId>,
    started: Instant,
    /// What the request counts as if its client leaves now.
    if_left: Verdict,
    counted: bool,
    /// Its line in the access log, where there is one.
    entry: Option<Arc<Entry>>,
}

impl Tally {
    /// A request that belongs to no route yet.
    pub(super) fn new(gateway: &Arc<Gateway>, entry: Option<Arc<Entry>>) -> Self {
        // Whoever has read its head has read the clock.
        let started = Clock::lately();
        let (gateway, if_left) = (Arc::clone(gateway), Verdict::BadRequest);
        Self { gateway, place: None, operation: None, started, if_left, counted: false, entry }
    }

    /// The request belongs to this route.
    pub(super) fn routed(&mut self, place: usize) {
        self.place = Some(place);
    }

    /// The place of the request's route, once it is known.
    pub(super) fn place(&self) -> Option<usize> {
        self.place
    }

    /// The request names this operation.
    pub(super) fn named(&mut self, operation: OperationId) {
        self.operation = Some(operation);
    }

    /// The operation that the request names, once that is known.
    pub(super) fn operation(&self) -> Option<OperationId> {
        self.operation
    }

    /// Its line in the access log, for what its way adds to it.
    pub(super) fn entry(&self) -> Option<&Arc<Entry>> {
        self.entry.as_ref()
    }

    /// From here on, a client that leaves makes the request count as `verdict`.
    pub(super) fn if_left(&mut self, verdict: Verdict) {
        self.if_left = verdict;
    }

    /// The request has its answer, whose body this line goes with.
    pub(super) fn answered(mut self, verdict: Verdict, status: StatusCode) -> Option<Closing> {
        self.counted = true;
        self.route().answered(verdict, self.took());
        let entry = self.entry.take()?;
        Some(Closing::new(entry, self.place, verdict, status.as_u16(), self.operation))
    }

    fn route(&self) -> &RouteMetrics {
        self.gateway.counts_of(self.place)
    }

    fn took(&self) -> Duration {
        Clock::instant().saturating_duration_since(self.started)
    }
}

impl Gateway {
    /// What requests of this route are counted in; or those that found none.
    pub(super) fn counts_of(&self, place: Option<usize>) -> &RouteMetrics {
        place.map_or_else(|| self.shared.metrics.no_route(), |place| &self.shared.route_metrics[place])
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !self.counted {
            self.route().answered(self.if_left, self.took());
            self.route().client_gone();
            if let Some(entry) = self.entry.take() {
                drop(Closing::left(entry, self.place, self.if_left, self.operation));
            }
        }
    }
}
