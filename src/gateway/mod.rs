//! Door 1: HTTP. One request's way is on this screen; what each step does is in the files beside it.

mod attempt;
mod body;
mod duplicate;
mod guarded;
mod limits;
mod marks;
mod options;
mod pattern;
mod plain;
mod problem;
mod read;
mod routes;
mod settings;
mod tally;
mod target;
mod upgrade;

pub use body::{Body, BoxError};
pub use pattern::{Pattern, PatternError};
pub use problem::{Problem, turned_away};
pub use routes::Routes;
pub use settings::{Guard, Limits, Mode, Network, OnDuplicate, OnInFlight, Route, Settings, StoreFailure};
pub use target::{Target, is_forwarded};

use std::sync::Arc;

use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, Response, request};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use crate::arbiter::{Arbiter, Terms};
use crate::telemetry::{Metrics, Verdict};
use crate::upstream::headers::Hop;
use crate::upstream::{Listening, Outgoing, Upstream, headers, on_interim};
use crate::wire::Client;
use crate::wire::framing::Fault;
use limits::Budget;
use tally::Tally;
use upgrade::Wish;

/// What the gateways of all workers share.
pub struct Shared {
    settings: Settings,
    routes: Routes,
    guards: Vec<Option<Guarded>>,
    /// Requests that may be on their way to an upstream.
    slots: Budget,
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
}

/// A request that has found its route.
struct Routed<'a> {
    index: usize,
    route: &'a Route,
    target: Target,
    client: &'a Arc<Client>,
    /// For as long as the client waits for the answer's head.
    listening: Listening,
}

/// An answer, and how the request counts.
type Answer = (Response<Body>, Verdict);

impl Shared {
    /// What these settings say, ready for use.
    pub fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        let routes = Routes::new(&settings.routes);
        let guards = settings.routes.iter().enumerate().map(|(index, route)| Guarded::of(index, route)).collect();
        let slots = Budget::new(settings.limits.in_flight);
        let buffers = Budget::new(settings.limits.buffered_bodies);
        Self { settings, routes, guards, slots, buffers, metrics }
    }

    /// The guarded routes: name, guard, and the terms that their attempts run under.
    pub fn guards(&self) -> impl Iterator<Item = (&str, &Guard, &Terms)> {
        let named = self.settings.routes.iter().zip(&self.guards);
        named.filter_map(|(route, guarded)| {
            guarded.as_ref().map(|guarded| (route.name.as_str(), &*guarded.guard, &guarded.terms))
        })
    }
}

impl Guarded {
    fn of(route: usize, settings: &Route) -> Option<Self> {
        let mut guard = settings.guard.clone()?;
        if guard.mode == Mode::Shadow {
            // Records of a trial must never answer for real ones.
            guard.keys.namespace.insert_str(0, "shadow/");
        }
        let guard = Arc::new(guard);
        let terms = Terms { policy: Arc::new(guard.policy.clone()), route };
        Some(Self { guard, terms })
    }
}

impl Gateway {
    /// A worker's door: the shared tables, its own way to the store, its own connections to the upstreams.
    pub fn new(shared: Arc<Shared>, arbiter: Arc<Arbiter>, upstreams: Vec<Arc<Upstream>>) -> Self {
        Self { shared, arbiter, upstreams }
    }

    /// Answers one request, and counts it once.
    pub async fn handle(&self, request: Request<Incoming>, client: &Arc<Client>) -> Response<Body> {
        let (method, version) = (request.method().clone(), request.version());
        let mut tally = Tally::new(Arc::clone(&self.shared.metrics));
        let (mut response, verdict) = match self.answer(request, client, &mut tally).await {
            Ok(answer) => answer,
            Err(problem) => {
                let mut response = problem.response(&self.shared.settings.problem_types);
                if let Some(operation) = tally.operation() {
                    marks::set_operation(response.headers_mut(), &operation);
                }
                if client.exchange.leaves_body() {
                    // What is left of the body must not be taken for the next request.
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                (response, problem.verdict())
            }
        };
        tally.answered(verdict);
        body::frame(&mut response, &method, version);
        response
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        client: &Arc<Client>,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let (mut head, body) = request.into_parts();
        if let Some(fault) = head.extensions.remove::<Fault>() {
            return Err(fault.into());
        }
        let target = Target::of(&head)?;
        let wish = Wish::of(&head, &body)?;
        if let Some(response) = options::answer(&mut head, &target)? {
            return Ok((response, Verdict::Answered));
        }
        let index = self.shared.routes.find(&head.method, &target.host, &target.path).ok_or(Problem::NoRoute)?;
        tally.routed(index);
        let route = &self.shared.settings.routes[index];
        if wish != Wish::WebSocket || !route.websocket {
            head.extensions.remove::<OnUpgrade>();
        }
        let routed = Routed { index, route, target, client, listening: Listening::default() };
        match &self.shared.guards[index] {
            None => self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Passed, tally).await,
            Some(guarded) if wish == Wish::Nothing => self.guarded(guarded, &routed, head, body, tally).await,
            Some(guarded) if guarded.guard.mode == Mode::Shadow => {
                self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Shadowed, tally).await
            }
            Some(_) => Err(Problem::BadRequest("A guarded route takes no upgrade.".to_owned())),
        }
    }

    fn upstream(&self, route: &Route) -> &Arc<Upstream> {
        &self.upstreams[route.upstream]
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
        let mut fields = headers::outbound(&head.headers, &hop);
        // HTTP/2 says it elsewhere, and an absolute-form target goes before the field.
        let authority = routed.target.authority.as_str();
        if fields.get(HOST).is_none_or(|host| host != authority)
            && let Ok(host) = HeaderValue::from_str(authority)
        {
            fields.insert(HOST, host);
        }
        let mut request = Request::from_parts(head, body);
        *request.headers_mut() = fields;
        let client = Arc::clone(routed.client);
        on_interim(&mut request, &routed.listening, move |head| client.exchange.interim(head));
        request
    }
}
