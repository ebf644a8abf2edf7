//! The house's own thread: the operators' door, and what time brings. Each loop is a few lines round a single step.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Request;
use tokio::time::MissedTickBehavior;

use super::systemd::{Pulse, Service, watch_over};
use super::watch::Watch;
use super::{LAST_WRITES, Parts, StartError, jwks, upstreams};
use crate::admin::{self, Admin, Ready};
use crate::arbiter::{Arbiter, Sweep};
use crate::clock::Clock;
use crate::gateway::Gateway;
use crate::server::{self, Connections, Doorway, Limits, Listener};
use crate::store::{Health, Store};
use crate::wire::{Client, Closing, Inbound};

/// How often the clock is set by the store's, and the store is looked after.
const TEND: Duration = Duration::from_secs(5);
/// How often claims without a reply are withdrawn, and outcomes that wait written, while there are any.
const MAKE_UP: Duration = Duration::from_millis(250);
/// How often it is looked whether the time of a probe has come.
const PROBE: Duration = Duration::from_millis(100);
/// How often a service manager's gateway that waits for its store asks for it.
const ASK: Duration = Duration::from_millis(250);
/// How long the house leaves the cores to those that wait for a first answer, before it begins.
const FIRST_COME: Duration = Duration::from_millis(5);
/// A sweep rests this many times as long as its last page took, so that it never takes more than a small share.
const REST: u32 = 9;

/// Listens for operators.
pub(super) fn bind(at: SocketAddr) -> Result<Listener, StartError> {
    let failed = |error| StartError::Listen("admin.listen", at, error);
    server::bind(at, 1, false).map_err(failed)?.pop().ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))
}

/// What the house is given to look after.
pub(super) struct Work {
    pub(super) parts: Parts,
    pub(super) operators: Option<Listener>,
    pub(super) workers: Vec<Pulse>,
}

/// Looks after it all until the gateway has stopped.
pub(super) async fn run(work: Work, store: Arc<dyn Store>) {
    let Work { parts, operators: listener, workers } = work;
    tokio::time::sleep(FIRST_COME).await;
    let arbiter = Arc::new(Arbiter::new(store, Arc::clone(&parts.arbiter)));
    let operators = async {
        match listener {
            Some(listener) => operators(&parts, Arc::clone(&arbiter), listener).await,
            None => parts.end.taken().await,
        }
    };
    let time = async {
        let records =
            async { tokio::join!(sweep(&parts, &arbiter), make_up(&parts, &arbiter), probe(&parts, &arbiter)) };
        let others = async {
            tokio::join!(certify(&parts), upstreams::tend(&parts.live), jwks::tend(&parts.live), watch(&parts))
        };
        tokio::join!(records, others, tend(&parts, &arbiter), announce(&parts, &arbiter, &workers))
    };
    let overdue = async {
        parts.end.taken().await;
        tokio::time::sleep(LAST_WRITES).await;
    };
    // Claims are withdrawn and doubts are counted until the operators' door has closed, which is after the last worker;
    // an operator who hangs does not hold up the end.
    tokio::select! { () = operators => {}, _ = time => {}, () = overdue => {} }
}

async fn operators(parts: &Parts, arbiter: Arc<Arbiter>, listener: Listener) {
    let (live, metrics) = (Arc::clone(&parts.live), Arc::clone(&parts.arbiter.metrics));
    let most = live.now().settings.admin.connections;
    let (ruling, announced) = (Arc::clone(&live), parts.closing.announced.clone());
    let (rules, store) = (move || Arc::clone(&ruling.now().rules), Arc::clone(&parts.store));
    let router = Admin::new(rules, arbiter, metrics, store, announced, most).router();
    let (connections, end) = (Connections::default(), parts.end.clone());
    let doorway = || {
        let limits = Limits { connections: most, ..live.now().doorway.limits };
        Arc::new(Doorway {
            front: Arc::default(),
            connections: connections.clone(),
            limits,
            turned_away: Bytes::new(),
            too_slow: live.now().doorway.too_slow.clone(),
            preserve_header_case: true,
            metrics: Arc::clone(&parts.arbiter.metrics),
            linger: Duration::ZERO,
            closing: Closing { announced: end.clone(), begun: end.clone() },
        })
    };
    let timing = Arc::clone(&live);
    let handle = move |request: Request<Inbound>, client: Arc<Client>| {
        admin::handle(router.clone(), request, client.peer, timing.now().settings.gateway.limits.body_timeout)
    };
    if let Err(error) = server::serve(listener, doorway, handle).await {
        tracing::error!(%error, "operators' listener lost");
    }
}

