//! Bodies of operators' calls: read whole, within bounds of size, time and number. What they say is not its matter.

use std::error::Error;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;
use http_body_util::LengthLimitError;

use super::{Admin, problem};
use crate::wire::InboundError;

/// How long a body may be, in bytes. It has room for an answer of a usual size that an operator gives.
const LIMIT: usize = 1024 * 1024;

/// Reads a call's body before the call is answered. Only a part of the connections may be at this at once, so that slow
/// ones leave room for probes.
pub(super) async fn read(State(admin): State<Arc<Admin>>, request: Request<Body>, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let Ok(_place) = admin.bodies.try_acquire() else {
        let detail = "Too many calls are sending their bodies.";
        return problem(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail);
    };
    let (head, body) = request.into_parts();
    match to_bytes(body, LIMIT).await {
        Ok(bytes) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(error) => unread(&error),
    }
}

fn unread(error: &axum::Error) -> Response {
    if causes(error).any(|cause| matches!(cause.downcast_ref(), Some(InboundError::Slow))) {
        return problem(StatusCode::REQUEST_TIMEOUT, "body-timeout", "The body did not arrive in time.");
    }
    if causes(error).any(<dyn Error>::is::<LengthLimitError>) {
        let detail = format!("The body is over the limit of {LIMIT} bytes.");
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", &detail);
    }
    problem(StatusCode::BAD_REQUEST, "body-invalid", "The body ended before it was complete.")
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
