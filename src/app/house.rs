//! The house's own thread: the operators' door, and what time brings. Each loop is a few lines round a single step.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;

use super::{Parts, StartError};
use crate::admin::{self, Admin, Namespace};
use crate::arbiter::{Arbiter, Sweep, Terms, Watched};
use crate::clock::Clock;
use crate::gateway::Mode;
use crate::keys::namespace_tag;
use crate::machine::NamespaceTag;
use crate::server::{self, Connections, Doorway};
use crate::store::Store;
use crate::wire::Client;
use crate::wire::framing::Limits;

/// How often the clock is set by the store's, and the store is looked after.
const TEND: Duration = Duration::from_secs(5);
/// How often claims without a reply are withdrawn, while there are any.
const WITHDRAW: Duration = Duration::from_millis(250);
/// Operators' connections at once.
const CONNECTIONS: usize = 256;
/// A sweep rests this many times as long as its last page took, so that it never takes more than a small share.
const REST: u32 = 9;

/// Listens for operators.
pub(super) fn bind(at: SocketAddr) -> Result<TcpListener, StartError> {
    let failed = |error| StartError::Listen("admin.listen", at, error);
    server::bind(at, 1).map_err(failed)?.pop().ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))
}

pub(super) async fn run(parts: Parts, store: Arc<dyn Store>, listener: Option<TcpListener>) {
    let arbiter = Arc::new(Arbiter::new(store, Arc::clone(&parts.arbiter)));
    let operators = async {
        match listener {
            Some(listener) => operators(&parts, Arc::clone(&arbiter), listener).await,
            None => parts.stop.cancelled().await,
        }
    };
    let time = async { tokio::join!(sweep(&parts, &arbiter), withdraw(&parts, &arbiter), tend(&parts, &arbiter)) };
    // Claims are withdrawn and doubts are counted until the operators' door has closed; an operator who hangs does not
    // hold up the end.
    tokio::select! { () = operators => {}, _ = time => {}, () = parts.overdue() => {} }
}

async fn operators(parts: &Parts, arbiter: Arc<Arbiter>, listener: TcpListener) {
    let settings = parts.settings.admin.clone();
    let metrics = Arc::clone(&parts.arbiter.metrics);
    let router = Admin::new(settings, arbiter, metrics, namespaces(parts)).router();
    let doorway = Doorway {
        connections: Connections::new(CONNECTIONS),
        header_timeout: parts.settings.gateway.limits.header_timeout,
        heads: Limits::REQUEST,
        turned_away: Bytes::new(),
        preserve_header_case: true,
        stop: parts.stop.clone(),
    };
    let handle = move |request: Request<Incoming>, _: Arc<Client>| admin::handle(router.clone(), request);
    if let Err(error) = server::serve(listener, doorway, handle).await {
        tracing::error!(%error, "operators' listener lost");
    }
}

fn namespaces(parts: &Parts) -> HashMap<NamespaceTag, Namespace> {
    by_namespace(parts.gateway.guards().map(|(route, guard, terms)| {
        (namespace_tag(&guard.keys.namespace), Namespace { route: route.to_owned(), terms: terms.clone() })
    }))
}

/// Where routes share a namespace, the first of them speaks for it.
fn by_namespace<T>(routes: impl Iterator<Item = (NamespaceTag, T)>) -> HashMap<NamespaceTag, T> {
    let mut named = HashMap::new();
    for (tag, value) in routes {
        named.entry(tag).or_insert(value);
    }
    named
}

/// A pass through the store every `sweep_interval`.
async fn sweep(parts: &Parts, arbiter: &Arbiter) {
    // A shadow route refuses nobody: its doubts are nobody's trouble, and would only raise alarms.
    let enforced = parts.gateway.guards().filter(|(_, guard, _)| guard.mode == Mode::Enforce);
    let watched = enforced.map(|(_, guard, Terms { policy, route })| {
        let watched = Watched { route: *route, doubt_retention: policy.doubt_retention };
        (namespace_tag(&guard.keys.namespace), watched)
    });
    let mut sweep = Sweep::new(by_namespace(watched));
    loop {
        let started = Clock::instant();
        let rest = match sweep.step(arbiter).await {
            Ok(false) => started.elapsed() * REST,
            Ok(true) => parts.settings.sweep_interval,
            Err(error) => {
                tracing::warn!(%error, "sweep put off");
                parts.settings.sweep_interval.min(TEND)
            }
        };
        tokio::time::sleep(rest).await;
    }
}

async fn withdraw(parts: &Parts, arbiter: &Arbiter) {
    loop {
        tokio::time::sleep(WITHDRAW).await;
        if !parts.arbiter.unconfirmed.is_empty()
            && let Err(error) = parts.arbiter.unconfirmed.withdraw(arbiter).await
        {
            tracing::debug!(%error, "claims without a reply still wait");
        }
    }
}

/// Sets the clock by the store's, turns the filter, publishes gauges, and watches that the store stays safe.
async fn tend(parts: &Parts, arbiter: &Arbiter) {
    let shared = &parts.arbiter;
    loop {
        if let Err(error) = arbiter.store().time().await {
            tracing::debug!(%error, "clock not calibrated");
        }
        shared.filter.rotate_if_due();
        shared.metrics.filter_filled(shared.filter.fill_ratio());
        shared.metrics.log_lines_lost(parts.lines_lost.count());
        match parts.store.tend().await {
            Ok(may) => {
                if may {
                    tracing::warn!("the store may evict records: operations could run twice");
                }
                shared.metrics.store_may_evict(may);
            }
            Err(error) => tracing::debug!(%error, "store not looked after"),
        }
        tokio::time::sleep(TEND).await;
    }
}
