//! The servers of one upstream, as all workers share them: which addresses there are, and what is kept up over time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::endpoint::Endpoint;
use super::health::Standing;
use super::resolve::Resolver;
use super::{NotSent, Reason, Server, Settings};
use crate::clock::Clock;

/// How long a name may be looked up when no request waits for it.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// An upstream's servers. Whoever runs the gateway calls [`resolve`](Self::resolve), [`check`](Self::check) and
/// [`tidy`](Self::tidy) from time to time.
#[derive(Debug)]
pub struct Fleet {
    settings: Settings,
    workers: usize,
    resolver: Arc<dyn Resolver>,
    tasks: TaskTracker,
    /// By server, then by address.
    endpoints: ArcSwap<Vec<Arc<Endpoint>>>,
    /// Held by requests that wait for the first address of any server, so that one of them asks for all.
    first_lookup: Mutex<()>,
    /// Connections that may be in use.
    places: Option<Arc<Semaphore>>,
    turn: AtomicUsize,
    ejections: AtomicU64,
}

/// How many of an upstream's servers stand how, counted by address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Those that take requests.
    pub healthy: usize,
    /// Those that are left out because requests failed there.
    pub ejected: usize,
    /// Those whose checks fail.
    pub unhealthy: usize,
}

impl Fleet {
    /// Servers for so many workers. Names have no addresses yet: the first request, or the first
    /// [`resolve`](Self::resolve), asks for them. What outlives its request is among these tasks, so that a stop can wait
    /// for it.
    pub fn new(settings: Settings, workers: usize, resolver: Arc<dyn Resolver>, tasks: TaskTracker) -> Self {
        let places = (settings.max_connections > 0).then(|| Arc::new(Semaphore::new(settings.max_connections)));
        let fleet = Self {
            settings,
            workers,
            resolver,
            tasks,
            endpoints: ArcSwap::default(),
            first_lookup: Mutex::default(),
            places,
            turn: AtomicUsize::new(0),
            ejections: AtomicU64::new(0),
        };
        for (place, server) in fleet.settings.servers.iter().enumerate() {
            if let Some(address) = literal(server) {
                fleet.learn(place, &[address]);
            }
        }
        fleet
    }

    /// What it was built from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// No new requests will come: idle connections are closed now, others when their request has ended.
    pub fn retire(&self) {
        self.known().iter().for_each(|endpoint| endpoint.retire());
    }

