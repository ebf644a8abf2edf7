//! Single-use tokens for a route's callers: `POST {path}?route=NAME`. Issuing one writes nothing and runs nothing; whether
//! it was used is for the arbiter to know.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode, request};
use serde_json::json;

use super::body::Body;
use super::caller::parameters_in;
use super::problem::Problem;
use super::settings::Guard;
use super::tally::Tally;
use super::target::Target;
use super::{Answer, Gateway, Place, check_fields, marks};
use crate::keys;
use crate::telemetry::Verdict;
use crate::upstream::headers::{self, Kinds};
use crate::wire::Client;

/// A request for a token.
pub(super) struct Wish<'a> {
    pub(super) head: &'a request::Parts,
    pub(super) target: &'a Target,
    pub(super) client: &'a Client,
    /// Whether the peer's word counts.
    pub(super) trusted: bool,
}

impl Gateway {
    /// Whether this is the path where tokens are issued.
    pub(super) fn issues_at(&self, path: &str) -> bool {
        self.shared.settings.tokens.as_deref() == Some(path)
    }

    pub(super) async fn issue_token(&self, wish: Wish<'_>, tally: &mut Tally) -> Result<Answer, Problem> {
        let head = wish.head;
        let takes = |guard: &Guard| guard.keys.tokens().is_some();
        let text = head.uri.query().unwrap_or_default();
        let (index, guarded) = self.meant_route(text, takes, "that takes tokens")?;
        let (route, metrics) = (&self.shared.settings.routes[index], &self.shared.route_metrics[index]);
        tally.routed(index);
        tally.if_left(Verdict::TokenIssued);
        let place = Place::of(wish.target, head.uri.path())?;
        let kinds = Kinds::of(&head.headers);
        check_fields(head, kinds, &place, &self.shared.routes, self.shared.settings.underscore_headers)?;
        let (mut response, verdict) = match head.method {
            Method::POST => {
                let response = self.token(&guarded.guard, &wish).await?;
                metrics.token_issued();
                (response, Verdict::TokenIssued)
            }
            Method::OPTIONS => (answer(StatusCode::NO_CONTENT, Body::empty()), Verdict::Answered),
            _ => return Err(Problem::MethodNotAllowed { allow: marks::ISSUING }),
        };
        let origin = headers::origin(&head.headers, kinds);
        if let Some(cors) = &route.cors {
            cors.open(response.headers_mut(), origin);
            if head.method == Method::OPTIONS {
                cors.allow(response.headers_mut(), origin, &guarded.guard.keys.headers());
            }
        }
        Ok((response, verdict))
    }

    async fn token(&self, guard: &Guard, wish: &Wish<'_>) -> Result<Response<Body>, Problem> {
        let headers = &wish.head.headers;
        let parameters = parameters_in(wish.head.uri.query().unwrap_or_default(), &guard.keys.scope);
        let caller = self.caller(guard, headers, wish.client, wish.trusted, parameters).await?;
        // All gateways go by the store's time, never by their own.
        let now = self.arbiter.time().await.map_err(|error| Problem::from(&error))?;
        let (token, expires) = keys::issue(&guard.keys, headers, &caller, now, rand::random())?;
        let told = json!({ "token": token, "expires_at": expires.rfc3339() });
        let mut response = answer(StatusCode::CREATED, Body::whole(told.to_string().into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

/// What all answers of this door have.
fn answer(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    if status == StatusCode::NO_CONTENT {
        fields.insert(ALLOW, marks::ISSUING);
    }
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(marks::SOURCE, marks::GATEWAY);
    response
}
