//! Upstream answers of every kind: what is replayed, exactly, and what is not.

use std::io::Write;

use crate::client::{Call, connect};
use crate::gateway::wait_until;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

/// First answer and replay through a fresh gateway.
fn twice(reply: Reply) -> (crate::client::Answer, crate::client::Answer) {
    let upstream = ScriptedUpstream::start(move |_| reply.clone());
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k-1").body("x");
    let answers = (gateway.send(&call), gateway.send(&call));
    assert_eq!(upstream.requests().len(), 1);
    answers
}

#[test]
fn bodies_of_every_framing_replay() {
    let cases: [(&str, Reply, u16, &[u8]); 7] = [
        ("no content", Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"), 204, b""),
        ("empty", Reply::whole(201, &[], ""), 201, b""),
        ("null", Reply::whole(200, &[("Content-Type", "application/json")], "null"), 200, b"null"),
        ("chunked", Reply::chunked(200, &[], &[b"ab", b"cd"]), 200, b"abcd"),
        ("until close", Reply::until_close(200, &[], "rest"), 200, b"rest"),
        ("not UTF-8", Reply::whole(200, &[], b"\xff\x00\xfe"), 200, b"\xff\x00\xfe"),
        ("after 103", Reply::whole(200, &[], "late").after_interim(103, &[("Link", "</a>")]), 200, b"late"),
    ];
    for (name, reply, status, body) in cases {
        let (first, again) = twice(reply);
        assert_eq!((first.status, first.body.as_slice()), (status, body), "{name}");
        assert_eq!((again.status, again.body.as_slice(), again.is_replay()), (status, body, true), "{name}");
    }
}

#[test]
fn header_bytes_above_ascii_and_repeated_fields_replay_in_order() {
    let reply = Reply::raw(
        b"HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nX-Many: 1\r\nx-many: 2\r\nContent-Length: 0\r\n\r\n".to_vec(),
    );
    let (first, again) = twice(reply);
    for answer in [first, again] {
        let all = |name: &str| -> Vec<Vec<u8>> {
            answer.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone()).collect()
        };
        assert_eq!(all("x-name"), [b"caf\xe9".to_vec()]);
        assert_eq!(all("x-many"), [b"1".to_vec(), b"2".to_vec()]);
    }
}

#[test]
fn fields_of_the_moment_are_not_replayed_and_marks_cannot_be_forged() {
    let fields = [
        ("Set-Cookie", "sid=1"),
        ("X-RateLimit-Remaining", "3"),
        ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("Connection", "X-Hop"),
        ("X-Hop", "gone"),
        ("Oncegate-Source", "gateway"),
        ("Idempotent-Replayed", "true"),
        ("X-Stays", "yes"),
    ];
    let (first, again) = twice(Reply::whole(200, &fields, "x"));
    assert_eq!(first.header("set-cookie"), Some("sid=1"));
    assert_eq!(first.header("date"), Some("Mon, 01 Jan 2024 00:00:00 GMT"));
    for name in ["x-hop", "oncegate-source", "idempotent-replayed"] {
        assert_eq!(first.header(name), None, "{name}");
    }
    for name in ["set-cookie", "x-ratelimit-remaining", "x-hop", "oncegate-source"] {
        assert_eq!(again.header(name), None, "{name}");
    }
    assert_ne!(again.header("date"), first.header("date"));
    assert_eq!(again.header("x-stays"), Some("yes"));
}

#[test]
fn a_route_may_allow_more_fields() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[("Set-Cookie", "sid=1"), ("Server", "s")], "x"));
    let gateway = gateway(&upstream, "replay: { allow_headers: [Set-Cookie] }");
    let call = Call::post("/orders").key("k-1").body("x");
    gateway.send(&call);
    let again = gateway.send(&call);
    assert_eq!((again.header("set-cookie"), again.header("server")), (Some("sid=1"), None));
}

#[test]
fn an_answer_over_the_limit_streams_through_and_leaves_a_tombstone() {
    let large = vec![b'z'; 300_000];
    let sent = large.clone();
    let upstream = ScriptedUpstream::start(move |request| match request.target().as_str() {
        "/orders" => Reply::whole(201, &[("Location", "/orders/7")], &sent),
        _ => Reply::whole(200, &[], "plain"),
    });
    let gateway = gateway(&upstream, "response_body_limit: 1KiB");
    let call = Call::post("/orders").key("k-1").body("x");
    let first = gateway.send(&call);
    assert_eq!((first.status, first.body.len()), (201, large.len()));
    assert_eq!(first.body, large);
    let again = gateway.send(&call);
    assert_eq!((again.status, again.code().as_deref()), (409, Some("already-executed")));
    assert_eq!(again.header("location"), Some("/orders/7"));
    assert!(again.text().contains(r#""original_status":201"#));
    assert!(again.header("idempotency-expires").is_some());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_answer_over_the_limit_is_whole_only_when_its_outcome_is_recorded() {
    let body = vec![b'z'; 100_000];
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], &body));
    let gateway = gateway(&upstream, "response_body_limit: 1KiB");
    for number in 0..50 {
        let call = Call::post("/orders").key(&format!("k-{number}")).body("x");
        assert_eq!(gateway.send(&call).body.len(), 100_000);
        assert_eq!(gateway.send(&call).code().as_deref(), Some("already-executed"), "operation {number}");
    }
}

