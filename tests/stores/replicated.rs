//! The contract, met by the primary that sentinels name and by a cluster; replicas have every claim.

use std::sync::Arc;
use std::time::Duration;

use oncegate::clock::Clock;
use oncegate::store::Store;
use oncegate::store::redis::{Access, Node, Protocol, RedisStore, Sentinel, Servers, Settings, Wait};

use crate::contract::contract;
use crate::redis::server::{Cluster, RedisServer, Sentinels};

/// The contract asks for correct answers, not quick ones.
const TIMEOUT: Duration = Duration::from_secs(10);

fn nodes(servers: &[RedisServer]) -> Vec<Node> {
    servers.iter().map(|server| Node { host: "127.0.0.1".to_owned(), port: server.port() }).collect()
}

/// Stores with a prefix of their own in the same servers, which live as long as what makes them.
fn stores(servers: Servers, protocol: Protocol, keep: impl Sized) -> impl FnMut() -> Arc<dyn Store> {
    let wait = Some(Wait { replicas: 1, timeout: Duration::from_secs(5) });
    let access = Access { protocol, ..Access::default() };
    let settings = Settings { connections: 3, wait, ..Settings::new(servers, access) };
    let mut number = 0;
    move || {
        let _ = &keep;
        number += 1;
        let settings = Settings { key_prefix: format!("og{number}"), ..settings.clone() };
        Arc::new(RedisStore::new(settings, TIMEOUT, Clock::system()))
    }
}

fn under_sentinels() -> impl FnMut() -> Arc<dyn Store> {
    let redis = Sentinels::start(1);
    let nodes = nodes(&redis.watchers);
    let servers = Sentinel { master: "mymaster".to_owned(), nodes, access: Access::default() };
    stores(Servers::Sentinel(Box::new(servers)), Protocol::Resp3, redis)
}

fn in_a_cluster() -> impl FnMut() -> Arc<dyn Store> {
    let redis = Cluster::start(1);
    // One of them is enough to find all.
    stores(Servers::Cluster(nodes(&redis.nodes[4..5])), Protocol::Resp2, redis)
}

contract!(in_turn sentinels_keep_it: under_sentinels());
contract!(in_turn a_cluster_keeps_it: in_a_cluster());
