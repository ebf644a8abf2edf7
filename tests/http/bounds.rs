//! Limits: memory and time stay bounded whatever clients and upstreams do.

use crate::client::{Call, connect, exchange, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_body_over_the_limit_is_refused_by_its_announcement_or_by_its_size() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "request_body_limit: 1KiB");
    let announced = gateway.send(&Call::post("/orders").key("k").body(vec![b'x'; 2_000]));
    assert_eq!((announced.status, announced.code().as_deref()), (413, Some("body-too-large")));
    let mut stream = connect(gateway.address).unwrap();
    stream
        .write_all(b"POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    // An endless upload: written until the gateway has had enough.
    let chunk = [b"400\r\n".as_slice(), &[b'x'; 1024], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 100_000 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 100_000, "the gateway reads on without an end");
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body(vec![b'x'; 1_024])).status, 201);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="body_too_large"}"#), 2.0);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn buffered_bodies_share_a_budget() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let gateway = Gateway::start(&yaml(
        &upstream,
        "request_body_limit: 64KiB\nresponse_body_limit: 64KiB",
        "limits: { buffered_bodies: 64KiB }",
    ));
    let call = |key: &str| Call::post("/orders").key(key).body(vec![b'x'; 40 * 1024]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call("a")));
        upstream.wait_for_requests(1);
        let second = gateway.send(&call("b"));
        assert_eq!((second.status, second.code().as_deref()), (503, Some("overloaded")));
        assert!(second.header("retry-after").is_some());
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    wait_until("the budget is given back", || gateway.send(&call("b")).status == 201);
}

#[test]
fn requests_under_way_are_limited_and_a_refused_one_frees_its_key() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let gateway = Gateway::start(&yaml(&upstream, "", "limits: { in_flight: 1 }"));
    let call = |key: &str| Call::post("/orders").key(key).body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call("a")));
        upstream.wait_for_requests(1);
        assert_eq!(gateway.send(&call("b")).code().as_deref(), Some("overloaded"));
        assert_eq!(gateway.send(&Call::new("GET", "/plain")).code().as_deref(), Some("overloaded"));
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    wait_until("the slot is free", || gateway.send(&call("b")).status == 201);
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn waiters_are_limited() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let guard = "in_flight: wait\npatience: 10s";
    let gateway = Gateway::start(&yaml(&upstream, guard, "limits: { waiters: 2 }"));
    let call = Call::post("/orders").key("a").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call));
        upstream.wait_for_requests(1);
        let others: Vec<_> = (0..5).map(|_| scope.spawn(|| gateway.send(&call))).collect();
        gateway.wait_for_metric(r#"oncegate_requests_total{route="create-order",verdict="overloaded"}"#, 3.0);
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
        let mut statuses: Vec<_> = others.into_iter().map(|other| other.join().unwrap().status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 201, 503, 503, 503]);
    });
    assert_eq!(upstream.requests().len(), 1);
}

/// Opens a connection and sends a request on it that leaves it open.
fn ask(gateway: &Gateway) -> TcpStream {
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

#[test]
fn connections_over_the_limit_are_turned_away() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(200, &[], "ok").after(&hold));
    let text = yaml(&upstream, "", "limits: { connections: 2 }\nproblem_types: https://errors.test/");
    let gateway = Gateway::start(&text);
    let busy: Vec<_> = (0..2).map(|_| ask(&gateway)).collect();
    upstream.wait_for_requests(2);
    let mut third = connect(gateway.address).unwrap();
    let answer = read_answer(&mut third).unwrap();
    assert_eq!((answer.status, answer.code().as_deref()), (503, Some("overloaded")));
    assert!(answer.header("retry-after").is_some());
    assert!(answer.text().contains(r#""type":"https://errors.test/overloaded""#), "{}", answer.text());
    gate.open();
    drop(busy);
    wait_until("a place is free", || {
        Call::new("GET", "/plain").try_send(gateway.address).is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn a_connection_that_rests_makes_room_for_a_new_one() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"));
    let gateway = Gateway::start(&yaml(&upstream, "", "workers: 1\nlimits: { connections: 3 }"));
    let mut held: Vec<_> = (0..2).map(|_| ask(&gateway)).collect();
    for stream in &mut held {
        assert_eq!(read_answer(stream).unwrap().status, 200);
    }
    // One that never asked for anything is as good as one that rests.
    held.push(connect(gateway.address).unwrap());
    for _ in 0..3 {
        let mut newcomer = ask(&gateway);
        assert_eq!(read_answer(&mut newcomer).unwrap().status, 200);
        held.push(newcomer);
    }
    for (number, stream) in held.iter_mut().enumerate().take(3) {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "connection {number} is open still");
    }
    for stream in &mut held[3..] {
        stream.write_all(b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(read_answer(stream).unwrap().status, 200, "the newer ones stay");
    }
}

#[test]
fn a_route_can_have_a_bound_of_its_own() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| match request.method().as_str() {
        "POST" => Reply::whole(201, &[], "ok").after(&hold),
        _ => Reply::whole(200, &[], "plain"),
    });
    let text = yaml(&upstream, "", "").replace("    idempotency:\n", "    concurrency: 1\n    idempotency:\n");
    let gateway = Gateway::start(&text);
    let call = |key: &str| Call::post("/orders").key(key).body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call("a")));
        upstream.wait_for_requests(1);
        let refused = gateway.send(&call("b"));
        assert_eq!((refused.status, refused.code().as_deref()), (503, Some("overloaded")));
        assert!(refused.text().contains("on this route") && refused.header("retry-after").is_some());
        assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 200, "other routes go on");
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    wait_until("the place is free", || gateway.send(&call("b")).status == 201);
}

