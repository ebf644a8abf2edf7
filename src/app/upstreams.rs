//! What time brings to the servers of upstreams. Each loop is a few lines round a single step of theirs.

use std::time::Duration;

use futures_util::future::join_all;

use super::state::Live;
use crate::telemetry::{CheckResult, ServerState, UpstreamMetrics};
use crate::upstream::Fleet;

/// How often idle connections are looked through, and the servers counted.
const TIDY: Duration = Duration::from_secs(1);

/// Looks after all that the configuration in force names, for ever.
pub(super) async fn tend(live: &Live) {
    let mut exchanges = live.exchanges();
    loop {
        let state = live.now();
        let all = join_all(state.gateway.counted_fleets().map(|(fleet, metrics)| async {
            tokio::join!(resolve(fleet), check(fleet, metrics), tidy(fleet, metrics))
        }));
        tokio::select! {
            _ = all => std::future::pending().await,
            next = exchanges.changed() => if next.is_err() { return },
        }
    }
}

async fn resolve(fleet: &Fleet) {
    loop {
        if let Err(error) = fleet.resolve().await {
            tracing::warn!(upstream = fleet.settings().name, error, "names without an answer keep their addresses");
        }
        tokio::time::sleep(fleet.settings().resolve_interval).await;
    }
}

async fn check(fleet: &Fleet, metrics: &UpstreamMetrics) {
    while let Some(health) = &fleet.settings().health {
        let checked = fleet.check().await;
        metrics.checked(CheckResult::Passed, checked.passed);
        metrics.checked(CheckResult::Failed, checked.failed);
        tokio::time::sleep(health.interval).await;
    }
}

async fn tidy(fleet: &Fleet, metrics: &UpstreamMetrics) {
    loop {
        fleet.tidy();
        metrics.ejected(fleet.take_ejections());
        let census = fleet.census();
        metrics.servers(ServerState::Healthy, census.healthy);
        metrics.servers(ServerState::Ejected, census.ejected);
        metrics.servers(ServerState::Unhealthy, census.unhealthy);
        tokio::time::sleep(TIDY).await;
    }
}
