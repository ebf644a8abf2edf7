//! Door 1: HTTP. One request's way is on this screen; what each step does is in the files beside it.

mod attempt;
mod body;
mod cors;
mod duplicate;
mod fields;
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
pub use fields::check_fields;
pub use pattern::{Case, Pattern, PatternError};
pub use problem::{Problem, turned_away};
pub use routes::{Found, Place, Routes};
pub use settings::{
    Cors, Guard, Limits, MethodOverride, Mode, Network, OnDuplicate, OnInFlight, PathParameters, Route, Settings,
    StoreFailure, Underscores,
};
pub use target::{Target, is_forwarded};

use std::sync::Arc;

use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, Response, Version, request};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use crate::arbiter::{Arbiter, Terms};
use crate::machine::OperationId;
use crate::telemetry::{Metrics, Verdict};
use crate::upstream::headers::{Hop, Manner, Via};
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
    /// What this gateway calls itself on what it hands on.
    via: Option<Via>,
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
    /// Whether the peer's word counts: it is one of `trusted_proxies`.
    trusted: bool,
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
        let via = settings.via.as_deref().map(Via::new);
        let slots = Budget::new(settings.limits.in_flight);
        let buffers = Budget::new(settings.limits.buffered_bodies);
        Self { settings, routes, guards, via, slots, buffers, metrics }
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
        let origin = headers::origin(request.headers()).cloned();
        let answer = self.answer(request, client, &mut tally).await;
        let cors = tally.route().and_then(|route| self.shared.settings.routes[route].cors.as_ref());
        let page = cors.map(|cors| (cors, origin.as_ref()));
        let (mut response, verdict) = match answer {
            Ok((response, Verdict::Answered)) => (response, Verdict::Answered),
            Ok((response, verdict)) => (self.handed_on(response, page), verdict),
            Err(problem) => {
                let mut response = self.refusal(&problem, tally.operation(), page);
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
        let settings = &self.shared.settings;
        let place = Place::of(&target, head.uri.path())?;
        let Found { index, preflight } = self.shared.routes.find(&head, &place).ok_or(Problem::NoRoute)?;
        tally.routed(index);
        check_fields(&head, &place, &self.shared.routes, settings.underscore_headers)?;
        if self.shared.via.as_ref().is_some_and(|via| via.is_on(&head.headers)) {
            return Err(Problem::LoopDetected);
        }
        let trusted = settings.trusted_proxies.iter().any(|network| network.contains(client.peer));
        let route = &settings.routes[index];
        if wish != Wish::WebSocket || !route.websocket {
            head.extensions.remove::<OnUpgrade>();
        }
        let routed = Routed { index, route, target, client, trusted, listening: Listening::default() };
        match &self.shared.guards[index] {
            None => self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Passed, tally).await,
            Some(guarded) if wish != Wish::Nothing && guarded.guard.mode == Mode::Shadow => {
                self.pass(&routed, head, Outgoing::Streaming(body), Verdict::Shadowed, tally).await
            }
            Some(_) if wish != Wish::Nothing => {
                Err(Problem::BadRequest("A guarded route takes no upgrade.".to_owned()))
            }
            Some(guarded) if preflight => self.preflight(guarded, &routed, head, body, tally).await,
            Some(guarded) => self.guarded(guarded, &routed, head, body, tally).await,
        }
    }

    /// An answer of the upstream's, or a recorded one, as this gateway sends it.
    fn handed_on(&self, mut response: Response<Body>, page: Option<(&Cors, Option<&HeaderValue>)>) -> Response<Body> {
        let received = std::mem::replace(response.version_mut(), Version::HTTP_11);
        if let Some(via) = &self.shared.via {
            via.sign(response.headers_mut(), received);
        }
        if let Some((cors, origin)) = page {
            cors.show_marks(response.headers_mut(), origin);
        }
        response
    }

    fn refusal(
        &self,
        problem: &Problem,
        operation: Option<OperationId>,
        page: Option<(&Cors, Option<&HeaderValue>)>,
    ) -> Response<Body> {
        let mut response = problem.response(&self.shared.settings.problem_types);
        if let Some(operation) = operation {
            marks::set_operation(response.headers_mut(), &operation);
        }
        if let Some((cors, origin)) = page {
            cors.open(response.headers_mut(), origin);
        }
        response
    }

    fn upstream(&self, route: &Route) -> &Arc<Upstream> {
        &self.upstreams[route.upstream]
    }

    /// The request that goes to the upstream: target and end-to-end fields as the client sent them.
    fn outbound(&self, routed: &Routed<'_>, head: request::Parts, body: Outgoing) -> Request<Outgoing> {
        let hop = Hop {
            peer: routed.client.peer,
            trusted: routed.trusted,
            scheme: routed.client.scheme(),
            host: Some(&routed.target.authority),
            version: head.version,
        };
        let drop_underscores = self.shared.settings.underscore_headers == Underscores::Drop;
        let manner = Manner { via: self.shared.via.as_ref(), drop_underscores };
        let mut fields = headers::outbound(&head.headers, &hop, manner);
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
