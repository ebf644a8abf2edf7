//! A cluster: keys that move, are asked for elsewhere, or have no node; a primary that is killed or falls silent.

use oncegate::clock::Clock;

use crate::gateway::{Gateway, wait_until};
use crate::redis_server::{Cluster, slot, until};
use crate::upstream::ScriptedUpstream;
use crate::{BACK, created, gateway, in_time, order, refuses, runs_within, state};

fn store(redis: &Cluster) -> String {
    format!("cluster: {{ nodes: {} }}, wait_replicas: 1", redis.addresses())
}

/// Keys enough that every primary has some of them.
fn keys(name: &str) -> Vec<String> {
    (0..30).map(|turn| format!("k-{name}-{turn}")).collect()
}

fn run_all(gateway: &Gateway, upstream: &ScriptedUpstream, keys: &[String]) {
    for key in keys {
        runs_within(BACK, gateway, upstream, key);
    }
}

/// The record's key in Redis of the only request with this key.
fn record_of(upstream: &ScriptedUpstream, key: &str) -> Vec<u8> {
    let request = upstream.requests().into_iter().find(|request| request.text("Idempotency-Key") == key).unwrap();
    let operation = oncegate::machine::OperationId::parse(&request.text("Oncegate-Operation")).unwrap();
    [b"og:", &operation.0[..]].concat()
}

#[test]
fn a_killed_primary_is_left_for_its_successor() {
    let upstream = created();
    let mut redis = Cluster::start(1);
    let gateway = gateway(&upstream, &store(&redis), "");
    let before = keys("before");
    run_all(&gateway, &upstream, &before);
    for node in 0..3 {
        assert!(redis.nodes[node].run::<u32>(&["DBSIZE"]) > 0, "every primary has its share");
    }
    redis.nodes[0].kill();
    let killed = Clock::instant();
    for turn in 0..20 {
        let answer = in_time(&gateway, &format!("k-meanwhile-{turn}"));
        assert!(matches!(answer.status, 201 | 503), "{answer:?}");
    }
    redis.await_successor(0, 0);
    let chosen = killed.elapsed();
    // The successor has no replica of its own: a claim would wait in vain for one until the old primary is back.
    redis.nodes[0].restart();
    redis.nodes[3].await_replicas(1);
    run_all(&gateway, &upstream, &keys("after"));
    println!("a successor after {chosen:?}, all keys after {:?}", killed.elapsed());
    for key in &before {
        assert!(in_time(&gateway, key).is_replay());
        assert_eq!(upstream.executions("Idempotency-Key", key), 1);
    }
}

/// A planned failover: both nodes are there, and the old one sends on who still comes to it.
#[test]
fn moved() {
    let upstream = created();
    let redis = Cluster::start(1);
    let gateway = gateway(&upstream, &format!("cluster: {{ nodes: {} }}", redis.addresses()), "");
    run_all(&gateway, &upstream, &keys("before"));
    redis.nodes[3].run::<()>(&["CLUSTER", "FAILOVER"]);
    let mut turn = 0;
    until("the old primary has sent somebody on", || {
        turn += 1;
        runs_within(BACK, &gateway, &upstream, &format!("k-meanwhile-{turn}"));
        !redis.nodes[0].info("errorstat_MOVED").is_empty()
    });
    redis.await_successor(0, 0);
    run_all(&gateway, &upstream, &keys("after"));
    for key in keys("before") {
        assert!(in_time(&gateway, &key).is_replay());
    }
}

/// A slot is being given to another node, and the key is not at the old one any more.
#[test]
fn ask() {
    let upstream = created();
    let redis = Cluster::start(0);
    let nodes = format!("cluster: {{ nodes: {} }}", redis.addresses());
    {
        // To learn which slot the operation falls into. Another gateway than the one below: that would remember it.
        let first = gateway(&upstream, &nodes, "");
        assert_eq!(first.send(&order("k")).status, 201);
    }
    let record = record_of(&upstream, "k");
    let slot = slot_of(&record);
    let owner = redis.owner_by(0, slot).unwrap();
    let next = (owner + 1) % 3;
    redis.nodes[owner].run::<()>(&[&b"DEL"[..], &record]);
    let id = |node: usize| redis.nodes[node].run::<String>(&["CLUSTER", "MYID"]);
    let number = slot.to_string();
    redis.nodes[next].run::<()>(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &id(owner)]);
    redis.nodes[owner].run::<()>(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &id(next)]);
    let gateway = gateway(&upstream, &nodes, "");
    assert_eq!(in_time(&gateway, "k").status, 201);
    assert!(in_time(&gateway, "k").is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 2, "once for each gateway: the record was removed");
    assert_eq!(redis.nodes[next].run::<u32>(&["CLUSTER", "COUNTKEYSINSLOT", &number]), 1, "it is at the new node");
    assert!(!redis.nodes[owner].info("errorstat_ASK").is_empty());
}

/// With its tag, if the digest happens to have one: as the gateway counts, and not as the support's simple one does.
fn slot_of(record: &[u8]) -> u16 {
    let open = record.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let close = record[open + 1..].iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &record[open + 1..open + 1 + close])
    });
    slot(tag.unwrap_or(record))
}

/// A primary without replicas dies: its slots have no node, and the whole cluster stands still until it is back.
#[test]
fn clusterdown() {
    let upstream = created();
    let mut redis = Cluster::start(0);
    let gateway = gateway(&upstream, &format!("cluster: {{ nodes: {} }}", redis.addresses()), "");
    run_all(&gateway, &upstream, &keys("before"));
    redis.nodes[2].kill();
    until("the cluster is down", || {
        (0..2).all(|node| redis.nodes[node].run::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:fail"))
    });
    let refused: Vec<_> = (0..6).map(|turn| refuses(&gateway, &upstream, &format!("k-{turn}"))).collect();
    assert_eq!(gateway.get_admin("/readyz").status, 503);
    assert!((0..2).any(|node| !redis.nodes[node].info("errorstat_CLUSTERDOWN").is_empty()));
    redis.nodes[2].restart();
    until("the cluster serves", || {
        (0..3).all(|node| redis.nodes[node].run::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
    for (turn, answer) in refused.iter().enumerate() {
        wait_until("the record can be looked at", || gateway.get_admin("/readyz").status == 200);
        assert_eq!(state(&gateway, answer), None);
        runs_within(BACK, &gateway, &upstream, &format!("k-{turn}"));
    }
}

/// A primary that stands still costs each call its timeout and no more, and is replaced like a dead one.
#[test]
fn a_primary_that_falls_silent_is_left_for_its_successor() {
    let upstream = created();
    let redis = Cluster::start(1);
    let gateway = gateway(&upstream, &format!("cluster: {{ nodes: {} }}", redis.addresses()), "");
    run_all(&gateway, &upstream, &keys("before"));
    redis.nodes[1].pause();
    for turn in 0..6 {
        let answer = in_time(&gateway, &format!("k-meanwhile-{turn}"));
        assert!(matches!(answer.status, 201 | 503), "{answer:?}");
    }
    redis.await_successor(1, 8_000);
    run_all(&gateway, &upstream, &keys("after"));
    redis.nodes[1].resume();
}
