//! One operation's record: looked at, and led out of doubt.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State as FromState};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admin, problem};
use crate::arbiter::Resolved;
use crate::machine::{Answer, Cause, Ending, Fence, Judgement, OperationId, Record, Settled, State, Time};
use crate::store::StoreError;

/// An operator's word on a doubt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolution {
    outcome: Outcome,
    /// Why, for the audit line.
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// The upstream did it. Duplicates get 409 `already-executed`: nobody kept the answer.
    Executed,
    /// The upstream did not do it. The key is free again.
    NotExecuted,
}

impl Outcome {
    fn text(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::NotExecuted => "not-executed",
        }
    }

    fn ending(self) -> Ending {
        let judgement = match self {
            Self::Executed => Judgement::Keep,
            Self::NotExecuted => Judgement::Release,
        };
        Ending::Answered { judgement, status: 0, answer: Answer::Unseen, retention: None }
    }
}

pub(super) async fn show(FromState(admin): FromState<Arc<Admin>>, Path(id): Path<String>) -> Response {
    match find(&admin, &id).await {
        Ok((id, record)) => ([(ETAG, etag(record.fence))], Json(admin.describe(&id, &record))).into_response(),
        Err(refusal) => refusal,
    }
}

pub(super) async fn resolve(
    FromState(admin): FromState<Arc<Admin>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    word: Result<Json<Resolution>, JsonRejection>,
) -> Response {
    let resolution = match word {
        Ok(Json(resolution)) => resolution,
        Err(refusal) => return problem(refusal.status(), "body-invalid", &refusal.body_text()),
    };
    if resolution.reason.trim().is_empty() {
        return problem(StatusCode::BAD_REQUEST, "reason-missing", "`reason` says why, for the audit log.");
    }
    let (id, record) = match find(&admin, &id).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    if headers.get(IF_MATCH).is_some_and(|expected| expected != "*" && *expected != etag(record.fence)) {
        return problem(
            StatusCode::PRECONDITION_FAILED,
            "record-changed",
            "The record is not the one that you looked at.",
        );
    }
    let rules = (admin.rules)();
    let Some(namespace) = rules.namespaces.get(&record.namespace) else {
        return problem(StatusCode::CONFLICT, "route-unknown", "No configured route has this record's namespace.");
    };
    let ending = resolution.outcome.ending();
    match admin.arbiter.resolve(&id, &record, &ending, &namespace.terms.policy).await {
        Ok(Resolved::Done(settled)) => {
            audit(&id, &record, &resolution, &namespace.route);
            let expires = if let Settled::Kept(at) = settled { time(at) } else { Value::Null };
            Json(json!({"id": id.to_string(), "outcome": resolution.outcome.text(), "expires": expires}))
                .into_response()
        }
        Ok(Resolved::NotInDoubt(_)) => {
            problem(StatusCode::CONFLICT, "not-in-doubt", "The operation is not in doubt, or no longer.")
        }
        Err(error) => unavailable(&error),
    }
}

fn audit(id: &OperationId, record: &Record, resolution: &Resolution, route: &str) {
    tracing::info!(
        target: "oncegate::audit",
        operation = %id.short(),
        route,
        attempt = record.number,
        outcome = resolution.outcome.text(),
        reason = resolution.reason.trim(),
        "doubt resolved by an operator"
    );
}

async fn find(admin: &Admin, id: &str) -> Result<(OperationId, Record), Response> {
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

fn unavailable(error: &StoreError) -> Response {
    let code = match error {
        StoreError::Unavailable(_) => "store-unavailable",
        StoreError::Unreadable(_) => "record-unreadable",
    };
    problem(StatusCode::SERVICE_UNAVAILABLE, code, &error.to_string())
}

/// The record's fence as an entity tag (RFC 9110 section 8.8.3): changes with every write.
fn etag(fence: Fence) -> String {
    format!("\"{}-{}\"", fence.attempt, fence.version)
}

fn time(at: Time) -> Value {
    i64::try_from(at.0)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or(Value::Null, |at| json!(at.to_string()))
}

impl Admin {
    /// The record without what clients sent: no key, no body, no header values.
    fn describe(&self, id: &OperationId, record: &Record) -> Value {
        let rules = (self.rules)();
        let mut shown = json!({
            "id": id.to_string(),
            "route": rules.namespaces.get(&record.namespace).map(|namespace| &namespace.route),
            "attempt": record.number,
            "expires": time(record.expires),
        });
        let state = match &record.state {
            State::InFlight { since, lease } => {
                json!({"state": "in-flight", "since": time(*since), "lease_until": time(*lease)})
            }
            State::InDoubt { since, cause } => {
                json!({"state": "in-doubt", "since": time(*since), "cause": text(*cause)})
            }
            State::Completed { at, answer } => {
                let replayable = matches!(answer, Answer::Recorded(_) | Answer::Told { .. });
                json!({"state": "completed", "since": time(*at), "status": status(answer), "replayable": replayable})
            }
        };
        if let (Value::Object(shown), Value::Object(state)) = (&mut shown, state) {
            shown.extend(state);
        }
        shown
    }
}

fn status(answer: &Answer) -> Option<u16> {
    match answer {
        Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. } => Some(recorded.status),
        Answer::TooLarge { status, .. } => Some(*status),
        Answer::Unseen => None,
    }
}

fn text(cause: Cause) -> String {
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
