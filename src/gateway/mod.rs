//! Door 1: HTTP. One request's way is on this screen; what each step does is in the files beside it.

mod again;
mod aside;
mod asker;
mod attempt;
mod attended;
mod body;
mod caller;
mod cors;
mod duplicate;
mod entry;
mod exchange;
mod fields;
mod guarded;
mod guards;
mod limits;
mod marks;
mod operations;
mod options;
mod outbound;
mod pattern;
mod plain;
mod probe;
mod problem;
mod queue;
mod read;
mod reads;
mod routes;
mod settings;
mod tally;
mod target;
mod tokens;
mod upgrade;
mod word;

pub use body::{Body, BoxError};
pub use fields::check_fields;
pub use pattern::{Case, Pattern, PatternError};
pub use problem::{Problem, not_encrypted, too_slow, turned_away};
pub use routes::{Found, Place, Routes};
pub use settings::{
    Also, Cors, ForwardedKey, Guard, Limits, MethodOverride, Mode, OnDuplicate, OnInFlight, Operations, OutcomeHeaders,
    PathParameters, Probing, Route, SafeMethods, Settings, StoreFailure, Underscores,
};
pub use target::{Target, is_forwarded};

use std::collections::HashMap;
use std::sync::Arc;

use http::header::{CONNECTION, VIA};
use http::{HeaderValue, Request, Response, Version, request};
use tokio_util::task::TaskTracker;

use crate::arbiter::{Arbiter, Terms};
use crate::boxed::in_box;
use crate::jwt::{Ring, Verifier};
use crate::machine::{NamespaceTag, OperationId};
use crate::telemetry::access::{AccessLog, Pen};
use crate::telemetry::{Metrics, RouteMetrics, UpstreamMetrics, Verdict};
use crate::upstream::headers::{Kinds, Via};
use crate::upstream::{Fleet, Outgoing, Upstream, headers};
use crate::wire::framing::Fault;
use crate::wire::{Alarms, Client, Inbound, OnUpgrade};
use body::takes_lines;
use entry::Entry;
use guards::{Guarded, guards, probed};
use limits::{Budget, Slots};
use operations::Question;
use tally::Tally;
use upgrade::Wish;

/// What the gateways of all workers share, as one configuration has it.
pub struct Shared {
    settings: Settings,
    fleets: Vec<Arc<Fleet>>,
    upstream_metrics: Vec<Arc<UpstreamMetrics>>,
    routes: Routes,
    guards: Vec<Option<Guarded>>,
    /// The route by whose guard a namespace's doubts are asked about.
    probed: HashMap<NamespaceTag, usize>,
    route_metrics: Vec<Arc<RouteMetrics>>,
    /// What this gateway calls itself on what it hands on.
    via: Option<Via>,
    /// Requests that may be on their way to an upstream.
    slots: Slots,
    /// Bytes of bodies that may be buffered.
    buffers: Budget,
    /// Who believes the tokens that say who calls; none: no scope reads any.
    jwt: Option<Verifier>,
    metrics: Arc<Metrics>,
    /// Where every answer gets a line; none: nowhere.
    log: Option<Arc<AccessLog>>,
}

/// One worker's HTTP door. What its requests count their references to is the worker's own, also where it is the same for
/// all: cores that count on one number together wait for each other.
pub struct Gateway {
    shared: Arc<Shared>,
    arbiter: Arc<Arbiter>,
    guards: Vec<Option<Guarded>>,
    upstreams: Vec<Arc<Upstream>>,
    /// Its shares of what all workers may hold at once.
    slots: Budget,
    buffers: Budget,
    /// Attempts that somebody here waits for, and those that go on by themselves.
    attempts: TaskTracker,
    worker: usize,
    /// What it writes lines of the access log with.
    pen: Option<Arc<Pen>>,
    alarms: Alarms,
}

/// A request that has found its route.
struct Routed<'a> {
    /// The route's place in the configuration.
    index: usize,
    route: &'a Route,
    metrics: &'a Arc<RouteMetrics>,
    target: Target,
    client: &'a Arc<Client>,
    /// Whether the peer's word counts: it is one of `trusted_proxies`.
    trusted: bool,
    /// Of what kinds its fields are.
    kinds: Kinds,
    /// The parameters of its path that the route's scope asks for.
    parameters: Vec<(String, String)>,
    /// Its line in the access log.
    entry: Option<Arc<Entry>>,
}

/// How a route treats pages of other origins, and the origin that a request came from.
type Page<'a> = Option<(&'a Cors, Option<&'a HeaderValue>)>;

/// An answer, and how the request counts.
type Answer = (Response<Body>, Verdict);

impl Shared {
    /// What these settings say, ready for use.
    pub fn new(settings: Settings, fleets: Vec<Arc<Fleet>>, metrics: Arc<Metrics>) -> Self {
        let slots = Slots::new(settings.limits.in_flight, concurrency(&settings.routes));
        let buffers = Budget::new(settings.limits.buffered_bodies);
        let via = settings.via.as_deref().map(Via::new);
        Self::over(settings, fleets, metrics, via, slots, buffers)
    }

