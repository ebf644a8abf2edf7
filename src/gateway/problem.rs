//! Every answer of the gateway's own: one exhaustive table from what happened to status, code and advice (RFC 9457).

mod from;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::json;

use super::body::Body;
use super::marks;
use crate::machine::Time;
use crate::telemetry::Verdict;

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
    /// No caller.
    ScopeMissing(String),
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
    InFlight(StatusCode),
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
    OutcomeUnknown,
    /// The client's deadline passed; a guarded attempt goes on.
    UpstreamTimeout {
        /// Whether a repetition would be recognised.
        guarded: bool,
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
        /// Whether a repetition would be recognised.
        guarded: bool,
    },
    /// A limit of this gateway is reached.
    Overloaded(&'static str),
    /// The store gave no answer.
    StoreUnavailable,
    /// The record is of no known form, or sealed under a key that is not there.
    RecordUnreadable,
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
        use Retry::{NewKey, SameKey, Stop};
        use StatusCode as S;
        use Verdict as V;
        let row = |status, code, title, retry, verdict| Row { status, code, title, retry, verdict };
        match self {
            Self::NoRoute => row(S::NOT_FOUND, "no-route", "No route", Stop, V::NoRoute),
            Self::BadRequest(_) => row(S::BAD_REQUEST, "bad-request", "Bad request", Stop, V::BadRequest),
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
            Self::KeyMissing(_) => row(S::BAD_REQUEST, "key-missing", "Key missing", Stop, V::KeyMissing),
            Self::KeyInvalid(_) => row(S::BAD_REQUEST, "key-invalid", "Key invalid", Stop, V::KeyInvalid),
            Self::ScopeMissing(_) => row(S::BAD_REQUEST, "scope-missing", "Caller missing", Stop, V::ScopeMissing),
            Self::KeyReused => row(S::UNPROCESSABLE_ENTITY, "key-reused", "Key reused", NewKey, V::Mismatch),
            Self::BodyTooLarge { .. } => {
                row(S::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", Stop, V::BodyTooLarge)
            }
            Self::HeaderTimeout => row(S::REQUEST_TIMEOUT, "header-timeout", "Head too slow", SameKey, V::BadRequest),
            Self::BodyTimeout { .. } => {
                row(S::REQUEST_TIMEOUT, "body-timeout", "Body too slow", SameKey, V::BodyAborted)
            }
            Self::BodyAborted { .. } => row(S::BAD_REQUEST, "body-aborted", "Body incomplete", SameKey, V::BodyAborted),
            Self::InFlight(status) => row(*status, "request-in-flight", "Request in flight", SameKey, V::InFlight),
            Self::Duplicate { status, .. } => row(*status, "duplicate-request", "Duplicate request", Stop, V::Rejected),
            Self::AlreadyExecuted { .. } => {
                row(S::CONFLICT, "already-executed", "Already executed", Stop, V::AlreadyExecuted)
            }
            Self::OutcomeUnknown => row(S::CONFLICT, "outcome-unknown", "Outcome unknown", SameKey, V::InDoubt),
            Self::UpstreamTimeout { .. } => {
                row(S::GATEWAY_TIMEOUT, "upstream-timeout", "Upstream timed out", SameKey, V::UpstreamTimeout)
            }
            Self::UpstreamUnreachable { shortage, .. } => {
                let status = if *shortage { S::SERVICE_UNAVAILABLE } else { S::BAD_GATEWAY };
                row(status, "upstream-unreachable", "Upstream unreachable", SameKey, V::UpstreamUnreachable)
            }
            Self::UpstreamFailed { .. } => {
                row(S::BAD_GATEWAY, "upstream-failed", "Upstream failed", SameKey, V::UpstreamFailed)
            }
            Self::Overloaded(_) => row(S::SERVICE_UNAVAILABLE, "overloaded", "Overloaded", SameKey, V::Overloaded),
            Self::StoreUnavailable => {
                row(S::SERVICE_UNAVAILABLE, "store-unavailable", "Store unavailable", SameKey, V::StoreUnavailable)
            }
            Self::RecordUnreadable => {
                row(S::SERVICE_UNAVAILABLE, "record-unreadable", "Record unreadable", Stop, V::RecordUnreadable)
            }
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::NoRoute => "No route of this gateway takes this method, host and path.".to_owned(),
            Self::BadRequest(detail)
            | Self::MethodRefused(detail)
            | Self::KeyMissing(detail)
            | Self::KeyInvalid(detail)
            | Self::ScopeMissing(detail) => detail.clone(),
            Self::LoopDetected => "The request has passed this gateway before.".to_owned(),
            Self::ExpectationFailed => "The only expectation that can be met is `100-continue`.".to_owned(),
            // Which address it was, and what it lacks, is for the log: clients need not know what stands behind.
            Self::UpstreamUnreachable { shortage: false, .. } => {
                "The upstream could not be reached. Nothing was sent.".to_owned()
            }
            Self::UpstreamUnreachable { shortage: true, .. } => {
                "The upstream has no server or no connection free. Nothing was sent.".to_owned()
            }
            Self::KeyReused => "This key was used for a request with other content. Use a new key for it.".to_owned(),
            Self::BodyTooLarge { limit } => format!("The body is over this route's limit of {limit} bytes."),
            Self::HeaderTimeout => "The head of the request did not arrive in time.".to_owned(),
            Self::BodyTimeout { forwarded } => format!("The body did not arrive in time. {}", rest(*forwarded)),
            Self::BodyAborted { forwarded } => format!("The body ended before it was complete. {}", rest(*forwarded)),
            Self::InFlight(_) => {
                "The same operation is being processed. Try again with the same key for its answer.".to_owned()
            }
            Self::Duplicate { detail, .. }
            | Self::TargetTooLong(detail)
            | Self::HeadersTooLarge(detail)
            | Self::CodingRefused(detail)
            | Self::VersionRefused(detail) => (*detail).to_owned(),
            Self::AlreadyExecuted { .. } => {
                "The operation was executed once and is not repeated; its answer was not kept.".to_owned()
            }
            Self::OutcomeUnknown => {
                "An earlier attempt may have taken effect. The operation is not repeated until that is known."
                    .to_owned()
            }
            Self::UpstreamTimeout { guarded: true } => {
                "No answer in time; the upstream may still act. Try again with the same key for the outcome.".to_owned()
            }
            Self::UpstreamFailed { guarded: true } => {
                "The connection broke after the request was sent. It may have taken effect; it is not sent again."
                    .to_owned()
            }
            Self::UpstreamTimeout { guarded: false } | Self::UpstreamFailed { guarded: false } => {
                "The request was sent and may have taken effect. This route is not guarded: a repetition runs again."
                    .to_owned()
            }
            Self::Overloaded(what) => format!("Too many {what}. Nothing was forwarded."),
            Self::StoreUnavailable => "Duplicates cannot be recognised at present. Nothing was forwarded.".to_owned(),
            Self::RecordUnreadable => {
                "The operation has a record that this gateway cannot read. Nothing was forwarded.".to_owned()
            }
        }
    }

    fn add_headers(&self, headers: &mut HeaderMap) {
        match self {
            Self::InFlight(_) | Self::Overloaded(_) | Self::StoreUnavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::Duplicate { expires, .. } => {
                headers.insert(marks::X_IDEMPOTENT_RETRY, marks::TRUE);
                if let Some(expires) = expires {
                    marks::set_expires(headers, *expires);
                }
            }
            Self::AlreadyExecuted { location, expires, .. } => {
                headers.insert(marks::X_IDEMPOTENT_RETRY, marks::TRUE);
                marks::set_expires(headers, *expires);
                if let Some(location) = location {
                    headers.insert(LOCATION, location.clone());
                }
            }
            Self::UpstreamUnreachable { shortage, in_doubt } => {
                headers.insert(marks::OUTCOME, if *in_doubt { marks::UNKNOWN } else { marks::NOT_EXECUTED });
                if *shortage {
                    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
            }
            Self::UpstreamTimeout { .. }
            | Self::UpstreamFailed { .. }
            | Self::BodyTimeout { forwarded: true }
            | Self::BodyAborted { forwarded: true } => {
                headers.insert(marks::OUTCOME, marks::UNKNOWN);
            }
            Self::NoRoute
            | Self::BadRequest(_)
            | Self::TargetTooLong(_)
            | Self::HeadersTooLarge(_)
            | Self::CodingRefused(_)
            | Self::VersionRefused(_)
            | Self::MethodRefused(_)
            | Self::ExpectationFailed
            | Self::LoopDetected
            | Self::KeyMissing(_)
            | Self::KeyInvalid(_)
            | Self::ScopeMissing(_)
            | Self::KeyReused
            | Self::BodyTooLarge { .. }
            | Self::HeaderTimeout
            | Self::BodyTimeout { forwarded: false }
            | Self::BodyAborted { forwarded: false }
            | Self::OutcomeUnknown
            | Self::RecordUnreadable => {}
        }
    }

    fn is_unguarded(&self) -> bool {
        matches!(
            self,
            Self::UpstreamTimeout { guarded: false }
                | Self::UpstreamFailed { guarded: false }
                | Self::BodyTimeout { forwarded: true }
                | Self::BodyAborted { forwarded: true }
        )
    }

    /// How the request counts.
    pub fn verdict(&self) -> Verdict {
        self.row().verdict
    }

    /// The answer. With a 2xx status (a route's choice for webhook senders) the body is empty: only the headers speak.
    pub fn response(&self, types: &str) -> Response<Body> {
        let status = self.row().status;
        let body = if status.is_success() { Body::empty() } else { Body::whole(self.json(types).into()) };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers();
        response
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !self.row().status.is_success() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        }
        headers.insert(marks::SOURCE, marks::GATEWAY);
        self.add_headers(&mut headers);
        headers
    }

    fn json(&self, types: &str) -> String {
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
        if let Self::AlreadyExecuted { status: Some(original), .. } = self {
            problem["original_status"] = json!(original);
        }
        problem.to_string()
    }

    /// The whole answer as bytes, for a listener that knows nothing of HTTP's contents.
    fn raw(&self, types: &str) -> Bytes {
        let (headers, body) = (self.headers(), self.json(types));
        let mut answer = format!("HTTP/1.1 {}\r\n", self.row().status).into_bytes();
        for (name, value) in &headers {
            answer.extend_from_slice(name.as_ref());
            answer.extend_from_slice(b": ");
            answer.extend_from_slice(value.as_bytes());
            answer.extend_from_slice(b"\r\n");
        }
        let rest = format!("connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        answer.extend_from_slice(rest.as_bytes());
        answer.into()
    }
}

/// What became of a body that came to no end.
fn rest(forwarded: bool) -> &'static str {
    if forwarded { "What came of it was forwarded as it came." } else { "Nothing was forwarded." }
}

/// The whole answer to a connection over the limit.
pub fn turned_away(types: &str) -> Bytes {
    Problem::Overloaded("connections").raw(types)
}

/// The same for a client whose head does not come.
pub fn too_slow(types: &str) -> Bytes {
    Problem::HeaderTimeout.raw(types)
}

/// The whole answer to plain HTTP where TLS is spoken.
pub fn not_encrypted(types: &str) -> Bytes {
    Problem::BadRequest("This port speaks TLS: use https.".to_owned()).raw(types)
}
