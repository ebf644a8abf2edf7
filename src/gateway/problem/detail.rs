//! What each problem says to people. Codes, statuses and advice are in the table above it.

use std::borrow::Cow;

use super::Problem;
use crate::machine::Time;

const KEY_EXPIRED: &str = "The key was made longer ago than outcomes are remembered here, and nothing is known of it. It \
                           may have been used. Use a new key if the operation is still wanted.";
const KEY_EARLY: &str = "The key says that it was made in the future: its maker's clock is ahead.";
const KEY_REUSED: &str = "This key was used for a request with other content. Use a new key for it.";
const TOKEN_EXPIRED: &str = "The token's time is over, and nothing is known of it: it was not used, or that is forgotten. \
                             Get a new one if the operation is still wanted.";
const OPERATION_UNKNOWN: &str = "Nothing is known of this operation, for this caller: its request never came, its key is \
                                 free again, or it was long ago.";
const IN_FLIGHT: &str = "The same operation is being processed. Try again with the same key for its answer.";
const NOT_KEPT: &str = "The operation was executed once and is not repeated; its answer was not kept.";
const OUTCOME_UNKNOWN: &str =
    "An earlier attempt may have taken effect. The operation is not repeated until that is known.";
// Which address it was, and what it lacks, is for the log: clients need not know what stands behind.
const UNREACHED: &str = "The upstream could not be reached. Nothing was sent.";
const SHORTAGE: &str = "The upstream has no server or no connection free. Nothing was sent.";
const LATE: &str = "No answer in time; the upstream may still act. Try again with the same key for the outcome.";
const BROKEN: &str = "The connection broke after the request was sent. It may have taken effect; it is not sent again.";
const NOT_GUARDED: &str =
    "The request was sent and may have taken effect. This route is not guarded: a repetition runs again.";
const UNREADABLE: &str = "The operation has a record that this gateway cannot read. Nothing was forwarded.";

impl Problem {
    /// What has happened, and what its reader can do about it.
    pub(super) fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::NoRoute => "No route of this gateway takes this method, host and path.".into(),
            Self::BadRequest(detail)
            | Self::MethodRefused(detail)
            | Self::KeyMissing(detail)
            | Self::KeyInvalid(detail)
            | Self::TokenInvalid(detail)
            | Self::ScopeMissing(detail)
            | Self::FingerprintInvalid(detail)
            | Self::TimeInvalid { detail, .. }
            | Self::ScopeInvalid(detail)
            | Self::ScopeUnavailable(detail) => detail.into(),
            Self::TargetTooLong(detail)
            | Self::HeadersTooLarge(detail)
            | Self::CodingRefused(detail)
            | Self::VersionRefused(detail) => (*detail).into(),
            Self::LoopDetected => "The request has passed this gateway before.".into(),
            Self::ExpectationFailed => "The only expectation that can be met is `100-continue`.".into(),
            Self::MethodNotAllowed { allow } => {
                format!("This path is the gateway's own, and takes {}.", allow.to_str().unwrap_or_default()).into()
            }
            Self::KeyExpired => KEY_EXPIRED.into(),
            Self::KeyEarly => KEY_EARLY.into(),
            Self::KeyReused => KEY_REUSED.into(),
            Self::TokenExpired => TOKEN_EXPIRED.into(),
            Self::OperationUnknown => OPERATION_UNKNOWN.into(),
            Self::BodyTooLarge { limit } => {
                format!("The body, or what it decodes to, is over this route's limit of {limit} bytes.").into()
            }
            Self::HeaderTimeout => "The head of the request did not arrive in time.".into(),
            Self::BodyTimeout { forwarded } => format!("The body did not arrive in time. {}", rest(*forwarded)).into(),
            Self::BodyAborted { forwarded } => {
                format!("The body ended before it was complete. {}", rest(*forwarded)).into()
            }
            Self::InFlight { .. } => IN_FLIGHT.into(),
            Self::Duplicate { detail, expires, .. } => format!("{detail}{}", until(*expires)).into(),
            Self::AlreadyExecuted { expires, .. } => format!("{NOT_KEPT}{}", until(Some(*expires))).into(),
            Self::OutcomeUnknown { .. } => OUTCOME_UNKNOWN.into(),
            Self::UpstreamUnreachable { shortage: false, .. } => UNREACHED.into(),
            Self::UpstreamUnreachable { shortage: true, .. } => SHORTAGE.into(),
            Self::UpstreamTimeout { again: Some(_) } => LATE.into(),
            Self::UpstreamFailed { again: Some(_) } => BROKEN.into(),
            Self::UpstreamTimeout { again: None } | Self::UpstreamFailed { again: None } => NOT_GUARDED.into(),
            Self::Overloaded(what) => format!("Too many {what}. Nothing was forwarded.").into(),
            Self::StoreUnavailable => "Duplicates cannot be recognised at present. Nothing was forwarded.".into(),
            Self::RecordUnreadable => UNREADABLE.into(),
            Self::Also { source, problem } => second(source, problem).into(),
        }
    }
}

/// Until when something is remembered; nothing where that is not said.
fn until(expires: Option<Time>) -> String {
    let at = expires.and_then(Time::rfc3339);
    at.map_or_else(String::new, |at| format!(" It is remembered until {at}."))
}

/// The same, of a request's second key.
fn second(source: &str, problem: &Problem) -> String {
    format!("It is the second key ({source}) that is taken. {}", problem.detail())
}

/// What became of a body that came to no end.
fn rest(forwarded: bool) -> &'static str {
    if forwarded { "What came of it was forwarded as it came." } else { "Nothing was forwarded." }
}