    /// What takes this one's place. Requests under way go on under the old settings, and count for the new limits.
    #[must_use]
    pub fn succeeded_by(&self, settings: Settings, fleets: Vec<Arc<Fleet>>) -> Self {
        let slots = self.slots.succeeded_by(settings.limits.in_flight, concurrency(&settings.routes));
        let buffers = self.buffers.clone();
        buffers.resize(settings.limits.buffered_bodies);
        // The same process keeps its name: what has been here before the exchange comes round after it.
        let via =
            if settings.via == self.settings.via { self.via.clone() } else { settings.via.as_deref().map(Via::new) };
        let jwt = self.jwt.as_ref().zip(settings.jwt.as_ref()).map(|(own, next)| own.succeeded_by(next.clone()));
        let next = Self::over(settings, fleets, Arc::clone(&self.metrics), via, slots, buffers);
        Self { jwt: jwt.or(next.jwt), ..next }
    }

    fn over(
        settings: Settings,
        fleets: Vec<Arc<Fleet>>,
        metrics: Arc<Metrics>,
        via: Option<Via>,
        slots: Slots,
        buffers: Budget,
    ) -> Self {
        let routes = Routes::new(&settings.routes);
        let route_metrics: Vec<_> = settings.routes.iter().map(|route| metrics.route(&route.name)).collect();
        let guards = guards(&settings.routes, &route_metrics);
        let probed = probed(&guards);
        let upstream_metrics = fleets.iter().map(|fleet| metrics.upstream(&fleet.settings().name)).collect();
        let jwt = settings.jwt.clone().map(|settings| Verifier::new(settings, Arc::clone(&metrics)));
        Self {
            settings,
            fleets,
            upstream_metrics,
            routes,
            guards,
            probed,
            route_metrics,
            via,
            slots,
            buffers,
            jwt,
            metrics,
            log: None,
        }
    }

    /// The same, with a line in this log for every answer.
    #[must_use]
    pub fn logged(self, log: Option<Arc<AccessLog>>) -> Self {
        Self { log, ..self }
    }

    /// What all is counted in.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The public keys that tokens are verified with, where there are such.
    pub fn ring(&self) -> Option<&Ring> {
        self.jwt.as_ref()?.ring()
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
            guarded.as_ref().map(|guarded| (route.name.as_str(), &*guarded.guard, &*guarded.terms))
        })
    }
}

/// Whether the gateway itself has answered, and nobody has read the request's body.
fn is_own(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Answered | Verdict::LookedUp | Verdict::TokenIssued)
}

/// How many requests may be under way on each route, by its name.
fn concurrency(routes: &[Route]) -> impl Iterator<Item = (&str, Option<usize>)> {
    routes.iter().map(|route| (route.name.as_str(), route.concurrency))
}

impl Gateway {
    /// A worker's door: the shared tables, its own way to the store, its own connections to the upstreams.
    pub fn new(shared: Arc<Shared>, arbiter: Arc<Arbiter>, worker: usize) -> Self {
        let guards = guards(&shared.settings.routes, &shared.route_metrics);
        let upstreams = shared.fleets.iter().map(|fleet| Arc::new(Upstream::of(fleet, worker))).collect();
        let pen = shared.log.as_ref().and_then(|log| log.pen(worker));
        let (slots, buffers) = (shared.slots.share(), shared.buffers.share());
        let (attempts, alarms) = (TaskTracker::new(), Alarms::default());
        Self { shared, arbiter, guards, upstreams, slots, buffers, attempts, worker, pen, alarms }
    }

    /// The worker's door under a new configuration.
    #[must_use]
    pub fn succeeded_by(&self, shared: Arc<Shared>) -> Self {
        let (attempts, alarms) = (self.attempts.clone(), self.alarms);
        Self { attempts, alarms, ..Self::new(shared, Arc::clone(&self.arbiter), self.worker) }
    }

    /// The attempts of this worker's: a stop waits for them.
    pub fn attempts(&self) -> &TaskTracker {
        &self.attempts
    }

