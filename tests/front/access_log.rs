//! The access log: one line for each answer, what it says, and that nobody but the gateway writes one.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Call, connect, raw_exchange, read_answer};
use crate::frames::{RESET, Raw};
use crate::gateway::wait_until;
use crate::multiplexed::{Multiplexed, order, request};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{Gateway, books, gateway};

/// One worker: lines come in the order of their answers.
const JSON: &str = "workers: 1\naccess_log: { path: '{dir}/log', flush: 1ms }";

/// The lines so far, once there are so many.
fn raw_lines(gateway: &Gateway, count: usize) -> Vec<String> {
    let path = gateway.folder().join("log");
    let read = || std::fs::read_to_string(&path).unwrap();
    wait_until("the lines are written", || read().lines().count() >= count);
    // Were there more, they would be here by now.
    std::thread::sleep(Duration::from_millis(20));
    let lines: Vec<String> = read().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

fn lines(gateway: &Gateway, count: usize) -> Vec<Value> {
    raw_lines(gateway, count).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn line(gateway: &Gateway) -> Value {
    lines(gateway, 1).remove(0)
}

/// Text fields of a line; `-` for null.
fn texts<'a, const N: usize>(line: &'a Value, names: [&str; N]) -> [&'a str; N] {
    names.map(|name| {
        line[name].as_str().unwrap_or_else(|| if line[name].is_null() { "-" } else { panic!("{name}: {line}") })
    })
}

#[test]
fn an_executed_request_has_a_line_with_every_field() {
    let upstream = books();
    let gateway = gateway(&upstream, JSON);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let call =
        Call::post("/orders?token=secret").key("k-1").header("User-Agent", "curl/8").header("X-Request-Id", "r-1");
    let call =
        call.header("traceparent", format!("00-{trace}-b7ad6b7169203331-01")).header("Authorization", "Bearer s3cret");
    let (before, answer) = (jiff::Timestamp::now(), gateway.send(&call.body("amount=1")));
    let after = jiff::Timestamp::now();
    assert_eq!(answer.status, 201);
    let line = line(&gateway);
    let at = line["time"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    let (at, slack) = (at.parse::<jiff::Timestamp>().unwrap(), Duration::from_millis(1));
    assert!(before - slack <= at && at <= after, "{at}");
    let seen = upstream.requests().remove(0);
    let server = upstream.address().to_string();
    let names = ["client", "peer", "method", "target", "protocol", "route", "upstream", "verdict", "operation"];
    let expected = ["127.0.0.1", "127.0.0.1", "POST", "/orders", "HTTP/1.1", "create-order", &server, "executed"];
    assert_eq!(texts(&line, names)[..8], expected);
    assert_eq!(line["operation"].as_str().unwrap(), &seen.text("oncegate-operation")[..12]);
    assert_eq!(texts(&line, ["request_id", "trace_id", "user_agent"]), ["r-1", trace, "curl/8"]);
    assert_eq!((line["status"].as_u64(), line["bytes"].as_u64()), (Some(201), Some(6)));
    let took = Duration::from_secs_f64(line["duration"].as_f64().unwrap());
    assert!(!took.is_zero() && took <= (after - before).unsigned_abs() + slack, "{took:?}");
    assert_eq!(line.as_object().unwrap().len(), 16);
    let text = line.to_string();
    assert!(!["k-1", "secret", "s3cret", "amount"].iter().any(|hidden| text.contains(hidden)), "{text}");
}

#[test]
fn every_answer_has_a_line_whoever_gives_it() {
    let upstream = books();
    let gateway = gateway(&upstream, &JSON.replace("1ms", "1ms, query: keep"));
    let order = Call::post("/orders").key("k-1").body("x");
    gateway.send(&order);
    assert!(gateway.send(&order).is_replay());
    gateway.send(&Call::post("/orders").body("x"));
    gateway.send(&Call::new("GET", "/plain?a=b"));
    let head = raw_exchange(gateway.address, &Call::new("HEAD", "/plain").bytes()).unwrap();
    assert!(head.ends_with(b"\r\n\r\n"));
    gateway.send(&Call::new("OPTIONS", "*"));
    let mut refused = connect(gateway.address).unwrap();
    refused
        .write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    assert_eq!(read_answer(&mut refused).unwrap().status, 400);
    let lines = lines(&gateway, 7);
    let told: Vec<_> = lines.iter().map(|line| texts(line, ["method", "target", "verdict", "route"])).collect();
    assert_eq!(
        told,
        [
            ["POST", "/orders", "executed", "create-order"],
            ["POST", "/orders", "replayed", "create-order"],
            ["POST", "/orders", "key_missing", "create-order"],
            ["GET", "/plain?a=b", "passed", "rest"],
            ["HEAD", "/plain", "passed", "rest"],
            ["OPTIONS", "*", "answered", "-"],
            ["-", "-", "bad_request", "-"],
        ]
    );
    let numbers = |name: &str| lines.iter().map(|line| line[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers("status"), [201, 201, 400, 201, 201, 204, 400]);
    let bytes = numbers("bytes");
    assert_eq!([bytes[0], bytes[1], bytes[3], bytes[4], bytes[5]], [6, 6, 6, 0, 0]);
    assert!(bytes[2] > 50 && bytes[6] > 50, "the gateway's own words: {bytes:?}");
    let server = upstream.address().to_string();
    let servers: Vec<_> = lines.iter().map(|line| texts(line, ["upstream"])[0]).collect();
    assert_eq!(servers, [&server, "-", "-", &server, &server, "-", "-"]);
    assert_eq!(lines[0]["operation"], lines[1]["operation"]);
    assert!(lines[2]["operation"].is_null() && lines[3]["operation"].is_null());
}

#[test]
fn http2_has_the_same_lines() {
    let upstream = books();
    let gateway = gateway(&upstream, JSON);
    let client = Multiplexed::plain(gateway.address);
    client.send(order("k", "x"));
    client.send(order("k", "x"));
    client.send(request("GET", "/plain", &[("user-agent", "h2")], ""));
    let lines = lines(&gateway, 3);
    let told: Vec<_> = lines.iter().map(|line| texts(line, ["protocol", "method", "target", "verdict"])).collect();
    let order = |verdict| ["HTTP/2.0", "POST", "/orders", verdict];
    assert_eq!(told, [order("executed"), order("replayed"), ["HTTP/2.0", "GET", "/plain", "passed"]]);
    assert!(lines.iter().all(|line| line["bytes"] == 6 && line["status"] == 201));
    assert_eq!(lines[2]["user_agent"], "h2");
}

#[test]
fn a_line_comes_with_the_end_of_a_body() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream =
        ScriptedUpstream::start(move |_| Reply::sized(200, &[], 8, "half").then_wait(&hold).then_send("more"));
    let gateway = gateway(&upstream, JSON);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| gateway.send(&Call::new("GET", "/plain")));
        gateway.wait_for_metric("oncegate_requests_total{route=\"rest\",verdict=\"passed\"}", 1.0);
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(raw_lines(&gateway, 0).len(), 0);
        gate.open();
        assert_eq!(call.join().unwrap().text(), "halfmore");
    });
    let line = line(&gateway);
    assert_eq!(line["bytes"], 8);
    assert!(line["duration"].as_f64().unwrap() >= 0.06, "{line}");
}

