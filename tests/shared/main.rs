//! Two gateways, one Redis: what they promise together, and what is left of it when the store is ill.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/interceptor.rs"]
mod interceptor;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/upstream.rs"]
mod upstream;

mod across;
mod also;
mod also_kills;
mod amnesia;
mod crowd;
mod eviction;
mod foreign;
mod late;
mod lost_replies;
mod memory;
mod outcomes;
mod overload;
mod probe;
mod salts;
mod sealed;
mod store_faults;
mod tokens;
mod unseen;

use std::time::Duration;

use client::{Answer, Call};
use gateway::Gateway;
use redis::RedisServer;
use upstream::ScriptedUpstream;

/// What a store call may take in these tests, unless a test says otherwise.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

/// A configuration of one of several gateways: `POST /orders` is guarded and fails closed, `POST /open` is guarded and
/// fails open, everything else is plain. `guard` holds further lines of both guards, `top` further top-level lines.
fn yaml(upstream: &ScriptedUpstream, redis: &str, guard: &str, top: &str) -> String {
    let indented = guard.lines().fold(String::new(), |all, line| all + "      " + line + "\n");
    let timeout =
        if top.contains("store:") { String::new() } else { format!("store: {}\n", store(redis, COMMAND_TIMEOUT)) };
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
{timeout}{top}
upstreams:
  orders:
    servers: [ \"http://{address}\" ]
    response_timeout: 20s
    attempt_timeout: 120s
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
{indented}  - name: open
    match: {{ methods: [POST], path: /open }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
      store_failure: open
{indented}  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        address = upstream.address(),
    )
}

/// A store section in one line.
fn store(redis: &str, timeout: Duration) -> String {
    format!("{{ kind: redis, url: \"{redis}\", command_timeout: {}ms }}", timeout.as_millis())
}

/// Two gateways with the same settings over one Redis.
fn pair(upstream: &ScriptedUpstream, redis: &RedisServer, guard: &str, top: &str) -> [Gateway; 2] {
    let text = yaml(upstream, &redis.url(), guard, top);
    [Gateway::start(&text), Gateway::start(&text)]
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

/// Status and code: what most tests ask of an answer.
fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

fn refused(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

/// The key in Redis of the operation that an answer names.
fn redis_key(answer: &Answer) -> Vec<u8> {
    key_of(answer.header("oncegate-operation").expect("the operation's digest"))
}

fn key_of(digest: &str) -> Vec<u8> {
    let operation = oncegate::machine::OperationId::parse(digest).expect("64 hex digits");
    [b"og:", &operation.0[..]].concat()
}
