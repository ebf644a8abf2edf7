//! A Redis Cluster of a test's own: three primaries that share the slots, each with as many replicas as asked for.
//! Processes only: what a gateway makes of them is another's matter.

use super::{RedisServer, Role, free_port, until};

/// How many slots keys fall into.
const SLOTS: u16 = 16_384;

/// The first and the last slot of each primary.
const SHARES: [(u16, u16); PRIMARIES] = [(0, 5_460), (5_461, 10_922), (10_923, SLOTS - 1)];

/// How many primaries share them.
const PRIMARIES: usize = 3;

/// How long a node may be silent, in milliseconds. A busy machine makes processes wait.
const NODE_TIMEOUT: &str = "1000";

/// A cluster.
pub struct Cluster {
    /// Its nodes: first those that begin as primaries, then the replicas in the same order, round by round.
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts three primaries with so many replicas each: six nodes with one.
    ///
    /// # Panics
    /// When they do not come together.
    pub fn start(replicas: usize) -> Self {
        Self::start_with(replicas, &[])
    }

    /// The same with further options of all nodes.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_with(replicas: usize, options: &[&str]) -> Self {
        Self::start_each(replicas, || options.iter().map(|option| (*option).to_owned()).collect())
    }

    /// The same with options that `options` makes for each node anew.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_each(replicas: usize, options: impl Fn() -> Vec<String>) -> Self {
        let nodes: Vec<_> = (0..PRIMARIES * (1 + replicas)).map(|_| start_node(&options())).collect();
        let started = Self { nodes };
        started.form();
        until("the cluster serves", || started.serves(replicas));
        started
    }

    /// Where all nodes listen, as a list of YAML.
    pub fn addresses(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("\"{}\"", node.address())).collect();
        format!("[{}]", nodes.join(", "))
    }

    /// Which node answers for a slot, in the words of `witness`; none while nobody does.
    pub fn owner_by(&self, witness: usize, slot: u16) -> Option<usize> {
        let shares: Vec<Vec<redis::Value>> = self.nodes[witness].try_run(&["CLUSTER", "SLOTS"]).ok()?;
        let share = shares.into_iter().find_map(|share| {
            let mut share = share.into_iter();
            let first: u16 = redis::from_redis_value(share.next()?).ok()?;
            let last: u16 = redis::from_redis_value(share.next()?).ok()?;
            let node: Vec<redis::Value> = redis::from_redis_value(share.next()?).ok()?;
            let port: u16 = redis::from_redis_value(node.into_iter().nth(1)?).ok()?;
            (first..=last).contains(&slot).then_some(port)
        })?;
        self.nodes.iter().position(|node| node.port() == share)
    }

    /// Waits until a living node other than `old` answers for the slot and the cluster serves again; `old` may be dead.
    ///
    /// # Panics
    /// When none takes its place.
    pub fn await_successor(&self, old: usize, slot: u16) -> usize {
        let witnesses = || (0..self.nodes.len()).filter(|node| *node != old);
        let mut successor = old;
        until("another node answers for the slot", || {
            let told: Vec<_> = witnesses().map(|witness| self.owner_by(witness, slot)).collect();
            let Some(Some(first)) = told.first().copied() else { return false };
            successor = first;
            first != old
                && told.iter().all(|other| *other == Some(first))
                && witnesses().all(|witness| self.state(witness).contains("cluster_state:ok"))
        });
        successor
    }

    fn state(&self, node: usize) -> String {
        self.nodes[node].try_run(&["CLUSTER", "INFO"]).unwrap_or_default()
    }

    /// Introduces the nodes to each other and shares out the slots.
    fn form(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            // Different epochs, so that nobody's claim to its slots has to be settled first.
            node.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            if let Some((first, last)) = SHARES.get(number) {
                node.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            }
        }
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            let bus = node.info_of_bus();
            first.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus]);
        }
        let everyone = |node: &RedisServer| {
            let known: String = node.try_run(&["CLUSTER", "NODES"]).unwrap_or_default();
            known.lines().count() == self.nodes.len() && !known.contains("handshake")
        };
        until("the nodes know each other", || self.nodes.iter().all(everyone));
        for (number, replica) in self.nodes.iter().enumerate().skip(PRIMARIES) {
            let primary: String = self.nodes[number % PRIMARIES].run(&["CLUSTER", "MYID"]);
            replica.run::<()>(&["CLUSTER", "REPLICATE", &primary]);
        }
    }

    fn serves(&self, replicas: usize) -> bool {
        let all = 0..self.nodes.len();
        let whole = |node: usize| self.state(node).contains("cluster_state:ok");
        let followed = |node: &RedisServer| {
            (0..replicas).all(|replica| node.info(&format!("slave{replica}")).contains("state=online"))
        };
        let known = |witness| {
            let owners = SHARES.iter().map(|(first, _)| self.owner_by(witness, *first));
            owners.eq((0..PRIMARIES).map(Some))
        };
        all.clone().all(whole) && all.clone().all(known) && self.nodes[..PRIMARIES].iter().all(followed)
    }
}

impl RedisServer {
    /// The port on which the others of its cluster speak with it.
    fn info_of_bus(&self) -> String {
        let (_, port): (String, String) = self.run(&["CONFIG", "GET", "cluster-port"]);
        port
    }
}

fn start_node(options: &[String]) -> RedisServer {
    // By default the second port is the first one and 10,000: nobody has seen whether that one is free.
    let bus = free_port().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", NODE_TIMEOUT];
    let further: Vec<_> = options.iter().map(String::as_str).collect();
    RedisServer::start_as(Role::Server, &[&own[..], &further].concat())
}

/// The slot of a key without braces: CRC-16/XMODEM, modulo the number of slots.
pub fn slot(key: &[u8]) -> u16 {
    let crc = key.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 },
        )
    });
    crc % SLOTS
}
