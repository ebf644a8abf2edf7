//! What all ways to the servers of a store have in common, and which servers have been found fit. It makes no connection.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::StoreError;
use super::deadline::Deadline;
use super::line::Line;
use super::server::{self, Report};
use super::settings::{Node, Settings};
use crate::clock::Clock;

/// What all ways to the servers of a store have in common.
pub(super) struct Terms {
    pub(super) settings: Settings,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
    /// Servers that a connection has found fit before. A policy that changes while the gateway runs is counted and
    /// logged; refusing it then would stop the connections that happen to be made anew, and no others.
    accepted: Mutex<HashSet<Node>>,
}

impl Terms {
    pub(super) fn new(settings: Settings, timeout: Duration, clock: Clock) -> Self {
        Self { settings, timeout, clock, accepted: Mutex::default() }
    }

    /// What a server says of itself on a new connection. One that was found fit before is not refused.
    pub(super) async fn look_over(
        &self,
        node: &Node,
        line: &Line,
        sets_clock: bool,
        deadline: Deadline,
    ) -> Result<Report, StoreError> {
        let allow_eviction = self.settings.allow_eviction || self.accepted().contains(node);
        let clock = sets_clock.then_some(&self.clock);
        let report = server::ask(line, allow_eviction, clock, deadline).await??;
        if report.refusal.is_none() {
            self.accepted().insert(node.clone());
        }
        Ok(report)
    }

    fn accepted(&self) -> MutexGuard<'_, HashSet<Node>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
