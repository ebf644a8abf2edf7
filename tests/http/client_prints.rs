//! Fingerprints that clients make of their requests: verified, trusted or ignored, and the time that goes with them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use oncegate::clock::Clock;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until, write};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const VERIFY: &str = "fingerprint: { client: { mode: verify } }";
const KEYED: &str = "key: [ { header: X-Request-Fingerprint } ]
fingerprint: { client: { mode: verify, required: true } }";
const MINUTE: u64 = 60_000;

/// Netstrings side by side.
fn net(parts: &[&str]) -> String {
    parts.iter().fold(String::new(), |all, part| all + &format!("{}:{part},", part.len()))
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |all, byte| all + &format!("{byte:02x}"))
}

/// The fingerprint of `POST /orders` with a body of this type and form: by the definition, written out.
fn print_of(media: &str, form: &str, body: &str, timestamp: u64) -> String {
    let timestamp = timestamp.to_string();
    sha256(&net(&["oncegate-client-1", "POST", "/orders", "", media, "", form, body, &timestamp]))
}

/// That of JSON, whose canonical form is given.
fn print(canonical: &str, timestamp: u64) -> String {
    print_of("application/json", "json", canonical, timestamp)
}

fn call(print: &str, timestamp: u64, body: &str) -> Call {
    let call = Call::post("/orders").json(body);
    call.header("X-Request-Fingerprint", print).header("X-Request-Timestamp", timestamp.to_string())
}

/// An order of so many pieces, made at this time, as a client spells it.
fn order(pieces: u32, timestamp: u64) -> Call {
    call(&print(&format!("{{\"n\":{pieces}}}"), timestamp), timestamp, &format!("{{ \"n\": {pieces}.0 }}"))
}

fn counting() -> ScriptedUpstream {
    let orders = AtomicUsize::new(0);
    ScriptedUpstream::start(move |_| {
        Reply::whole(201, &[], format!("order {}", orders.fetch_add(1, Ordering::Relaxed)))
    })
}

fn problem(answer: &Answer, code: &str) -> Value {
    assert_eq!((answer.status, answer.code().as_deref()), (400, Some(code)), "{}", answer.text());
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["retry"], "stop");
    let told: u64 = answer.header("oncegate-time").unwrap().parse().unwrap();
    assert_eq!(problem["server_time"], told);
    problem
}

#[test]
fn a_fingerprint_is_verified_and_reaches_the_api_as_it_came() {
    let upstream = counting();
    let gateway = gateway(&upstream, VERIFY);
    let now = Clock::wall().0;
    let one = order(1, now).key("k");
    assert_eq!(gateway.send(&one).status, 201);
    assert!(gateway.send(&one).is_replay());
    let seen = &upstream.requests()[0];
    assert_eq!(seen.text("x-request-fingerprint"), print("{\"n\":1}", now));
    assert_eq!(seen.text("x-request-timestamp"), now.to_string());
    assert_eq!(seen.body, b"{ \"n\": 1.0 }");
    // The same key with a timestamp of its own: the gateway's own comparison does not look at that.
    assert!(gateway.send(&order(1, now + 1).key("k")).is_replay());
    assert_eq!(gateway.send(&order(2, now).key("k")).code().as_deref(), Some("key-reused"));
    assert_eq!(gateway.send(&Call::post("/orders").json("{}").key("bare")).status, 201, "it is not required");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn another_requests_fingerprint_is_refused_and_nothing_is_forwarded() {
    let upstream = counting();
    let gateway = gateway(&upstream, VERIFY);
    let now = Clock::wall().0;
    let right = print("{\"n\":1}", now);
    let changed = call(&right, now, "{\"n\":2}").key("k");
    let told = problem(&gateway.send(&changed), "fingerprint-invalid");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("counts as `json`") && !detail.contains(&print("{\"n\":2}", now)), "{detail}");
    assert!(told.get("clock_offset").is_none());
    problem(&gateway.send(&call(&right, now + 1, "{\"n\":1}").key("k")), "fingerprint-invalid");
    problem(&gateway.send(&call(&right.to_uppercase(), now, "{\"n\":1}").key("k")), "fingerprint-invalid");
    let twice = call(&right, now, "{\"n\":1}").key("k").header("X-Request-Fingerprint", &right);
    problem(&gateway.send(&twice), "fingerprint-invalid");
    let alone = Call::post("/orders").json("{\"n\":1}").key("k").header("X-Request-Fingerprint", &right);
    problem(&gateway.send(&alone), "timestamp-invalid");
    for time in ["-1", "1.5", "0001", "1732924800000000", "now", ""] {
        problem(&gateway.send(&alone.clone().header("X-Request-Timestamp", time)), "timestamp-invalid");
    }
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="fingerprint_invalid"}"#), 4.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="timestamp_invalid"}"#), 7.0);
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(gateway.send(&call(&right, now, "{\"n\":1}").key("k")).status, 201, "the key is as good as new");
}

