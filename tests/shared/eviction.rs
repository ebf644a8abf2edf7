//! A Redis that may evict records: refused at the start unless allowed, told and counted when it changes later.

use std::process::{Command, Stdio};

use crate::gateway::Gateway;
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{order, yaml};

const MAY_EVICT: &str = "oncegate_store_may_evict";

#[test]
fn a_redis_that_may_evict_is_refused_at_the_start() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    std::fs::write(&config, yaml(&upstream, &redis.url(), "", "")).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .args(["serve", "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    assert!(said.contains("maxmemory-policy is allkeys-lru") && said.contains("noeviction"), "{said}");
    assert!(!said.contains("listening"), "{said}");
}

#[test]
fn a_redis_that_may_evict_is_taken_when_allowed_and_shows() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let allowed = format!("store: {{ kind: redis, url: \"{}\", allow_eviction: true }}", redis.url());
    let mut gateway = Gateway::start(&yaml(&upstream, &redis.url(), "", &allowed));
    gateway.wait_for_metric(MAY_EVICT, 1.0);
    gateway.wait_for_log("the store may evict records");
    assert_eq!(gateway.send(&order("k")).status, 201);
}

#[test]
fn a_change_of_the_policy_is_logged_and_counted() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    // With four workers, some connect only after the change: what was found fit stays in use.
    let mut gateway = Gateway::start(&yaml(&upstream, &redis.url(), "", "workers: 4"));
    assert_eq!(gateway.send(&order("k-1")).status, 201);
    assert_eq!(gateway.metric(MAY_EVICT), 0.0);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    gateway.wait_for_metric(MAY_EVICT, 1.0);
    gateway.wait_for_log("the store may evict records");
    for number in 0..40 {
        assert_eq!(gateway.send(&order(&format!("n-{number}"))).status, 201, "it stops nothing that works");
    }
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    crate::gateway::wait_until("put right", || gateway.metric(MAY_EVICT) == 0.0);
}
