//! Metrics of upstreams: one method per fact, handles by the upstream's name.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntGauge, IntGaugeVec, Opts};

use super::counted::{Counter, Family, Timing};
use super::labels::{CheckResult, ServerState};
use super::register::{REQUEST_BUCKETS, Register, register};

/// The handles of one upstream.
pub struct UpstreamMetrics {
    seconds: Timing,
    servers: Vec<IntGauge>,
    ejections: Counter,
    checks: Vec<Counter>,
}

/// What all upstreams are counted in.
pub(super) struct UpstreamFamilies {
    seconds: Family<Timing>,
    servers: IntGaugeVec,
    ejections: Family<Counter>,
    checks: Family<Counter>,
}

impl UpstreamFamilies {
    pub(super) fn new(to: &Register) -> Result<Self, prometheus::Error> {
        let from_sending = "Seconds from sending to the answer's head.";
        let servers = Opts::new("upstream_servers", "Servers of an upstream, by address and by how they stand.");
        let left_out = "Servers that were left out because requests failed there.";
        let results = "Health checks of servers by what came of them.";
        Ok(Self {
            seconds: to.timings("upstream_seconds", from_sending, &["upstream"], REQUEST_BUCKETS)?,
            servers: register(&to.registry, IntGaugeVec::new(servers, &["upstream", "state"]))?,
            ejections: to.counters("upstream_ejections_total", left_out, &["upstream"])?,
            checks: to.counters("upstream_health_checks_total", results, &["upstream", "result"])?,
        })
    }

    pub(super) fn upstream(&self, name: &str) -> Arc<UpstreamMetrics> {
        let servers = |state: &ServerState| self.servers.with_label_values(&[name, state.label()]);
        let checks = |result: &CheckResult| self.checks.with_label_values(&[name, result.label()]);
        Arc::new(UpstreamMetrics {
            seconds: self.seconds.with_label_values(&[name]),
            servers: ServerState::ALL.iter().map(servers).collect(),
            ejections: self.ejections.with_label_values(&[name]),
            checks: CheckResult::ALL.iter().map(checks).collect(),
        })
    }
}

impl UpstreamMetrics {
    /// The upstream answered, or failed to, after this long.
    pub fn answered(&self, took: Duration) {
        self.seconds.observe(took);
    }

    /// So many of its servers stand like this now.
    pub fn servers(&self, state: ServerState, count: usize) {
        self.servers[state as usize].set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// So many of its servers were left out, because requests failed there.
    pub fn ejected(&self, count: u64) {
        self.ejections.inc_by(count);
    }

    /// So many health checks of its servers ended like this.
    pub fn checked(&self, result: CheckResult, count: usize) {
        self.checks[result as usize].inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }
}
