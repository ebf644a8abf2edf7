//! Encrypted answers in a Redis that two gateways share: what shows there, who can read it, and what a swap does.

use crate::client::Answer;
use crate::gateway::Gateway;
use crate::redis::RedisServer;
use crate::upstream::{Recorded, Reply, ScriptedUpstream};
use crate::{key_of, order, refused, told, yaml};

const OLD: &str = "{ id: old, secret: '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f' }";
const NEW: &str = "{ id: new, secret: 'bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU=' }";

fn text(upstream: &ScriptedUpstream, redis: &RedisServer, keys: &[&str]) -> String {
    let encryption = match keys {
        [] => String::new(),
        keys => format!(", encryption: {{ keys: [ {} ] }}", keys.join(", ")),
    };
    let store = format!("store: {{ kind: redis, url: '{}', command_timeout: 5s{encryption} }}\n", redis.url());
    // No answer comes from a gateway's own memory.
    yaml(upstream, &redis.url(), "", &format!("{store}replay_cache: 0"))
}

fn upstream() -> ScriptedUpstream {
    ScriptedUpstream::start(|request: &Recorded| {
        let key = request.text("Idempotency-Key");
        Reply::whole(
            201,
            &[("Location", "/orders/secret-place"), ("X-Word", "secret-word")],
            format!("secret-body {key}"),
        )
    })
}

fn stored(redis: &RedisServer, upstream: &ScriptedUpstream, number: usize) -> (Vec<u8>, Vec<u8>) {
    let key = key_of(&upstream.requests()[number].text("Oncegate-Operation"));
    let value = redis.run(&[&b"GET"[..], &key]);
    (key, value)
}

fn is_secretive(value: &[u8]) -> bool {
    let shows = |text: &str| value.windows(text.len()).any(|part| part == text.as_bytes());
    !["secret-place", "secret-word", "secret-body"].into_iter().any(shows)
}

fn is_replay_of(answer: &Answer, key: &str) -> bool {
    answer.is_replay() && answer.status == 201 && answer.text() == format!("secret-body {key}")
}

#[test]
fn what_is_stored_shows_nothing_and_comes_back_whole() {
    let (upstream, redis) = (upstream(), RedisServer::start());
    let gateway = Gateway::start(&text(&upstream, &redis, &[OLD]));
    let first = gateway.send(&order("k"));
    let again = Gateway::start(&text(&upstream, &redis, &[OLD])).send(&order("k"));
    assert!(is_replay_of(&again, "k"));
    for name in ["location", "x-word"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    let (key, sealed) = stored(&redis, &upstream, 0);
    assert!(is_secretive(&sealed));
    // The test can tell: without encryption it is all there to be read.
    let plain = Gateway::start(&text(&upstream, &redis, &[]));
    plain.send(&order("plain"));
    assert!(!is_secretive(&stored(&redis, &upstream, 1).1));
    // Every changed byte makes it unreadable, never another answer, and never another run.
    for place in (21..sealed.len()).step_by(7) {
        let mut changed = sealed.clone();
        changed[place] ^= 0x10;
        redis.run::<()>(&[&b"SET"[..], &key, &changed]);
        assert_eq!(told(&gateway.send(&order("k"))), refused(503, "record-unreadable"), "byte {place}");
    }
    redis.run::<()>(&[&b"SET"[..], &key, &sealed]);
    assert!(is_replay_of(&gateway.send(&order("k")), "k"));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_answer_put_in_anothers_place_is_not_replayed() {
    let (upstream, redis) = (upstream(), RedisServer::start());
    let gateway = Gateway::start(&text(&upstream, &redis, &[OLD]));
    gateway.send(&order("mine"));
    gateway.send(&order("yours"));
    let ((mine, _), (_, yours)) = (stored(&redis, &upstream, 0), stored(&redis, &upstream, 1));
    redis.run::<()>(&[&b"SET"[..], &mine, &yours]);
    assert_eq!(told(&gateway.send(&order("mine"))), refused(503, "record-unreadable"));
    assert!(is_replay_of(&gateway.send(&order("yours")), "yours"));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn keys_change_while_gateways_run_and_no_answer_is_lost() {
    let (upstream, redis) = (upstream(), RedisServer::start());
    let mut gateways = [(); 2].map(|()| Gateway::start(&text(&upstream, &redis, &[])));
    let mut known = Vec::new();
    let mut reloads = 0.0;
    // Off; the first key everywhere before it seals; then the next one joins, takes over, and the first one goes.
    for (step, keys) in [&[][..], &[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW]].into_iter().enumerate() {
        for gateway in &mut gateways {
            if step > 0 {
                gateway.rewrite(&text(&upstream, &redis, keys));
                gateway.signal("HUP");
                gateway.wait_for_metric("oncegate_reloads_total{result=\"ok\"}", reloads + 1.0);
            }
        }
        reloads += if step > 0 { 1.0 } else { 0.0 };
        for (gateway, number) in gateways.iter().zip(0..) {
            let key = format!("k{step}-{number}");
            assert_eq!(gateway.send(&order(&key)).status, 201);
            known.push((key, keys.first().copied()));
        }
        for (key, sealed_by) in &known {
            let readable = sealed_by.is_none_or(|own| keys.contains(&own));
            for gateway in &gateways {
                let answer = gateway.send(&order(key));
                if readable {
                    assert!(is_replay_of(&answer, key), "{key} in step {step}: {answer:?}");
                } else {
                    assert_eq!(told(&answer), refused(503, "record-unreadable"), "{key} in step {step}");
                }
            }
        }
    }
    // Encryption turned off again opens nothing.
    gateways[0].rewrite(&text(&upstream, &redis, &[]));
    gateways[0].signal("HUP");
    gateways[0].wait_for_metric("oncegate_reloads_total{result=\"ok\"}", reloads + 1.0);
    assert_eq!(told(&gateways[0].send(&order("k4-0"))), refused(503, "record-unreadable"));
    gateways[0].wait_for_log("sealed under the key `new`");
    assert_eq!(upstream.requests().len(), known.len());
}