#[test]
fn a_new_operation_states_a_time_near_now_and_is_told_the_right_one() {
    let upstream = counting();
    let gateway = gateway(&upstream, VERIFY);
    let now = Clock::wall().0;
    for (stated, offset) in [(now - MINUTE, MINUTE.cast_signed()), (now + MINUTE, -MINUTE.cast_signed())] {
        let told = problem(&gateway.send(&order(1, stated).key("off")), "timestamp-invalid");
        let measured = told["clock_offset"].as_i64().unwrap();
        assert!((offset..offset + 20_000).contains(&measured), "{measured}");
        assert_eq!(told["server_time"].as_u64().unwrap().wrapping_add_signed(-measured), stated);
        // Set by that, the clock is right.
        assert_eq!(gateway.send(&order(1, Clock::wall().0).key(&format!("set-{offset}"))).status, 201);
    }
    for near in [now - 20_000, now + 20_000] {
        assert_eq!(gateway.send(&order(1, near).key(&near.to_string())).status, 201);
    }
}

#[test]
fn a_retry_states_its_first_time_and_may_come_late_while_it_is_remembered() {
    let upstream = counting();
    let gateway = gateway(&upstream, "retention: 5s\nfingerprint: { client: { mode: verify, skew: 3s } }");
    let first = order(1, Clock::wall().0).key("k");
    assert_eq!(gateway.send(&first).status, 201);
    let mut late = 0;
    let begun = Clock::instant();
    wait_until("the outcome is forgotten", || {
        let answer = gateway.send(&first);
        assert!(answer.is_replay() || answer.status == 400, "{} {}", answer.status, answer.text());
        late += u32::from(answer.is_replay() && begun.elapsed() > Duration::from_millis(3_100));
        answer.status == 400
    });
    assert!(late > 0, "none came after its time");
    problem(&gateway.send(&first), "timestamp-invalid");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn as_a_key_it_names_the_same_order_at_another_time_another_operation() {
    let upstream = counting();
    let gateway = gateway(&upstream, KEYED);
    let now = Clock::wall().0;
    assert_eq!(gateway.send(&order(1, now)).text(), "order 0");
    assert!(gateway.send(&order(1, now)).is_replay());
    let respelled = call(&print("{\"n\":1}", now), now, "{\"n\":10e-1}");
    assert!(gateway.send(&respelled).is_replay());
    assert_eq!(gateway.send(&order(1, now + 1)).text(), "order 1");
    assert_eq!(gateway.send(&order(2, now)).text(), "order 2");
    problem(&gateway.send(&Call::post("/orders").json("{}")), "fingerprint-invalid");
}

#[test]
fn thirty_of_one_fingerprint_at_once_over_two_gateways_run_once() {
    let redis = RedisServer::start();
    let upstream = counting();
    let store = format!("store: {{ kind: redis, url: \"{}\", command_timeout: 5s }}", redis.url());
    let both = [(), ()].map(|()| Gateway::start(&yaml(&upstream, KEYED, &store)));
    for round in 1..=3 {
        let call = order(round, Clock::wall().0);
        std::thread::scope(|scope| {
            let sent: Vec<_> = (0..30)
                .map(|number| {
                    scope.spawn({
                        let (gateway, call) = (&both[number % 2], &call);
                        move || gateway.send(call)
                    })
                })
                .collect();
            for answer in sent.into_iter().map(|sent| sent.join().unwrap()) {
                assert!(answer.status == 201 || answer.code().as_deref() == Some("request-in-flight"), "{answer:?}");
            }
        });
        assert_eq!(upstream.requests().len(), usize::try_from(round).unwrap());
    }
}

#[test]
fn a_trusted_word_makes_a_changed_request_a_retry_and_its_time_still_counts() {
    let upstream = counting();
    let gateway = gateway(&upstream, "fingerprint: { client: { mode: trust } }");
    let now = Clock::wall().0;
    let word = "0123456789abcdef".repeat(4);
    assert_eq!(gateway.send(&call(&word, now, "{\"n\":1}").key("k")).status, 201);
    assert!(gateway.send(&call(&word, now, "{\"n\":2}").key("k")).is_replay());
    let other = word.replace('0', "f");
    assert_eq!(gateway.send(&call(&other, now, "{\"n\":2}").key("k")).code().as_deref(), Some("key-reused"));
    // Without a word of the client's, the two digests are of different makers: equal cannot be told from changed.
    let bare = |body| gateway.send(&Call::post("/orders").json(body).key("k"));
    assert!(bare("{\"n\":1}").is_replay());
    assert_eq!(bare("{\"n\": 1}").code().as_deref(), Some("duplicate-request"));
    problem(&gateway.send(&call(&word, now - MINUTE, "{}").key("new")), "timestamp-invalid");
    problem(&gateway.send(&call("word", now, "{}").key("new")), "fingerprint-invalid");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn what_is_ignored_and_what_a_shadow_sees_passes() {
    let upstream = counting();
    for guard in ["retention: 1h", "mode: shadow\nfingerprint: { client: { mode: verify, required: true } }"] {
        let gateway = gateway(&upstream, guard);
        let before = upstream.requests().len();
        assert_eq!(gateway.send(&call("no", 5, "{}").key("a")).status, 201);
        assert_eq!(gateway.send(&Call::post("/orders").json("{}").key("b")).status, 201);
        assert_eq!(upstream.requests().len(), before + 2);
    }
}

#[test]
fn multipart_files_count_by_their_content_and_boundaries_do_not() {
    let upstream = counting();
    let gateway = gateway(&upstream, KEYED);
    let now = Clock::wall().0;
    let (named, kind) = (net(&["filename", "a.txt", "name", "f"]), net(&["text/plain"]));
    let part = net(&[&net(&[&named, &kind, "", &sha256("hello")])]);
    let shown = print_of("multipart/form-data", "multipart", &part, now);
    let send = |content: &str, boundary: &str| {
        let head = "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain";
        let body = format!("--{boundary}\r\n{head}\r\n\r\n{content}\r\n--{boundary}--\r\n");
        let call = Call::post("/orders").header("Content-Type", format!("multipart/form-data; boundary={boundary}"));
        let call = call.header("X-Request-Fingerprint", &shown).header("X-Request-Timestamp", now.to_string());
        gateway.send(&call.body(body))
    };
    assert_eq!(send("hello", "one").status, 201);
    assert!(send("hello", "----WebKitFormBoundary7MA4").is_replay());
    problem(&send("Hello", "one"), "fingerprint-invalid");
}

#[test]
fn pages_may_send_both_fields_and_read_the_servers_time() {
    let page = "https://shop.example";
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(200, &[("Access-Control-Allow-Origin", page)], ""));
    let text = yaml(&upstream, VERIFY, "");
    let cors = format!("    cors: {{ origins: [ \"{page}\" ] }}\n    idempotency:");
    let gateway = Gateway::start(&text.replacen("    idempotency:", &cors, 1));
    let joined = |answer: &Answer, name: &str| {
        let values = answer.headers.iter().filter(|(own, _)| own == name);
        values.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>().join(", ")
    };
    let preflight = Call::new("OPTIONS", "/orders").header("Origin", page);
    let allowed = gateway.send(&preflight.header("Access-Control-Request-Method", "POST"));
    let names = joined(&allowed, "access-control-allow-headers");
    for name in ["idempotency-key", "x-request-fingerprint", "x-request-timestamp"] {
        assert!(names.split(", ").any(|allowed| allowed == name), "{name}: {allowed:?}");
    }
    let refused = gateway.send(&order(1, 5).key("k").header("Origin", page));
    problem(&refused, "timestamp-invalid");
    let exposed = joined(&refused, "access-control-expose-headers");
    assert!(exposed.split(", ").any(|name| name == "oncegate-time"), "{exposed}");
}

/// Where Debian puts libfaketime.
fn faketime() -> String {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut places = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    let found = places.find(|place| place.exists());
    found.expect("this test needs libfaketime: tests/prepare brings it").display().to_string()
}

/// A gateway whose machine's clock is five minutes ahead.
fn fast_gateway(config: &Path) -> Gateway {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["serve", "--config"]).arg(config);
    command.env("LD_PRELOAD", faketime()).env("FAKETIME", "+5m").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Gateway::try_command(command, config).unwrap_or_else(|(ended, log)| panic!("{ended}\n{log}"))
}

#[test]
fn the_stores_time_is_what_counts_and_not_the_gateways() {
    let redis = RedisServer::start();
    let upstream = counting();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    write(
        &config,
        &yaml(&upstream, VERIFY, &format!("store: {{ kind: redis, url: \"{}\", command_timeout: 5s }}", redis.url())),
    );
    let gateway = fast_gateway(&config);
    let date = httpdate::parse_http_date(gateway.send(&Call::new("GET", "/nowhere")).header("date").unwrap()).unwrap();
    let now = Clock::wall().0;
    assert!(date > UNIX_EPOCH + Duration::from_millis(now + 4 * MINUTE), "its clock is right: {date:?}");
    assert_eq!(gateway.send(&order(1, now).key("by-the-store")).status, 201);
    let told = problem(&gateway.send(&order(1, now + 5 * MINUTE).key("by-the-gateway")), "timestamp-invalid");
    let server = told["server_time"].as_u64().unwrap();
    assert!(server.abs_diff(Clock::wall().0) < 20_000, "{server}");
}
