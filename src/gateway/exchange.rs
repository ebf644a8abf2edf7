//! How an exchange with an upstream ended, and what that means for the operation. What becomes of it is the attempt's matter.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION, RETRY_AFTER};
use http::{HeaderValue, response};
use tokio::sync::mpsc;

use super::body::Piece;
use super::limits::Hold;
use super::settings::Guard;
use crate::machine::{Answer, Cause, Ending, Recorded, Said, Word};
use crate::telemetry::{Metrics, RouteMetrics, Timeout};
use crate::upstream::headers;
use crate::wire::heads::Spelling;

/// How the exchange with the upstream ended.
pub(super) enum Exchange {
    /// A whole answer, within the route's limit, and what it holds of the gateway's budget.
    Whole { head: response::Parts, spelling: Option<Spelling>, word: Word, body: Bytes, hold: Arc<Hold> },
    /// A whole answer over the limit. All of it was streamed but the last piece: its client must not have the whole
    /// answer before the outcome is recorded.
    Streamed { head: Head, last: Bytes, tail: Option<mpsc::Sender<Piece>> },
    /// Nothing was sent. A shortage: not even tried, for want of a server or a connection.
    NotSent { why: String, shortage: bool },
    /// The upstream may have acted.
    Broken(String),
    /// A limit of time has passed: the attempt's own, or the one for the first byte.
    TimedOut(Timeout),
    /// The gateway stops and has no time left.
    Abandoned,
}

/// What a tombstone keeps of an answer's head.
pub(super) struct Head {
    pub(super) status: u16,
    retry_after: bool,
    location: Option<Bytes>,
    pub(super) word: Word,
}

impl Exchange {
    /// What an operator reads when this leaves doubt.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Whole { word, .. } | Self::Streamed { head: Head { word, .. }, .. } => match word.outcome {
                Said::Nothing => "the outcome table holds this answer for doubt",
                Said::Clearly(_) => "the upstream itself says so",
                Said::Unclearly => "what the upstream says of the outcome cannot be made out",
            },
            Self::NotSent { why, .. } | Self::Broken(why) => why,
            Self::TimedOut(Timeout::FirstByte) => "no answer within first_byte_timeout",
            Self::TimedOut(_) => "no answer within attempt_timeout",
            Self::Abandoned => "the gateway stopped before the answer",
        }
    }

    /// Counts what the operator of the upstream wants to know.
    pub(super) fn count(&self, metrics: &Metrics, route: &RouteMetrics, late: bool) {
        let (answered, failed) = match self {
            Self::Whole { head, .. } => (true, head.status.is_server_error()),
            Self::Streamed { head, .. } => (true, head.status >= 500),
            Self::Broken(_) | Self::TimedOut(_) | Self::Abandoned => (false, true),
            Self::NotSent { .. } => (false, false),
        };
        if let Self::TimedOut(kind) = self {
            metrics.timed_out(*kind);
        }
        if failed {
            route.executed_but_failed();
        }
        if answered && late {
            metrics.late_answer();
        }
    }
}

impl Head {
    /// Of this answer, which says this of its operation.
    pub(super) fn of(head: &response::Parts, word: Word) -> Self {
        Self {
            status: head.status.as_u16(),
            retry_after: head.headers.contains_key(RETRY_AFTER),
            location: head.headers.get(LOCATION).map(|value| Bytes::copy_from_slice(value.as_bytes())),
            word,
        }
    }
}

/// What the exchange means for the operation. `origin` is the one that the request came from.
pub(super) fn ending(exchange: &Exchange, guard: &Guard, origin: Option<&HeaderValue>) -> Ending {
    let outcomes = &guard.policy.outcomes;
    match exchange {
        Exchange::NotSent { .. } => Ending::NotSent,
        Exchange::Broken(_) => Ending::Unknown(Cause::Broken),
        Exchange::TimedOut(_) => Ending::Unknown(Cause::TimedOut),
        Exchange::Abandoned => Ending::Unknown(Cause::Abandoned),
        Exchange::Streamed { head, .. } => {
            let answer = Answer::TooLarge { status: head.status, location: head.location.clone() };
            head.word.ending(outcomes, head.status, head.retry_after, answer)
        }
        Exchange::Whole { head, word, body, .. } => {
            let status = head.status.as_u16();
            let kept = headers::replayable(&head.headers, &guard.allow_headers, origin);
            // An answer to HEAD says the length of a body that it does not have, and so does its replay.
            let length = if body.is_empty() { head.headers.get(CONTENT_LENGTH) } else { None };
            let length = length.map(|length| (CONTENT_LENGTH.as_str().as_bytes(), length.as_bytes()));
            let answer = Answer::Recorded(Recorded::new(status, kept.chain(length), body));
            word.ending(outcomes, status, head.headers.contains_key(RETRY_AFTER), answer)
        }
    }
}
