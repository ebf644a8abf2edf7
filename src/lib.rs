//! oncegate: a reverse proxy that lets each order and payment operation through once.
//!
//! # The house
//!
//! Modules stand in floor order: each may use what is below it, never what is above (`tests/architecture.rs`).
//!
//! - [`cli`] parses the command line; [`app`] builds everything and runs it.
//! - [`config`] reads the YAML file and translates it into the settings that the floors below define.
//! - [`server`] accepts connections and drives them, one single-threaded runtime per core: HTTP/1.1 in a loop of its own,
//!   HTTP/2 with hyper.
//! - [`admin`] is the operators' door: health, metrics, records. [`gateway`] is the HTTP door.
//! - [`arbiter`] joins the rules with a store: who may act, the permit, waiters, the local replay cache.
//! - [`jwt`] finds out whether a token is what it says it is.
//! - [`keys`] turns a request into an arrival: key, scope, fingerprint. Pure.
//! - [`upstream`] sends requests on, and knows whether anything was sent.
//! - [`wire`] is what is known of a connection: who is at the other end, and where its messages end.
//! - [`store`] keeps records: embedded, Redis, memory; and the Bloom filter.
//! - [`tls`] is certificates and keys, and what is agreed with clients and with servers behind.
//! - [`clock`] is the store's time. [`machine`] is the rules, pure. [`telemetry`] is metrics and logs.
//! - [`packed`] is numbers, strings and header fields as bytes. [`boxed`] makes big futures where they stay.

pub mod cli;

pub mod app;

pub mod config;

pub mod server;

pub mod admin;
pub mod gateway;

pub mod arbiter;

pub mod jwt;

pub mod keys;

pub mod upstream;

pub mod wire;

pub mod store;

pub mod tls;

pub mod clock;

pub mod machine;

pub mod telemetry;

pub mod boxed;
pub mod packed;
