//! What the gateway answers to the errors of the floors below.

use super::Problem;
use crate::machine::Untimely;
use crate::store::StoreError;
use crate::wire::framing::{Fault, Kind};
use crate::{jwt, keys};

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::Malformed => Self::BadRequest(fault.detail.to_owned()),
            Kind::TargetTooLong => Self::TargetTooLong(fault.detail),
            Kind::HeadTooLarge => Self::HeadersTooLarge(fault.detail),
            Kind::UnknownCoding => Self::CodingRefused(fault.detail),
            Kind::UnknownVersion => Self::VersionRefused(fault.detail),
        }
    }
}

impl From<keys::Refusal> for Problem {
    fn from(refusal: keys::Refusal) -> Self {
        match refusal {
            keys::Refusal::KeyMissing(detail) => Self::KeyMissing(detail),
            keys::Refusal::KeyInvalid(detail) => Self::KeyInvalid(detail),
            keys::Refusal::TokenInvalid(detail) => Self::TokenInvalid(detail),
            keys::Refusal::ScopeMissing(detail) => Self::ScopeMissing(detail),
            keys::Refusal::FingerprintInvalid(detail) => Self::FingerprintInvalid(detail),
            keys::Refusal::TimestampInvalid(detail) => Self::TimeInvalid { detail, stated: None },
            keys::Refusal::BodyTooLarge { limit } => Self::BodyTooLarge { limit },
            keys::Refusal::Unreliable(detail) => Self::BadRequest(detail),
        }
    }
}

impl From<jwt::Refused> for Problem {
    fn from(refused: jwt::Refused) -> Self {
        match refused {
            jwt::Refused::Invalid(_) => Self::ScopeInvalid(format!(
                "{refused} With a new token of the same caller, the same key is the same operation."
            )),
            jwt::Refused::Unverifiable => Self::ScopeUnavailable(refused.to_string()),
        }
    }
}

impl From<Untimely> for Problem {
    fn from(untimely: Untimely) -> Self {
        match untimely {
            Untimely::Expired => Self::KeyExpired,
            Untimely::OffTime(stated) => {
                let detail = "The request was made at another time than now, as its timestamp says, and nothing is known of its \
                              operation: the client's clock is off, or this is a retry that comes too late.";
                Self::TimeInvalid { detail: detail.to_owned(), stated: Some(stated) }
            }
            Untimely::TokenExpired => Self::TokenExpired,
            Untimely::TokenEarly => {
                Self::TokenInvalid("The token was issued in the future, by the store's time.".to_owned())
            }
            Untimely::Early => Self::KeyEarly,
        }
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Unacknowledged(_) => Self::StoreUnavailable,
            StoreError::Unreadable(_) => Self::RecordUnreadable,
        }
    }
}
