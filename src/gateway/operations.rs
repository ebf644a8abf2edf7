//! What is known of an operation, for the client whose it is: `GET {path}/{key}`. It runs nothing, and shows nobody more
//! than a duplicate would be shown.

use std::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Response, StatusCode, request};
use serde_json::json;

use super::again::{self, Outlook};
use super::body::Body;
use super::caller::parameters_in;
use super::duplicate::is_replayable;
use super::problem::Problem;
use super::queue::Queue;
use super::settings::{Guard, Mode, OnDuplicate, Operations, Settings};
use super::tally::Tally;
use super::target::Target;
use super::{Answer, Gateway, Guarded, Place, check_fields, marks};
use crate::keys::{self, query};
use crate::machine::{self, Inquiry, Record, Sight, State};
use crate::telemetry::{RouteMetrics, Verdict};
use crate::upstream::headers::{self, Kinds};
use crate::wire::Client;

impl Operations {
    /// The key that a path asks for, as it is spelled there; none when the path is not for this door.
    fn asked<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.path.as_str())?.strip_prefix('/')
    }
}

impl Settings {
    /// The setting by which the gateway itself answers at a path, whatever the routes say; none where it does not.
    pub fn own_path(&self, path: &str) -> Option<&'static str> {
        if self.operations.as_ref().is_some_and(|operations| operations.asked(path).is_some()) {
            return Some("operations.path");
        }
        (self.tokens.as_deref() == Some(path)).then_some("tokens.path")
    }
}

/// A question for an operation.
pub(super) struct Question<'a> {
    operations: &'a Operations,
    /// The key, as the path spells it.
    key: &'a str,
    head: &'a request::Parts,
    target: &'a Target,
    client: &'a Client,
    /// Whether the peer's word counts.
    trusted: bool,
}

impl<'a> Question<'a> {
    /// The question that a request asks; none when it is none.
    pub(super) fn of(
        operations: &'a Operations,
        head: &'a request::Parts,
        target: &'a Target,
        client: &'a Client,
        trusted: bool,
    ) -> Option<Self> {
        let key = operations.asked(head.uri.path())?;
        Some(Self { operations, key, head, target, client, trusted })
    }
}

impl Gateway {
    pub(super) async fn tell_operation(&self, asked: Question<'_>, tally: &mut Tally) -> Result<Answer, Problem> {
        let head = asked.head;
        let text = head.uri.query().unwrap_or_default();
        let acts = |guard: &Guard| guard.mode == Mode::Enforce && guard.keys.client_made().is_some();
        let (index, guarded) = self.meant_route(text, acts, "with keys that clients make")?;
        let (route, metrics) = (&self.shared.settings.routes[index], &self.shared.route_metrics[index]);
        tally.routed(index);
        tally.if_left(Verdict::LookedUp);
        let place = Place::of(asked.target, head.uri.path())?;
        let kinds = Kinds::of(&head.headers);
        check_fields(head, kinds, &place, &self.shared.routes, self.shared.settings.underscore_headers)?;
        let mut response = match head.method {
            Method::GET | Method::HEAD => {
                let inquiry = self.inquiry(&guarded.guard, &asked).await?;
                tally.named(inquiry.operation);
                let record = self.seek(guarded, &inquiry, wait(text, asked.operations.max_wait)?).await?;
                let outlook = self.outlook(&guarded.guard, metrics);
                tell(&guarded.guard, &inquiry, &record, &outlook)
            }
            Method::OPTIONS => nothing(),
            _ => return Err(Problem::MethodNotAllowed { allow: marks::LOOKING }),
        };
        let origin = headers::origin(&head.headers, kinds);
        if let Some(cors) = &route.cors {
            cors.open(response.headers_mut(), origin);
            if head.method == Method::OPTIONS {
                cors.allow(response.headers_mut(), origin, &guarded.guard.keys.headers());
            }
        }
        Ok((response, Verdict::LookedUp))
    }

    /// The route that is meant: the one that is named, or the only one of its kind. `what` says which kind.
    pub(super) fn meant_route(
        &self,
        text: &str,
        is_one: impl Fn(&Guard) -> bool,
        what: &str,
    ) -> Result<(usize, &Guarded), Problem> {
        let refused = |detail: String| Problem::BadRequest(detail);
        let named = query::value(text, "route").map_err(|what| refused(format!("The parameter `route` {what}.")))?;
        let guards = self.guards.iter().enumerate();
        let mut found = guards.filter_map(|(index, guarded)| {
            let name = &self.shared.settings.routes[index].name;
            let meant = named.as_ref().is_none_or(|named| named == name);
            guarded.as_ref().filter(|guarded| meant && is_one(&guarded.guard)).map(|guarded| (index, guarded))
        });
        match (found.next(), found.next(), &named) {
            (Some(found), None, _) => Ok(found),
            (None, _, Some(_)) => Err(refused(format!("There is no route of this name {what}."))),
            (None, _, None) => Err(refused(format!("There is no route {what}."))),
            (Some(_), Some(_), _) => {
                Err(refused(format!("There are several routes {what}: say which is meant, by `?route=` and its name.")))
            }
        }
    }

