//! Every answer of the gateway's own (RFC 9457), and what each one says. What they are called is in `table`.

mod detail;
mod fields;
mod from;
mod raw;
mod table;

pub use raw::{not_encrypted, too_slow, turned_away};

use std::fmt;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::again;
use super::body::Body;
use super::marks::{self, Fields};
use crate::machine::Time;
use crate::telemetry::Verdict;
use crate::wire::heads::Lines;
use table::{Retry, Row};

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
    /// A key that was made in the future, as it says.
    KeyEarly,
    /// A token that was not issued here, or not for this route and caller.
    TokenInvalid(String),
    /// A token whose time is over, of which nothing is known.
    TokenExpired,
    /// No caller.
    ScopeMissing(String),
    /// A fingerprint that the client made, and that is missing, malformed, or another request's.
    FingerprintInvalid(String),
    /// The time that goes with it is missing, malformed, or too far off.
    TimeInvalid {
        /// What is wrong.
        detail: String,
        /// The time that the request states, if it is one.
        stated: Option<Time>,
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
        /// The route's word for it.
        status: StatusCode,
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

/// What an answer says that depends on its moment.
#[derive(Clone, Copy)]
struct Said {
    /// After how many seconds the request is worth repeating; none where waiting changes nothing.
    retry_after: Option<u64>,
    /// The store's time, for clients whose clock may be to blame.
    now: Option<Time>,
}

/// Room for the fields that most of them have, and for what is added on the way.
const HEADERS: usize = 12;
/// The same for their lines, in bytes.
const LINES: usize = 512;
/// Room for most documents, in bytes.
const DOCUMENT: usize = 512;

/// The members of a problem's document (RFC 9457, section 3), in the order in which they are written.
#[derive(Serialize)]
struct Members<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset: Option<i128>,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status: Option<u16>,
    retry: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_time: Option<u64>,
    status: u16,
    title: &'a str,
    #[serde(rename = "type")]
    kind: fmt::Arguments<'a>,
}

impl Problem {
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

    /// Whether a client's clock may be to blame: it can set that by the store's time, if it is told.
    fn is_about_time(&self) -> bool {
        matches!(self, Self::FingerprintInvalid(_) | Self::TimeInvalid { .. } | Self::KeyExpired | Self::KeyEarly)
    }

    /// How the request counts.
    pub fn verdict(&self) -> Verdict {
        self.row().verdict
    }

    /// The answer. With a 2xx status (a route's choice for webhook senders) the body is empty: only the headers speak.
    ///
    /// `now` is the store's time, once it is known. `as_lines`: nobody looks at the head before HTTP/1.1 writes it.
    pub fn response(&self, types: &str, now: Option<Time>, as_lines: bool) -> Response<Body> {
        let (status, said) = (self.status(), self.said(now));
        let body = if status.is_success() { Body::empty() } else { Body::whole(self.json(types, said).into()) };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        if as_lines {
            response.body_mut().follows(Lines::with_capacity(LINES));
        } else {
            response.headers_mut().reserve(HEADERS);
        }
        marks::say(&mut response, |fields| self.set_fields(said, fields));
        response
    }

    fn said(&self, now: Option<Time>) -> Said {
        Said { retry_after: self.retry_after(), now: now.filter(|_| self.is_about_time()) }
    }

    /// After how many seconds the request is worth repeating; none where waiting changes nothing.
    fn retry_after(&self) -> Option<u64> {
        let again = match self {
            Self::InFlight { again, .. } | Self::OutcomeUnknown { again, .. } => Some(*again),
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

    fn set_fields(&self, said: Said, fields: &mut dyn Fields) {
        if let Some(seconds) = said.retry_after {
            fields.set(&RETRY_AFTER, &HeaderValue::from(seconds));
        }
        if let Some(now) = said.now {
            fields.set(&marks::TIME, &HeaderValue::from(now.0));
        }
        if !self.status().is_success() {
            fields.set(&CONTENT_TYPE, &HeaderValue::from_static("application/problem+json"));
        }
        fields.set(&marks::SOURCE, &marks::GATEWAY);
        fields.set(&CACHE_CONTROL, &HeaderValue::from_static("no-store"));
        self.set_own_fields(fields);
    }

    fn json(&self, types: &str, said: Said) -> Vec<u8> {
        let Row { code, title, retry, .. } = self.row();
        // Without a guard the same key protects nobody.
        let retry = if self.is_unguarded() { Retry::Stop } else { retry };
        let members = Members {
            clock_offset: match (self, said.now) {
                (Self::TimeInvalid { stated: Some(stated), .. }, Some(now)) => {
                    Some(i128::from(now.0) - i128::from(stated.0))
                }
                _ => None,
            },
            code,
            detail: &self.detail(),
            expires_at: self.expires().and_then(Time::rfc3339),
            original_status: match self.bare() {
                Self::AlreadyExecuted { status, .. } => *status,
                _ => None,
            },
            retry: retry.text(),
            retry_after: said.retry_after,
            server_time: said.now.map(|now| now.0),
            status: self.status().as_u16(),
            title,
            kind: format_args!("{types}{code}"),
        };
        // Text and numbers can always be written.
        let mut document = Vec::with_capacity(DOCUMENT);
        let _ = serde_json::to_writer(&mut document, &members);
        document
    }
}
