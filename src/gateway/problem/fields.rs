//! Which header fields a problem carries beside those of all.

use http::HeaderValue;
use http::header::{ALLOW, LOCATION, WWW_AUTHENTICATE};

use super::marks::Fields;
use super::{Problem, marks};

impl Problem {
    /// Sets them.
    pub(super) fn set_own_fields(&self, fields: &mut dyn Fields) {
        match self {
            Self::Duplicate { expires, .. } => {
                fields.set(&marks::X_IDEMPOTENT_RETRY, &marks::TRUE);
                if let Some(expires) = expires {
                    marks::set_expires(fields, *expires);
                }
            }
            Self::AlreadyExecuted { location, expires, .. } => {
                fields.set(&marks::X_IDEMPOTENT_RETRY, &marks::TRUE);
                marks::set_expires(fields, *expires);
                if let Some(location) = location {
                    fields.set(&LOCATION, location);
                }
            }
            Self::UpstreamUnreachable { in_doubt, .. } => {
                let outcome = if *in_doubt { marks::UNKNOWN } else { marks::NOT_EXECUTED };
                fields.set(&marks::OUTCOME, &outcome);
            }
            Self::ScopeInvalid(_) => {
                fields.set(&WWW_AUTHENTICATE, &HeaderValue::from_static("Bearer error=\"invalid_token\""));
            }
            Self::MethodNotAllowed { allow } => {
                fields.set(&ALLOW, allow);
            }
            Self::UpstreamTimeout { .. }
            | Self::UpstreamFailed { .. }
            | Self::BodyTimeout { forwarded: true }
            | Self::BodyAborted { forwarded: true } => {
                fields.set(&marks::OUTCOME, &marks::UNKNOWN);
            }
            Self::Also { problem, .. } => problem.set_own_fields(fields),
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
