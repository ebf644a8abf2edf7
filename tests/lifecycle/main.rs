//! The real binary's life: how it starts under a service manager, takes over a changed configuration, hands over to
//! another gateway, and stops.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/upstream.rs"]
mod upstream;

mod access_log;
mod crowd;
mod drain;
mod reload;
mod rolling;
mod service;
#[cfg(target_os = "linux")]
mod threads;
mod watch;

use gateway::Gateway;
use upstream::{Reply, ScriptedUpstream};

/// A configuration with one guarded route, `POST /orders` keyed by Idempotency-Key, and everything else plain. `top`
/// holds further top-level lines, `routes` further routes before the plain one.
fn yaml(upstream: &ScriptedUpstream, top: &str, routes: &str) -> String {
    let unless_given = |line: &'static str| {
        let (name, _) = line.split_once(' ').unwrap_or((line.trim_end(), ""));
        if top.lines().any(|own| own.starts_with(name)) { "" } else { line }
    };
    let listen = unless_given("listen: 127.0.0.1:0\n");
    let admin = unless_given("admin: { listen: 127.0.0.1:0 }\n");
    let store = unless_given("store: { kind: embedded, path: '{dir}/store' }\n");
    let upstreams = unless_given("upstreams:\n");
    format!(
        "{listen}{admin}{store}{top}
{upstreams}  orders:
    servers: [ \"http://{address}\" ]
    connect_timeout: 10s
    response_timeout: 10s
    attempt_timeout: 30s
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
{routes}
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        address = upstream.address(),
    )
}

/// A gateway on the embedded store in front of an upstream.
fn gateway(upstream: &ScriptedUpstream) -> Gateway {
    Gateway::start(&yaml(upstream, "", ""))
}

/// An upstream that says 201 to orders and 200 to the rest, with the request's target as body.
fn ready_upstream() -> ScriptedUpstream {
    ScriptedUpstream::start(|request| {
        let status = if request.method() == "POST" { 201 } else { 200 };
        Reply::whole(status, &[], request.target())
    })
}
