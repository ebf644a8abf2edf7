//! The real binary between a raw client and a scripted upstream: what clients see, and what the upstream sees.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/closing.rs"]
mod closing;
#[path = "../support/coded.rs"]
mod coded;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/upstream.rs"]
mod upstream;

mod admin;
mod admin_doubts;
mod advice;
mod also;
mod also_ends;
mod answers;
mod bounds;
mod client_prints;
mod coding;
mod cors;
mod doubt;
mod expired;
mod framing;
mod headers;
mod keys;
mod main_job;
mod modes;
mod odd_answers;
mod outcome_headers;
mod paths;
mod probe;
mod raw;
mod reads;
mod requests;
mod servers;
mod slow;
mod status;
mod streams;
mod timeouts;
mod tokens;
mod upgrades;
mod windows;

use std::net::SocketAddr;

use gateway::Gateway;
use upstream::ScriptedUpstream;

/// A configuration with one guarded route, `POST /orders` keyed by Idempotency-Key, and everything else plain.
/// `guard` holds further lines of the route's `idempotency`, `top` further top-level lines.
fn yaml(upstream: &ScriptedUpstream, guard: &str, top: &str) -> String {
    yaml_to(upstream.address(), guard, top)
}

/// The same in front of whatever listens there.
fn yaml_to(address: SocketAddr, guard: &str, top: &str) -> String {
    let indented = guard.lines().fold(String::new(), |all, line| all + "      " + line + "\n");
    let scope = if guard.contains("scope:") { "" } else { "      scope: none\n" };
    let key = if guard.contains("key:") { "" } else { "      key: [ { header: Idempotency-Key } ]\n" };
    let store = if top.contains("store:") {
        ""
    } else {
        "store: { kind: embedded, path: '{dir}/store', command_timeout: 5s }\n"
    };
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
{store}{top}
upstreams:
  orders:
    servers: [ \"http://{address}\" ]
    response_timeout: 10s
    attempt_timeout: 30s
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
{key}{scope}{indented}  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
"
    )
}

/// A gateway on the embedded store in front of an upstream.
fn gateway(upstream: &ScriptedUpstream, guard: &str) -> Gateway {
    Gateway::start(&yaml(upstream, guard, ""))
}
