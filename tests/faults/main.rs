//! Fault drills: the real binary, its store and its upstream as processes, killed, stopped and cut off from each other
//! under load; and a checker that reads the upstream's ledger and the clients' answers and holds them against P1 to P8.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../support/client.rs"]
mod client;
#[path = "../simulation/dice.rs"]
mod dice;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/redis.rs"]
mod redis;

mod bad_histories;
mod clients;
mod clocks;
mod drill;
mod failover;
mod group;
mod history;
mod ledger;
mod long;
mod scene;
mod short;
mod stop;
mod storm;
mod torn;
mod upstream;
mod verdict;
mod weathers;
mod world;
