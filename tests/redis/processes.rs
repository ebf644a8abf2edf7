//! The processes that the other tests stand on do what they are there for.

use crate::redis_server::{Cluster, Sentinels, slot};

#[test]
fn sentinels_put_a_replica_in_a_dead_primary_s_place() {
    let mut redis = Sentinels::start(2);
    assert_eq!(redis.primary(), Some(0));
    redis.servers[0].kill();
    let successor = redis.await_successor(0);
    assert_ne!(successor, 0);
    redis.servers[successor].run::<()>(&["SET", "key", "value"]);
}

#[test]
fn a_cluster_puts_a_replica_in_a_dead_primary_s_place() {
    assert_eq!(slot(b"123456789"), 0x31C3);
    let mut redis = Cluster::start(1);
    let slot = slot(b"key");
    let owner = redis.owner_by(0, slot).unwrap();
    redis.nodes[owner].kill();
    let successor = redis.await_successor(owner, slot);
    redis.nodes[successor].run::<()>(&["SET", "key", "value"]);
}
