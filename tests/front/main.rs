//! What client connections go through before HTTP, with the real binary: TLS, HTTP/2, the PROXY protocol.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/upstream.rs"]
mod upstream;

mod access_log;
mod authority;
mod floods;
mod frames;
mod http2;
mod multiplexed;
mod proxy_protocol;
mod tls;

use gateway::Gateway;
use upstream::{Reply, ScriptedUpstream};

/// A configuration with one guarded route, `POST /orders` keyed by Idempotency-Key, and everything else plain. `guard`
/// holds further lines of the route's `idempotency`, `top` further top-level lines.
fn yaml(upstream: &ScriptedUpstream, guard: &str, top: &str) -> String {
    let scope = if guard.contains("scope:") { "" } else { "scope: none" };
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
{top}
upstreams:
  orders: {{ servers: [ \"http://{address}\" ] }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      {scope}
      {guard}
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        address = upstream.address(),
    )
}

fn gateway(upstream: &ScriptedUpstream, top: &str) -> Gateway {
    Gateway::start(&yaml(upstream, "", top))
}

/// An upstream that books every request.
fn books() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "booked"))
}
