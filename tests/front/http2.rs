//! HTTP/2 in front: guarded requests run once, the API sees HTTP/1.1, connections end in order.

use std::io::{Read, Write};
use std::process::Command;

use crate::authority::{Authority, Issued};
use crate::client::{Call, connect};
use crate::frames::{DATA, PREFACE, RESET, Raw, SETTINGS, WINDOW_UPDATE};
use crate::gateway::wait_until;
use crate::multiplexed::{Multiplexed, order, request};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{Gateway, books, gateway, yaml};

#[test]
fn a_guarded_request_runs_once_whatever_it_comes_by() {
    let (authority, upstream) = (Authority::new(), books());
    let gateway = gateway(&upstream, &Issued::yaml(&[&authority.issue("a", "a.test")], ""));
    let client = Multiplexed::encrypted(&authority.client(), gateway.address, "a.test");
    let first = client.send(order("k", "x"));
    assert_eq!((first.status, first.text().as_str(), first.is_replay()), (201, "booked", false));
    let again = client.send(order("k", "x"));
    assert!(again.is_replay());
    assert_eq!((again.status, again.body), (first.status, first.body));
    assert_eq!(client.send(order("k", "changed")).code().as_deref(), Some("key-reused"));
    let keyless = client.send(request("POST", "/orders", &[], "x"));
    assert_eq!((keyless.status, keyless.code().as_deref()), (400, Some("key-missing")));
    let [seen] = &upstream.requests()[..] else { panic!("not once") };
    assert_eq!(seen.text("x-forwarded-proto"), "https");
}

#[test]
fn both_versions_share_their_operations() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    assert!(!Multiplexed::plain(gateway.address).send(order("k", "x")).is_replay());
    assert!(gateway.send(&Call::post("/orders").key("k").body("x")).is_replay());
}

#[test]
fn a_hundred_equal_orders_on_one_connection_run_once() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "booked").after(&hold));
    let gateway = Gateway::start(&yaml(&upstream, "in_flight: wait\n      patience: 20s", ""));
    let client = Multiplexed::plain(gateway.address);
    let orders: Vec<_> = (0..100).map(|_| client.begin(order("k", "x"))).collect();
    upstream.wait_for_requests(1);
    gate.open();
    let answers: Vec<_> = orders.into_iter().map(|order| order.wait().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.text() == "booked"));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_client_that_takes_its_order_back_changes_nothing() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "booked").after(&hold));
    let gateway = gateway(&upstream, "");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::order(1, "k"));
    upstream.wait_for_requests(1);
    raw.send(&Raw::frame(RESET, 0, 1, &[0, 0, 0, 8]));
    gateway.wait_for_metric("oncegate_clients_gone_total{route=\"create-order\"}", 1.0);
    raw.send(&Raw::order(3, "k"));
    assert_eq!(raw.status(3), 409);
    gate.open();
    let client = Multiplexed::plain(gateway.address);
    let again = || client.send(order("k", ""));
    wait_until("the first one's answer is there", || again().is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn the_api_sees_a_sound_http1_request() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let client = Multiplexed::plain(gateway.address);
    let fields = [("idempotency-key", "k"), ("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers"), ("x-a", "1")];
    assert_eq!(client.send(request("POST", "/orders?x=%20y", &fields, "body")).status, 201);
    assert_eq!(client.send(request("POST", "/plain", &[], "")).status, 201);
    assert_eq!(client.send(request("GET", "/plain", &[], "")).status, 201);
    let seen = upstream.requests();
    assert_eq!(seen[0].line, b"POST /orders?x=%20y HTTP/1.1");
    for (name, value) in [("host", "api.test"), ("content-length", "4"), ("cookie", "a=b; c=d"), ("x-a", "1")] {
        assert_eq!(seen[0].text(name), value, "{name}");
    }
    assert_eq!(seen[0].body, b"body");
    assert_eq!((seen[1].text("content-length").as_str(), seen[1].header("transfer-encoding")), ("0", None));
    assert_eq!((seen[2].header("content-length"), seen[2].header("transfer-encoding")), (None, None));
    for name in ["te", "connection", "upgrade", "http2-settings"] {
        assert!(seen.iter().all(|request| request.header(name).is_none()), "{name}");
    }
}

#[test]
fn a_body_of_unknown_length_goes_on_in_chunks() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::head(1, "POST", "/plain", false));
    raw.send(&Raw::data(1, b"ab", false));
    raw.send(&Raw::data(1, b"cd", true));
    assert_eq!(raw.status(1), 201);
    let [seen] = &upstream.requests()[..] else { panic!("not once") };
    assert_eq!((seen.text("transfer-encoding").as_str(), &seen.body[..]), ("chunked", &b"abcd"[..]));
}

