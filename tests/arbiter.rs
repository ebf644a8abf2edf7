//! The arbiter over a store in memory: permits, waiters, claims without a reply, and a filter that never decides.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "support/alike.rs"]
mod alike;
#[path = "arbiter/amnesia.rs"]
mod amnesia;
#[path = "arbiter/claims.rs"]
mod claims;
#[path = "arbiter/filter.rs"]
mod filter;
#[path = "arbiter/outage.rs"]
mod outage;
#[path = "arbiter/outcomes.rs"]
mod outcomes;
#[path = "arbiter/pair.rs"]
mod pair;
#[path = "arbiter/pair_claims.rs"]
mod pair_claims;
#[path = "arbiter/permits.rs"]
mod permits;
#[path = "arbiter/ward.rs"]
mod ward;
#[path = "arbiter/watched.rs"]
mod watched;
#[path = "arbiter/window.rs"]
mod window;
