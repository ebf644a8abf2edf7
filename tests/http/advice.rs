//! What answers advise: `retry`, `Retry-After`, `Idempotency-Expires`.

use std::time::Duration;

use oncegate::clock::Clock;
use serde_json::Value;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

/// Code, advice and seconds of a refusal, which must say the same in its body as in its head.
fn advice(answer: &Answer) -> (String, String, Option<u64>) {
    let code = answer.code().unwrap_or_else(|| panic!("no problem: {}", answer.text()));
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    let seconds = answer.header("retry-after").map(|value| value.parse().unwrap());
    assert_eq!(problem["retry_after"].as_u64(), seconds, "{}", answer.text());
    (code, problem["retry"].as_str().unwrap().to_owned(), seconds)
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

/// Runs `check` while an attempt of `call` is held at the upstream, which has seen `before` others.
fn while_running(gateway: &Gateway, upstream: &ScriptedUpstream, gate: &Gate, call: &Call, check: impl FnOnce()) {
    let before = upstream.requests().len();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(call));
        upstream.wait_for_requests(before + 1);
        check();
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
}

#[test]
fn what_cannot_come_right_says_so_and_what_may_says_when() {
    let upstream = ScriptedUpstream::start(|request| match request.text("Idempotency-Key").as_str() {
        "broken" => Reply::reset(),
        _ => Reply::whole(201, &[], "ok"),
    });
    let guard = "request_body_limit: 10B";
    let gateway = Gateway::start(&yaml(&upstream, guard, ""));
    assert_eq!(gateway.send(&order("k")).status, 201);
    for (call, code, retry, waits) in [
        (Call::post("/orders").body("x"), "key-missing", "stop", false),
        (order("a").key("b"), "key-invalid", "stop", false),
        (order("k").body("y"), "key-reused", "new-key", false),
        (order("l").body("longer than ten"), "body-too-large", "stop", false),
        (order("broken"), "upstream-failed", "same-key", true),
        (order("broken"), "outcome-unknown", "same-key", true),
        (Call::post("/plain").key("broken"), "upstream-failed", "stop", false),
        (Call::new("TRACE", "/plain"), "method-refused", "stop", false),
    ] {
        let (told, advised, seconds) = advice(&gateway.send(&call));
        assert_eq!((told.as_str(), advised.as_str(), seconds.is_some()), (code, retry, waits));
        assert!(seconds.is_none_or(|seconds| (1..=60).contains(&seconds)), "{code}: {seconds:?}");
    }
}

#[test]
fn where_the_next_request_runs_it_may_come_soon() {
    let upstream = ScriptedUpstream::start(|_| Reply::reset());
    let gateway = gateway(&upstream, "in_doubt: retry");
    let (code, retry, seconds) = advice(&gateway.send(&order("k")));
    assert_eq!((code.as_str(), retry.as_str()), ("upstream-failed", "same-key"));
    assert!((1..=3).contains(&seconds.unwrap()), "{seconds:?}");
}

#[test]
fn a_running_attempt_is_asked_for_again_when_such_attempts_are_usually_over() {
    let (slow, quick) = (Gate::new(), Gate::new());
    let (first, second) = (slow.clone(), quick.clone());
    let upstream = ScriptedUpstream::start(move |request| match request.text("Idempotency-Key").as_str() {
        "slow" => Reply::whole(201, &[], "ok").after(&first),
        "next" => Reply::whole(201, &[], "ok").after(&second),
        _ => Reply::whole(201, &[], "ok"),
    });
    let gateway = gateway(&upstream, "");
    let told = |key: &str| {
        let (code, retry, seconds) = advice(&gateway.send(&order(key)));
        assert_eq!((code.as_str(), retry.as_str()), ("request-in-flight", "same-key"));
        seconds.unwrap()
    };
    while_running(&gateway, &upstream, &slow, &order("slow"), || {
        let begun = Clock::instant();
        assert!(told("slow") < 5, "nothing is known yet");
        std::thread::sleep(Duration::from_secs(2).saturating_sub(begun.elapsed()));
    });
    // Two seconds are known: twice that is usual, as long as they are all that is known.
    while_running(&gateway, &upstream, &quick, &order("next"), || assert!(told("next") >= 3));
}

