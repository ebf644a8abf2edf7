//! The upstream's own word on an operation, where a route trusts it and where it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const UNCLEAR: &str = r#"oncegate_outcome_headers_unclear_total{route="create-order"}"#;

/// An upstream that answers every request like this, with these fields.
fn saying(status: u16, fields: &'static [(&'static str, &'static str)]) -> ScriptedUpstream {
    ScriptedUpstream::start(move |_| Reply::whole(status, fields, "said"))
}

fn order() -> Call {
    Call::post("/orders").key("k").body("x")
}

/// What a first request and its repetition get from a gateway with this guard, and how often the upstream was asked.
fn twice(upstream: &ScriptedUpstream, guard: &str) -> (Answer, Answer, usize) {
    let gateway = gateway(upstream, guard);
    let answers = (gateway.send(&order()), gateway.send(&order()));
    (answers.0, answers.1, upstream.requests().len())
}

/// When the outcome is forgotten, in seconds from now.
fn seconds_left(answer: &Answer) -> u64 {
    let at = httpdate::parse_http_date(answer.header("idempotency-expires").unwrap()).unwrap();
    let at = at.duration_since(std::time::UNIX_EPOCH).unwrap();
    at.saturating_sub(Duration::from_millis(Clock::wall().0)).as_secs()
}

#[test]
fn executed_keeps_an_answer_that_the_table_would_release() {
    let (first, again, asked) = twice(&saying(422, &[("Oncegate-Outcome", "executed")]), "outcome_headers: trust");
    assert_eq!((first.status, first.header("oncegate-outcome"), first.is_replay()), (422, None, false));
    assert_eq!((again.status, again.header("oncegate-outcome"), again.is_replay()), (422, None, true));
    assert_eq!((again.text().as_str(), asked), ("said", 1));
}

#[test]
fn not_executed_frees_a_key_that_the_table_would_keep() {
    let (first, again, asked) = twice(&saying(200, &[("Oncegate-Outcome", "not-executed")]), "outcome_headers: trust");
    for answer in [&first, &again] {
        assert_eq!((answer.status, answer.header("oncegate-outcome"), answer.is_replay()), (200, None, false));
        assert_eq!(answer.header("idempotency-expires"), None);
    }
    assert_eq!(asked, 2);
}

#[test]
fn unknown_is_doubt() {
    let upstream = saying(201, &[("Oncegate-Outcome", "unknown"), ("Oncegate-TTL", "1")]);
    let mut gateway = gateway(&upstream, "outcome_headers: trust");
    let first = gateway.send(&order());
    assert_eq!((first.status, first.header("oncegate-outcome")), (201, Some("unknown")));
    assert_eq!(first.header("oncegate-ttl"), None);
    gateway.wait_for_log("the upstream itself says so");
    assert_eq!(gateway.send(&order()).code().as_deref(), Some("outcome-unknown"));
    // A wish to forget says nothing of doubts.
    let id = first.header("oncegate-operation").unwrap();
    let shown: serde_json::Value =
        serde_json::from_slice(&gateway.get_admin(&format!("/api/v1/keys/{id}")).body).unwrap();
    let expires: jiff::Timestamp = shown["expires"].as_str().unwrap().parse().unwrap();
    assert!(expires.as_millisecond() > i64::try_from(Clock::wall().0).unwrap() + 71 * 3_600_000, "{shown}");
}

#[test]
fn a_word_counts_nothing_unless_the_route_trusts_it_and_reaches_no_client() {
    let fields = &[("Oncegate-Outcome", "not-executed"), ("Oncegate-Store", "no"), ("Oncegate-TTL", "1")];
    for guard in ["", "outcome_headers: ignore"] {
        let upstream = saying(201, fields);
        let (first, again, asked) = twice(&upstream, guard);
        assert!(seconds_left(&first) > 23 * 3_600);
        assert_eq!((again.is_replay(), asked), (true, 1));
        for answer in [&first, &again] {
            assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("oncegate-")), "{answer:?}");
        }
    }
    let upstream = saying(200, fields);
    let plain = gateway(&upstream, "outcome_headers: trust").send(&Call::new("GET", "/plain"));
    assert!(!plain.headers.iter().any(|(name, _)| name.starts_with("oncegate-")), "{plain:?}");
}

