//! The protocol, looked at exhaustively within bounds: the machine's own rules between gateways that crash and stand
//! still, a store that loses replies and writes, and an upstream of which nothing good is assumed. See docs/model.md.
//!
//! `ONCEGATE_MODEL=wide` widens the bounds, for nights; `ONCEGATE_MODEL_STATES=n` looks at no more states than that.

#![expect(clippy::expect_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/alike.rs"]
mod alike;
mod amnesia;
mod asking;
mod audit;
mod essence;
mod exceptions;
mod explore;
mod gateway;
mod moves;
mod pair;
mod pair_essence;
mod pair_promises;
mod pair_steps;
mod pair_words;
mod plan;
mod promises;
mod rules;
mod search;
mod state;
mod store;
mod teeth;
mod trace;
mod upstream;
mod window;
mod world;