#[test]
fn answers_say_nothing_of_the_connection_behind() {
    let fields = [("Connection", "x-hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("X-Kept", "2")];
    let upstream = ScriptedUpstream::start(move |_| Reply::chunked(200, &fields, &[b"a", b"b"]));
    let gateway = gateway(&upstream, "");
    let client = Multiplexed::plain(gateway.address);
    for path in ["/plain", "/orders"] {
        let answer = client.send(request("POST", path, &[("idempotency-key", "k")], ""));
        assert_eq!((answer.status, answer.text().as_str(), answer.header("x-kept")), (200, "ab", Some("2")));
        for name in ["connection", "x-hop", "keep-alive", "transfer-encoding"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
    }
}

#[test]
fn bodies_larger_than_the_windows_pass_both_ways() {
    let upstream = ScriptedUpstream::start(|request| Reply::whole(200, &[], &request.body));
    let gateway = gateway(&upstream, "http2: { stream_window: 64KiB, connection_window: 64KiB }");
    let large = "0123456789abcdef".repeat(64 * 1024);
    let answer = Multiplexed::plain(gateway.address).send(request("POST", "/plain", &[], &large));
    assert_eq!(answer.body.len(), large.len());
    assert!(answer.body == large.as_bytes());
}

#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let client = Multiplexed::plain(gateway.address);
    let answer = client.send(request("POST", "/plain", &[("host", "other.test")], ""));
    assert_eq!(answer.code().as_deref(), Some("bad-request"));
    assert_eq!(client.send(request("POST", "/plain", &[("host", "api.test")], "")).status, 201);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn prior_knowledge_is_seen_in_pieces() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let mut raw = Raw::connect(gateway.address);
    for byte in PREFACE {
        raw.send(&[*byte]);
    }
    raw.send(&Raw::settings());
    raw.send(&Raw::head(1, "GET", "/plain", true));
    assert_eq!(raw.status(1), 201);
    // What begins alike is HTTP/1.1 all the same.
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(b"P").unwrap();
    stream.write_all(b"OST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(crate::client::read_answer(&mut stream).unwrap().status, 201);
}

#[test]
fn curl_speaks_http2_with_prior_knowledge_or_stays_with_http1() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let url = format!("http://{}/orders", gateway.address);
    for (version, start) in [("--http2-prior-knowledge", "http/2 201"), ("--http2", "http/1.1 201")] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--include", version, "-H", "Idempotency-Key: k", "-d", "x", &url])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(text.starts_with(start), "{output:?}");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn it_can_be_switched_off() {
    let upstream = books();
    let gateway = gateway(&upstream, "http2: { enabled: false }");
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(PREFACE).unwrap();
    let mut said = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut said);
    assert!(!said.starts_with(&[0, 0]), "no frames: {}", said.escape_ascii());
    assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 201);
}

#[test]
fn a_drain_says_goodbye_and_answers_what_is_under_way() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "booked").after(&hold));
    let mut gateway = gateway(&upstream, "");
    let client = Multiplexed::plain(gateway.address);
    let running = client.begin(order("k", "x"));
    upstream.wait_for_requests(1);
    let mut silent = Raw::open(gateway.address);
    let mut torn = Raw::open(gateway.address);
    torn.send(&Raw::torn_head(1));
    // Its own settings, and that it has heard the client's: now there is somebody to say goodbye to.
    for connection in [&mut silent, &mut torn] {
        connection.wait_for(SETTINGS, 0);
        connection.wait_for(SETTINGS, 0);
    }
    gateway.signal("TERM");
    silent.wait_for_goaway();
    gate.open();
    assert_eq!(running.wait().unwrap().status, 201);
    wait_until("the connection is closed", || client.is_closed());
    // Neither the silent one nor the one in the middle of a head holds it up.
    assert!(gateway.wait().success());
}

/// The client takes its time: the goodbye does not cut its answer short.
#[test]
fn a_drain_waits_for_a_client_that_reads_slowly() {
    // Recorded, so it is there whole before its first byte goes out.
    let large = "0123456789abcdef".repeat(12 * 1024);
    let body = large.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(200, &[], &body));
    let mut gateway = gateway(&upstream, "");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::order(1, "k"));
    // The window that HTTP/2 begins with holds a third of it.
    let mut taken = 0;
    while taken < 65_535 {
        taken += raw.wait_for(DATA, 1).payload.len();
    }
    gateway.signal("TERM");
    raw.wait_for_goaway();
    // Longer than a client may take that has nothing to wait for.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let window = u32::try_from(large.len()).unwrap().to_be_bytes();
    raw.send(&[Raw::frame(WINDOW_UPDATE, 0, 0, &window), Raw::frame(WINDOW_UPDATE, 0, 1, &window)].concat());
    while taken < large.len() {
        taken += raw.wait_for(DATA, 1).payload.len();
    }
    drop(raw);
    assert!(gateway.wait().success());
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "booked").after(&hold));
    let gateway = gateway(&upstream, "limits: { header_timeout: 300ms, keep_alive_timeout: 300ms }");
    let client = Multiplexed::plain(gateway.address);
    let running = client.begin(order("k", "x"));
    let mut idle = Raw::open(gateway.address);
    let mut torn = Raw::open(gateway.address);
    torn.send(&Raw::torn_head(1));
    let mut begun = Raw::connect(gateway.address);
    begun.send(&PREFACE[..5]);
    let mut silent = connect(gateway.address).unwrap();
    idle.wait_for_goaway();
    idle.wait_for_end();
    torn.wait_for_end();
    begun.wait_for_end();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    gateway.wait_for_metric("oncegate_timeouts_total{kind=\"keep_alive\"}", 3.0);
    gateway.wait_for_metric("oncegate_timeouts_total{kind=\"header\"}", 1.0);
    gate.open();
    assert_eq!(running.wait().unwrap().status, 201);
}

#[test]
fn a_head_is_bounded_as_over_http1() {
    let upstream = books();
    let gateway = gateway(&upstream, "limits: { target: 1KiB, headers: 20 }");
    let client = Multiplexed::plain(gateway.address);
    let long = format!("/{}", "a".repeat(1024));
    let told = client.send(request("GET", &long, &[], ""));
    assert_eq!((told.status, told.code().as_deref()), (414, Some("target-too-long")));
    let names: Vec<String> = (0..20).map(|number| format!("x-{number}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let told = client.send(request("GET", "/orders", &fields, ""));
    assert_eq!((told.status, told.code().as_deref()), (431, Some("headers-too-large")));
    assert!(upstream.requests().is_empty());
    assert_eq!(client.send(order("k", "x")).status, 201, "the connection goes on");
}
