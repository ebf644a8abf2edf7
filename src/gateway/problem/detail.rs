//! What each problem says to people. Codes, statuses and advice are in the table above it.

use super::Problem;
use crate::machine::Time;

const KEY_EXPIRED: &str = "The key was made longer ago than outcomes are remembered here, and nothing is known of it. It \
                           may have been used. Use a new key if the operation is still wanted.";
const OPERATION_UNKNOWN: &str = "Nothing is known of this operation, for this caller: its request never came, its key is \
                                 free again, or it was long ago.";
const TOKEN_EXPIRED: &str = "The token's time is over, and nothing is known of it: it was not used, or that is forgotten. \
                             Get a new one if the operation is still wanted.";

impl Problem {
    /// What has happened, and what its reader can do about it.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::NoRoute => "No route of this gateway takes this method, host and path.".to_owned(),
            Self::BadRequest(detail)
            | Self::MethodRefused(detail)
            | Self::KeyMissing(detail)
            | Self::KeyInvalid(detail)
            | Self::TokenInvalid(detail)
            | Self::ScopeMissing(detail)
            | Self::FingerprintInvalid { detail, .. }
            | Self::TimeInvalid { detail, .. }
            | Self::ScopeInvalid(detail)
            | Self::ScopeUnavailable(detail) => detail.clone(),
            Self::LoopDetected => "The request has passed this gateway before.".to_owned(),
            Self::ExpectationFailed => "The only expectation that can be met is `100-continue`.".to_owned(),
            // Which address it was, and what it lacks, is for the log: clients need not know what stands behind.
            Self::UpstreamUnreachable { shortage: false, .. } => {
                "The upstream could not be reached. Nothing was sent.".to_owned()
            }
            Self::UpstreamUnreachable { shortage: true, .. } => {
                "The upstream has no server or no connection free. Nothing was sent.".to_owned()
            }
            Self::KeyExpired => KEY_EXPIRED.to_owned(),
            Self::OperationUnknown => OPERATION_UNKNOWN.to_owned(),
            Self::TokenExpired => TOKEN_EXPIRED.to_owned(),
            Self::MethodNotAllowed { allow } => {
                format!("This path is the gateway's own, and takes {}.", allow.to_str().unwrap_or_default())
            }
            Self::KeyReused => "This key was used for a request with other content. Use a new key for it.".to_owned(),
            Self::BodyTooLarge { limit } => {
                format!("The body, or what it decodes to, is over this route's limit of {limit} bytes.")
            }
            Self::HeaderTimeout => "The head of the request did not arrive in time.".to_owned(),
            Self::BodyTimeout { forwarded } => format!("The body did not arrive in time. {}", rest(*forwarded)),
            Self::BodyAborted { forwarded } => format!("The body ended before it was complete. {}", rest(*forwarded)),
            Self::InFlight { .. } => {
                "The same operation is being processed. Try again with the same key for its answer.".to_owned()
            }
            Self::Duplicate { detail, expires, .. } => (*detail).to_owned() + &until(*expires),
            Self::TargetTooLong(detail)
            | Self::HeadersTooLarge(detail)
            | Self::CodingRefused(detail)
            | Self::VersionRefused(detail) => (*detail).to_owned(),
            Self::AlreadyExecuted { expires, .. } => {
                "The operation was executed once and is not repeated; its answer was not kept.".to_owned()
                    + &until(Some(*expires))
            }
            Self::OutcomeUnknown { .. } => {
                "An earlier attempt may have taken effect. The operation is not repeated until that is known."
                    .to_owned()
            }
            Self::UpstreamTimeout { again: Some(_) } => {
                "No answer in time; the upstream may still act. Try again with the same key for the outcome.".to_owned()
            }
            Self::UpstreamFailed { again: Some(_) } => {
                "The connection broke after the request was sent. It may have taken effect; it is not sent again."
                    .to_owned()
            }
            Self::UpstreamTimeout { again: None } | Self::UpstreamFailed { again: None } => {
                "The request was sent and may have taken effect. This route is not guarded: a repetition runs again."
                    .to_owned()
            }
            Self::Overloaded(what) => format!("Too many {what}. Nothing was forwarded."),
            Self::StoreUnavailable => "Duplicates cannot be recognised at present. Nothing was forwarded.".to_owned(),
            Self::Also { source, problem } => second(source, problem),
            Self::RecordUnreadable => {
                "The operation has a record that this gateway cannot read. Nothing was forwarded.".to_owned()
            }
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
