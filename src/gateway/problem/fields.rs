//! Which header fields a problem carries beside those of all.

use http::header::{ALLOW, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};

use super::{Problem, marks};

impl Problem {
    /// Adds them.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        match self {
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
            Self::UpstreamUnreachable { in_doubt, .. } => {
                headers.insert(marks::OUTCOME, if *in_doubt { marks::UNKNOWN } else { marks::NOT_EXECUTED });
            }
            Self::ScopeInvalid(_) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
            }
            Self::MethodNotAllowed { allow } => {
                headers.insert(ALLOW, allow.clone());
            }
            Self::UpstreamTimeout { .. }
            | Self::UpstreamFailed { .. }
            | Self::BodyTimeout { forwarded: true }
            | Self::BodyAborted { forwarded: true } => {
                headers.insert(marks::OUTCOME, marks::UNKNOWN);
            }
            Self::Also { problem, .. } => problem.add_headers(headers),
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
            | Self::KeyEarly
            | Self::TokenInvalid(_)
            | Self::TokenExpired
            | Self::ScopeMissing(_)
            | Self::FingerprintInvalid(_)
            | Self::TimeInvalid { .. }
            | Self::ScopeUnavailable(_)
            | Self::KeyExpired
            | Self::OperationUnknown
            | Self::KeyReused
            | Self::BodyTooLarge { .. }
            | Self::HeaderTimeout
            | Self::BodyTimeout { forwarded: false }
            | Self::BodyAborted { forwarded: false }
            | Self::InFlight { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Overloaded(_)
            | Self::StoreUnavailable
            | Self::RecordUnreadable => {}
        }
    }
}
