//! A gateway over Redis as it is run in production: sentinels, clusters, replicas, and every error reply that matters.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/upstream.rs"]
mod upstream;

mod access;
mod cluster;
mod errors;
mod processes;
mod replicas;
mod reports;
mod sentinel;

use std::time::Duration;

use client::{Answer, Call};
use gateway::Gateway;
use oncegate::clock::Clock;
use upstream::{Reply, ScriptedUpstream};

/// What a store call may take in these tests.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

/// What an answer may take over that on a busy machine.
const MARGIN: Duration = Duration::from_secs(2);

/// How long a gateway may take, once another primary is there.
const BACK: Duration = Duration::from_secs(5);

/// A gateway whose `POST /orders` is guarded; `store` are the fields of its store, `guard` further lines of its guard.
fn gateway(upstream: &ScriptedUpstream, store: &str, guard: &str) -> Gateway {
    Gateway::start(&yaml(upstream, store, guard))
}

fn yaml(upstream: &ScriptedUpstream, store: &str, guard: &str) -> String {
    let indented = guard.lines().fold(String::new(), |all, line| all + "      " + line + "\n");
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: redis, command_timeout: {timeout}ms, {store} }}
upstreams:
  orders: {{ servers: [ \"http://{address}\" ] }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
      lease: 60s
{indented}",
        timeout = COMMAND_TIMEOUT.as_millis(),
        address = upstream.address(),
    )
}

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"))
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

/// An answer that came in time.
fn in_time(gateway: &Gateway, key: &str) -> Answer {
    let start = Clock::instant();
    let answer = gateway.send(&order(key));
    assert!(start.elapsed() < COMMAND_TIMEOUT + MARGIN, "the answer took {:?}: {answer:?}", start.elapsed());
    answer
}

/// The request is refused in time, with the advice to come again, and nothing is sent.
fn refuses(gateway: &Gateway, upstream: &ScriptedUpstream, key: &str) -> Answer {
    let before = upstream.executions("Idempotency-Key", key);
    let answer = in_time(gateway, key);
    assert_eq!((answer.status, answer.code().as_deref()), (503, Some("store-unavailable")), "{answer:?}");
    assert!(answer.header("retry-after").is_some() && answer.text().contains(r#""retry":"same-key""#));
    assert_eq!(upstream.executions("Idempotency-Key", key), before, "nothing is sent");
    answer
}

/// The request runs within `limit`, once, and its answer is replayed. Until then it is refused, or told to wait for a
/// claim that is being taken back.
fn runs_within(limit: Duration, gateway: &Gateway, upstream: &ScriptedUpstream, key: &str) {
    let start = Clock::instant();
    loop {
        let answer = in_time(gateway, key);
        if answer.status == 201 {
            break;
        }
        let code = answer.code();
        assert!(matches!(code.as_deref(), Some("store-unavailable" | "request-in-flight")), "{answer:?}");
        assert!(start.elapsed() < limit, "still {answer:?} after {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gateway.send(&order(key)).is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", key), 1);
}

/// The state of the record of the operation that an answer names; none when there is no record.
fn state(gateway: &Gateway, answer: &Answer) -> Option<String> {
    let digest = answer.header("oncegate-operation").expect("the operation's digest");
    let record = gateway.get_admin(&format!("/api/v1/keys/{digest}"));
    match record.status {
        200 => {
            let record: serde_json::Value = serde_json::from_slice(&record.body).unwrap();
            Some(record["state"].as_str().unwrap().to_owned())
        }
        404 => None,
        _ => panic!("{record:?}"),
    }
}
