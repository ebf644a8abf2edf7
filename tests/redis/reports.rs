//! What is asked of every primary, and where it is told: at the start, in the log, in figures.

use std::path::PathBuf;

use crate::gateway::{Gateway, wait_until, write};
use crate::redis_server::{Cluster, RedisServer, Sentinels};
use crate::{BACK, created, gateway, refuses, runs_within, yaml};

#[test]
fn replication_and_persistence_are_told() {
    let upstream = created();
    let primary = RedisServer::start_with(&["--min-replicas-to-write", "1"]);
    let replica = RedisServer::replica_of(&primary, &[]);
    primary.await_replicas(1);
    let mut gateway = gateway(&upstream, &format!("url: \"{}\", wait_replicas: 2", primary.url()), "");
    let line = gateway.wait_for_log("maxmemory-policy noeviction");
    for told in ["primary, version", "1 replicas", "min-replicas-to-write 1", "persistence none"] {
        assert!(line.contains(told), "{told} is not in {line}");
    }
    gateway.wait_for_log("has 1 replicas and `wait_replicas` is 2");
    gateway.wait_for_log("writes nothing to disk");
    gateway.wait_for_metric("oncegate_redis_primaries", 1.0);
    assert_eq!(gateway.metric("oncegate_redis_replicas"), 1.0);
    assert_eq!(gateway.metric("oncegate_redis_replicas_wanted"), 2.0);
    assert_eq!(gateway.metric("oncegate_redis_persistence"), 0.0);

    // What changes is told too.
    primary.run::<()>(&["CONFIG", "SET", "appendonly", "yes", "appendfsync", "always"]);
    drop(replica);
    gateway.wait_for_metric("oncegate_redis_persistence", 3.0);
    wait_until("the replica is missed", || gateway.metric("oncegate_redis_replicas") == 0.0);
    gateway.wait_for_log("persistence append-only file, appendfsync always");
}

#[test]
fn every_primary_of_a_cluster_is_asked_for_its_policy() {
    let upstream = created();
    let redis = Cluster::start(0);
    redis.nodes[1].run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let store = format!("cluster: {{ nodes: {} }}", redis.addresses());
    let folder = tempfile::tempdir().unwrap();
    let config: PathBuf = folder.path().join("oncegate.yaml");
    write(&config, &yaml(&upstream, &store, ""));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it has started") };
    assert!(!ended.success() && log.contains(&redis.nodes[1].address()) && log.contains("allkeys-lru"), "{log}");

    let gateway = gateway(&upstream, &format!("{store}, allow_eviction: true"), "");
    gateway.wait_for_metric("oncegate_store_may_evict", 1.0);
    assert_eq!(gateway.metric("oncegate_redis_primaries"), 3.0);
}

/// The policy of the primary was asked for at the start; its successor has another.
#[test]
fn a_successor_that_may_evict_is_refused_until_that_is_put_right() {
    let upstream = created();
    let redis = Sentinels::start(1);
    redis.servers[1].run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    let store = format!("sentinel: {{ master: mymaster, nodes: {} }}", redis.nodes());
    let mut gateway = gateway(&upstream, &store, "");
    runs_within(BACK, &gateway, &upstream, "k-before");
    redis.watchers[0].run::<()>(&["SENTINEL", "FAILOVER", "mymaster"]);
    redis.await_successor(0);
    gateway.wait_for_log("maxmemory-policy is volatile-lru");
    refuses(&gateway, &upstream, "k");
    gateway.wait_for_metric("oncegate_store_may_evict", 1.0);
    redis.servers[1].run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    runs_within(BACK, &gateway, &upstream, "k");
}
