//! The machines of a drill: gateways, an upstream and a store as processes, with a proxy on every way between them.
//! It starts, stops and mends them when it is told to; when that is, others say.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clocks::FakeClock;
use crate::gateway::Gateway;
use crate::group::Group;
use crate::proxy::Proxy;
use crate::redis::RedisServer;
use crate::upstream::{Manner, OwnPort, Upstream};

/// How long a lease is, in milliseconds.
pub(crate) const LEASE: u64 = 3_000;
/// How long a store call may take, in milliseconds.
pub(crate) const COMMAND_TIMEOUT: u64 = 500;
/// How long a client waits at most, in milliseconds.
pub(crate) const RESPONSE_TIMEOUT: u64 = 2_000;

/// What a Redis needs to remember all that it has acknowledged when its process is killed.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// The embedded one: a gateway alone.
    Embedded,
    /// One Redis that writes everything to its disk.
    Redis,
    /// A primary and two replicas under three sentinels; claims wait for one of the replicas. Nodes die, and nothing else
    /// lasts for long enough that sentinels choose another primary: who is left behind must not come back believing that
    /// it still is one, while the other replica still follows it.
    Sentinels,
    /// The same with anything that befalls nodes; claims wait for both replicas.
    PatientSentinels,
    /// Six nodes: three primaries with a replica each; claims wait for it.
    Cluster,
    /// The same, and claims wait for nobody: it serves on when a node is lost for good.
    HastyCluster,
}

/// Whose clocks can be set while their processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    Nobodys,
    OfGateways,
    OfStore,
}

/// The store's processes.
pub(crate) enum Store {
    Embedded,
    Redis(RedisServer),
    Group(Group),
}

/// A gateway, and the ways to it and from it.
pub(crate) struct Member {
    pub(crate) gateway: Gateway,
    pub(crate) clients: Proxy,
    pub(crate) upstream: Proxy,
    pub(crate) store: Option<Proxy>,
    pub(crate) clock: Option<FakeClock>,
    config: PathBuf,
    /// Held, so that nobody takes it while the gateway is down.
    _port: OwnPort,
}

/// All of it.
pub(crate) struct Scene {
    pub(crate) members: Vec<Member>,
    pub(crate) upstream: Upstream,
    pub(crate) store: Store,
    pub(crate) store_clock: Option<FakeClock>,
    /// Removed last.
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn set(backing: Backing, gateways: usize, clocks: Clocks, manner: Manner) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::start(folder.path(), manner);
        let clock = |name: &str| FakeClock::new(&folder.path().join(name));
        let store_clock = (clocks == Clocks::OfStore).then(|| clock("clock-of-store"));
        let store = Store::start(backing, store_clock.as_ref());
        let member = |number: usize| {
            let own = (clocks == Clocks::OfGateways).then(|| clock(&format!("clock-{number}")));
            Member::start(folder.path(), number, &upstream, &store, own)
        };
        let members = (0..gateways).map(member).collect();
        Self { members, upstream, store, store_clock, _folder: folder }
    }

    /// Where clients find the gateways.
    pub(crate) fn doors(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.clients.address()).collect()
    }
}

impl Store {
    fn start(backing: Backing, clock: Option<&FakeClock>) -> Self {
        let environment = clock.map(FakeClock::environment).unwrap_or_default();
        match backing {
            Backing::Embedded => Self::Embedded,
            Backing::Redis => Self::Redis(RedisServer::start_under(environment, &DURABLE)),
            Backing::Sentinels => Self::Group(Group::under_sentinels(1)),
            Backing::PatientSentinels => Self::Group(Group::under_sentinels(2)),
            Backing::Cluster => Self::Group(Group::of_a_cluster(1)),
            Backing::HastyCluster => Self::Group(Group::of_a_cluster(0)),
        }
    }

    /// Its processes.
    pub(crate) fn nodes(&mut self) -> &mut [RedisServer] {
        match self {
            Self::Embedded => &mut [],
            Self::Redis(server) => std::slice::from_mut(server),
            Self::Group(group) => group.nodes(),
        }
    }

    /// Starts a node again after it was killed.
    pub(crate) fn restart(&mut self, number: usize) {
        match self {
            Self::Embedded => {}
            Self::Redis(server) => server.restart(),
            Self::Group(group) => group.restart(number),
        }
    }

    /// What it is made of, when it is several.
    pub(crate) fn group(&mut self) -> Option<&mut Group> {
        match self {
            Self::Group(group) => Some(group),
            Self::Embedded | Self::Redis(_) => None,
        }
    }

    /// The way to it, and the lines that say which one it is.
    fn section(&self, folder: &Path) -> (Option<Proxy>, String) {
        match self {
            Self::Embedded => (None, format!("kind: embedded, path: '{}/store'", folder.display())),
            Self::Redis(server) => {
                let proxy = Proxy::to(server.port());
                let section = format!("kind: redis, url: \"{}\"", proxy.url());
                (Some(proxy), section)
            }
            // The ways to it are the nodes' own: whoever comes to one of them comes through its proxy.
            Self::Group(group) => (None, group.section()),
        }
    }
}

impl Member {
    fn start(folder: &Path, number: usize, upstream: &Upstream, store: &Store, clock: Option<FakeClock>) -> Self {
        let (store, section) = store.section(folder);
        let (port, upstream) = (OwnPort::new(), Proxy::to(upstream.port()));
        let config = folder.join(format!("oncegate-{number}.yaml"));
        std::fs::write(&config, yaml(port.address(), &section, upstream.address())).unwrap();
        let gateway = launch(&config, clock.as_ref());
        let clients = Proxy::to(port.address().port());
        Self { gateway, clients, upstream, store, clock, config, _port: port }
    }

    /// Starts the gateway again after it was killed.
    pub(crate) fn restart(&mut self) {
        self.gateway = launch(&self.config, self.clock.as_ref());
    }
}

fn launch(config: &Path, clock: Option<&FakeClock>) -> Gateway {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["serve", "--config"]).arg(config).envs(clock.map(FakeClock::environment).unwrap_or_default());
    Gateway::try_command(command, config).unwrap_or_else(|(ended, log)| panic!("{ended}: {log}"))
}

/// A configuration: one guarded route on a port of its own.
pub(crate) fn yaml(listen: SocketAddr, store: &str, upstream: SocketAddr) -> String {
    // A listener shares its port only with others of several workers.
    format!(
        "listen: {listen}
workers: 2
admin: {{ listen: 127.0.0.1:0 }}
store: {{ {store}, command_timeout: {COMMAND_TIMEOUT}ms }}
sweep_interval: 1s
upstreams:
  orders:
    servers: [ \"http://{upstream}\" ]
    connect_timeout: 500ms
    response_timeout: {RESPONSE_TIMEOUT}ms
    attempt_timeout: 6s
    ejection: {{ failures: 0 }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: {{ trusted_header: X-Customer-Id }}
      in_doubt: hold
      lease: {LEASE}ms
"
    )
}

/// Sends a signal by name: `STOP`, `CONT`.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
    assert!(sent.unwrap().success());
}
