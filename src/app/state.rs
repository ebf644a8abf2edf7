//! What the configuration says, ready for use, and the one place where it is exchanged while the gateway runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::admin::{Namespace, Rules};
use crate::arbiter::{Terms, Watched};
use crate::config::Settings;
use crate::gateway::{self, Mode};
use crate::keys::namespace_tag;
use crate::machine::NamespaceTag;
use crate::server::{self, Connections, Doorway, Front};
use crate::telemetry::Metrics;
use crate::telemetry::access::AccessLog;
use crate::tls;
use crate::upstream::{self, Fleet, SystemResolver};
use crate::wire::Closing;

/// How long a connection without a request stays when the gateway stops: its client may have sent one just now.
const LINGER: Duration = Duration::from_secs(1);

/// One configuration. A request keeps the one that it began with.
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) gateway: Arc<gateway::Shared>,
    /// What clients come through.
    pub(super) doorway: Arc<Doorway>,
    /// What operators' calls go by.
    pub(super) rules: Arc<Rules>,
    access: Arc<AccessLog>,
    /// What outlives its request.
    tasks: TaskTracker,
}

/// The configuration that is in force.
pub(super) struct Live {
    state: ArcSwap<State>,
    exchanged: watch::Sender<()>,
}

impl State {
    /// The first one.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn new(
        settings: Settings,
        metrics: Arc<Metrics>,
        access: Arc<AccessLog>,
        closing: Closing,
        tasks: TaskTracker,
    ) -> Result<Self, tls::Error> {
        let front = front(&settings, Arc::clone(&metrics))?;
        let gateway = gateway::Shared::new(settings.gateway.clone(), fleets(&settings, &[], &tasks), metrics);
        Ok(Self::over(settings, gateway, access, Arc::new(front), Connections::default(), closing, tasks))
    }

    /// What connections go through before their first request under the next settings.
    ///
    /// # Errors
    /// When its certificates cannot be used.
    pub(super) fn front_for(&self, settings: &Settings) -> Result<Arc<Front>, tls::Error> {
        if settings.server.front == self.settings.server.front {
            return Ok(Arc::clone(&self.doorway.front));
        }
        front(settings, Arc::clone(self.gateway.metrics())).map(Arc::new)
    }

    /// The next one: what is counted and held under this one counts under it too.
    pub(super) fn succeeded_by(&self, settings: Settings, front: Arc<Front>) -> Self {
        let Doorway { connections, closing, .. } = &*self.doorway;
        let fleets = fleets(&settings, self.gateway.fleets(), &self.tasks);
        let gateway = self.gateway.succeeded_by(settings.gateway.clone(), fleets);
        let (access, tasks) = (Arc::clone(&self.access), self.tasks.clone());
        Self::over(settings, gateway, access, front, connections.clone(), closing.clone(), tasks)
    }

    /// Lets go of the upstreams that the next one does not have.
    pub(super) fn retire(&self, next: &Self) {
        let stays = |fleet: &&Arc<Fleet>| next.gateway.fleets().iter().any(|next| Arc::ptr_eq(next, fleet));
        self.gateway.fleets().iter().filter(|fleet| !stays(fleet)).for_each(|fleet| fleet.retire());
    }

    /// The certificates that clients are served with.
    pub(super) fn certificates(&self) -> Option<&tls::Server> {
        self.doorway.front.tls.as_ref().map(|tls| &*tls.server)
    }

    fn over(
        settings: Settings,
        gateway: gateway::Shared,
        access: Arc<AccessLog>,
        front: Arc<Front>,
        connections: Connections,
        closing: Closing,
        tasks: TaskTracker,
    ) -> Self {
        let gateway = gateway.logged(settings.access_log.is_some().then(|| Arc::clone(&access)));
        let types = &settings.gateway.problem_types;
        // Plain words are no answer to a client that speaks TLS, and a handshake would cost more than the connection.
        let turned_away = if front.tls.is_some() { Bytes::new() } else { gateway::turned_away(types) };
        let doorway = Doorway {
            front,
            connections,
            limits: settings.server.limits,
            turned_away,
            too_slow: gateway::too_slow(types),
            preserve_header_case: settings.server.preserve_header_case,
            metrics: Arc::clone(gateway.metrics()),
            // Where a stop has little time, what is under way needs it more.
            linger: LINGER.min(settings.server.drain.timeout / 2),
            closing,
        };
        let rules = Rules {
            token: settings.admin.token.clone(),
            ready: settings.admin.ready,
            namespaces: namespaces(&gateway),
        };
        Self { settings, gateway: Arc::new(gateway), doorway: Arc::new(doorway), rules: Arc::new(rules), access, tasks }
    }

    /// What sweeps look after. A shadow route refuses nobody: its doubts are nobody's trouble, and would only raise
    /// alarms.
    pub(super) fn watched(&self) -> HashMap<NamespaceTag, Watched> {
        let enforced = || self.gateway.guards().filter(|(_, guard, _)| guard.mode == Mode::Enforce);
        let mut watched = by_namespace(kept(enforced()).map(|Kept { namespace, terms, .. }| {
            let watched = Watched {
                route: Arc::clone(&terms.route),
                policy: Arc::clone(&terms.policy),
                probed: terms.schedule.is_some().then(|| terms.clone()),
                second_to: HashSet::new(),
            };
            (namespace, watched)
        }));
        for Kept { namespace, second_to, .. } in kept(enforced()) {
            if let Some(watched) = watched.get_mut(&namespace) {
                watched.second_to.extend(second_to);
            }
        }
        watched
    }
}

