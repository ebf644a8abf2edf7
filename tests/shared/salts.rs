//! How records in a Redis know their requests as sent: each under a salt of its own; and as an earlier version kept it.

use oncegate::machine::{OperationId, RawPrint, Record};
use oncegate::store::codec::Codec;

use crate::client::{Answer, Call};
use crate::gateway::Gateway;
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{key_of, refused, told, yaml};

/// One gateway that remembers nothing by itself, and its store.
struct Case {
    upstream: ScriptedUpstream,
    redis: RedisServer,
    gateway: Gateway,
}

impl Case {
    fn start() -> Self {
        let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "booked"));
        let redis = RedisServer::start();
        let gateway = gateway(&upstream, &redis, "[]");
        Self { upstream, redis, gateway }
    }

    /// The record of the request that was forwarded as this one.
    fn record(&self, number: usize) -> (OperationId, Record) {
        let digest = self.upstream.requests()[number].text("Oncegate-Operation");
        let id = OperationId::parse(&digest).unwrap();
        let bytes: Vec<u8> = self.redis.run(&[&b"GET"[..], &key_of(&digest)]);
        (id, Codec::default().decode(&id, &bytes).unwrap())
    }
}

/// A gateway whose route ignores what is under these pointers.
fn gateway(upstream: &ScriptedUpstream, redis: &RedisServer, ignored: &str) -> Gateway {
    let guard = format!("fingerprint: {{ ignore: {{ json: {ignored} }} }}");
    Gateway::start(&yaml(upstream, &redis.url(), &guard, "replay_cache: 0"))
}

fn order(key: &str, body: &str) -> Call {
    Call::post("/orders").key(key).header("Content-Type", "application/json").body(body)
}

fn is_replay(answer: &Answer) -> bool {
    answer.is_replay() && answer.text() == "booked"
}

#[test]
fn equal_requests_are_recorded_under_different_salts() {
    let case = Case::start();
    for key in ["one", "other"] {
        assert_eq!(case.gateway.send(&order(key, "{}")).status, 201);
    }
    let [one, other] = [0, 1].map(|number| case.record(number).1.prints);
    assert!(one.raw.salt() != other.raw.salt() && one.raw != other.raw, "{one:?} {other:?}");
    assert_eq!((one.canonical, one.settings), (other.canonical, other.settings), "they are equal");
}

#[test]
fn a_record_of_an_earlier_version_is_told_by_its_canonical_fingerprint() {
    let case = Case::start();
    let send = |key: &str, body: &str| case.gateway.send(&order(key, body));
    for key in ["old", "new"] {
        send(key, r#"{"n":1}"#);
    }
    let (id, mut record) = case.record(0);
    // A SHA-256 stood there, of the same parts.
    record.prints.raw = RawPrint(*b"a SHA-256 begins");
    let bytes = Codec::default().encode(&id, &record).unwrap();
    case.redis.run::<()>(&[&b"SET"[..], &key_of(&id.to_string()), &bytes]);
    for key in ["old", "new"] {
        assert!(is_replay(&send(key, r#"{"n":1}"#)), "{key}: the same bytes");
        assert!(is_replay(&send(key, r#"{ "n": 1.0 }"#)), "{key}: the same value");
        assert_eq!(told(&send(key, r#"{"n":2}"#)), refused(422, "key-reused"), "{key}");
    }
    let changed = gateway(&case.upstream, &case.redis, "[ /at ]");
    let send = |key: &str| changed.send(&order(key, r#"{"n":1}"#));
    assert!(is_replay(&send("new")), "the bytes tell, whatever the settings");
    assert_eq!(told(&send("old")), refused(409, "duplicate-request"), "nothing tells by now");
    assert_eq!(case.upstream.requests().len(), 2);
}
