//! Keys that say when they were made: one that is too old to be new is refused, unless something is known of it.

use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const MINUTE: u64 = 60_000;

/// A UUID of version 7, made so long ago.
fn key(ago: i64, name: u8) -> String {
    let made = Clock::wall().0.checked_add_signed(-ago).unwrap();
    uuid::Uuid::from_u128(u128::from(made) << 80 | 7 << 76 | 2 << 62 | u128::from(name)).to_string()
}

fn millis(span: u64) -> i64 {
    i64::try_from(span).unwrap()
}

fn send(gateway: &Gateway, key: &str) -> Answer {
    gateway.send(&Call::post("/orders").key(key).body("x"))
}

fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

/// The store's time, which both the fields and the body tell.
fn told_time(answer: &Answer) -> u64 {
    let time = answer.header("oncegate-time").and_then(|text| text.parse().ok()).expect("it tells the time");
    assert!(answer.text().contains(&format!(r#""server_time":{time}"#)), "{}", answer.text());
    time
}

fn refusal(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|request| match request.text("Idempotency-Key").as_str() {
        key if key.ends_with("0bad") => Reply::reset(),
        _ => Reply::whole(201, &[], "ok"),
    })
}

#[test]
fn a_key_that_is_too_old_to_be_new_is_refused_without_a_write() {
    let upstream = created();
    let gateway = gateway(&upstream, "retention: 1h\nkey_age: { from: uuid_v7 }");
    let old = key(millis(66 * MINUTE), 1);
    let refused = send(&gateway, &old);
    assert_eq!(told(&refused), refusal(410, "key-expired"));
    assert!(refused.text().contains(r#""retry":"new-key""#), "{}", refused.text());
    assert_eq!(refused.header("idempotency-expires"), None);
    assert!(told_time(&refused).abs_diff(Clock::wall().0) < MINUTE);
    assert_eq!(gateway.metric(r#"oncegate_store_seconds_count{op="load"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_store_seconds_count{op="reserve"}"#), 0.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="key_expired"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_duplicates_total{route="create-order"}"#), 0.0);
    assert_eq!(upstream.requests().len(), 0);
    // Within the retention, and the allowance for clocks that are off, it is as good as new.
    assert_eq!(send(&gateway, &key(millis(64 * MINUTE), 2)).status, 201);
    assert_eq!(send(&gateway, &key(0, 3)).status, 201);
    assert_eq!(send(&gateway, &key(-millis(4 * MINUTE), 4)).status, 201);
}

#[test]
fn what_says_no_time_or_one_to_come_is_no_key() {
    let upstream = created();
    let gateway = gateway(&upstream, "key_age: { from: uuid_v7, clock_skew: 1m }");
    let random = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    for bad in ["k-1", random] {
        let refused = send(&gateway, bad);
        assert_eq!(told(&refused), refusal(400, "key-invalid"), "{bad}");
        assert_eq!(refused.header("oncegate-time"), None, "no clock is to blame");
    }
    let early = send(&gateway, &key(-millis(2 * MINUTE), 1));
    assert_eq!(told(&early), refusal(400, "key-invalid"));
    assert!(told_time(&early).abs_diff(Clock::wall().0) < MINUTE);
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn what_is_known_of_an_old_key_is_told_and_when_that_is_forgotten_nothing_runs() {
    let upstream = created();
    let gateway = gateway(&upstream, "retention: 2s\ndoubt_retention: 1h\nkey_age: { from: uuid_v7, clock_skew: 1s }");
    let (first, doubtful) = (key(0, 1), format!("{}0bad", &key(0, 2)[..32]));
    let begun = Clock::instant();
    assert_eq!(send(&gateway, &first).status, 201);
    assert_eq!(send(&gateway, &doubtful).status, 502);
    let mut replayed = 0;
    wait_until("the key has expired", || {
        let answer = send(&gateway, &first);
        replayed += u32::from(answer.is_replay());
        // Never in between: a second run.
        assert!(answer.is_replay() || answer.status == 410, "{} {}", answer.status, answer.text());
        answer.status == 410
    });
    // Its outcome is kept a little longer than the retention, so that the key is too old by then.
    assert!(begun.elapsed() >= Duration::from_secs(3) && replayed > 0);
    assert_eq!(told(&send(&gateway, &doubtful)), refusal(409, "outcome-unknown"), "a doubt is remembered longer");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn gateways_that_share_a_store_agree_by_its_time() {
    let redis = RedisServer::start();
    let upstream = created();
    let store = format!("store: {{ kind: redis, url: \"{}\" }}\nreplay_cache: 0B", redis.url());
    let guard = "retention: 1s\nkey_age: { from: uuid_v7, clock_skew: 1s }";
    let [a, b] = [(), ()].map(|()| Gateway::start(&yaml(&upstream, guard, &store)));
    let first = key(0, 1);
    assert_eq!(send(&a, &first).status, 201);
    assert!(send(&b, &first).is_replay());
    wait_until("the key has expired", || {
        let both = [send(&a, &first), send(&b, &first)];
        assert!(both.iter().all(|answer| answer.is_replay() || answer.status == 410), "{both:?}");
        both.iter().all(|answer| answer.status == 410)
    });
    assert_eq!(upstream.requests().len(), 1);
}
