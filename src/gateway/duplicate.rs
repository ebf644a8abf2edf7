//! What a duplicate is told: the recorded answer, or a refusal.

use http::{HeaderValue, Response, StatusCode};

use super::body::Body;
use super::marks;
use super::problem::Problem;
use super::settings::{Guard, OnDuplicate};
use crate::machine::{Answer, Duplicate, Record, Recorded, State, Time};
use crate::upstream::headers;

/// The answer to a duplicate.
pub(super) enum Told {
    /// The recorded answer.
    Replay(Response<Body>),
    /// A refusal.
    Refused(Problem),
}

/// What a route tells a duplicate.
/// `origin` is the one that the duplicate came from.
pub(super) fn tell(guard: &Guard, duplicate: Duplicate, origin: Option<&HeaderValue>) -> Told {
    match duplicate {
        Duplicate::InFlight { .. } => Told::Refused(Problem::InFlight(guard.in_flight_status)),
        Duplicate::InDoubt => Told::Refused(Problem::OutcomeUnknown),
        Duplicate::Changed => Told::Refused(Problem::KeyReused),
        Duplicate::Unsure => Told::Refused(Problem::Duplicate {
            status: StatusCode::CONFLICT,
            expires: None,
            detail: "The key is in use, and the route's fingerprint settings have changed since its first request.",
        }),
        Duplicate::Stranger(_) => Told::Refused(Problem::Duplicate {
            status: StatusCode::CONFLICT,
            expires: None,
            detail: "The operation is done. Its answer is shown only to the credentials of the first request.",
        }),
        Duplicate::Completed(record) => tell_completed(guard, record, origin),
    }
}

fn tell_completed(guard: &Guard, record: Record, origin: Option<&HeaderValue>) -> Told {
    let expires = record.expires;
    if guard.duplicate == OnDuplicate::Reject {
        let detail = "The operation is done. This route does not repeat answers.";
        return Told::Refused(Problem::Duplicate { status: guard.duplicate_status, expires: Some(expires), detail });
    }
    match record.state {
        State::Completed { answer: Answer::Recorded(recorded), .. } => match replay(recorded, guard, origin, expires) {
            Some(response) => Told::Replay(response),
            None => Told::Refused(Problem::RecordUnreadable),
        },
        State::Completed { answer: Answer::TooLarge { status, location }, .. } => {
            let location = location.and_then(|value| HeaderValue::from_maybe_shared(value).ok());
            Told::Refused(Problem::AlreadyExecuted { status: Some(status), location, expires })
        }
        // An operator's word, without an answer to show.
        State::Completed { answer: Answer::Unseen, .. } | State::InFlight { .. } | State::InDoubt { .. } => {
            Told::Refused(Problem::AlreadyExecuted { status: None, location: None, expires })
        }
    }
}

/// The recorded answer with its marks; none when the record holds what no HTTP answer can.
fn replay(recorded: Recorded, guard: &Guard, origin: Option<&HeaderValue>, expires: Time) -> Option<Response<Body>> {
    let mut response = Response::new(Body::whole(recorded.body));
    *response.status_mut() = StatusCode::from_u16(recorded.status).ok()?;
    *response.headers_mut() = headers::replayed(recorded.headers, &guard.allow_headers, origin)?;
    let headers = response.headers_mut();
    headers.insert(marks::IDEMPOTENT_REPLAYED, marks::TRUE);
    headers.insert(marks::X_IDEMPOTENT_RETRY, marks::TRUE);
    marks::set_expires(headers, expires);
    Some(response)
}
