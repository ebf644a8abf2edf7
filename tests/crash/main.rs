//! The real binary, killed, stopped, and started on damaged files: what was answered is not forgotten, and nothing runs
//! twice.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/client.rs"]
mod client;
#[path = "../simulation/dice.rs"]
mod dice;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/upstream.rs"]
mod upstream;

mod bad_histories;
mod drill;
mod history;
mod stop;
mod torn;
mod world;