    async fn inquiry(&self, guard: &Guard, asked: &Question<'_>) -> Result<Inquiry, Problem> {
        let headers = &asked.head.headers;
        let parameters = parameters_in(asked.head.uri.query().unwrap_or_default(), &guard.keys.scope);
        let caller = self.caller(guard, headers, asked.client, asked.trusted, parameters).await?;
        Ok(keys::inquire(&guard.keys, asked.key, headers, &caller)?)
    }

    /// The record; of an attempt that runs, after it has ended or the client's patience has.
    async fn seek(&self, guarded: &Guarded, inquiry: &Inquiry, patience: Duration) -> Result<Record, Problem> {
        let mut queue = Queue::new(patience);
        loop {
            let sight = self.arbiter.look(inquiry, &guarded.terms.policy).await;
            match sight.map_err(|error| Problem::from(&error))? {
                Sight::Known(record) if matches!(record.state, State::InFlight { .. }) && !queue.is_over() => {}
                Sight::Known(record) | Sight::Lapse { record, .. } => return Ok(record),
                Sight::Nothing(Some(untimely)) => return Err(untimely.into()),
                Sight::Nothing(None) => return Err(Problem::OperationUnknown),
            }
            queue.wait(&self.arbiter.shared().lines, inquiry.operation).await?;
        }
    }

    pub(super) fn outlook<'a>(&self, guard: &'a Guard, metrics: &RouteMetrics) -> Outlook<'a> {
        let now = self.arbiter.shared().clock.now_lately();
        Outlook { policy: &guard.policy, usual: metrics.attempts_usually_take(), now }
    }
}

/// How long the client would wait, at most as long as it may.
fn wait(text: &str, most: Duration) -> Result<Duration, Problem> {
    let refused = || Problem::BadRequest("The parameter `wait` is a time such as `5s` or `500ms`.".to_owned());
    let Some(text) = query::value(text, "wait").map_err(|_| refused())? else { return Ok(Duration::ZERO) };
    let millis = text.strip_suffix("ms").map(str::parse).or_else(|| {
        let seconds = text.strip_suffix('s')?.parse::<u64>();
        Some(seconds.map(|seconds| seconds.saturating_mul(1000)))
    });
    let millis = millis.and_then(Result::ok).ok_or_else(refused)?;
    Ok(Duration::from_millis(millis).min(most))
}

fn tell(guard: &Guard, inquiry: &Inquiry, record: &Record, outlook: &Outlook<'_>) -> Response<Body> {
    let mut told = json!({
        "operation": inquiry.operation.to_string(),
        "attempt": record.number,
        "expires": record.expires.rfc3339(),
    });
    let (state, since, again) = match &record.state {
        State::InFlight { since, .. } => ("in-flight", *since, Some(outlook.running(*since))),
        State::InDoubt { since, .. } => ("in-doubt", *since, Some(outlook.in_doubt(*since))),
        State::Completed { at, answer } => {
            told["status"] = json!(answer.status());
            told["replayable"] = json!(is_replayed(guard, answer));
            ("completed", *at, None)
        }
    };
    told["state"] = json!(state);
    told["since"] = json!(since.rfc3339());
    let stop = matches!(&record.state, State::Completed { answer, .. } if !is_replayed(guard, answer));
    told["retry"] = json!(if stop { "stop" } else { "same-key" });
    let mut response = nothing();
    *response.status_mut() = StatusCode::OK;
    let fields = response.headers_mut();
    fields.remove(ALLOW);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    marks::set_operation(fields, &inquiry.operation);
    match again.map(again::seconds) {
        Some(seconds) => {
            told["retry_after"] = json!(seconds);
            fields.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        None => marks::set_expires(fields, record.expires),
    }
    *response.body_mut() = Body::whole(told.to_string().into());
    response
}

/// 204, with what all answers of this door have.
fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let fields = response.headers_mut();
    fields.insert(ALLOW, marks::LOOKING);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(marks::SOURCE, marks::GATEWAY);
    response
}

/// Whether a duplicate would get the recorded answer.
fn is_replayed(guard: &Guard, answer: &machine::Answer) -> bool {
    let whole = answer.whole().filter(|recorded| is_replayable(recorded, &guard.allow_headers));
    whole.is_some() && guard.duplicate == OnDuplicate::Replay
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_asks_for_one_key_or_is_not_for_this_door() {
        let operations = Operations { path: "/_oncegate/operations".to_owned(), max_wait: Duration::from_secs(1) };
        for (path, key) in [
            ("/_oncegate/operations/a%2Fb", Some("a%2Fb")),
            ("/_oncegate/operations/", Some("")),
            ("/_oncegate/operations", None),
            ("/_oncegate/operationsx/a", None),
            ("/orders", None),
        ] {
            assert_eq!(operations.asked(path), key, "{path}");
        }
    }

    #[test]
    fn a_wait_is_bounded_and_nothing_else_is_one() {
        let most = Duration::from_secs(10);
        for (text, span) in [
            ("", Some(0)),
            ("wait=5s", Some(5000)),
            ("a=b&wait=250ms", Some(250)),
            ("wait=1000s", Some(10_000)),
            ("wait=18446744073709551615s", Some(10_000)),
            ("wait=5", None),
            ("wait=", None),
            ("wait=-1s", None),
            ("wait=1s&wait=2s", None),
        ] {
            assert_eq!(wait(text, most).ok(), span.map(Duration::from_millis), "{text}");
        }
    }
}
