//! What the configuration says, ready for use, and the one place where it is exchanged while the gateway runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use crate::admin::{Namespace, Rules};
use crate::arbiter::Watched;
use crate::config::Settings;
use crate::gateway::{self, Mode};
use crate::keys::namespace_tag;
use crate::machine::NamespaceTag;
use crate::server::{Closing, Connections, Doorway};
use crate::telemetry::Metrics;

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
}

/// The configuration that is in force.
pub(super) struct Live {
    state: ArcSwap<State>,
    exchanged: watch::Sender<()>,
}

impl State {
    /// The first one.
    pub(super) fn new(settings: Settings, metrics: Arc<Metrics>, closing: Closing) -> Self {
        let gateway = gateway::Shared::new(settings.gateway.clone(), settings.upstreams.clone(), metrics);
        Self::over(settings, gateway, Connections::default(), closing)
    }

    /// The next one: what is counted and held under this one counts under it too.
    pub(super) fn succeeded_by(&self, settings: Settings) -> Self {
        let gateway = self.gateway.succeeded_by(settings.gateway.clone(), settings.upstreams.clone());
        Self::over(settings, gateway, self.doorway.connections.clone(), self.doorway.closing.clone())
    }

    fn over(settings: Settings, gateway: gateway::Shared, connections: Connections, closing: Closing) -> Self {
        let doorway = Doorway {
            connections,
            most: settings.gateway.limits.connections,
            header_timeout: settings.gateway.limits.header_timeout,
            turned_away: gateway::turned_away(&settings.gateway.problem_types),
            // Where a stop has little time, what is under way needs it more.
            linger: LINGER.min(settings.server.drain.timeout / 2),
            closing,
        };
        let rules = Rules {
            token: settings.admin.token.clone(),
            ready: settings.admin.ready,
            namespaces: namespaces(&gateway),
        };
        Self { settings, gateway: Arc::new(gateway), doorway: Arc::new(doorway), rules: Arc::new(rules) }
    }

    /// What sweeps look after. A shadow route refuses nobody: its doubts are nobody's trouble, and would only raise
    /// alarms.
    pub(super) fn watched(&self) -> HashMap<NamespaceTag, Watched> {
        let enforced = self.gateway.guards().filter(|(_, guard, _)| guard.mode == Mode::Enforce);
        by_namespace(enforced.map(|(_, guard, terms)| {
            let watched = Watched { route: Arc::clone(&terms.route), doubt_retention: terms.policy.doubt_retention };
            (namespace_tag(&guard.keys.namespace), watched)
        }))
    }
}

fn namespaces(gateway: &gateway::Shared) -> HashMap<NamespaceTag, Namespace> {
    by_namespace(gateway.guards().map(|(route, guard, terms)| {
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
