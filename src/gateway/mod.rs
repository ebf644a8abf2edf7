//! Door 1: HTTP. One request's way is on this screen; what each step does is in the files beside it.

mod attempt;
mod body;
mod duplicate;
mod guarded;
mod limits;
mod marks;
mod pattern;
mod plain;
mod problem;
mod read;
mod routes;
mod settings;
mod tally;
mod target;

pub use body::{Body, BoxError};
pub use pattern::{Pattern, PatternError};
pub use problem::{Problem, not_encrypted, too_slow, turned_away};
pub use routes::Routes;
pub use settings::{Guard, Limits, Mode, OnDuplicate, OnInFlight, Route, Settings, StoreFailure};
pub use target::{Target, is_forwarded};

use std::sync::Arc;

use http::{Request, Response, request};

use crate::arbiter::{Arbiter, Terms};
use crate::telemetry::{Metrics, RouteMetrics, UpstreamMetrics, Verdict};
use crate::upstream::headers::Hop;
use crate::upstream::{Fleet, Outgoing, Upstream, headers};
use crate::wire::{Client, Inbound};
use limits::{Budget, Slots};
use tally::Tally;

/// What the gateways of all workers share, as one configuration has it.
pub struct Shared {
    settings: Settings,
    fleets: Vec<Arc<Fleet>>,
    upstream_metrics: Vec<Arc<UpstreamMetrics>>,
    routes: Routes,
    guards: Vec<Option<Guarded>>,
    route_metrics: Vec<Arc<RouteMetrics>>,
    /// Requests that may be on their way to an upstream.
    slots: Slots,
    /// Bytes of bodies that may be buffered.
    buffers: Budget,
    metrics: Arc<Metrics>,
}

/// A route's guard, ready for use.
struct Guarded {
    guard: Arc<Guard>,
    terms: Terms,
}

/// One worker's HTTP door.
pub struct Gateway {
    shared: Arc<Shared>,
    arbiter: Arc<Arbiter>,
    upstreams: Vec<Arc<Upstream>>,
    worker: usize,
}

/// A request that has found its route.
struct Routed<'a> {
    /// The route's place in the configuration.
    index: usize,
    route: &'a Route,
    metrics: &'a Arc<RouteMetrics>,
    target: Target,
    client: &'a Client,
}

/// An answer, and how the request counts.
type Answer = (Response<Body>, Verdict);

impl Shared {
    /// What these settings say, ready for use.
    pub fn new(settings: Settings, fleets: Vec<Arc<Fleet>>, metrics: Arc<Metrics>) -> Self {
        let slots = Slots::new(settings.limits.in_flight, concurrency(&settings.routes));
        let buffers = Budget::new(settings.limits.buffered_bodies);
        Self::over(settings, fleets, metrics, slots, buffers)
    }

    /// What takes this one's place. Requests under way go on under the old settings, and count for the new limits.
    #[must_use]
    pub fn succeeded_by(&self, settings: Settings, fleets: Vec<Arc<Fleet>>) -> Self {
        let slots = self.slots.succeeded_by(settings.limits.in_flight, concurrency(&settings.routes));
        let buffers = self.buffers.clone();
        buffers.resize(settings.limits.buffered_bodies);
        Self::over(settings, fleets, Arc::clone(&self.metrics), slots, buffers)
    }

    fn over(settings: Settings, fleets: Vec<Arc<Fleet>>, metrics: Arc<Metrics>, slots: Slots, buffers: Budget) -> Self {
        let routes = Routes::new(&settings.routes);
        let route_metrics: Vec<_> = settings.routes.iter().map(|route| metrics.route(&route.name)).collect();
        let guards = settings.routes.iter().zip(&route_metrics).map(|(route, own)| Guarded::of(route, own)).collect();
        let upstream_metrics = fleets.iter().map(|fleet| metrics.upstream(&fleet.settings().name)).collect();
        Self { settings, fleets, upstream_metrics, routes, guards, route_metrics, slots, buffers, metrics }
    }

    /// What all is counted in.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The servers of each upstream.
    pub fn fleets(&self) -> &[Arc<Fleet>] {
        &self.fleets
    }

