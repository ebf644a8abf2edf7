//! One operation's record, looked at. Nothing is changed here.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State as FromState};
use axum::http::StatusCode;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{Admin, problem};
use crate::machine::{Cause, Fence, OperationId, Record, State};
use crate::store::StoreError;

pub(super) async fn show(FromState(admin): FromState<Arc<Admin>>, Path(id): Path<String>) -> Response {
    match find(&admin, &id).await {
        Ok((id, record)) => ([(ETAG, etag(record.fence))], Json(admin.describe(&id, &record))).into_response(),
        Err(refusal) => refusal,
    }
}

pub(super) async fn find(admin: &Admin, id: &str) -> Result<(OperationId, Record), Response> {
    let Some(id) = OperationId::parse(id) else {
        let detail = "An operation is named by 64 hex digits, as in `Oncegate-Operation`.";
        return Err(problem(StatusCode::BAD_REQUEST, "id-invalid", detail));
    };
    match admin.arbiter.store().load(&id).await {
        Ok(Some(record)) => Ok((id, record)),
        Ok(None) => Err(problem(StatusCode::NOT_FOUND, "not-found", "There is no record of this operation.")),
        Err(error) => Err(unavailable(&error)),
    }
}

pub(super) fn unavailable(error: &StoreError) -> Response {
    let code = match error {
        StoreError::Unavailable(_) | StoreError::Unacknowledged(_) => "store-unavailable",
        StoreError::Unreadable(_) => "record-unreadable",
    };
    problem(StatusCode::SERVICE_UNAVAILABLE, code, &error.to_string())
}

/// The record's fence as an entity tag (RFC 9110 section 8.8.3): changes with every write.
pub(super) fn etag(fence: Fence) -> String {
    format!("\"{}-{}\"", fence.attempt, fence.version)
}

impl Admin {
    /// The record without what clients sent: no key, no body, no header values.
    pub(super) fn describe(&self, id: &OperationId, record: &Record) -> Value {
        let rules = (self.rules)();
        let mut shown = json!({
            "id": id.to_string(),
            "route": rules.namespaces.get(&record.namespace).map(|namespace| &namespace.route),
            "attempt": record.number,
            "expires": record.expires.rfc3339(),
        });
        let state = match &record.state {
            State::InFlight { since, lease } => {
                json!({"state": "in-flight", "since": since.rfc3339(), "lease_until": lease.rfc3339()})
            }
            State::InDoubt { since, cause } => {
                json!({"state": "in-doubt", "since": since.rfc3339(), "cause": text(*cause)})
            }
            State::Completed { at, answer } => {
                let replayable = answer.whole().is_some();
                json!({"state": "completed", "since": at.rfc3339(), "status": answer.status(), "replayable": replayable})
            }
        };
        if let Some(beside) = &record.beside {
            let namespace = rules.namespaces.get(&record.namespace);
            shown["key"] = json!(namespace.map(|namespace| if namespace.second { "also" } else { "key" }));
            shown["beside"] = json!(beside.to_string());
        }
        if let (Value::Object(shown), Value::Object(state)) = (&mut shown, state) {
            shown.extend(state);
        }
        shown
    }
}

/// A cause as operators read it.
pub(super) fn text(cause: Cause) -> String {
    match cause {
        Cause::LeaseLost => "lease-lost".to_owned(),
        Cause::Broken => "upstream-broke".to_owned(),
        Cause::TimedOut => "attempt-timed-out".to_owned(),
        Cause::Status(status) => format!("status-{status}"),
        Cause::RetryNotSent => "retry-not-sent".to_owned(),
        Cause::Abandoned => "abandoned".to_owned(),
        Cause::Forgotten => "store-forgot".to_owned(),
    }
}
