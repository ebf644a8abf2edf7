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

/// To whom a duplicate's answer goes.
#[derive(Clone, Copy)]
pub(super) struct Hearer<'a> {
    /// The origin that the duplicate came from.
    pub origin: Option<&'a HeaderValue>,
    /// Whether its connection writes a head that is lines already: HTTP/1.1 does.
    pub takes_lines: bool,
}

/// What a route tells a duplicate: the recorded answer, or a refusal.
pub(super) fn tell(
    guard: &Guard,
    (duplicate, key): (Duplicate, Key),
    hearer: Hearer<'_>,
    outlook: &Outlook<'_>,
) -> Result<Response<Body>, Problem> {
    let also = guard.also.as_ref().filter(|_| key == Key::Second);
    let Some(also) = also else {
        let manner = Manner { duplicate: guard.duplicate, status: guard.duplicate_status, window: guard.policy.window };
        return tell_of(guard, manner, duplicate, hearer, outlook);
    };
    let manner = Manner { duplicate: also.duplicate, status: also.duplicate_status, window: also.policy.window };
    let told = tell_of(guard, manner, duplicate, hearer, outlook);
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
    hearer: Hearer<'_>,
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
            let mut response = tell_completed(guard, manner, &record, hearer)?;
            response.headers_mut().extend(age.map(|age| (AGE, age)));
            Ok(response)
        }
    }
}

fn tell_completed(
    guard: &Guard,
    Manner { duplicate, status, window }: Manner,
    record: &Record,
    hearer: Hearer<'_>,
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
        State::Completed { answer: Answer::Recorded(recorded), .. } => replay(recorded, guard, hearer, expires),
        State::Completed { answer: Answer::Told { by, answer }, .. } => {
            let mut response = replay(answer, guard, hearer, expires)?;
            let source = match by {
                Witness::Probe => marks::PROBE,
                Witness::Operator => marks::OPERATOR,
            };
            marks::say(&mut response, |fields| fields.set(&marks::SOURCE, &source));
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
fn replay(recorded: &Recorded, guard: &Guard, hearer: Hearer<'_>, expires: Time) -> Result<Response<Body>, Problem> {
    let mut response = restored(recorded, &guard.allow_headers, hearer).ok_or(Problem::RecordUnreadable)?;
    marks::say(&mut response, |fields| {
        fields.set(&marks::IDEMPOTENT_REPLAYED, &marks::TRUE);
        fields.set(&marks::X_IDEMPOTENT_RETRY, &marks::TRUE);
        marks::set_expires(fields, expires);
    });
    Ok(response)
}

/// The recorded answer as it was; none when the record holds what no final answer can.
fn restored(recorded: &Recorded, allow: &[HeaderName], hearer: Hearer<'_>) -> Option<Response<Body>> {
    let status = StatusCode::from_u16(recorded.status).ok().filter(|status| !status.is_informational())?;
    let mut response = Response::new(Body::whole(recorded.shared_body()));
    *response.status_mut() = status;
    match hearer.takes_lines.then(|| headers::replayed_as_lines(recorded)).flatten() {
        Some(lines) => response.body_mut().follows(lines),
        None => *response.headers_mut() = headers::replayed(recorded, allow, hearer.origin)?,
    }
    Some(response)
}

/// Whether a record's answer can be told again; a page of another origin may miss some of its fields.
pub(super) fn is_replayable(recorded: &Recorded, allow: &[HeaderName]) -> bool {
    restored(recorded, allow, Hearer { origin: None, takes_lines: true }).is_some()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::wire::AnswerBody as _;
    use crate::wire::heads::{self, Written};

    /// Fields that are said anew on the way out, speak of one connection, or are for one page only; and usual ones.
    const NAMES: [&str; 24] = [
        "content-type",
        "location",
        "etag",
        "x-own",
        "x-own",
        "x_own",
        "vary",
        "via",
        "age",
        "date",
        "trailer",
        "connection",
        "keep-alive",
        "content-length",
        "transfer-encoding",
        "access-control-allow-origin",
        "oncegate-origin",
        "oncegate-source",
        "idempotent-replayed",
        "x-idempotent-retry",
        "idempotency-expires",
        "X-Own",
        "no name",
        "",
    ];

    /// A replay's fields, and whether any were lines.
    type Said = (Vec<(String, Vec<u8>)>, bool);

    /// What a replay says with its marks, by name and in the order of each name's fields.
    fn said(recorded: &Recorded, takes_lines: bool) -> Option<Said> {
        let origin = HeaderValue::from_static("https://shop.example");
        let mut response = restored(recorded, &[AGE], Hearer { origin: Some(&origin), takes_lines })?;
        marks::say(&mut response, |fields| {
            fields.set(&marks::IDEMPOTENT_REPLAYED, &marks::TRUE);
            marks::set_expires(fields, Time(1_800_000_000_000));
            fields.set(&marks::SOURCE, &marks::PROBE);
        });
        let mut head = BytesMut::new();
        let written = response.body_mut().take_written();
        if let Some(Written::Lines(lines)) = &written {
            head.extend_from_slice(lines.as_bytes());
        }
        heads::write(response.headers(), None, &mut head);
        let lines = head[..].split(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\r"));
        let mut fields: Vec<_> = lines
            .map(|line| {
                let colon = line.iter().position(|byte| *byte == b':').unwrap();
                (String::from_utf8(line[..colon].to_vec()).unwrap(), line[colon + 1..].to_vec())
            })
            .collect();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some((fields, written.is_some()))
    }

    proptest! {
        #[test]
        fn a_head_says_the_same_as_lines_and_as_a_map(
            fields in vec((select(&NAMES[..]), prop_oneof![vec(b' '..=b'~', 0..12), vec(any::<u8>(), 0..6)]), 0..5),
        ) {
            let recorded = Recorded::new(201, fields.iter().map(|(name, value)| (*name, value)), b"{}");
            let [lines, map] = [true, false].map(|takes_lines| said(&recorded, takes_lines));
            prop_assert!(map.as_ref().is_none_or(|(_, lines)| !lines));
            prop_assert_eq!(is_replayable(&recorded, &[]), map.is_some());
            prop_assert_eq!(lines.map(|(fields, _)| fields), map.map(|(fields, _)| fields));
        }
    }

    #[test]
    fn most_heads_are_lines() {
        let of = |fields: &[(&str, &str)]| said(&Recorded::new(201, fields.iter().copied(), b"{}"), true).unwrap().1;
        assert!(of(&[]));
        assert!(of(&[
            ("content-type", "application/json"),
            ("location", "/orders/7"),
            ("x-own", "1"),
            ("x-own", "\u{e9}")
        ]));
        for name in ["date", "age", "connection", "content-length", "access-control-max-age", "oncegate-time", "X-Own"]
        {
            assert!(!of(&[("etag", "7"), (name, "1")]), "{name}");
        }
    }

    #[test]
    fn a_record_whose_status_ends_no_exchange_is_no_answer() {
        let is_answer = |status| {
            let recorded = Recorded::bare(status, b"{}");
            let as_map = restored(&recorded, &[], Hearer { origin: None, takes_lines: false }).is_some();
            assert_eq!(is_replayable(&recorded, &[]), as_map);
            as_map
        };
        for status in [0, 99, 100, 101, 103, 199, 1000, u16::MAX] {
            assert!(!is_answer(status), "{status}");
        }
        // An upstream may say any of these.
        for status in [200, 204, 304, 599, 600, 999] {
            assert!(is_answer(status), "{status}");
        }
    }
}
