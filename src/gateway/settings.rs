//! What the HTTP door is told: routes, their guards, its limits.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use super::pattern::{Case, Pattern};
use crate::wire::Network;
use crate::{jwt, keys, machine::Policy};

/// The whole door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// In order: the first match wins.
    pub routes: Vec<Route>,
    /// What may be held at once, over all workers.
    pub limits: Limits,
    /// Networks whose `X-Forwarded-*` and `Forwarded` are believed.
    pub trusted_proxies: Vec<Network>,
    /// What stands before the code in a problem's `type`.
    pub problem_types: String,
    /// What this gateway calls itself in `Via`; none: it adds none, and knows no loop.
    pub via: Option<String>,
    /// What becomes of request fields with an underscore in their name.
    pub underscore_headers: Underscores,
    /// Where clients may ask what became of their operations; none: nowhere.
    pub operations: Option<Operations>,
    /// The path where clients get tokens; none: there are none.
    pub tokens: Option<String>,
    /// How tokens are believed that say who calls; none: no scope reads any.
    pub jwt: Option<jwt::Settings>,
}

/// Where clients may ask what became of their operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations {
    /// What stands before a slash and the key.
    pub path: String,
    /// How long a question may wait for a running attempt.
    pub max_wait: Duration,
}

/// What becomes of request fields with an underscore in their name: CGI-like servers cannot tell them from those with a
/// hyphen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underscores {
    /// They stay behind.
    Drop,
    /// The request is refused.
    Refuse,
    /// They are passed on.
    Pass,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its name: a metrics label, and the default namespace.
    pub name: String,
    /// Methods it takes; empty: all.
    pub methods: Vec<Method>,
    /// The paths it takes.
    pub path: Pattern,
    /// Host names it takes, lower case, without port; empty: all.
    pub hosts: Vec<String>,
    /// Whether it takes its path in any case.
    pub case: Case,
    /// Whether it takes its path with parameters, such as `;x=1`, too.
    pub path_parameters: PathParameters,
    /// What a guarded route does about requests that ask for another method than their own.
    pub method_override: MethodOverride,
    /// Which upstream, by its place in the list of upstreams.
    pub upstream: usize,
    /// How many of its requests may be under way at once; none: as many as of all routes.
    pub concurrency: Option<usize>,
    /// Whether a request may become a WebSocket. A guard that acts takes none in any case.
    pub websocket: bool,
    /// Which pages may read what the gateway itself says; none: it says nothing to pages.
    pub cors: Option<Cors>,
    /// How duplicates are stopped; none: a plain proxied route.
    pub guard: Option<Guard>,
}

/// Whether parameters in a path count when its route is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathParameters {
    /// The path is taken with and without them.
    Ignore,
    /// They are a part of the path like any other.
    Keep,
}

/// What becomes of requests to a guarded path that ask for another method than their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodOverride {
    /// They are refused, whichever route their own method has.
    Refuse,
    /// They pass like others: the upstream does not look at this.
    Ignore,
}

/// Which pages may read what the gateway itself says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Their origins, as browsers write them.
    pub origins: Vec<String>,
    /// Whether pages of any other origin may, without credentials.
    pub any: bool,
}

