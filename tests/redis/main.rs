//! A gateway over Redis as it is run in production: sentinels, clusters, replicas, and every error reply that matters.

#[path = "../support/redis.rs"]
mod redis_server;

mod processes;
