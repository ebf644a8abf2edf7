//! What a duplicate is told: the recorded answer, or a refusal.

use http::header::AGE;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::again::Outlook;
use super::body::Body;
use super::marks;
use super::problem::Problem;
use super::reads;
use super::settings::{Guard, OnDuplicate};
use crate::machine::{Answer, Duplicate, Record, Recorded, State, Time, Window, Witness};
use crate::upstream::headers;

/// Which of a route's keys is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    First,
    Second,
}

/// What a route tells a duplicate: the recorded answer, or a refusal. `origin` is the one that the duplicate came from.
pub(super) fn tell(
    guard: &Guard,
    (duplicate, key): (Duplicate, Key),
    origin: Option<&HeaderValue>,
    outlook: &Outlook<'_>,
) -> Result<Response<Body>, Problem> {
    let also = guard.also.as_ref().filter(|_| key == Key::Second);
    let Some(also) = also else {
        let manner = Manner { duplicate: guard.duplicate, status: guard.duplicate_status, window: guard.policy.window };
        return tell_of(guard, manner, duplicate, origin, outlook);
    };
    let manner = Manner { duplicate: also.duplicate, status: also.duplicate_status, window: also.policy.window };
    let told = tell_of(guard, manner, duplicate, origin, outlook);
    told.map_err(|problem| Problem::Also { source: guard.keys.second_key(), problem: Box::new(problem) })
}

/// How a duplicate of a completed operation is told.
#[derive(Clone, Copy)]
struct Manner {
    duplicate: OnDuplicate,
    /// The status of a refusal.
    status: StatusCode,
    window: Window,
}

fn tell_of(
    guard: &Guard,
    manner: Manner,
    duplicate: Duplicate,
    origin: Option<&HeaderValue>,
    outlook: &Outlook<'_>,
) -> Result<Response<Body>, Problem> {
    match duplicate {
        Duplicate::InFlight { since } => {
            Err(Problem::InFlight { status: guard.in_flight_status, again: outlook.running(since) })
        }
        Duplicate::InDoubt { since } => {
            Err(Problem::OutcomeUnknown { status: guard.in_doubt_status, again: outlook.in_doubt(since) })
        }
        Duplicate::Changed => Err(Problem::KeyReused),
        Duplicate::Unsure => Err(Problem::Duplicate {
            status: StatusCode::CONFLICT,
            expires: None,
            detail: "The key is in use, and the route's fingerprint settings have changed since its first request.",
        }),
        Duplicate::Stranger(_) => Err(Problem::Duplicate {
            status: StatusCode::CONFLICT,
            expires: None,
            detail: "The operation is done. Its answer is shown only to the credentials of the first request.",
        }),
        Duplicate::Completed(record) => {
            let age = reads::age(guard, &record, outlook.now);
            let mut response = tell_completed(guard, manner, &record, origin)?;
            response.headers_mut().extend(age.map(|age| (AGE, age)));
            Ok(response)
        }
    }
}

fn tell_completed(
    guard: &Guard,
    Manner { duplicate, status, window }: Manner,
    record: &Record,
    origin: Option<&HeaderValue>,
) -> Result<Response<Body>, Problem> {
    let expires = record.expires;
    if duplicate == OnDuplicate::Reject {
        let detail = match window {
            Window::Fixed => "The operation is done. This route does not repeat answers.",
            Window::Sliding => {
                "The operation is done. This route does not repeat answers, and each repetition has the operation remembered \
                 for longer."
            }
        };
        return Err(Problem::Duplicate { status, expires: Some(expires), detail });
    }
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded), .. } => replay(recorded, guard, origin, expires),
        State::Completed { answer: Answer::Told { by, answer }, .. } => {
            let mut response = replay(answer, guard, origin, expires)?;
            let source = match by {
                Witness::Probe => marks::PROBE,
                Witness::Operator => marks::OPERATOR,
            };
            response.headers_mut().insert(marks::SOURCE, source);
            Ok(response)
        }
        State::Completed { answer: Answer::TooLarge { status, location }, .. } => {
            let location = location.clone().and_then(|value| HeaderValue::from_maybe_shared(value).ok());
            Err(Problem::AlreadyExecuted { status: Some(*status), location, expires })
        }
        // An operator's word, without an answer to show.
        State::Completed { answer: Answer::Unseen, .. } | State::InFlight { .. } | State::InDoubt { .. } => {
            Err(Problem::AlreadyExecuted { status: None, location: None, expires })
        }
    }
}

/// The recorded answer with its marks; refused when the record holds what no HTTP answer can.
fn replay(
    recorded: &Recorded,
    guard: &Guard,
    origin: Option<&HeaderValue>,
    expires: Time,
) -> Result<Response<Body>, Problem> {
    let mut response = restored(recorded, &guard.allow_headers, origin).ok_or(Problem::RecordUnreadable)?;
    let headers = response.headers_mut();
    headers.insert(marks::IDEMPOTENT_REPLAYED, marks::TRUE);
    headers.insert(marks::X_IDEMPOTENT_RETRY, marks::TRUE);
    marks::set_expires(headers, expires);
    Ok(response)
}

/// The recorded answer as it was; none when the record holds what no final answer can.
fn restored(recorded: &Recorded, allow: &[HeaderName], origin: Option<&HeaderValue>) -> Option<Response<Body>> {
    let status = StatusCode::from_u16(recorded.status).ok().filter(|status| !status.is_informational())?;
    let mut response = Response::new(Body::whole(recorded.shared_body()));
    *response.status_mut() = status;
    *response.headers_mut() = headers::replayed(recorded, allow, origin)?;
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_whose_status_ends_no_exchange_is_no_answer() {
        let is_answer = |status| restored(&Recorded::bare(status, b"{}"), &[], None).is_some();
        for status in [0, 99, 100, 101, 103, 199, 1000, u16::MAX] {
            assert!(!is_answer(status), "{status}");
        }
        // An upstream may say any of these.
        for status in [200, 204, 304, 599, 600, 999] {
            assert!(is_answer(status), "{status}");
        }
    }
}