/// How a route stops duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Key, scope and fingerprint.
    pub keys: keys::Settings,
    /// Lease, retention, outcomes, doubt.
    pub policy: Policy,
    /// What becomes of safe methods.
    pub safe_methods: SafeMethods,
    /// What the upstream gets as `Idempotency-Key` where the request has none.
    pub forwarded_key: ForwardedKey,
    /// What a duplicate of a completed operation gets.
    pub duplicate: OnDuplicate,
    /// The status that `reject` says.
    pub duplicate_status: StatusCode,
    /// What a duplicate of a running attempt gets.
    pub in_flight: OnInFlight,
    /// The status that a refusal during a running attempt says.
    pub in_flight_status: StatusCode,
    /// The status that a refusal says while the outcome is not known.
    pub in_doubt_status: StatusCode,
    /// How long a duplicate waits for a running attempt.
    pub patience: Duration,
    /// What happens while the store cannot be asked.
    pub store_failure: StoreFailure,
    /// Whether the guard acts or only counts.
    pub mode: Mode,
    /// The largest request body, in bytes.
    pub request_body_limit: usize,
    /// The largest answer body kept for replay, in bytes.
    pub response_body_limit: usize,
    /// Names to replay although replays drop them by default.
    pub allow_headers: Vec<HeaderName>,
    /// Whether the upstream's own word on an operation counts.
    pub outcome_headers: OutcomeHeaders,
    /// When the upstream is asked about operations in doubt; none: it is not.
    pub probing: Option<Probing>,
    /// The second key by which the route stops duplicates; none: it has one.
    pub also: Option<Also>,
}

/// What a route does about duplicates by its second key. What the key is made of stands in [`keys::Settings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Also {
    /// The route's rules, with those of the second key's own.
    pub policy: Policy,
    /// What a duplicate of a completed operation gets.
    pub duplicate: OnDuplicate,
    /// The status that `reject` says.
    pub duplicate_status: StatusCode,
}

impl Guard {
    /// The guard as it acts.
    #[must_use]
    pub fn acting(mut self) -> Self {
        if self.mode == Mode::Shadow {
            // Records of a trial must never answer for real ones.
            self.keys.namespace.insert_str(0, "shadow/");
            // Nor does a trial ask for anything that no client asked for.
            (self.keys.probe, self.probing) = (None, None);
            if let Some(also) = &mut self.keys.also {
                also.namespace.insert_str(0, "shadow/");
            }
        }
        self
    }
}

/// What becomes of safe methods (RFC 9110, section 9.2.1) on a guarded route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeMethods {
    /// They pass without guard.
    Pass,
    /// They are guarded like any other.
    Guard,
    /// Reads that come at the same time share one answer. None is refused: one that can have no share passes.
    Collapse,
}

/// When an upstream is asked about an operation in doubt. What is asked stands in [`keys::Settings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probing {
    /// Counted from the doubt's beginning, growing.
    pub schedule: Vec<Duration>,
    /// The least time between two probes of one operation that duplicates cause.
    pub interval: Duration,
    /// How long a probe may take.
    pub timeout: Duration,
}

/// Whether the upstream's own word on an operation (`Oncegate-Outcome`, `-Store`, `-TTL` on its answer) counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeHeaders {
    /// It does not.
    Ignore,
    /// It goes before the outcome table and the route's retention.
    Trust,
}

/// What the upstream gets as `Idempotency-Key` where the request has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedKey {
    /// A name of the operation: the same in every window, and for every attempt.
    Operation,
    /// One of the claim too: another one in every window, for upstreams that remember keys for longer than this route.
    Window,
}

/// What a duplicate of a completed operation gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The recorded answer.
    Replay,
    /// A refusal.
    Reject,
}

/// What a duplicate of a running attempt gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInFlight {
    /// A refusal at once.
    Reject,
    /// The attempt's answer, if it comes within `patience`.
    Wait,
}

/// What happens while the store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFailure {
    /// 503.
    Closed,
    /// Requests pass unguarded, counted and marked.
    Open,
    /// Requests that this gateway, the only one, has surely not seen run once and are recorded later; others get 503.
    OpenIfUnseen,
}

/// Whether a guard acts or only counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It acts.
    Enforce,
    /// It keeps records and counts, adds no header, refuses nothing.
    Shadow,
}

/// What may be held at once, over all workers of this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests on their way to an upstream.
    pub in_flight: usize,
    /// Bytes of buffered request and response bodies.
    pub buffered_bodies: usize,
    /// How long a guarded request's body may take, in full.
    pub body_timeout: Duration,
    /// How long the body of a request on a plain route may take, in full.
    pub upload_timeout: Duration,
    /// How long a WebSocket may be silent in both directions.
    pub websocket_idle_timeout: Duration,
}
