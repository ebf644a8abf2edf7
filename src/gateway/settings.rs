//! What the HTTP door is told: routes, their guards, its limits.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use super::pattern::{Case, Pattern};
use crate::{keys, machine::Policy};

/// The whole door.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
pub struct Guard {
    /// Key, scope and fingerprint.
    pub keys: keys::Settings,
    /// Lease, retention, outcomes, doubt.
    pub policy: Policy,
    /// What a duplicate of a completed operation gets.
    pub duplicate: OnDuplicate,
    /// The status that `reject` says.
    pub duplicate_status: StatusCode,
    /// What a duplicate of a running attempt gets.
    pub in_flight: OnInFlight,
    /// The status that a refusal during a running attempt says.
    pub in_flight_status: StatusCode,
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
    /// Client connections.
    pub connections: usize,
    /// Requests on their way to an upstream.
    pub in_flight: usize,
    /// Duplicates that wait for a running attempt.
    pub waiters: usize,
    /// Bytes of buffered request and response bodies.
    pub buffered_bodies: usize,
    /// How long a request's head may take, in full; also the idle limit of a kept-alive connection.
    pub header_timeout: Duration,
    /// How long a guarded request's body may take, in full.
    pub body_timeout: Duration,
    /// How long a WebSocket may be silent in both directions.
    pub websocket_idle_timeout: Duration,
}

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: std::net::IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `::1/128`, or a lone address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: std::net::IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(most), |digits| digits.parse().ok())?;
        (prefix <= most).then_some(Self { address, prefix })
    }

    /// Whether `peer` is inside.
    pub fn contains(&self, peer: std::net::IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (std::net::IpAddr::V4(net), std::net::IpAddr::V4(peer)) => {
                let shift = 32 - u32::from(self.prefix);
                u32::from(net).checked_shr(shift).unwrap_or(0) == u32::from(peer).checked_shr(shift).unwrap_or(0)
            }
            (std::net::IpAddr::V6(net), std::net::IpAddr::V6(peer)) => {
                let shift = 128 - u32::from(self.prefix);
                u128::from(net).checked_shr(shift).unwrap_or(0) == u128::from(peer).checked_shr(shift).unwrap_or(0)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
