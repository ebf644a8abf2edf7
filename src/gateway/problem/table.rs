//! The table of problems: status, code, title, advice and verdict of each. What is so in a single case is not here.

use http::{StatusCode, StatusCode as S};

use Retry::{NewKey, SameKey, Stop};

use super::Problem;
use crate::telemetry::{Verdict, Verdict as V};

/// What all problems of a kind are called.
pub(super) struct Row {
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    pub(super) retry: Retry,
    pub(super) verdict: Verdict,
}

/// What a client should do next.
#[derive(Clone, Copy)]
pub(super) enum Retry {
    SameKey,
    NewKey,
    Stop,
}

impl Retry {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::NewKey => "new-key",
            Self::Stop => "stop",
        }
    }
}

impl Problem {
    pub(super) fn row(&self) -> Row {
        let row = |code, title, retry, verdict| Row { code, title, retry, verdict };
        match self {
            Self::NoRoute => row("no-route", "No route", Stop, V::NoRoute),
            Self::BadRequest(_) => row("bad-request", "Bad request", Stop, V::BadRequest),
            Self::TargetTooLong(_) => row("target-too-long", "Target too long", Stop, V::BadRequest),
            Self::HeadersTooLarge(_) => row("headers-too-large", "Headers too large", Stop, V::BadRequest),
            Self::CodingRefused(_) => row("coding-refused", "Coding refused", Stop, V::BadRequest),
            Self::VersionRefused(_) => row("version-refused", "Version refused", Stop, V::BadRequest),
            Self::MethodRefused(_) => row("method-refused", "Method refused", Stop, V::BadRequest),
            Self::MethodNotAllowed { .. } => row("method-not-allowed", "Method not allowed", Stop, V::BadRequest),
            Self::LoopDetected => row("loop-detected", "Loop detected", Stop, V::BadRequest),
            Self::ExpectationFailed => row("expectation-failed", "Expectation failed", Stop, V::BadRequest),
            Self::KeyMissing(_) => row("key-missing", "Key missing", Stop, V::KeyMissing),
            Self::KeyInvalid(_) | Self::KeyEarly => row("key-invalid", "Key invalid", Stop, V::KeyInvalid),
            Self::KeyExpired => row("key-expired", "Key expired", NewKey, V::KeyExpired),
            Self::KeyReused => row("key-reused", "Key reused", NewKey, V::Mismatch),
            Self::TokenInvalid(_) => row("token-invalid", "Token not issued here", NewKey, V::TokenInvalid),
            Self::TokenExpired => row("token-expired", "Token expired", NewKey, V::TokenExpired),
            Self::FingerprintInvalid(_) => {
                row("fingerprint-invalid", "Fingerprint invalid", Stop, V::FingerprintInvalid)
            }
            Self::TimeInvalid { .. } => row("timestamp-invalid", "Timestamp invalid", Stop, V::TimestampInvalid),
            Self::ScopeMissing(_) => row("scope-missing", "Caller missing", Stop, V::ScopeMissing),
            Self::ScopeInvalid(_) => row("scope-invalid", "Token invalid", Stop, V::ScopeInvalid),
            Self::ScopeUnavailable(_) => row("scope-unavailable", "Caller unverifiable", SameKey, V::ScopeUnavailable),
            Self::OperationUnknown => row("operation-unknown", "Operation unknown", SameKey, V::LookedUp),
            Self::BodyTooLarge { .. } => row("body-too-large", "Body too large", Stop, V::BodyTooLarge),
            Self::HeaderTimeout => row("header-timeout", "Head too slow", SameKey, V::BadRequest),
            Self::BodyTimeout { .. } => row("body-timeout", "Body too slow", SameKey, V::BodyAborted),
            Self::BodyAborted { .. } => row("body-aborted", "Body incomplete", SameKey, V::BodyAborted),
            Self::InFlight { .. } => row("request-in-flight", "Request in flight", SameKey, V::InFlight),
            Self::Duplicate { .. } => row("duplicate-request", "Duplicate request", Stop, V::Rejected),
            Self::AlreadyExecuted { .. } => row("already-executed", "Already executed", Stop, V::AlreadyExecuted),
            Self::OutcomeUnknown { .. } => row("outcome-unknown", "Outcome unknown", SameKey, V::InDoubt),
            Self::UpstreamTimeout { .. } => row("upstream-timeout", "Upstream timed out", SameKey, V::UpstreamTimeout),
            Self::UpstreamUnreachable { .. } => {
                row("upstream-unreachable", "Upstream unreachable", SameKey, V::UpstreamUnreachable)
            }
            Self::UpstreamFailed { .. } => row("upstream-failed", "Upstream failed", SameKey, V::UpstreamFailed),
            Self::Overloaded(_) => row("overloaded", "Overloaded", SameKey, V::Overloaded),
            Self::StoreUnavailable => row("store-unavailable", "Store unavailable", SameKey, V::StoreUnavailable),
            Self::RecordUnreadable => row("record-unreadable", "Record unreadable", Stop, V::RecordUnreadable),
            Self::Also { problem, .. } => problem.row(),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::InFlight { status, .. } | Self::Duplicate { status, .. } | Self::OutcomeUnknown { status, .. } => {
                *status
            }
            Self::Also { problem, .. } => problem.status(),
            Self::BadRequest(_)
            | Self::KeyMissing(_)
            | Self::KeyInvalid(_)
            | Self::KeyEarly
            | Self::TokenInvalid(_)
            | Self::ScopeMissing(_)
            | Self::FingerprintInvalid(_)
            | Self::TimeInvalid { .. }
            | Self::BodyAborted { .. } => S::BAD_REQUEST,
            Self::ScopeInvalid(_) => S::UNAUTHORIZED,
            Self::NoRoute | Self::OperationUnknown => S::NOT_FOUND,
            Self::MethodNotAllowed { .. } => S::METHOD_NOT_ALLOWED,
            Self::HeaderTimeout | Self::BodyTimeout { .. } => S::REQUEST_TIMEOUT,
            Self::AlreadyExecuted { .. } => S::CONFLICT,
            Self::KeyExpired | Self::TokenExpired => S::GONE,
            Self::BodyTooLarge { .. } => S::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong(_) => S::URI_TOO_LONG,
            Self::ExpectationFailed => S::EXPECTATION_FAILED,
            Self::KeyReused => S::UNPROCESSABLE_ENTITY,
            Self::HeadersTooLarge(_) => S::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::CodingRefused(_) | Self::MethodRefused(_) => S::NOT_IMPLEMENTED,
            Self::UpstreamFailed { .. } | Self::UpstreamUnreachable { shortage: false, .. } => S::BAD_GATEWAY,
            Self::UpstreamUnreachable { shortage: true, .. }
            | Self::ScopeUnavailable(_)
            | Self::Overloaded(_)
            | Self::StoreUnavailable
            | Self::RecordUnreadable => S::SERVICE_UNAVAILABLE,
            Self::UpstreamTimeout { .. } => S::GATEWAY_TIMEOUT,
            Self::VersionRefused(_) => S::HTTP_VERSION_NOT_SUPPORTED,
            Self::LoopDetected => S::LOOP_DETECTED,
        }
    }
}