    /// Asks for the addresses of all names once. An address that is no longer among them gets no new request: its idle
    /// connections are closed, and requests that are under way there end as they will. A name that nobody knows at the
    /// moment keeps the addresses it had.
    ///
    /// # Errors
    /// When names got no answer, with the reasons.
    pub async fn resolve(&self) -> Result<(), String> {
        let named = self.settings.servers.iter().enumerate().filter(|(_, server)| literal(server).is_none());
        let answers = join_all(named.map(|(place, server)| self.look_up(place, server))).await;
        let failed: Vec<String> = answers.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    async fn look_up(&self, place: usize, server: &Server) -> Result<(), String> {
        let name = server.bare_host();
        match tokio::time::timeout(LOOKUP_LIMIT, self.resolver.lookup(name, server.port)).await {
            Ok(Ok(found)) if found.is_empty() => Err(format!("{name}: no address")),
            Ok(Ok(found)) => {
                if self.learn(place, &found) {
                    tracing::info!(upstream = self.settings.name, name, addresses = ?found, "a name's addresses");
                }
                Ok(())
            }
            Ok(Err(error)) => Err(format!("{name}: {error}")),
            Err(_elapsed) => Err(format!("{name}: no answer within {LOOKUP_LIMIT:?}")),
        }
    }

    /// A server's addresses are these now; true when that is news. Those that it had before keep their connections and
    /// what is known of them.
    fn learn(&self, server: usize, found: &[SocketAddr]) -> bool {
        let mut found = found.to_vec();
        found.sort_unstable();
        found.dedup();
        let known = self.endpoints.load();
        if known.iter().filter(|known| known.server == server).map(|known| known.address).eq(found.iter().copied()) {
            return false;
        }
        let before = self.endpoints.rcu(|known| {
            let (of_it, mut all): (Vec<_>, Vec<_>) = known.iter().cloned().partition(|known| known.server == server);
            all.extend(found.iter().map(|&address| {
                let kept = of_it.iter().find(|known| known.address == address).cloned();
                kept.unwrap_or_else(|| {
                    Arc::new(Endpoint::new(&self.settings, server, address, self.workers, &self.tasks))
                })
            }));
            all.sort_by_key(|endpoint| (endpoint.server, endpoint.address));
            all
        });
        let gone = |known: &&Arc<Endpoint>| known.server == server && !found.contains(&known.address);
        before.iter().filter(gone).for_each(|endpoint| endpoint.retire());
        true
    }

    /// All addresses that are known now.
    pub(super) fn known(&self) -> Arc<Vec<Arc<Endpoint>>> {
        self.endpoints.load_full()
    }

    /// Where requests can go. While no address of any server is known, a request asks for itself; others that come
    /// meanwhile wait for the same answer.
    pub(super) async fn endpoints(&self) -> Result<Arc<Vec<Arc<Endpoint>>>, NotSent> {
        let known = self.known();
        if !known.is_empty() || self.settings.servers.is_empty() {
            return Ok(known);
        }
        let asked = async {
            let _first = self.first_lookup.lock().await;
            if self.endpoints.load().is_empty() { self.resolve().await } else { Ok(()) }
        };
        let limit = self.settings.connect_timeout;
        let failed = match tokio::time::timeout(limit, asked).await {
            Ok(answer) => answer.err().unwrap_or_default(),
            Err(_elapsed) => format!("no address within {limit:?}"),
        };
        let found = self.known();
        if found.is_empty() { Err(NotSent::new(Reason::Dns, failed)) } else { Ok(found) }
    }

    /// The right to use a connection; none where everybody has it.
    pub(super) async fn place(&self) -> Result<Option<OwnedSemaphorePermit>, NotSent> {
        let Some(places) = &self.places else { return Ok(None) };
        let limit = self.settings.connect_timeout;
        match tokio::time::timeout(limit, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Some(place)),
            Ok(Err(_)) | Err(_) => Err(NotSent::new(Reason::Full, format!("no connection was free within {limit:?}"))),
        }
    }

    /// Whose turn it is, for servers that are equally good.
    pub(super) fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// A request failed there: the address may be left out for a while, if there is another one.
    pub(super) fn failed(&self, endpoint: &Arc<Endpoint>, now: Instant) {
        let ready = |other: &Arc<Endpoint>| {
            !Arc::ptr_eq(other, endpoint) && other.health(|health| health.standing(now)) == Standing::Ready
        };
        let others_left = self.endpoints.load().iter().any(ready);
        if endpoint.health(|health| health.failed(now, self.settings.ejection, others_left)) {
            self.ejections.fetch_add(1, Ordering::Relaxed);
            let lasts = self.settings.ejection.lasts;
            tracing::warn!(upstream = self.settings.name, address = %endpoint.address, ?lasts, "server left out");
        }
    }

    /// Closes idle connections that have been kept for long enough.
    pub fn tidy(&self) {
        self.endpoints.load().iter().for_each(|endpoint| endpoint.tidy());
    }

    /// How the servers stand now.
    pub fn census(&self) -> Census {
        let now = Clock::instant();
        let mut census = Census::default();
        for endpoint in self.endpoints.load().iter() {
            match endpoint.health(|health| health.standing(now)) {
                Standing::Ready => census.healthy += 1,
                Standing::Ejected => census.ejected += 1,
                Standing::Unhealthy => census.unhealthy += 1,
            }
        }
        census
    }

    /// How often a server was ejected since this was last asked.
    pub fn take_ejections(&self) -> u64 {
        self.ejections.swap(0, Ordering::Relaxed)
    }
}

/// The address of a server that is given by address.
fn literal(server: &Server) -> Option<SocketAddr> {
    server.bare_host().parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, server.port))
}
