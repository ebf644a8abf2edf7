//! Safe methods on a guarded route: they pass, are guarded, or share one answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{Answer, Call, raw_exchange};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{DeadPort, Gate, Reply, ScriptedUpstream};
use crate::{yaml, yaml_to};

/// A route whose reads share an answer for so long.
fn collapsing(text: &str, retention: &str) -> String {
    text.replace("methods: [POST], path: /orders", "methods: [GET, HEAD], path: \"/items/{id}\"")
        .replace("{ header: Idempotency-Key }", "{ fingerprint: {} }")
        .replace("scope: none", &format!("scope: none\n      safe_methods: collapse\n      retention: {retention}"))
}

/// What an upstream says that counts its answers.
fn counting(fields: &'static [(&'static str, &'static str)]) -> ScriptedUpstream {
    let count = AtomicUsize::new(0);
    ScriptedUpstream::start(move |_| {
        Reply::whole(200, fields, format!("answer {}", 1 + count.fetch_add(1, Ordering::SeqCst)))
    })
}

fn start(upstream: &ScriptedUpstream, retention: &str) -> Gateway {
    Gateway::start(&collapsing(&yaml(upstream, "", ""), retention))
}

fn get(target: &str) -> Call {
    Call::new("GET", target)
}

#[test]
fn fifty_reads_at_once_are_one_request() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(200, &[("ETag", "\"1\"")], "tea").after(&hold));
    let gateway = Gateway::start(&collapsing(&yaml(&upstream, "patience: 15s", ""), "1m"));
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..50).map(|_| scope.spawn(|| gateway.send(&get("/items/7?a=1&b=2")))).collect();
        upstream.wait_for_requests(1);
        gate.open();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| (answer.status, answer.text().as_str()) == (200, "tea")), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.header("etag") == Some("\"1\"")));
    let shared: Vec<_> = answers.iter().filter(|answer| answer.is_replay()).collect();
    assert_eq!(shared.len(), 49);
    assert!(shared.iter().all(|answer| answer.header("age").is_some_and(|age| age.parse::<u64>().is_ok())));
    assert!(gateway.send(&get("/items/7?b=2&a=1")).is_replay(), "the order of names does not count");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    for name in ["idempotency-key", "oncegate-operation", "oncegate-attempt"] {
        assert_eq!(requests[0].header(name), None, "a read goes on as it came");
    }
}

#[test]
fn an_answer_is_shared_for_seconds_only() {
    let upstream = counting(&[]);
    let gateway = start(&upstream, "1s");
    assert_eq!(gateway.send(&get("/items/7")).text(), "answer 1");
    wait_until("a fresh answer", || {
        let answer = gateway.send(&get("/items/7"));
        assert_eq!(answer.text() == "answer 1", answer.is_replay(), "{answer:?}");
        !answer.is_replay()
    });
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn what_is_asked_for_otherwise_or_by_another_is_asked_again() {
    let upstream = counting(&[("Vary", "Accept-Language, Cookie")]);
    let gateway = start(&upstream, "1m");
    let calls = [
        get("/items/7"),
        get("/items/8"),
        get("/items/7?a=1"),
        get("/items/7").header("Authorization", "Bearer a"),
        get("/items/7").header("Authorization", "Bearer b"),
        get("/items/7").header("Cookie", "sid=1"),
        get("/items/7").header("Accept-Language", "de"),
        get("/items/7").header("Accept-Encoding", "gzip"),
        get("/items/7").header("Origin", "https://a.example"),
    ];
    for call in &calls {
        assert!(!gateway.send(call).is_replay(), "{call:?}");
    }
    for call in &calls {
        assert!(gateway.send(call).is_replay(), "{call:?}");
    }
    assert!(gateway.send(&get("/items/7").header("User-Agent", "other")).is_replay());
    assert_eq!(upstream.requests().len(), calls.len());
}

#[test]
fn get_and_head_are_two_reads() {
    let upstream = ScriptedUpstream::start(|request| {
        let body = if request.method() == "HEAD" { "" } else { "tea" };
        Reply::sized(200, &[], 3, body)
    });
    let gateway = start(&upstream, "1m");
    gateway.send(&get("/items/7"));
    let head = |round: usize| {
        let answer = raw_exchange(gateway.address, &Call::new("HEAD", "/items/7").bytes()).unwrap();
        let answer = String::from_utf8(answer).unwrap().to_lowercase();
        assert!(answer.contains("content-length: 3\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert_eq!(answer.matches("idempotent-replayed").count(), round);
    };
    (0..2).for_each(head);
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn reads_of_a_part_and_conditional_ones_pass() {
    let upstream = counting(&[]);
    let gateway = start(&upstream, "1m");
    gateway.send(&get("/items/7"));
    for (name, value) in [
        ("Range", "bytes=0-1"),
        ("If-None-Match", "\"1\""),
        ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("If-Match", "\"1\""),
    ] {
        let call = get("/items/7").header(name, value);
        assert!(!gateway.send(&call).is_replay() && !gateway.send(&call).is_replay(), "{name}");
    }
    assert_eq!(upstream.requests().len(), 9);
}

#[test]
fn answers_that_are_for_one_alone_are_not_shared() {
    for fields in [
        &[("Cache-Control", "private, max-age=60")][..],
        &[("Cache-Control", "no-store")],
        &[("Cache-Control", "no-cache")],
        &[("Cache-Control", "max-age=0")],
        &[("Set-Cookie", "sid=1")],
        &[("Vary", "*")],
        &[("Vary", "Accept, X-Currency")],
    ] {
        let upstream = counting(fields);
        let gateway = start(&upstream, "1m");
        for round in 1..=3 {
            let answer = gateway.send(&get("/items/7"));
            assert_eq!((answer.status, answer.text()), (200, format!("answer {round}")), "{fields:?}");
            assert!(!answer.is_replay());
        }
    }
}

#[test]
fn those_who_wait_for_what_is_not_shared_go_on_side_by_side() {
    let (gate, crowd) = (Gate::new(), Gate::new());
    let (hold, hold_crowd, count) = (gate.clone(), crowd.clone(), AtomicUsize::new(0));
    let upstream = ScriptedUpstream::start(move |_| {
        let waits = if count.fetch_add(1, Ordering::SeqCst) == 0 { &hold } else { &hold_crowd };
        Reply::whole(200, &[("Cache-Control", "no-store")], "own").after(waits)
    });
    let gateway = Gateway::start(&collapsing(&yaml(&upstream, "patience: 15s", ""), "1m"));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..5).map(|_| scope.spawn(|| gateway.send(&get("/items/7")))).collect();
        upstream.wait_for_requests(1);
        gate.open();
        // All of the others are there at once: none waits for another's end.
        upstream.wait_for_requests(5);
        crowd.open();
        assert!(readers.into_iter().all(|reader| !reader.join().unwrap().is_replay()));
    });
}

#[test]
fn a_read_that_fails_leaves_nothing_behind() {
    let count = AtomicUsize::new(0);
    let upstream = ScriptedUpstream::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::close(),
        1 => Reply::whole(502, &[], "bad gateway"),
        2 => Reply::whole(500, &[], "failed"),
        _ => Reply::whole(200, &[], "tea"),
    });
    let gateway = start(&upstream, "1m");
    let answers = [(); 5].map(|()| gateway.send(&get("/items/7")));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [502, 502, 500, 200, 200]);
    assert!(answers[4].is_replay());
    assert_eq!(gateway.metric("oncegate_doubts{route=\"create-order\"}"), 0.0);
    assert_eq!(gateway.metric("oncegate_outcomes_total{outcome=\"doubted\",route=\"create-order\"}"), 0.0);
}