/// Tells a service manager when the gateway is ready, in the sense of `admin.ready`, and from then on that it lives.
async fn announce(parts: &Parts, arbiter: &Arbiter, workers: &[Pulse]) {
    let needs_store = Service::is_there() && parts.live.now().rules.ready == Ready::Store;
    while needs_store && let Err(error) = arbiter.store().probe().await {
        Service::waits_for(&format!("the store: {error}"));
        tokio::time::sleep(ASK).await;
    }
    parts.service.ready();
    watch_over(workers).await;
}

/// A pass through the store every `sweep_interval`.
async fn sweep(parts: &Parts, arbiter: &Arbiter) {
    let mut state = parts.live.now();
    let mut sweep = Sweep::new(state.watched());
    loop {
        let now = parts.live.now();
        if !Arc::ptr_eq(&state, &now) {
            sweep.watch(now.watched());
            state = now;
        }
        let started = Clock::instant();
        let rest = match sweep.step(arbiter).await {
            Ok(false) => started.elapsed() * REST,
            Ok(true) => state.settings.sweep_interval,
            Err(error) => {
                tracing::warn!(%error, "sweep put off");
                state.settings.sweep_interval.min(TEND)
            }
        };
        tokio::time::sleep(rest).await;
    }
}

/// Makes up for what the store did not take.
async fn make_up(parts: &Parts, arbiter: &Arbiter) {
    loop {
        tokio::time::sleep(MAKE_UP).await;
        if !parts.arbiter.unconfirmed.is_empty()
            && let Err(error) = parts.arbiter.unconfirmed.withdraw(arbiter).await
        {
            tracing::debug!(%error, "claims without a reply still wait");
        }
        if !parts.arbiter.outcomes.is_empty()
            && let Err(error) = parts.arbiter.outcomes.write(arbiter).await
        {
            tracing::debug!(%error, "outcomes still wait");
        }
        if parts.arbiter.journal.as_ref().is_some_and(|journal| !journal.is_empty())
            && let Err(error) = arbiter.hand_over().await
        {
            tracing::debug!(%error, "the journal still waits");
        }
    }
}

/// Leaves servers of the store that are no longer the ones to write to.
async fn watch(parts: &Parts) {
    loop {
        if let Err(error) = parts.store.watch().await {
            tracing::debug!(%error, "who is to be written to is not known");
        }
    }
}

/// Asks upstreams about doubts, with connections of its own.
async fn probe(parts: &Parts, arbiter: &Arc<Arbiter>) {
    let mut asking = FuturesUnordered::new();
    let mut looks = tokio::time::interval(PROBE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut door: Option<Gateway> = None;
    loop {
        tokio::select! {
            Some(()) = asking.next(), if !asking.is_empty() => continue,
            _ = looks.tick() => {}
        }
        if parts.arbiter.probes.is_empty() {
            // It would keep a configuration that has been replaced.
            door = None;
            continue;
        }
        let state = parts.live.now();
        let fresh = || Gateway::new(Arc::clone(&state.gateway), Arc::clone(arbiter), state.settings.server.workers);
        door = door.filter(|door| door.is_over(&state.gateway)).or_else(|| Some(fresh()));
        asking.extend(door.iter().flat_map(Gateway::probe_due));
    }
}

/// Takes over certificates that change.
async fn certify(parts: &Parts) {
    let mut exchanges = parts.live.exchanges();
    loop {
        let state = parts.live.now();
        let changes = async {
            let Some(tls) = state.certificates() else { return std::future::pending().await };
            let mut watch = Watch::new(tls.files());
            loop {
                // At once too: what changed before the watch began gives no sign.
                parts.reload_certificates();
                watch.changed().await;
            }
        };
        tokio::select! {
            () = changes => {}
            next = exchanges.changed() => if next.is_err() { return },
        }
    }
}

/// Sets the clock by the store's, turns the filter, publishes gauges, and watches that the store stays safe.
async fn tend(parts: &Parts, arbiter: &Arbiter) {
    let shared = &parts.arbiter;
    loop {
        match arbiter.store().time().await {
            Ok(_) if shared.journal.is_some() => shared.filter.starts(),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "clock not calibrated"),
        }
        shared.filter.rotate_if_due();
        shared.publish_completeness();
        shared.metrics.filter_filled(shared.filter.fill_ratio());
        shared.metrics.log_lines_lost(parts.lines_lost.count());
        match parts.store.tend().await {
            Ok(Health::Own) => {}
            Ok(Health::Redis(condition)) => {
                let may_evict = condition.may_evict();
                if may_evict {
                    tracing::warn!("the store may evict records: operations could run twice");
                }
                shared.metrics.kept().store_may_evict(may_evict);
                let redis = shared.metrics.redis();
                redis.replicated(condition.primaries(), condition.replicas(), condition.wanted());
                redis.persists(condition.persistence() as i64);
            }
            Err(error) => tracing::debug!(%error, "store not looked after"),
        }
        tokio::time::sleep(TEND).await;
    }
}
