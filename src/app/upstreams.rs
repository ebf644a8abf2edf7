//! What time brings to the servers of upstreams. Each loop is a few lines round a single step of theirs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::config::Settings;
use crate::telemetry::{CheckResult, Metrics, ServerState};
use crate::upstream::{Fleet, SystemResolver};

/// How often idle connections are looked through, and the servers counted.
const TIDY: Duration = Duration::from_secs(1);

/// The servers of all upstreams, for all workers.
pub(super) fn fleets(settings: &Settings) -> Arc<[Arc<Fleet>]> {
    let workers = settings.server.workers;
    let fleet = |upstream: &_| Arc::new(Fleet::new(Clone::clone(upstream), workers, Arc::new(SystemResolver)));
    settings.upstreams.iter().map(fleet).collect()
}

/// Looks after all of them, for ever.
pub(super) async fn tend(fleets: &[Arc<Fleet>], metrics: &Metrics) {
    join_all(fleets.iter().enumerate().map(|(index, fleet)| async move {
        tokio::join!(resolve(fleet), check(fleet, index, metrics), tidy(fleet, index, metrics))
    }))
    .await;
}

async fn resolve(fleet: &Fleet) {
    loop {
        if let Err(error) = fleet.resolve().await {
            tracing::warn!(upstream = fleet.settings().name, error, "names without an answer keep their addresses");
        }
        tokio::time::sleep(fleet.settings().resolve_interval).await;
    }
}

async fn check(fleet: &Fleet, index: usize, metrics: &Metrics) {
    while let Some(health) = &fleet.settings().health {
        let checked = fleet.check().await;
        metrics.upstream_checked(index, CheckResult::Passed, checked.passed);
        metrics.upstream_checked(index, CheckResult::Failed, checked.failed);
        tokio::time::sleep(health.interval).await;
    }
}

async fn tidy(fleet: &Fleet, index: usize, metrics: &Metrics) {
    loop {
        fleet.tidy();
        metrics.upstream_ejected(index, fleet.take_ejections());
        let census = fleet.census();
        metrics.upstream_servers(index, ServerState::Healthy, census.healthy);
        metrics.upstream_servers(index, ServerState::Ejected, census.ejected);
        metrics.upstream_servers(index, ServerState::Unhealthy, census.unhealthy);
        tokio::time::sleep(TIDY).await;
    }
}