#[test]
fn a_client_that_does_not_read_does_not_make_a_large_answer_a_doubt() {
    let body = vec![b'x'; 32 << 20];
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[("Location", "/orders/7")], &body));
    let text = crate::yaml(&upstream, "response_body_limit: 1KiB\nlease: 1s", "")
        .replace("response_timeout: 10s", "response_timeout: 4s")
        .replace("attempt_timeout: 30s", "attempt_timeout: 4s");
    let gateway = crate::Gateway::start(&text);
    let call = Call::post("/orders").key("k").body("x");
    let mut deaf = connect(gateway.address).unwrap();
    deaf.write_all(&call.bytes()).unwrap();
    upstream.wait_for_requests(1);
    wait_until("the attempt is over", || gateway.send(&call).code().as_deref() != Some("request-in-flight"));
    let again = gateway.send(&call);
    assert_eq!((again.status, again.code().as_deref()), (409, Some("already-executed")));
    assert_eq!(again.header("location"), Some("/orders/7"));
    assert_eq!(gateway.metric("oncegate_late_answers_total"), 0.0);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_answer_cut_short_is_never_an_outcome() {
    let long = vec![b'z'; 5_000];
    let cases = [
        Reply::cut_short(200, &[], 10, "half"),
        Reply::chunked_cut_short(200, &[], &[b"half"]),
        // Over the limit of what is kept: it was streaming to the client when it broke.
        Reply::cut_short(200, &[], 9_000, &long),
        Reply::chunked_cut_short(200, &[], &[&long]),
    ];
    for reply in cases {
        let upstream = ScriptedUpstream::start(move |_| reply.clone());
        let gateway = gateway(&upstream, "response_body_limit: 1KiB");
        let call = Call::post("/orders").key("k-1").body("x");
        match call.try_send(gateway.address) {
            Ok(answer) => {
                assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-failed")));
                assert_eq!(answer.header("oncegate-outcome"), Some("unknown"));
            }
            // The head had gone to the client: the broken body must be seen as broken.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof),
        }
        gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="doubted",route="create-order"}"#, 1.0);
        assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[test]
fn the_outcome_table_decides_what_is_remembered() {
    let cases = [
        ("", 422, "released"),
        ("", 500, "released"),
        ("", 302, "kept"),
        ("", 504, "doubted"),
        ("outcomes: { default: cautious }", 500, "doubted"),
        ("outcomes: { default: strict }", 422, "kept"),
        ("outcomes: { default: strict }", 429, "released"),
        ("outcomes: { default: success-only, 422: keep }", 422, "kept"),
        ("outcomes: { default: success-only, \"5xx\": doubt }", 503, "doubted"),
    ];
    for (guard, status, outcome) in cases {
        let upstream = ScriptedUpstream::start(move |_| Reply::whole(status, &[], "own"));
        let gateway = gateway(&upstream, guard);
        let call = Call::post("/orders").key("k-1").body("x");
        let first = gateway.send(&call);
        assert_eq!((first.status, first.text().as_str()), (status, "own"), "{guard} {status}");
        let doubt = (outcome == "doubted").then_some("unknown");
        assert_eq!(first.header("oncegate-outcome"), doubt, "{guard} {status}");
        assert_eq!(first.header("oncegate-operation").is_some(), doubt.is_some(), "{guard} {status}");
        assert_eq!(first.header("idempotency-expires").is_some(), outcome == "kept", "{guard} {status}");
        let again = gateway.send(&call);
        match outcome {
            "kept" => assert!(again.is_replay() && again.status == status),
            "released" => assert!(!again.is_replay() && again.status == status),
            _ => assert_eq!(again.code().as_deref(), Some("outcome-unknown")),
        }
        let executed = if outcome == "released" { 2 } else { 1 };
        assert_eq!(upstream.requests().len(), executed, "{guard} {status}");
    }
}

#[test]
fn replays_need_the_first_requests_credentials() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "secret"));
    let gateway = gateway(&upstream, "");
    let call = |credentials: &str| Call::post("/orders").key("k-1").header("Authorization", credentials).body("x");
    gateway.send(&call("Bearer alice"));
    let other = gateway.send(&call("Bearer mallory"));
    assert_eq!((other.status, other.code().as_deref()), (409, Some("duplicate-request")));
    assert!(!other.text().contains("secret"));
    assert!(gateway.send(&Call::post("/orders").key("k-1").body("x")).code().is_some());
    assert!(gateway.send(&call("Bearer alice")).is_replay());

    let trusting = crate::Gateway::start(&yaml(&upstream, "scope: { trusted_header: X-Customer-Id }", ""));
    let call = |who: &str, token: &str| {
        Call::post("/orders").key("k-1").header("X-Customer-Id", who).header("Authorization", token).body("x")
    };
    trusting.send(&call("7", "Bearer old"));
    assert!(trusting.send(&call("7", "Bearer refreshed")).is_replay(), "the scope itself proves the caller");
    assert!(!trusting.send(&call("8", "Bearer old")).is_replay(), "another caller's key is another operation");
}
