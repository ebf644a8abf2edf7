//! A store of several Redis processes: replicas under sentinels, or a cluster. Each node has a proxy before it, and all
//! others know it by that alone: gateways, replicas, sentinels. So its network can be ill as well as its process.

use std::time::Duration;

use crate::proxy::Proxy;
use crate::redis::{Cluster, RedisServer, Sentinels, until, until_within};

/// What the sentinels call the primary.
const MASTER: &str = "mymaster";
/// How many replicas follow the primary under sentinels.
const REPLICAS: usize = 2;
/// Room for several elections: on a busy machine one can end without a winner, and the next begins after twice the
/// failover's own time.
const ELECTIONS: Duration = Duration::from_mins(2);

/// The processes.
enum Kind {
    Sentinels(Sentinels),
    Cluster(Cluster),
}

/// Nodes and their proxies.
pub(crate) struct Group {
    kind: Kind,
    /// How many replicas a claim waits for.
    wait: usize,
    pub(crate) proxies: Vec<Proxy>,
}

impl Group {
    pub(crate) fn under_sentinels(wait: usize) -> Self {
        let group = Sentinels::start(REPLICAS);
        let proxies = proxies(&group.servers);
        let primary = proxies[0].address().port().to_string();
        for (server, proxy) in group.servers.iter().zip(&proxies) {
            announce(server, "replica-announce-port", proxy);
        }
        for replica in &group.servers[1..] {
            replica.run::<()>(&["REPLICAOF", "127.0.0.1", &primary]);
        }
        for watcher in &group.watchers {
            let (patience, pace): (String, String) =
                (setting(watcher, "down-after"), setting(watcher, "failover-timeout"));
            watcher.run::<()>(&["SENTINEL", "REMOVE", MASTER]);
            watcher.run::<()>(&["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &primary, "2"]);
            watcher.run::<()>(&["SENTINEL", "SET", MASTER, "down-after-milliseconds", &patience]);
            watcher.run::<()>(&["SENTINEL", "SET", MASTER, "failover-timeout", &pace]);
        }
        let known = |watcher: &RedisServer| {
            let all = watcher.info("master0");
            all.contains(&format!("slaves={REPLICAS},")) && all.contains("sentinels=3")
        };
        until("the sentinels know the proxies", || group.watchers.iter().all(known));
        let group = Self { kind: Kind::Sentinels(group), wait, proxies };
        until("the replicas follow", || group.is_whole());
        group
    }

    pub(crate) fn of_a_cluster(wait: usize) -> Self {
        let group = Cluster::start(1);
        let proxies = proxies(&group.nodes);
        for (node, proxy) in group.nodes.iter().zip(&proxies) {
            announce(node, "cluster-announce-port", proxy);
        }
        let told = |node: &RedisServer| {
            let nodes: String = node.try_run(&["CLUSTER", "NODES"]).unwrap_or_default();
            proxies.iter().all(|proxy| nodes.contains(&format!("127.0.0.1:{}@", proxy.address().port())))
        };
        until("the nodes know the proxies", || group.nodes.iter().all(told));
        let group = Self { kind: Kind::Cluster(group), wait, proxies };
        until("the cluster serves", || group.is_whole());
        group
    }

    /// Whether claims may be acknowledged by a replica that follows a primary which has been replaced. Then that must not
    /// come back.
    pub(crate) fn is_fragile(&self) -> bool {
        matches!(self.kind, Kind::Sentinels(_)) && self.wait < REPLICAS
    }

    pub(crate) fn nodes(&mut self) -> &mut [RedisServer] {
        match &mut self.kind {
            Kind::Sentinels(group) => &mut group.servers,
            Kind::Cluster(group) => &mut group.nodes,
        }
    }

    fn servers(&self) -> &[RedisServer] {
        match &self.kind {
            Kind::Sentinels(group) => &group.servers,
            Kind::Cluster(group) => &group.nodes,
        }
    }

    /// The lines that say which store it is.
    pub(crate) fn section(&self) -> String {
        let servers = match &self.kind {
            Kind::Sentinels(group) => format!("sentinel: {{ master: {MASTER}, nodes: {} }}", group.nodes()),
            Kind::Cluster(_) => {
                let nodes: Vec<_> = self.proxies.iter().map(|proxy| format!("\"{}\"", proxy.address())).collect();
                format!("cluster: {{ nodes: [{}] }}", nodes.join(", "))
            }
        };
        format!("kind: redis, {servers}, wait_replicas: {}", self.wait)
    }

    /// Who is a primary now. Only while all are well.
    pub(crate) fn primaries(&self) -> Vec<usize> {
        let servers = self.servers().iter().enumerate();
        servers.filter(|(_, server)| server.info("role") == "master").map(|(number, _)| number).collect()
    }

    /// Every primary is followed by as many as it should be, and everybody agrees on who they are. A second blow to what
    /// has not got over the first would be one too many: that a claim is there twice helps against one.
    pub(crate) fn is_whole(&self) -> bool {
        let servers = self.servers();
        let primaries = self.primaries();
        let followed = |primary: &usize| {
            let replicas = servers.len() / primaries.len() - 1;
            (0..replicas).all(|replica| servers[*primary].info(&format!("slave{replica}")).contains("state=online"))
        };
        let linked = |(number, server): (usize, &RedisServer)| {
            primaries.contains(&number) || server.info("master_link_status") == "up"
        };
        let whole = primaries.len() == self.wanted_primaries() && primaries.iter().all(followed);
        whole && servers.iter().enumerate().all(linked) && self.is_agreed_on(&primaries)
    }

    /// Whether all who are left know of a primary that is one. Between a promotion and that time sentinels still name the
    /// old primary, and the other replica still follows it.
    fn has_successor(&self, dead: usize) -> bool {
        let primaries = self.primaries();
        if primaries.len() != self.wanted_primaries() {
            return false;
        }
        let Kind::Sentinels(_) = self.kind else { return true };
        let port = self.proxies[primaries[0]].address().port().to_string();
        let follows = |(number, server): (usize, &RedisServer)| {
            number == dead || primaries.contains(&number) || server.info("master_port") == port
        };
        self.is_agreed_on(&primaries) && self.servers().iter().enumerate().all(follows)
    }

    fn wanted_primaries(&self) -> usize {
        if let Kind::Cluster(_) = self.kind { 3 } else { 1 }
    }

    fn is_agreed_on(&self, primaries: &[usize]) -> bool {
        match &self.kind {
            Kind::Sentinels(group) => {
                let port = self.proxies[primaries[0]].address().port();
                group.watchers.iter().all(|watcher| {
                    let told = watcher.try_run(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
                    told.is_ok_and(|(_, told): (String, String)| told == port.to_string())
                })
            }
            Kind::Cluster(group) => group.nodes.iter().all(|node| {
                let state: String = node.try_run(&["CLUSTER", "INFO"]).unwrap_or_default();
                state.contains("cluster_state:ok")
            }),
        }
    }

    /// Starts a node again after it was killed: empty, and for others still behind its proxy. Not before somebody has
    /// taken a primary's place and nobody looks for it there any more, however long that takes: empty, it would be taken
    /// for the primary that it was.
    pub(crate) fn restart(&mut self, number: usize) {
        let setting = if let Kind::Cluster(_) = self.kind { "cluster-announce-port" } else { "replica-announce-port" };
        until_within(ELECTIONS, "somebody has taken its place, and all know", || self.has_successor(number));
        self.nodes()[number].restart();
        announce(&self.servers()[number], setting, &self.proxies[number]);
    }
}

fn proxies(servers: &[RedisServer]) -> Vec<Proxy> {
    servers.iter().map(|server| Proxy::to(server.port())).collect()
}

fn announce(server: &RedisServer, setting: &str, proxy: &Proxy) {
    server.run::<()>(&["CONFIG", "SET", setting, &proxy.address().port().to_string()]);
}

/// What a sentinel has been told of the primary.
fn setting(watcher: &RedisServer, name: &str) -> String {
    let all: Vec<String> = watcher.run(&["SENTINEL", "MASTER", MASTER]);
    let place = all.chunks(2).find(|pair| pair[0].starts_with(name));
    place.expect("a setting of the primary's")[1].clone()
}
