//! The operations in doubt, a part of the store at a time. Leases that have ended unseen are the sweep's matter.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as FromState};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::unavailable;
use super::{Admin, Rules, problem};
use crate::machine::{Record, State};
use crate::store::Cursor;

/// How many doubts an answer holds by default, and at most. A Redis may give a few more at once.
const USUAL: usize = 100;
const MOST: usize = 1_000;
/// How many parts of the store are looked at for one answer.
const LOOKS: usize = 32;
/// How many records are looked at at once.
const PAGE: usize = 500;
/// The longest cursor that is read, in characters.
const CURSOR: usize = 512;

/// Which doubts are wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Those of one route; none: of all, but for those in shadow mode.
    route: Option<String>,
    limit: Option<usize>,
    /// Where the last answer ended.
    cursor: Option<String>,
}

pub(super) async fn list(
    FromState(admin): FromState<Arc<Admin>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    match try_list(&admin, wanted).await {
        Ok(page) => Json(page).into_response(),
        Err(refusal) => refusal,
    }
}

async fn try_list(admin: &Admin, wanted: Result<Query<Wanted>, QueryRejection>) -> Result<Value, Response> {
    let invalid = |detail: &str| problem(StatusCode::BAD_REQUEST, "query-invalid", detail);
    let Query(Wanted { route, limit, cursor }) = wanted.map_err(|refusal| invalid(&refusal.body_text()))?;
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(invalid(&format!("`limit` lies within 1 and {MOST}.")));
    }
    let rules = (admin.rules)();
    if let Some(route) = &route
        && !rules.namespaces.values().any(|namespace| namespace.is_of(route))
    {
        return Err(invalid(&format!("`route`: no route that keeps records is called `{route}`.")));
    }
    let mut next = match cursor {
        None => Some(Cursor::START),
        Some(text) => Some(parse(&text).ok_or_else(|| invalid("`cursor` is not the `next` of another answer."))?),
    };
    let (mut doubts, mut unreadable) = (Vec::new(), 0);
    for _ in 0..LOOKS {
        // As much as there is room for, so that nothing that was found is left out; never in crumbs.
        let room = limit.saturating_sub(doubts.len());
        if room == 0 || room * 2 < limit {
            break;
        }
        let Some(from) = next.take() else { break };
        let page = admin.arbiter.store().list(from, room.min(PAGE)).await.map_err(|error| unavailable(&error))?;
        let wanted = page.records.iter().filter(|(_, record)| is_wanted(record, route.as_deref(), &rules));
        doubts.extend(wanted.map(|(id, record)| admin.describe(id, record)));
        unreadable += page.unreadable;
        next = page.next;
    }
    Ok(json!({"doubts": doubts, "unreadable": unreadable, "next": next.map(|next| URL_SAFE_NO_PAD.encode(next.0))}))
}

fn is_wanted(record: &Record, route: Option<&str>, rules: &Rules) -> bool {
    let namespace = rules.namespaces.get(&record.namespace);
    let of_route = match (route, namespace) {
        (Some(route), namespace) => namespace.is_some_and(|namespace| namespace.is_of(route)),
        // Nobody is refused by what a shadow route keeps; records whose route is gone may be somebody's trouble.
        (None, namespace) => namespace.is_none_or(|namespace| !namespace.shadow),
    };
    of_route && matches!(record.state, State::InDoubt { .. })
}

fn parse(text: &str) -> Option<Cursor> {
    let bytes = Some(text).filter(|text| text.len() <= CURSOR).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())?;
    (!bytes.is_empty()).then_some(Cursor(bytes))
}