#[test]
fn a_client_that_leaves_has_a_line_too() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let gateway = gateway(&upstream, JSON);
    let mut client = Raw::open(gateway.address);
    client.send(&Raw::head(1, "GET", "/plain", true));
    upstream.wait_for_requests(1);
    client.send(&Raw::frame(RESET, 0, 1, &8_u32.to_be_bytes()));
    let line = line(&gateway);
    assert_eq!(texts(&line, ["method", "target", "route", "verdict"]), ["GET", "/plain", "rest", "passed"]);
    assert_eq!((line["status"].as_u64(), line["bytes"].as_u64()), (Some(499), Some(0)));
    assert_eq!(line["upstream"], upstream.address().to_string());
}

#[test]
fn an_upstream_that_fails_is_named() {
    let upstream = ScriptedUpstream::start(|_| Reply::reset());
    let gateway = gateway(&upstream, JSON);
    assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 502);
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body("x")).status, 502);
    let lines = lines(&gateway, 2);
    for line in &lines {
        assert_eq!(texts(line, ["upstream", "verdict"]), [&*upstream.address().to_string(), "upstream_failed"]);
    }
}

#[test]
fn the_client_is_who_trusted_hops_say_it_is() {
    let upstream = books();
    let top =
        format!("{JSON}\ntrusted_proxies: [ 127.0.0.0/8, 10.0.0.0/8 ]\nproxy_protocol: {{ from: [ 127.0.0.0/8 ] }}");
    let gateway = gateway(&upstream, &top);
    let cases = [
        ("", "", "127.0.0.1"),
        ("", "203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("", "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("", "6.6.6.6, forged, 10.1.1.1", "10.1.1.1"),
        ("PROXY TCP4 198.51.100.7 203.0.113.1 12345 443\r\n", "6.6.6.6", "198.51.100.7"),
        ("PROXY TCP4 10.0.0.7 203.0.113.1 12345 443\r\n", "2001:db8::1", "2001:db8::1"),
    ];
    for (proxy, forwarded, _) in cases {
        let mut stream = connect(gateway.address).unwrap();
        let call = Call::new("GET", "/plain");
        let call = if forwarded.is_empty() { call } else { call.header("X-Forwarded-For", forwarded) };
        stream
            .write_all(
                &[if proxy.is_empty() { b"PROXY UNKNOWN\r\n" } else { proxy.as_bytes() }, &call.bytes()].concat(),
            )
            .unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().status, 201);
    }
    for (line, (_, _, client)) in lines(&gateway, cases.len()).iter().zip(cases) {
        assert_eq!(texts(line, ["client", "peer"]), [client, "127.0.0.1"]);
    }
}

