//! Conformance on the wire: varnishtest's files for HTTP/1.1 and Python's frames for HTTP/2, each against a gateway of
//! its own. What they check is written in them; this only runs them. And clients that are slow on purpose.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/upstream.rs"]
mod upstream;

mod http1;
mod http2;
mod slow;