#[test]
fn a_read_that_has_waited_long_enough_goes_on_by_itself() {
    let gate = Gate::new();
    let (hold, count) = (gate.clone(), AtomicUsize::new(0));
    let upstream = ScriptedUpstream::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::whole(200, &[], "slow").after(&hold),
        _ => Reply::whole(200, &[], "quick"),
    });
    let gateway = Gateway::start(&collapsing(&yaml(&upstream, "patience: 50ms", ""), "1m"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&get("/items/7")));
        upstream.wait_for_requests(1);
        let second = gateway.send(&get("/items/7"));
        assert_eq!((second.status, second.text().as_str(), second.is_replay()), (200, "quick", false));
        gate.open();
        assert_eq!(first.join().unwrap().text(), "slow");
    });
}

#[test]
fn reads_go_on_while_the_store_is_away() {
    let redis = RedisServer::start();
    let upstream = counting(&[]);
    let store = format!("store: {{ kind: redis, url: \"{}\", command_timeout: 200ms }}\n", redis.url());
    let gateway = Gateway::start(&collapsing(&yaml_to(upstream.address(), "", &store), "1m"));
    drop(redis);
    for round in 1..=2 {
        assert_eq!(gateway.send(&get("/items/7")).text(), format!("answer {round}"));
    }
}

#[test]
fn an_upstream_that_is_not_reached_is_told_to_each() {
    let gateway = Gateway::start(&collapsing(&yaml_to(DeadPort::refusing().address(), "", ""), "1m"));
    for _ in 0..2 {
        assert_eq!(gateway.send(&get("/items/7")).code().as_deref(), Some("upstream-unreachable"));
    }
}

#[test]
fn safe_methods_pass_or_are_guarded_as_the_route_says() {
    let upstream = counting(&[]);
    let route = "methods: [POST], path: /orders";
    let all = yaml(&upstream, "", "").replace(route, "path: /orders");
    let passing = Gateway::start(&all);
    assert_eq!(passing.send(&get("/orders")).status, 200, "no key is asked for");
    assert_eq!(passing.send(&Call::new("OPTIONS", "/orders")).status, 200);
    assert_eq!(passing.send(&Call::post("/orders")).code().as_deref(), Some("key-missing"));
    let guarding = gateway_with(&all, "safe_methods: guard");
    assert_eq!(guarding.send(&get("/orders")).code().as_deref(), Some("key-missing"));
    guarding.send(&get("/orders").key("k"));
    assert!(guarding.send(&get("/orders").key("k")).is_replay());
}

fn gateway_with(text: &str, line: &str) -> Gateway {
    Gateway::start(&text.replace("scope: none", &format!("scope: none\n      {line}")))
}
