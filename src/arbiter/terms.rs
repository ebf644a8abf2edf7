//! What an attempt runs under: rules, and where it is counted. It decides nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::machine::Policy;
use crate::telemetry::RouteMetrics;

/// Which policy and which route's counters an attempt runs under.
#[derive(Clone)]
pub struct Terms {
    /// The rules.
    pub policy: Arc<Policy>,
    /// The rules of the operation that an attempt holds beside this one; none where a route has one guard.
    pub beside: Option<Arc<Policy>>,
    /// The route's counters.
    pub route: Arc<RouteMetrics>,
    /// When the upstream is asked about a doubt, counted from its beginning; none: it is not asked.
    pub schedule: Option<Arc<[Duration]>>,
}

impl Terms {
    /// The rules of the operation that is held beside the one that these are for.
    pub fn policy_beside(&self) -> &Arc<Policy> {
        self.beside.as_ref().unwrap_or(&self.policy)
    }

    /// The terms of the second operation. About its doubts nobody is asked: the first one's answer settles both.
    #[must_use]
    pub fn of_second(&self) -> Self {
        Self {
            policy: Arc::clone(self.policy_beside()),
            beside: Some(Arc::clone(&self.policy)),
            route: Arc::clone(&self.route),
            schedule: None,
        }
    }
}