#[test]
fn a_client_that_sends_all_before_it_reads_can_read_the_refusal() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let gateway = gateway(&upstream, "request_body_limit: 1KiB");
    let body = vec![b'x'; 16 << 20];
    for _ in 0..3 {
        let refusal = gateway.send(&Call::post("/orders").key("k").body(&body));
        assert_eq!((refusal.status, refusal.code().as_deref()), (413, Some("body-too-large")));
        assert_eq!(refusal.header("connection"), Some("close"));
    }
    // Its size shows only as it comes.
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x1_0000], b"\r\n"].concat();
    let head = b"POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = [head.as_slice(), &chunk.repeat(128), b"0\r\n\r\n"].concat();
    assert_eq!(exchange(gateway.address, &bytes).unwrap().code().as_deref(), Some("body-too-large"));
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn slow_bodies_of_operators_leave_room_for_probes() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"));
    let text = yaml(&upstream, "", "limits: { body_timeout: 1s }")
        .replace("admin: { listen: 127.0.0.1:0 }", "admin: { listen: 127.0.0.1:0, connections: 16 }");
    let gateway = Gateway::start(&text);
    let path = format!("/api/v1/keys/{}/resolve", "0".repeat(64));
    let begun = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n{{");
    let mut slow: Vec<_> = (0..32)
        .map(|_| {
            let mut stream = connect(gateway.admin).unwrap();
            stream.write_all(begun.as_bytes()).unwrap();
            assert_eq!(gateway.get_admin("/livez").status, 200);
            stream
        })
        .collect();
    let statuses: Vec<_> = slow.iter_mut().map(|stream| read_answer(stream).unwrap().status).collect();
    assert_eq!(statuses[..4], [408; 4], "as many as may send a body are waited for");
    assert!(statuses[4..16].iter().all(|status| *status == 503), "the others are not: {statuses:?}");
    let whole = Call::post(&path).json(r#"{"outcome":"executed","reason":"seen"}"#);
    assert_eq!(whole.send(gateway.admin).status, 404, "the places are given back");
    let large = Call::post(&path).json(&" ".repeat((1 << 20) + 1));
    assert_eq!(large.send(gateway.admin).status, 413);
}

#[test]
fn header_fields_are_counted() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"));
    let gateway = Gateway::start(&yaml(&upstream, "", "limits: { headers: 12 }"));
    let call = |fields: usize| (2..fields).fold(Call::new("GET", "/plain"), |call, _| call.header("X-Field", "x"));
    assert_eq!(gateway.send(&call(11)).status, 200);
    assert_eq!(gateway.send(&call(12)).status, 431);
}

#[test]
fn an_endless_head_is_cut_off() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], "ok"));
    let gateway = gateway(&upstream, "");
    let head = |length: usize| {
        let start = "GET /plain HTTP/1.1\r\nHost: a\r\nX-Long: ";
        format!("{start}{}", "x".repeat(length - start.len()))
    };
    let mut long = connect(gateway.address).unwrap();
    long.write_all(format!("{}\r\n\r\n", head(48 << 10)).as_bytes()).unwrap();
    assert_eq!(read_answer(&mut long).unwrap().status, 200);
    let mut endless = connect(gateway.address).unwrap();
    endless.write_all(head(64 << 10).as_bytes()).unwrap();
    assert_eq!(read_answer(&mut endless).unwrap().status, 431);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_outcome_that_waits_for_its_store_holds_no_slot() {
    let redis = crate::redis::RedisServer::start();
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| match request.method().as_str() {
        "POST" => Reply::whole(201, &[], "ok").after(&hold),
        _ => Reply::whole(200, &[], "plain"),
    });
    let store =
        format!("store: {{ kind: redis, url: '{}', command_timeout: 5s }}\nlimits: {{ in_flight: 1 }}", redis.url());
    let gateway = Gateway::start(&yaml(&upstream, "", &store));
    let call = Call::post("/orders").key("k").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&call));
        upstream.wait_for_requests(1);
        redis.pause();
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 200);
    redis.resume();
    wait_until("the outcome is recorded", || gateway.send(&call).is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
}
