//! The machines of a drill: gateways, an upstream and a store as processes, with a proxy on every way between them.
//! It starts, stops and mends them when it is told to; when that is, others say.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::gateway::Gateway;
use crate::proxy::Proxy;
use crate::redis::{Cluster, RedisServer, Sentinels};
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
}

/// The store's processes.
pub(crate) enum Store {
    Embedded,
    Redis(RedisServer),
}

/// A gateway, and the ways to it and from it.
pub(crate) struct Member {
    pub(crate) gateway: Gateway,
    pub(crate) clients: Proxy,
    pub(crate) upstream: Proxy,
    pub(crate) store: Option<Proxy>,
    /// Held, so that nobody takes it while the gateway is down.
    _port: OwnPort,
}

/// All of it.
pub(crate) struct Scene {
    pub(crate) members: Vec<Member>,
    pub(crate) upstream: Upstream,
    pub(crate) store: Store,
    /// Removed last.
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn set(backing: Backing, gateways: usize, manner: Manner) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::start(folder.path(), manner);
        let store = Store::start(backing);
        let members = (0..gateways).map(|number| Member::start(folder.path(), number, &upstream, &store)).collect();
        Self { members, upstream, store, _folder: folder }
    }

    /// Where clients find the gateways.
    pub(crate) fn doors(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.clients.address()).collect()
    }
}

impl Store {
    fn start(backing: Backing) -> Self {
        match backing {
            Backing::Embedded => Self::Embedded,
            Backing::Redis => Self::Redis(RedisServer::start_with(&DURABLE)),
        }
    }

    /// Its processes.
    pub(crate) fn nodes(&mut self) -> &mut [RedisServer] {
        match self {
            Self::Embedded => &mut [],
            Self::Redis(server) => std::slice::from_mut(server),
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
        }
    }
}

impl Member {
    fn start(folder: &Path, number: usize, upstream: &Upstream, store: &Store) -> Self {
        let (store, section) = store.section(folder);
        let (port, upstream) = (OwnPort::new(), Proxy::to(upstream.port()));
        let config = folder.join(format!("oncegate-{number}.yaml"));
        std::fs::write(&config, yaml(port.address(), &section, upstream.address())).unwrap();
        let gateway = Gateway::try_run(&config).unwrap_or_else(|(ended, log)| panic!("{ended}: {log}"));
        Self { gateway, clients: Proxy::to(port.address().port()), upstream, store, _port: port }
    }
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
