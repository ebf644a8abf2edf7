//! One contract for every store: each backend's file names its factory and runs the whole suite.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test crate: nothing uses it, and a failed unwrap is a failed test"
)]

mod contract;
mod embedded;
mod memory;
mod redis;
mod replicated;
mod sealed;