    /// Whether this door stands on that configuration.
    pub fn is_over(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Answers one request, and counts it once.
    ///
    /// No `async fn`, which would have the request twice.
    pub fn handle(
        self: Arc<Self>,
        request: Request<Inbound>,
        client: Arc<Client>,
    ) -> impl Future<Output = Response<Body>> + Send {
        let (method, version) = (request.method().clone(), request.version());
        let kinds = Kinds::of(request.headers());
        let entry = self.pen.is_some().then(|| Entry::of(&request, kinds, &client, &self));
        let mut tally = Tally::new(&self, entry);
        let origin = headers::origin(request.headers(), kinds).cloned();
        let (mut head, body) = request.into_parts();
        async move {
            let answer = self.answer(&mut head, body, kinds, &client, &mut tally).await;
            let (mut response, verdict) = self.said(answer, &client, version, &tally, origin.as_ref());
            let line = tally.answered(verdict, response.status());
            body::frame(&mut response, &method, version);
            if let Some(line) = line {
                response.body_mut().closes(line);
            }
            response
        }
    }

    /// The answer as it goes out, and how its request counts.
    fn said(
        &self,
        answer: Result<Answer, Problem>,
        client: &Client,
        version: Version,
        tally: &Tally,
        origin: Option<&HeaderValue>,
    ) -> Answer {
        let cors = tally.place().and_then(|route| self.shared.settings.routes[route].cors.as_ref());
        let page = cors.map(|cors| (cors, origin));
        let own = answer.as_ref().map_or(true, |(_, verdict)| is_own(*verdict));
        let (mut response, verdict) = match answer {
            Err(problem) => (self.refusal(&problem, tally.operation(), page, version), problem.verdict()),
            Ok(answer) => answer,
        };
        if !own {
            self.hand_on(&mut response, page);
        } else if client.exchange.leaves_body() {
            // What is left of the body must not be taken for the next request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        (response, verdict)
    }

    /// What few requests need is boxed, and so is each way a request may take: the future of a request would take room for
    /// all of them at once.
    async fn answer(
        self: &Arc<Self>,
        head: &mut request::Parts,
        body: Inbound,
        kinds: Kinds,
        client: &Arc<Client>,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        if let Some(fault) = head.extensions.remove::<Fault>() {
            return Err(fault.into());
        }
        let target = Target::of(head, kinds)?;
        let wish = Wish::of(head, kinds, &body)?;
        if let Some(response) = options::answer(head, &target)? {
            return Ok((response, Verdict::Answered));
        }
        let settings = &self.shared.settings;
        let trusted = settings.trusted_proxies.iter().any(|network| network.contains(client.peer));
        let asked = |operations| Question::of(operations, head, &target, client, trusted);
        if let Some(question) = settings.operations.as_ref().and_then(asked) {
            return in_box(|| self.tell_operation(question, tally)).await;
        }
        if self.issues_at(head.uri.path()) {
            let wish = tokens::Wish { head, target: &target, client, trusted };
            return in_box(|| self.issue_token(wish, tally)).await;
        }
        let place = Place::of(&target, head.uri.path())?;
        let Found { index, preflight } = self.shared.routes.find(head, &place).ok_or(Problem::NoRoute)?;
        let metrics = &self.shared.route_metrics[index];
        tally.routed(index);
        check_fields(head, kinds, &place, &self.shared.routes, settings.underscore_headers)?;
        if kinds.any(Kinds::VIA) && self.shared.via.as_ref().is_some_and(|via| via.is_on(&head.headers)) {
            return Err(Problem::LoopDetected);
        }
        let route = &settings.routes[index];
        if wish != Wish::WebSocket || !route.websocket {
            head.extensions.remove::<OnUpgrade>();
        }
        let parameters = place.parameters(route);
        let entry = tally.entry().cloned();
        let routed = Routed { index, route, metrics, target, client, trusted, kinds, parameters, entry };
        match self.guards[index].as_ref().filter(|guarded| preflight || guarded.guard.takes(head)) {
            None => in_box(|| self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Passed, tally)).await,
            Some(guarded) if wish != Wish::Nothing && guarded.guard.mode == Mode::Shadow => {
                in_box(|| self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Shadowed, tally)).await
            }
            Some(_) if wish != Wish::Nothing => {
                Err(Problem::BadRequest("A guarded route takes no upgrade.".to_owned()))
            }
            Some(guarded) if preflight => in_box(|| self.preflight(guarded, &routed, head, body, tally)).await,
            Some(guarded) => in_box(|| self.guarded(guarded, &routed, head, body, tally)).await,
        }
    }

    /// An answer of the upstream's, or a recorded one, becomes one of this gateway's.
    fn hand_on(&self, response: &mut Response<Body>, page: Page<'_>) {
        let received = std::mem::replace(response.version_mut(), Version::HTTP_11);
        if let Some(via) = &self.shared.via {
            match response.body_mut().lines() {
                Some(lines) => lines.put(&VIA, via.line(received)),
                None => via.sign(response.headers_mut(), received),
            }
        }
        if let Some((cors, origin)) = page {
            cors.show_marks(response.headers_mut(), origin);
        }
    }

    #[cold]
    fn refusal(&self, problem: &Problem, named: Option<OperationId>, page: Page<'_>, to: Version) -> Response<Body> {
        let clock = &self.arbiter.shared().clock;
        let now = clock.is_calibrated().then(|| clock.now_lately());
        let mut response =
            problem.response(&self.shared.settings.problem_types, now, page.is_none() && takes_lines(to));
        if let Some(operation) = named {
            marks::say(&mut response, |fields| marks::set_operation(fields, &operation));
        }
        if let Some((cors, origin)) = page {
            cors.open(response.headers_mut(), origin);
        }
        response
    }
}
