//! Door 3, the operators': health, metrics, records, doubts and the way out of them. Clients never come here.

mod answer;
mod backup;
mod bodies;
mod doubts;
mod keys;
mod resolve;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::arbiter::{Arbiter, Terms};
use crate::machine::NamespaceTag;
use crate::store::Opened;
use crate::telemetry::Metrics;
use crate::wire::framing::Fault;
use crate::wire::{Inbound, Step};

/// What the operators' door is told.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens; none: no door.
    pub listen: Option<SocketAddr>,
    /// The bearer token that `/api` demands. Needed when the door listens beyond loopback.
    pub token: Option<String>,
    /// What `/readyz` asks.
    pub ready: Ready,
    /// How many connections it may have.
    pub connections: usize,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("token", &token)
            .field("ready", &self.ready)
            .field("connections", &self.connections)
            .finish()
    }
}

/// What `/readyz` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Whether the store can take a reservation.
    Store,
    /// Only whether this process serves.
    Process,
}

/// A namespace of the configuration, for telling whose a record is.
#[derive(Clone)]
pub struct Namespace {
    /// The route's name.
    pub route: String,
    /// The names of further routes that share the namespace: a record does not say which of them it is from.
    pub others: Vec<String>,
    /// The route's rules.
    pub terms: Terms,
    /// Whether it holds the second of the route's two keys.
    pub second: bool,
    /// Whether the route only counts: its doubts are nobody's trouble.
    pub shadow: bool,
    /// The largest answer body that the route keeps, in bytes.
    pub response_body_limit: usize,
    /// Names that the route replays although replays drop them by default.
    pub allow_headers: Vec<HeaderName>,
}

impl Namespace {
    /// Whether records of this namespace may be from the route of this name.
    fn is_of(&self, route: &str) -> bool {
        self.route == route || self.others.iter().any(|other| other == route)
    }
}

/// What the door goes by, as one configuration has it.
pub struct Rules {
    /// The bearer token that `/api` demands.
    pub token: Option<String>,
    /// What `/readyz` asks.
    pub ready: Ready,
    /// The namespaces of the routes.
    pub namespaces: HashMap<NamespaceTag, Namespace>,
}

/// The operators' door.
pub struct Admin {
    rules: Box<dyn Fn() -> Arc<Rules> + Send + Sync>,
    arbiter: Arc<Arbiter>,
    metrics: Arc<Metrics>,
    store: Arc<Opened>,
    leaving: Step,
    /// Calls whose bodies may be read at once.
    bodies: Semaphore,
}

impl Admin {
    /// A door over the given parts. `rules` gives the rules as they are now; a gateway that is `leaving` is not ready. A
    /// quarter of its `connections` may be sending a body.
    pub fn new(
        rules: impl Fn() -> Arc<Rules> + Send + Sync + 'static,
        arbiter: Arc<Arbiter>,
        metrics: Arc<Metrics>,
        store: Arc<Opened>,
        leaving: Step,
        connections: usize,
    ) -> Self {
        let bodies = Semaphore::new(connections.div_ceil(4));
        Self { rules: Box::new(rules), arbiter, metrics, store, leaving, bodies }
    }

    /// The door's paths.
    pub fn router(self) -> Router {
        let admin = Arc::new(self);
        let api = Router::new()
            .route("/api/v1/backup", get(backup::stream))
            .route("/api/v1/keys/{id}", get(keys::show))
            .route("/api/v1/keys/{id}/resolve", post(resolve::resolve))
            .route("/api/v1/doubts", get(doubts::list))
            .layer(middleware::from_fn_with_state(Arc::clone(&admin), bodies::read))
            .layer(middleware::from_fn_with_state(Arc::clone(&admin), authorize));
        Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .merge(api)
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .with_state(admin)
    }
}

/// Who calls, for the audit log.
#[derive(Debug, Clone, Copy)]
struct Peer(IpAddr);

/// Answers one request of the operators' listener, whose body may take this long.
pub async fn handle(router: Router, request: Request<Inbound>, peer: IpAddr, body_timeout: Duration) -> Response {
    if let Some(fault) = request.extensions().get::<Fault>() {
        return problem(fault.kind.status(), "bad-request", &fault.to_string());
    }
    let mut request = request.map(|mut body| {
        body.within(body_timeout);
        Body::new(body)
    });
    request.extensions_mut().insert(Peer(peer));
    let answer: Result<Response, Infallible> = router.oneshot(request).await;
    answer.unwrap_or_else(|never| match never {})
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], admin.metrics.render())
}

async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    if admin.leaving.is_taken() {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready: the gateway is stopping\n").into_response();
    }
    if (admin.rules)().ready == Ready::Process {
        return "ready\n".into_response();
    }
    match admin.arbiter.store().probe().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {error}\n")).into_response(),
    }
}

/// Lets a call of `/api` through with the right bearer token, or without one where none is set (loopback only: the
/// configuration refuses anything else).
async fn authorize(State(admin): State<Arc<Admin>>, request: Request<Body>, next: Next) -> Response {
    let rules = (admin.rules)();
    let Some(token) = &rules.token else { return next.run(request).await };
    if bearer(request.headers()).is_some_and(|given| bool::from(given.as_bytes().ct_eq(token.as_bytes()))) {
        return next.run(request).await;
    }
    let mut refusal =
        problem(StatusCode::UNAUTHORIZED, "unauthorized", "This needs `Authorization: Bearer` with the admin token.");
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

async fn not_found() -> Response {
    problem(StatusCode::NOT_FOUND, "not-found", "There is nothing of this name here.")
}

async fn method_not_allowed() -> Response {
    problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "`Allow` lists the methods that this path takes.")
}

/// A refusal in the form of RFC 9457. What is short or slow may be there the next time: the same call is worth repeating.
fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let passes = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::REQUEST_TIMEOUT].contains(&status);
    let again = passes && code != "record-unreadable";
    let mut body = serde_json::json!({
        "type": format!("urn:oncegate:problem:{code}"),
        "title": status.canonical_reason().unwrap_or("Refused"),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
        "retry": if again { "same-key" } else { "stop" },
    });
    if again {
        body["retry_after"] = 1.into();
    }
    let mut refusal = (status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response();
    if again {
        refusal.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    refusal
}
