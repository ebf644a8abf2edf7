//! An operator's word on a doubt: taken, written over the record that was looked at, and put down in the audit log.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State as FromState};
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answer::Given;
use super::keys::{etag, find, text, unavailable};
use super::{Admin, Namespace, Peer, problem};
use crate::arbiter::Resolved;
use crate::machine::{Answer, Ending, Judgement, OperationId, Record, Recorded, Settled, State, Witness};
use crate::telemetry::AUDIT;

/// How long the texts of an audit line may be, in bytes.
const TEXT_LIMIT: usize = 1024;

/// An operator's word on a doubt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolution {
    outcome: Outcome,
    /// Why, for the audit line.
    reason: String,
    /// Who says so, for the audit line: all operators share one token.
    actor: Option<String>,
    /// What duplicates get. Without it they get 409 `already-executed`.
    answer: Option<Given>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// The upstream did it.
    Executed,
    /// The upstream did not do it. The key is free again.
    NotExecuted,
}

/// What the audit line says, but for what became of it.
struct Told<'a> {
    id: &'a OperationId,
    doubt: &'a Record,
    route: &'a str,
    outcome: &'static str,
    reason: &'a str,
    actor: &'a str,
    peer: IpAddr,
    answer: Option<&'a Recorded>,
}

pub(super) async fn resolve(
    FromState(admin): FromState<Arc<Admin>>,
    Path(id): Path<String>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    word: Result<Json<Resolution>, JsonRejection>,
) -> Response {
    match try_resolve(&admin, &id, peer, &headers, word).await {
        Ok(done) => Json(done).into_response(),
        Err(refusal) => refusal,
    }
}

async fn try_resolve(
    admin: &Admin,
    id: &str,
    peer: IpAddr,
    headers: &HeaderMap,
    word: Result<Json<Resolution>, JsonRejection>,
) -> Result<Value, Response> {
    let Json(Resolution { outcome, reason, actor, answer }) =
        word.map_err(|refusal| problem(refusal.status(), "body-invalid", &refusal.body_text()))?;
    if reason.trim().is_empty() {
        return Err(problem(StatusCode::BAD_REQUEST, "reason-missing", "`reason` says why, for the audit log."));
    }
    let invalid = |detail: String| problem(StatusCode::UNPROCESSABLE_ENTITY, "body-invalid", &detail);
    let reason = audited("reason", &reason).map_err(invalid)?;
    let actor = actor.as_deref().map(|actor| audited("actor", actor)).transpose().map_err(invalid)?;
    let (id, doubt) = find(admin, id).await?;
    if headers.get(IF_MATCH).is_some_and(|expected| expected != "*" && *expected != etag(doubt.fence)) {
        let detail = "The record is not the one that you looked at.";
        return Err(problem(StatusCode::PRECONDITION_FAILED, "record-changed", detail));
    }
    let rules = (admin.rules)();
    let Some(namespace) = rules.namespaces.get(&doubt.namespace) else {
        let detail = "No configured route has this record's namespace.";
        return Err(problem(StatusCode::CONFLICT, "route-unknown", detail));
    };
    let ending = ending(outcome, answer, namespace)
        .map_err(|detail| problem(StatusCode::UNPROCESSABLE_ENTITY, "answer-invalid", &detail))?;
    let told = Told {
        id: &id,
        doubt: &doubt,
        route: &namespace.route,
        outcome: outcome.text(),
        reason,
        actor: actor.unwrap_or("not stated"),
        peer,
        answer: given(&ending),
    };
    match admin.arbiter.resolve(&id, &doubt, &ending, &namespace.terms).await {
        Ok(Resolved::Done(settled)) => {
            let expires = if let Settled::Kept(at) = settled { at.rfc3339() } else { None };
            told.audit("written", expires.as_deref());
            Ok(json!({"id": id.to_string(), "outcome": outcome.text(), "expires": expires}))
        }
        Ok(Resolved::NotInDoubt(_)) => {
            let detail = "The operation is not in doubt, or no longer.";
            Err(problem(StatusCode::CONFLICT, "not-in-doubt", detail))
        }
        Err(error) => {
            // The store may have carried it out all the same.
            told.audit("unconfirmed", None);
            Err(unavailable(&error))
        }
    }
}

/// A text for the audit line.
fn audited<'a>(field: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim();
    if !(1..=TEXT_LIMIT).contains(&text.len()) || text.chars().any(char::is_control) {
        return Err(format!("`{field}` is a line of 1 to {TEXT_LIMIT} bytes, without control characters."));
    }
    Ok(text)
}

fn ending(outcome: Outcome, answer: Option<Given>, namespace: &Namespace) -> Result<Ending, String> {
    let (judgement, status, answer) = match (outcome, answer) {
        (Outcome::NotExecuted, Some(_)) => {
            return Err("`answer` goes with the outcome `executed` only: after `not-executed` there is none".to_owned());
        }
        (Outcome::NotExecuted, None) => (Judgement::Release, 0, Answer::Unseen),
        (Outcome::Executed, None) => (Judgement::Keep, 0, Answer::Unseen),
        (Outcome::Executed, Some(given)) => {
            let answer = given.recorded(namespace.response_body_limit, &namespace.allow_headers)?;
            (Judgement::Keep, answer.status, Answer::Told { by: Witness::Operator, answer })
        }
    };
    Ok(Ending::Answered { judgement, status, answer, retention: None })
}

fn given(ending: &Ending) -> Option<&Recorded> {
    match ending {
        Ending::Answered { answer: Answer::Told { answer, .. }, .. } => Some(answer),
        _ => None,
    }
}

impl Outcome {
    fn text(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::NotExecuted => "not-executed",
        }
    }
}

impl Told<'_> {
    /// Of an answer's fields the names, of its body length and digest: what they hold is the client's.
    fn audit(&self, result: &str, expires: Option<&str>) {
        let names = |answer: &Recorded| {
            let names: Vec<_> = answer.fields().map(|(name, _)| String::from_utf8_lossy(name)).collect();
            names.join(", ")
        };
        let digest = |answer: &Recorded| hex(&Sha256::digest(answer.body()));
        let State::InDoubt { since, cause } = self.doubt.state else { return };
        tracing::info!(
            target: AUDIT,
            operation = %self.id,
            route = self.route,
            attempt = self.doubt.number,
            attempt_id = %self.doubt.fence.attempt,
            since = since.rfc3339(),
            cause = text(cause),
            outcome = self.outcome,
            reason = self.reason,
            actor = self.actor,
            peer = %self.peer,
            status = self.answer.map(|answer| answer.status),
            fields = self.answer.map(names),
            body_bytes = self.answer.map(|answer| answer.body().len()),
            body_sha256 = self.answer.map(digest),
            expires,
            result,
            "doubt resolved by an operator"
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
