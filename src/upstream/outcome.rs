//! The one place that judges whether a failed request was sent. Without proof that it was not, it may have been.

use std::error::Error;

use http::Request;
use hyper::client::conn::TrySendError;

use super::Outgoing;
use super::wire::Line;
use crate::wire::Lapse;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Proven: not a byte of the request left this gateway.
    #[error("{0}")]
    NotSent(NotSent),
    /// The upstream may have acted on the request.
    #[error("{0}")]
    Unknown(String),
    /// The same: it was silent for `first_byte_timeout`.
    #[error("no answer within first_byte_timeout")]
    Late,
}

/// A request that was not sent, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct NotSent {
    /// What kept it.
    pub reason: Reason,
    /// The same in words, for logs: it names the server.
    pub detail: String,
}

/// What kept a request from being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The server's name has no address.
    Dns,
    /// The connection was refused, or could not be made.
    Connect,
    /// The connection was not made within `connect_timeout`.
    Timeout,
    /// The connection was made, and closed before a byte of the request was written.
    Closed,
    /// The upstream has no servers.
    NoServer,
}

/// An answer's body broke off: bytes of it, or its end, are missing.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The upstream broke it off.
    #[error("the answer broke off: {}", in_words(.0))]
    Broken(#[from] hyper::Error),
    /// The upstream was silent for `answer_idle_timeout`.
    #[error("the answer stopped short: no byte within answer_idle_timeout")]
    Idle,
    /// The exchange has taken as long as it may.
    #[error("the answer was cut off after total_timeout")]
    Overtime,
}

impl From<Lapse> for BodyError {
    fn from(lapse: Lapse) -> Self {
        match lapse {
            Lapse::Idle => Self::Idle,
            Lapse::Total => Self::Overtime,
        }
    }
}

/// What came of trying one connection.
#[derive(Debug)]
pub(super) enum Tried {
    /// The request came back untouched: another connection may have it.
    Returned(Box<Request<Outgoing>>, NotSent),
    /// The request is spent.
    Failed(Failure),
}

impl NotSent {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Judges a request that a connection could not see through.
///
/// Two things are proof of not sent. hyper hands the request back: it never left the queue. Or the socket itself says
/// that no byte was written since the request began: [`Line::seal`] makes that true for good, as it also stops hyper
/// from writing what it still has in its buffer. In the second case the request's body may have been read in part,
/// so there is nothing left to send elsewhere.
pub(super) fn judge(mut error: TrySendError<Request<Outgoing>>, line: &Line) -> Tried {
    let request = error.take_message();
    let detail = in_words(error.error());
    match request {
        Some(request) => Tried::Returned(Box::new(request), NotSent::new(Reason::Closed, detail)),
        None if line.seal() => Tried::Failed(Failure::NotSent(NotSent::new(Reason::Closed, detail))),
        None => Tried::Failed(Failure::Unknown(detail)),
    }
}

/// An error with everything that led to it: hyper's own text leaves its causes out.
fn in_words(error: &hyper::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