    /// The same, with what they are counted in.
    pub fn counted_fleets(&self) -> impl Iterator<Item = (&Fleet, &UpstreamMetrics)> {
        self.fleets.iter().zip(&self.upstream_metrics).map(|(fleet, metrics)| (&**fleet, &**metrics))
    }

    /// The guarded routes: name, guard, and the terms that their attempts run under.
    pub fn guards(&self) -> impl Iterator<Item = (&str, &Guard, &Terms)> {
        let named = self.settings.routes.iter().zip(&self.guards);
        named.filter_map(|(route, guarded)| {
            guarded.as_ref().map(|guarded| (route.name.as_str(), &*guarded.guard, &guarded.terms))
        })
    }
}

/// How many requests may be under way on each route, by its name.
fn concurrency(routes: &[Route]) -> impl Iterator<Item = (&str, Option<usize>)> {
    routes.iter().map(|route| (route.name.as_str(), route.concurrency))
}

impl Guarded {
    fn of(route: &Route, metrics: &Arc<RouteMetrics>) -> Option<Self> {
        let mut guard = route.guard.clone()?;
        if guard.mode == Mode::Shadow {
            // Records of a trial must never answer for real ones.
            guard.keys.namespace.insert_str(0, "shadow/");
        }
        let guard = Arc::new(guard);
        let terms = Terms { policy: Arc::new(guard.policy.clone()), route: Arc::clone(metrics) };
        Some(Self { guard, terms })
    }
}

impl Gateway {
    /// A worker's door: the shared tables, its own way to the store, its own connections to the upstreams.
    pub fn new(shared: Arc<Shared>, arbiter: Arc<Arbiter>, worker: usize) -> Self {
        let upstreams = shared.fleets.iter().map(|fleet| Arc::new(Upstream::of(fleet, worker))).collect();
        Self { shared, arbiter, upstreams, worker }
    }

    /// The worker's door under a new configuration.
    #[must_use]
    pub fn succeeded_by(&self, shared: Arc<Shared>) -> Self {
        Self::new(shared, Arc::clone(&self.arbiter), self.worker)
    }

    /// Whether this door stands on that configuration.
    pub fn is_over(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Answers one request, and counts it once.
    pub async fn handle(&self, request: Request<Inbound>, client: &Client) -> Response<Body> {
        let mut tally = Tally::new(self.shared.metrics.no_route());
        let (response, verdict) = match self.answer(request, client, &mut tally).await {
            Ok(answer) => answer,
            Err(problem) => {
                let mut response = problem.response(&self.shared.settings.problem_types);
                if let Some(operation) = tally.operation() {
                    marks::set_operation(response.headers_mut(), &operation);
                }
                (response, problem.verdict())
            }
        };
        tally.answered(verdict);
        response
    }

    async fn answer(&self, request: Request<Inbound>, client: &Client, tally: &mut Tally) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let target = Target::of(&head)?;
        let index = self.shared.routes.find(&head.method, &target.host, &target.path).ok_or(Problem::NoRoute)?;
        let metrics = &self.shared.route_metrics[index];
        tally.routed(metrics);
        let routed = Routed { index, route: &self.shared.settings.routes[index], metrics, target, client };
        match &self.shared.guards[index] {
            None => self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Passed, tally).await,
            Some(guarded) => self.guarded(guarded, &routed, head, body, tally).await,
        }
    }

    fn upstream(&self, route: &Route) -> (&Arc<Upstream>, &Arc<UpstreamMetrics>) {
        (&self.upstreams[route.upstream], &self.shared.upstream_metrics[route.upstream])
    }

    /// The request that goes to the upstream: target and end-to-end fields as the client sent them.
    fn outbound(&self, routed: &Routed<'_>, head: request::Parts, body: Outgoing) -> Request<Outgoing> {
        let trusted = self.shared.settings.trusted_proxies.iter().any(|network| network.contains(routed.client.peer));
        let hop = Hop {
            peer: routed.client.peer,
            trusted,
            scheme: routed.client.scheme(),
            host: Some(&routed.target.authority),
        };
        let fields = headers::outbound(&head.headers, &hop);
        let mut request = Request::from_parts(head, body);
        *request.headers_mut() = fields;
        request
    }
}
