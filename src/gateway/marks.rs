//! The fields by which the gateway speaks to clients.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Response};
use httpdate::HttpDate;

use super::body::Body;
use crate::machine::{OperationId, Time};
use crate::wire::heads::Lines;

/// The answer is a recorded one.
pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The request was a duplicate of a completed operation.
pub(super) const X_IDEMPOTENT_RETRY: HeaderName = HeaderName::from_static("x-idempotent-retry");
/// Until when the outcome is remembered: an HTTP date.
pub(super) const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// Who made the answer, when it was not the upstream's answer to this operation.
pub(super) const SOURCE: HeaderName = HeaderName::from_static("oncegate-source");
/// What is known of the operation, when the answer does not say it.
pub(super) const OUTCOME: HeaderName = HeaderName::from_static("oncegate-outcome");
/// Which operation a refusal speaks of: what an operator looks for.
pub(super) const OPERATION: HeaderName = HeaderName::from_static("oncegate-operation");
/// The request passed without protection, and why.
pub(super) const UNGUARDED: HeaderName = HeaderName::from_static("oncegate-unguarded");

/// The store's time, in milliseconds since the Unix epoch: clients whose clocks are off can set them by it.
pub(super) const TIME: HeaderName = HeaderName::from_static("oncegate-time");

/// All of these.
pub(super) const ALL: [HeaderName; 8] =
    [IDEMPOTENT_REPLAYED, X_IDEMPOTENT_RETRY, IDEMPOTENCY_EXPIRES, SOURCE, OUTCOME, OPERATION, UNGUARDED, TIME];

/// The methods of a path where clients look without acting.
pub(super) const LOOKING: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// The methods of the path where clients get tokens.
pub(super) const ISSUING: HeaderValue = HeaderValue::from_static("POST, OPTIONS");

pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");
pub(super) const PROBE: HeaderValue = HeaderValue::from_static("probe");
pub(super) const OPERATOR: HeaderValue = HeaderValue::from_static("operator");
pub(super) const GATEWAY: HeaderValue = HeaderValue::from_static("gateway");
pub(super) const UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");
pub(super) const NOT_EXECUTED: HeaderValue = HeaderValue::from_static("not-executed");
pub(super) const STORE_UNAVAILABLE: HeaderValue = HeaderValue::from_static("store-unavailable");

thread_local! {
    /// The last second that was written as a date: most outcomes of a second are remembered until the same one.
    static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((u64::MAX, HeaderValue::from_static(""))) };
}

/// Where marks are set. Nothing else says anything under their names.
pub(super) trait Fields {
    /// Says this under this name.
    fn set(&mut self, name: &HeaderName, value: &HeaderValue);
}

impl Fields for HeaderMap {
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.insert(name, value.clone());
    }
}

impl Fields for Lines {
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.put(name, value);
    }
}

/// Sets marks of an answer, wherever that has its fields.
pub(super) fn say(response: &mut Response<Body>, marks: impl FnOnce(&mut dyn Fields)) {
    match response.body_mut().lines() {
        Some(lines) => marks(lines),
        None => marks(response.headers_mut()),
    }
}

/// Says until when the outcome is remembered, in whole seconds, rounded down: never later than the truth.
pub(super) fn set_expires(fields: &mut (impl Fields + ?Sized), expires: Time) {
    // The format ends with the year 9999.
    const END: u64 = 253_402_300_799;
    let second = (expires.0 / 1000).min(END);
    LAST.with_borrow_mut(|(last, date)| {
        if *last != second {
            let mut text = [0; 29];
            write!(&mut text[..], "{}", HttpDate::from(UNIX_EPOCH + Duration::from_secs(second))).ok()?;
            (*last, *date) = (second, HeaderValue::from_bytes(&text).ok()?);
        }
        fields.set(&IDEMPOTENCY_EXPIRES, date);
        Some(())
    });
}

/// Names the operation.
pub(super) fn set_operation(fields: &mut (impl Fields + ?Sized), operation: &OperationId) {
    if let Ok(value) = HeaderValue::from_bytes(&operation.digits()) {
        fields.set(&OPERATION, &value);
    }
}