#[test]
fn nobody_forges_a_line() {
    let evil = "x\" 200 0 \"-\" \\ \u{85}\u{e9}\t{";
    for format in ["json", "combined"] {
        let upstream = books();
        let gateway = gateway(&upstream, &JSON.replace("1ms", &format!("1ms, query: keep, format: {format}")));
        let answer =
            gateway.send(&Call::new("GET", "/a%0Ab?q=%22'").header("User-Agent", evil).header("X-Request-Id", "a\" b"));
        assert_eq!(answer.status, 201);
        let line = raw_lines(&gateway, 1).remove(0);
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line}");
        if format == "json" {
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(texts(&line, ["target", "user_agent"]), ["/a%0Ab?q=%22'", evil]);
            assert_ne!(line["request_id"], "a\" b", "the one that went to the upstream");
        } else {
            let agent = r"x\x22 200 0 \x22-\x22 \x5C \xC2\x85\xC3\xA9\x09{";
            assert!(line.contains(&format!("\"GET /a%0Ab?q=%22' HTTP/1.1\" 201 6 \"-\" \"{agent}\" 0.")), "{line}");
            assert_eq!(line.matches('"').count(), 12, "{line}");
        }
    }
}

#[test]
fn a_websocket_has_its_line_when_it_begins() {
    let upstream = ScriptedUpstream::start(|_| {
        Reply::raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n").then_hang()
    });
    let gateway = gateway(&upstream, JSON);
    let mut client = connect(gateway.address).unwrap();
    client.write_all(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    let line = line(&gateway);
    assert_eq!((line["status"].as_u64(), line["bytes"].as_u64()), (Some(101), Some(0)));
}

#[test]
fn without_the_setting_there_is_nothing() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    gateway.send(&Call::post("/orders").key("k").body("x"));
    let files: Vec<_> = std::fs::read_dir(gateway.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["oncegate.yaml"]);
    let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("oncegate-access")));
}
