//! The facts of one route. How they are called outside is written where they are registered.

use std::time::{Duration, Instant};

use super::{DoubtsFound, RouteMetrics};
use crate::telemetry::labels::{Outcome, ProbeFinding, Verdict};

impl RouteMetrics {
    /// The route's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A request ended.
    pub fn answered(&self, verdict: Verdict, took: Duration) {
        self.requests[verdict as usize].inc();
        self.seconds[verdict as usize].observe(took);
    }

    /// A client left before its answer; the request itself is counted by [`answered`](Self::answered).
    pub fn client_gone(&self) {
        self.clients_gone.inc();
    }

    /// An attempt ended.
    pub fn settled(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].inc();
    }

    /// The upstream was asked about a doubt, or should have been.
    pub fn probed(&self, finding: ProbeFinding) {
        self.probes[finding as usize].inc();
    }

    /// An attempt that was sent has ended after this long, at this instant, whatever came of it.
    pub fn attempt_took(&self, span: Duration, ended: Instant) {
        self.usual.ended(span, ended);
    }

    /// How long attempts take at most, unless something is unusual, as far as this process has seen; none before the
    /// first has ended.
    pub fn attempts_usually_take(&self) -> Option<Duration> {
        self.usual.at_most()
    }

    /// A request met a record of its operation.
    pub fn duplicate(&self) {
        self.duplicates.inc();
    }

    /// A request's first key was new, and its second one was on record.
    pub fn also_refused(&self) {
        self.also_refused.inc();
    }

    /// A request was let through and failed at the upstream.
    pub fn executed_but_failed(&self) {
        self.executed_but_failed.inc();
    }

    /// The upstream said something of an operation that cannot be made out. True when it was the first time on this route.
    pub fn outcome_header_unclear(&self) -> bool {
        self.outcome_headers_unclear.inc();
        self.outcome_headers_unclear.get() == 1
    }

    /// A client got a token.
    pub fn token_issued(&self) {
        self.tokens_issued.inc();
    }

    /// An attempt began (1) or ended (-1).
    pub fn attempts_running(&self, change: i64) {
        self.in_flight.add(change);
    }

    /// What the last sweep found.
    pub fn doubts_found(&self, found: DoubtsFound) {
        self.doubts.set(i64::try_from(found.count).unwrap_or(i64::MAX));
        self.doubts_expiring.set(i64::try_from(found.expiring).unwrap_or(i64::MAX));
        self.oldest_doubt.set(i64::try_from(found.oldest.as_secs()).unwrap_or(i64::MAX));
    }
}