#[test]
fn an_answer_that_may_not_be_kept_is_not() {
    let fields = &[("Oncegate-Store", "no"), ("Location", "/secret")];
    let (first, again, asked) = twice(&saying(201, fields), "outcome_headers: trust");
    assert_eq!((first.status, first.text().as_str(), first.header("oncegate-store")), (201, "said", None));
    assert!(seconds_left(&first) > 23 * 3_600);
    assert_eq!((again.status, again.code().as_deref()), (409, Some("already-executed")));
    let told: serde_json::Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!((&told["original_status"], again.header("location")), (&201.into(), None));
    assert_eq!(asked, 1);
}

#[test]
fn the_upstream_says_how_long_the_outcome_is_remembered() {
    let upstream = saying(201, &[("Oncegate-TTL", "1")]);
    let gateway = gateway(&upstream, "outcome_headers: trust");
    let first = gateway.send(&order());
    assert!(seconds_left(&first) <= 1);
    wait_until("the key is new again", || {
        let answer = gateway.send(&order());
        assert_eq!(answer.text(), "said");
        !answer.is_replay()
    });
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_outcome_is_remembered_no_longer_than_a_doubt() {
    let fields = &[("Oncegate-TTL", "999999999999")];
    let guard = "outcome_headers: trust\nretention: 1h\ndoubt_retention: 2h";
    let (first, again, _) = twice(&saying(201, fields), guard);
    for answer in [first, again] {
        assert!((7_190..=7_200).contains(&seconds_left(&answer)), "{answer:?}");
    }
}

#[test]
fn a_word_that_cannot_be_made_out_frees_no_key_and_is_counted() {
    let upstream = saying(422, &[("Oncegate-Outcome", "executed"), ("Oncegate-Outcome", "executed")]);
    let mut gateway = gateway(&upstream, "outcome_headers: trust");
    let first = gateway.send(&order());
    assert_eq!((first.status, first.header("oncegate-outcome")), (422, Some("unknown")));
    assert_eq!(gateway.send(&order()).code().as_deref(), Some("outcome-unknown"));
    gateway.send(&Call::post("/orders").key("other").body("x"));
    assert_eq!(gateway.metric(UNCLEAR), 2.0);
    gateway.wait_for_log("what the upstream says of the outcome cannot be made out");
    assert_eq!(gateway.log().matches("the upstream says what cannot be made out").count(), 1);
}

#[test]
fn a_word_holds_for_an_answer_that_streams_through() {
    let upstream = ScriptedUpstream::start(|request| match request.text("Idempotency-Key").as_str() {
        "free" => Reply::whole(201, &[("Oncegate-Outcome", "not-executed")], "long enough"),
        _ => Reply::whole(201, &[("Oncegate-Store", "no"), ("Location", "/secret")], "long enough"),
    });
    let gateway = gateway(&upstream, "outcome_headers: trust\nresponse_body_limit: 0");
    let send = |key| gateway.send(&Call::post("/orders").key(key).body("x"));
    assert_eq!([send("free").status, send("free").status], [201, 201]);
    assert_eq!(send("k").status, 201);
    let again = send("k");
    assert_eq!((again.code().as_deref(), again.header("location")), (Some("already-executed"), None));
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn a_word_before_an_answer_that_breaks_off_settles_nothing() {
    for word in ["executed", "not-executed"] {
        let upstream =
            ScriptedUpstream::start(move |_| Reply::cut_short(201, &[("Oncegate-Outcome", word)], 10, "begun"));
        let (first, again, asked) = twice(&upstream, "outcome_headers: trust");
        assert_eq!(first.code().as_deref(), Some("upstream-failed"));
        assert_eq!((again.code().as_deref(), asked), (Some("outcome-unknown"), 1), "{word}");
    }
}

#[test]
fn under_retry_the_word_on_a_later_attempt_speaks_for_the_operation() {
    let asked = AtomicUsize::new(0);
    let upstream = ScriptedUpstream::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::reset(),
        1 => Reply::whole(200, &[("Oncegate-Outcome", "not-executed")], "looked it up"),
        _ => Reply::whole(201, &[], "done"),
    });
    let gateway = Gateway::start(&yaml(&upstream, "in_doubt: retry\noutcome_headers: trust", ""));
    let statuses = [0; 3].map(|_| gateway.send(&order()).status);
    assert_eq!(statuses, [502, 200, 201]);
    assert!(gateway.send(&order()).is_replay());
    let attempts: Vec<_> = upstream.requests().iter().map(|request| request.text("Oncegate-Attempt")).collect();
    assert_eq!(attempts, ["1", "2", "1"]);
}