/// What connections go through before their first request.
fn front(settings: &Settings, metrics: Arc<Metrics>) -> Result<Front, tls::Error> {
    let types = &settings.gateway.problem_types;
    let settings = &settings.server.front;
    let ready = |tls: &server::TlsSettings| {
        let server = Arc::new(tls::Server::load(tls.certificates.clone())?);
        Ok(server::Tls { server, timeout: tls.handshake_timeout, plain: gateway::not_encrypted(types) })
    };
    let tls = settings.tls.as_ref().map(ready).transpose()?;
    Ok(Front { proxies: settings.proxies.clone(), tls, http2: settings.http2, metrics: Some(metrics) })
}

/// The servers of all upstreams, for all workers. Where an upstream's settings are the same as before, so are its
/// connections and what is known of its servers.
fn fleets(settings: &Settings, before: &[Arc<Fleet>], tasks: &TaskTracker) -> Vec<Arc<Fleet>> {
    let same = |upstream| before.iter().find(|fleet| fleet.settings() == upstream).cloned();
    // One more than workers: the house asks about doubts.
    let fresh = |upstream: &upstream::Settings| {
        Arc::new(Fleet::new(upstream.clone(), settings.server.workers + 1, Arc::new(SystemResolver), tasks.clone()))
    };
    settings.upstreams.iter().map(|upstream| same(upstream).unwrap_or_else(|| fresh(upstream))).collect()
}

fn namespaces(gateway: &gateway::Shared) -> HashMap<NamespaceTag, Namespace> {
    let mut named = by_namespace(kept(gateway.guards()).map(|Kept { route, guard, namespace, terms, second_to }| {
        let named = Namespace {
            route: route.to_owned(),
            others: Vec::new(),
            terms,
            second: second_to.is_some(),
            shadow: guard.mode == Mode::Shadow,
            response_body_limit: guard.response_body_limit,
            allow_headers: guard.allow_headers.clone(),
        };
        (namespace, named)
    }));
    for Kept { route, namespace, .. } in kept(gateway.guards()) {
        if let Some(namespace) = named.get_mut(&namespace)
            && namespace.route != route
        {
            namespace.others.push(route.to_owned());
        }
    }
    named
}

/// A namespace in which a route keeps records.
struct Kept<'a> {
    route: &'a str,
    guard: &'a gateway::Guard,
    namespace: NamespaceTag,
    terms: Terms,
    /// Where it is of second keys: the namespace of the first ones.
    second_to: Option<NamespaceTag>,
}

/// All of them: those of the routes' own keys, then those of their second ones.
fn kept<'a>(guards: impl Iterator<Item = (&'a str, &'a gateway::Guard, &'a Terms)>) -> impl Iterator<Item = Kept<'a>> {
    let (mut first, mut also) = (Vec::new(), Vec::new());
    for (route, guard, terms) in guards {
        let namespace = namespace_tag(&guard.keys.namespace);
        first.push(Kept { route, guard, namespace, terms: terms.clone(), second_to: None });
        if let Some(second) = &guard.keys.also {
            let (namespace, second_to) = (namespace_tag(&second.namespace), Some(namespace));
            also.push(Kept { route, guard, namespace, terms: terms.of_second(), second_to });
        }
    }
    first.into_iter().chain(also)
}

/// Where routes share a namespace, the first of them speaks for it.
fn by_namespace<T>(routes: impl Iterator<Item = (NamespaceTag, T)>) -> HashMap<NamespaceTag, T> {
    let mut named = HashMap::new();
    for (tag, value) in routes {
        named.entry(tag).or_insert(value);
    }
    named
}

impl Live {
    pub(super) fn new(state: State) -> Self {
        Self { state: ArcSwap::from_pointee(state), exchanged: watch::Sender::default() }
    }

    /// The configuration in force.
    pub(super) fn now(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// The same for a quick look, as each request takes one: workers do not count on one number together.
    pub(super) fn peek(&self) -> Guard<Arc<State>> {
        self.state.load()
    }

    /// Puts another in force: for every request and connection that begins from now on.
    pub(super) fn exchange(&self, state: State) {
        self.state.store(Arc::new(state));
        self.exchanged.send_replace(());
    }

    /// Whose `changed` ends with every exchange.
    pub(super) fn exchanges(&self) -> watch::Receiver<()> {
        self.exchanged.subscribe()
    }
}
