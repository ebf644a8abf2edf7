//! The whole store, streamed to an operator. What is in it, and how it becomes a store again, is not its matter.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::{Admin, Peer, problem};
use crate::store::NoBackup;
use crate::store::embedded::NoDump;
use crate::telemetry::AUDIT;

/// A backup holds what upstreams answered to whom: nobody gets it without a token, not even on this machine.
pub(super) async fn stream(State(admin): State<Arc<Admin>>, Extension(Peer(peer)): Extension<Peer>) -> Response {
    if (admin.rules)().token.is_none() {
        let detail = "A backup holds the stored answers: it is handed out only where `admin.token` is set.";
        return problem(StatusCode::FORBIDDEN, "token-needed", detail);
    }
    match admin.store.backup().await {
        Ok(mut dump) => {
            tracing::info!(target: AUDIT, %peer, "a backup of the store was begun");
            let body = Body::from_stream(stream::poll_fn(move |context| dump.poll_recv(context)));
            ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
        }
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &NoBackup) -> Response {
    let detail = error.to_string();
    match error {
        NoBackup::Dump(NoDump::Busy) => problem(StatusCode::SERVICE_UNAVAILABLE, "overloaded", &detail),
        NoBackup::Dump(NoDump::Store(_)) => problem(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", &detail),
        NoBackup::Memory | NoBackup::Redis => problem(StatusCode::CONFLICT, "no-backup", &detail),
    }
}
