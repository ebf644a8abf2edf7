//! Every answer of the gateway's own: one exhaustive table from what happened to status, code and advice (RFC 9457).

mod detail;
mod fields;
mod from;
mod raw;

pub use raw::{not_encrypted, too_slow, turned_away};

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode, StatusCode as S};
use serde_json::json;

use Retry::{NewKey, SameKey, Stop};

use super::body::Body;
use super::{again, marks};
use crate::machine::Time;
use crate::telemetry::{Verdict, Verdict as V};

/// What the gateway answers by itself, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No route takes the request.
    NoRoute,
    /// The request is malformed, or refused by rule.
    BadRequest(String),
    /// The request's target is too long.
    TargetTooLong(&'static str),
    /// The request's head has too many bytes or fields.
    HeadersTooLarge(&'static str),
    /// The request's body has a transfer coding that is not known here.
    CodingRefused(&'static str),
    /// The request is of another version of HTTP.
    VersionRefused(&'static str),
    /// The method is not for a reverse proxy.
    MethodRefused(String),
    /// The request has been here before.
    LoopDetected,
    /// The request expects what this gateway cannot do.
    ExpectationFailed,
    /// No key.
    KeyMissing(String),
    /// A key that is none.
    KeyInvalid(String),
    /// A token that was not issued here, or not for this route and caller.
    TokenInvalid(String),
    /// A token whose time is over, of which nothing is known.
    TokenExpired,
    /// No caller.
    ScopeMissing(String),
    /// A fingerprint that the client made, and that is missing, malformed, or another request's.
    FingerprintInvalid {
        /// What is wrong.
        detail: String,
        /// The store's time, once it is known.
        now: Option<Time>,
    },
    /// The time that goes with it is missing, malformed, or too far off.
    TimeInvalid {
        /// What is wrong.
        detail: String,
        /// The time that the request states, if it is one.
        stated: Option<Time>,
        /// The store's time, once it is known.
        now: Option<Time>,
    },
    /// A token that is not to be believed.
    ScopeInvalid(String),
    /// A token that cannot be verified yet.
    ScopeUnavailable(String),
    /// A key so old that what became of it may have been forgotten, and nothing is known of it.
    KeyExpired,
    /// Nothing that this caller may know is known of the operation.
    OperationUnknown,
    /// The gateway's own path takes no such method.
    MethodNotAllowed {
        /// Those that it takes.
        allow: HeaderValue,
    },
    /// The key belongs to another request.
    KeyReused,
    /// The request's body is over the route's limit.
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The request's head did not come in time. Only a listener says this, to a client that has no request yet.
    HeaderTimeout,
    /// The request's body did not come in time.
    BodyTimeout {
        /// Whether what there is of it may have reached the upstream.
        forwarded: bool,
    },
    /// The request's body ended before it was whole.
    BodyAborted {
        /// The same.
        forwarded: bool,
    },
    /// An attempt of the operation is running.
    InFlight {
        /// The route's word for it.
        status: StatusCode,
        /// When it has probably ended.
        again: Duration,
    },
    /// The operation is done, and the route says so instead of repeating the answer.
    Duplicate {
        /// The route's word for it.
        status: StatusCode,
        /// Until when it is remembered; none when this caller may not know.
        expires: Option<Time>,
        /// Why the answer is not repeated.
        detail: &'static str,
    },
    /// The operation is done, and its answer was not kept.
    AlreadyExecuted {
        /// The original status, if it is known.
        status: Option<u16>,
        /// The original `Location`.
        location: Option<HeaderValue>,
        /// Until when it is remembered.
        expires: Time,
    },
    /// The outcome is not known.
    OutcomeUnknown {
        /// When it may be.
        again: Duration,
    },
    /// The client's deadline passed; a guarded attempt goes on.
    UpstreamTimeout {
        /// When a repetition may learn more; none where none would be recognised.
        again: Option<Duration>,
    },
    /// The upstream was not reached.
    UpstreamUnreachable {
        /// Whether no server was even tried: none is healthy, or no connection was free.
        shortage: bool,
        /// Whether the operation may have been executed all the same, by another attempt.
        in_doubt: bool,
    },
    /// The upstream broke after the request was sent.
    UpstreamFailed {
        /// The same.
        again: Option<Duration>,
    },
    /// A limit of this gateway is reached.
    Overloaded(&'static str),
    /// The store gave no answer.
    StoreUnavailable,
    /// The record is of no known form, or sealed under a key that is not there.
    RecordUnreadable,
    /// The same of the request's second key; its first one is free.
    Also {
        /// Where the second key comes from.
        source: String,
        /// What is so.
        problem: Box<Self>,
    },
}

/// A row of the table.
struct Row {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    retry: Retry,
    verdict: Verdict,
}

/// What a client should do next.
#[derive(Clone, Copy)]
enum Retry {
    SameKey,
    NewKey,
    Stop,
}

impl Retry {
    fn text(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::NewKey => "new-key",
            Self::Stop => "stop",
        }
    }
}

impl Problem {
    fn row(&self) -> Row {
        let (s400, s409, s503) = (S::BAD_REQUEST, S::CONFLICT, S::SERVICE_UNAVAILABLE);
        let row = |status, code, title, retry, verdict| Row { status, code, title, retry, verdict };
        match self {
            Self::NoRoute => row(S::NOT_FOUND, "no-route", "No route", Stop, V::NoRoute),
            Self::BadRequest(_) => row(s400, "bad-request", "Bad request", Stop, V::BadRequest),
            Self::TargetTooLong(_) => row(S::URI_TOO_LONG, "target-too-long", "Target too long", Stop, V::BadRequest),
            Self::HeadersTooLarge(_) => {
                let status = S::REQUEST_HEADER_FIELDS_TOO_LARGE;
                row(status, "headers-too-large", "Headers too large", Stop, V::BadRequest)
            }
            Self::CodingRefused(_) => row(S::NOT_IMPLEMENTED, "coding-refused", "Coding refused", Stop, V::BadRequest),
            Self::VersionRefused(_) => {
                row(S::HTTP_VERSION_NOT_SUPPORTED, "version-refused", "Version refused", Stop, V::BadRequest)
            }
            Self::MethodRefused(_) => row(S::NOT_IMPLEMENTED, "method-refused", "Method refused", Stop, V::BadRequest),
            Self::LoopDetected => row(S::LOOP_DETECTED, "loop-detected", "Loop detected", Stop, V::BadRequest),
            Self::ExpectationFailed => {
                row(S::EXPECTATION_FAILED, "expectation-failed", "Expectation failed", Stop, V::BadRequest)
            }
            Self::KeyMissing(_) => row(s400, "key-missing", "Key missing", Stop, V::KeyMissing),
            Self::KeyInvalid(_) => row(s400, "key-invalid", "Key invalid", Stop, V::KeyInvalid),
            Self::TokenInvalid(_) => row(s400, "token-invalid", "Token not issued here", NewKey, V::TokenInvalid),
            Self::TokenExpired => row(S::GONE, "token-expired", "Token expired", NewKey, V::TokenExpired),
            Self::ScopeMissing(_) => row(s400, "scope-missing", "Caller missing", Stop, V::ScopeMissing),
            Self::FingerprintInvalid { .. } => {
                row(s400, "fingerprint-invalid", "Fingerprint invalid", Stop, V::FingerprintInvalid)
            }
            Self::TimeInvalid { .. } => row(s400, "timestamp-invalid", "Timestamp invalid", Stop, V::TimestampInvalid),
            Self::ScopeInvalid(_) => row(S::UNAUTHORIZED, "scope-invalid", "Token invalid", Stop, V::ScopeInvalid),
            Self::ScopeUnavailable(_) => {
                row(s503, "scope-unavailable", "Caller unverifiable", SameKey, V::ScopeUnavailable)
            }
            Self::KeyExpired => row(S::GONE, "key-expired", "Key expired", NewKey, V::KeyExpired),
            Self::OperationUnknown => row(S::NOT_FOUND, "operation-unknown", "Operation unknown", SameKey, V::LookedUp),
            Self::MethodNotAllowed { .. } => {
                row(S::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed", Stop, V::BadRequest)
            }
            Self::KeyReused => row(S::UNPROCESSABLE_ENTITY, "key-reused", "Key reused", NewKey, V::Mismatch),
            Self::BodyTooLarge { .. } => {
                row(S::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", Stop, V::BodyTooLarge)
            }
            Self::HeaderTimeout => row(S::REQUEST_TIMEOUT, "header-timeout", "Head too slow", SameKey, V::BadRequest),
            Self::BodyTimeout { .. } => {
                row(S::REQUEST_TIMEOUT, "body-timeout", "Body too slow", SameKey, V::BodyAborted)
            }
            Self::BodyAborted { .. } => row(s400, "body-aborted", "Body incomplete", SameKey, V::BodyAborted),
            Self::InFlight { status, .. } => {
                row(*status, "request-in-flight", "Request in flight", SameKey, V::InFlight)
            }
            Self::Duplicate { status, .. } => row(*status, "duplicate-request", "Duplicate request", Stop, V::Rejected),
            Self::AlreadyExecuted { .. } => row(s409, "already-executed", "Already executed", Stop, V::AlreadyExecuted),
            Self::OutcomeUnknown { .. } => row(s409, "outcome-unknown", "Outcome unknown", SameKey, V::InDoubt),
            Self::UpstreamTimeout { .. } => {
                row(S::GATEWAY_TIMEOUT, "upstream-timeout", "Upstream timed out", SameKey, V::UpstreamTimeout)
            }
            Self::UpstreamUnreachable { shortage, .. } => {
                let status = if *shortage { s503 } else { S::BAD_GATEWAY };
                row(status, "upstream-unreachable", "Upstream unreachable", SameKey, V::UpstreamUnreachable)
            }
            Self::UpstreamFailed { .. } => {
                row(S::BAD_GATEWAY, "upstream-failed", "Upstream failed", SameKey, V::UpstreamFailed)
            }
            Self::Also { problem, .. } => problem.row(),
            Self::Overloaded(_) => row(s503, "overloaded", "Overloaded", SameKey, V::Overloaded),
            Self::StoreUnavailable => row(s503, "store-unavailable", "Store unavailable", SameKey, V::StoreUnavailable),
            Self::RecordUnreadable => row(s503, "record-unreadable", "Record unreadable", Stop, V::RecordUnreadable),
        }
    }

    /// What is so, of whichever key.
    fn bare(&self) -> &Self {
        match self {
            Self::Also { problem, .. } => problem.bare(),
            own => own,
        }
    }

    fn is_unguarded(&self) -> bool {
        matches!(
            self,
            Self::UpstreamTimeout { again: None }
                | Self::UpstreamFailed { again: None }
                | Self::BodyTimeout { forwarded: true }
                | Self::BodyAborted { forwarded: true }
        )
    }

    /// The same, said at this moment of the store's time: clients whose clocks are off can set them by it.
    #[must_use]
    pub(super) fn at(mut self, moment: Time) -> Self {
        if let Self::FingerprintInvalid { now, .. } | Self::TimeInvalid { now, .. } = &mut self {
            *now = Some(moment);
        }
        self
    }

    /// How the request counts.
    pub fn verdict(&self) -> Verdict {
        self.row().verdict
    }

    /// The answer. With a 2xx status (a route's choice for webhook senders) the body is empty: only the headers speak.
    pub fn response(&self, types: &str) -> Response<Body> {
        let (status, after) = (self.row().status, self.retry_after());
        let body = if status.is_success() { Body::empty() } else { Body::whole(self.json(types, after).into()) };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers(after);
        response
    }

    /// After how many seconds the request is worth repeating; none where waiting changes nothing.
    fn retry_after(&self) -> Option<u64> {
        let again = match self {
            Self::InFlight { again, .. } | Self::OutcomeUnknown { again } => Some(*again),
            Self::UpstreamTimeout { again } | Self::UpstreamFailed { again } => *again,
            Self::UpstreamUnreachable { .. }
            | Self::ScopeUnavailable(_)
            | Self::Overloaded(_)
            | Self::StoreUnavailable => Some(again::soon()),
            Self::Also { problem, .. } => return problem.retry_after(),
            _ => None,
        };
        again.map(again::seconds)
    }

    /// Until when the outcome is remembered, where its client may know.
    fn expires(&self) -> Option<Time> {
        match self.bare() {
            Self::Duplicate { expires, .. } => *expires,
            Self::AlreadyExecuted { expires, .. } => Some(*expires),
            _ => None,
        }
    }

    fn headers(&self, after: Option<u64>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if !self.row().status.is_success() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        }
        headers.insert(marks::SOURCE, marks::GATEWAY);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        self.add_headers(&mut headers);
        headers
    }

    fn json(&self, types: &str, after: Option<u64>) -> String {
        let Row { status, code, title, retry, .. } = self.row();
        // Without a guard the same key protects nobody.
        let retry = if self.is_unguarded() { Retry::Stop } else { retry };
        let mut problem = json!({
            "type": format!("{types}{code}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail(),
            "code": code,
            "retry": retry.text(),
        });
        if let Some(seconds) = after {
            problem["retry_after"] = json!(seconds);
        }
        if let Some(expires) = self.expires().and_then(Time::rfc3339) {
            problem["expires_at"] = json!(expires);
        }
        if let Self::AlreadyExecuted { status: Some(original), .. } = self.bare() {
            problem["original_status"] = json!(original);
        }
        if let Self::FingerprintInvalid { now: Some(now), .. } | Self::TimeInvalid { now: Some(now), .. } = self {
            problem["server_time"] = json!(now.0);
        }
        if let Self::TimeInvalid { stated: Some(stated), now: Some(now), .. } = self {
            problem["clock_offset"] = json!(i128::from(now.0) - i128::from(stated.0));
        }
        problem.to_string()
    }
}