#[test]
fn no_attempt_is_said_to_take_longer_than_it_may() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let text = yaml(&upstream, "lease: 1s", "")
        .replace("response_timeout: 10s", "response_timeout: 1500ms")
        .replace("attempt_timeout: 30s", "attempt_timeout: 2s");
    let gateway = Gateway::start(&text);
    // It ends in doubt after its two seconds: such attempts usually take that, and never longer.
    let (code, retry, seconds) = advice(&gateway.send(&order("a")));
    assert_eq!((code.as_str(), retry.as_str(), seconds), ("upstream-timeout", "same-key", Some(1)));
    wait_until("the attempt is given up", || gateway.send(&order("a")).code().as_deref() == Some("outcome-unknown"));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| gateway.send(&order("b")));
        upstream.wait_for_requests(2);
        let (_, _, seconds) = advice(&gateway.send(&order("b")));
        assert!((1..=2).contains(&seconds.unwrap()), "{seconds:?}");
        gate.open();
        second.join().unwrap();
    });
}

#[test]
fn until_when_an_outcome_is_remembered_is_said_wherever_there_is_one() {
    let upstream = ScriptedUpstream::start(|request| match request.text("Idempotency-Key").as_str() {
        "large" => Reply::whole(201, &[], "larger than that"),
        "released" => Reply::whole(422, &[], "no"),
        "doubtful" => Reply::whole(504, &[], "?"),
        _ => Reply::whole(201, &[], "ok"),
    });
    let started = Clock::wall();
    let guard = "response_body_limit: 4B\nretention: 2h";
    let (replays, rejects) = (gateway(&upstream, guard), gateway(&upstream, &format!("{guard}\nduplicate: reject")));
    let expires = |answer: &Answer| {
        let at = httpdate::parse_http_date(answer.header("idempotency-expires")?).unwrap();
        Some(at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
    };
    let soon = Clock::wall().0 / 1000 + 7200;
    let is_right =
        |answer: &Answer| expires(answer).is_some_and(|at| (started.0 / 1000 + 7200..soon + 60).contains(&at));
    for gateway in [&replays, &rejects] {
        assert!(is_right(&gateway.send(&order("k"))), "first run");
        assert!(is_right(&gateway.send(&order("k"))), "replay or reject");
        gateway.send(&order("large"));
        assert!(is_right(&gateway.send(&order("large"))), "the answer was not kept");
        for (call, what) in [
            (order("k").body("changed"), "a changed request"),
            (order("released"), "a released key"),
            (order("doubtful"), "a doubt"),
            (order("doubtful"), "a doubt's duplicate"),
        ] {
            assert_eq!(expires(&gateway.send(&call)), None, "{what}");
        }
    }
    replays.send(&order("own").header("Authorization", "mine"));
    assert!(is_right(&replays.send(&order("own").header("Authorization", "mine"))));
    assert_eq!(expires(&replays.send(&order("own"))), None, "who may not have the answer learns nothing of it");
}

#[test]
fn the_operators_door_advises_too() {
    let upstream = ScriptedUpstream::start(|_| Reply::close());
    let gateway = gateway(&upstream, "");
    for (call, status, code) in [
        (Call::new("GET", "/nothing"), 404, "not-found"),
        (Call::post("/metrics"), 405, "method-not-allowed"),
        (Call::new("DELETE", &format!("/api/v1/keys/{}", "0".repeat(64))), 405, "method-not-allowed"),
        (Call::new("GET", "/livez").header("Content-Length", "x"), 400, "bad-request"),
        (Call::new("GET", &format!("/api/v1/keys/{}", "0".repeat(64))), 404, "not-found"),
    ] {
        let answer = call.send(gateway.admin);
        let problem: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &problem["code"], &problem["retry"]), (status, &code.into(), &"stop".into()));
        assert_eq!(answer.header("allow").is_some(), status == 405);
    }
}
