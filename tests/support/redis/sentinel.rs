//! A primary, its replicas and three sentinels that choose the next primary when it is gone. Processes only: what a
//! gateway makes of them is another's matter.

use std::fmt::Write as _;
use std::path::Path;

use super::{RedisServer, Role, until};

/// The name under which the sentinels watch.
pub const MASTER: &str = "mymaster";

/// The file in a sentinel's directory that holds its settings, and what it has learnt.
pub(super) const FILE: &str = "sentinel.conf";

/// How many sentinels there are; two of them decide.
const WATCHERS: usize = 3;

/// How long a primary may be silent, in milliseconds. A busy machine makes processes wait.
const DOWN_AFTER: u32 = 1_000;

/// Servers under sentinels.
pub struct Sentinels {
    /// The servers; the first one begins as the primary.
    pub servers: Vec<RedisServer>,
    /// Those who watch them.
    pub watchers: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts a primary with so many replicas, and three sentinels that know each other and all of these.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn start(replicas: usize) -> Self {
        Self::start_with(replicas, &[], &[])
    }

    /// The same with further options of the servers, and further lines in the sentinels' files.
    ///
    /// # Panics
    /// As [`Sentinels::start`].
    pub fn start_with(replicas: usize, options: &[&str], lines: &[&str]) -> Self {
        let primary = RedisServer::start_with(options);
        let followers: Vec<_> = (0..replicas).map(|_| RedisServer::replica_of(&primary, options)).collect();
        primary.await_replicas(replicas);
        let watch = format!("sentinel monitor {MASTER} 127.0.0.1 {} 2", primary.port());
        let patience = format!("sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}");
        let pace = format!("sentinel failover-timeout {MASTER} 4000");
        let lines = [&[watch.as_str(), patience.as_str(), pace.as_str()], lines].concat();
        let watchers = (0..WATCHERS).map(|_| RedisServer::start_as(Role::Sentinel, &lines)).collect();
        let started = Self { servers: [vec![primary], followers].into_iter().flatten().collect(), watchers };
        until("the sentinels know each other", || {
            let knows = |watcher: &RedisServer| {
                let all = watcher.info("master0");
                all.contains(&format!("slaves={replicas},")) && all.contains(&format!("sentinels={WATCHERS}"))
            };
            started.watchers.iter().all(knows)
        });
        started
    }

    /// Where the sentinels listen, as a list of YAML.
    pub fn nodes(&self) -> String {
        let nodes: Vec<_> = self.watchers.iter().map(|watcher| format!("\"{}\"", watcher.address())).collect();
        format!("[{}]", nodes.join(", "))
    }

    /// Which of the servers is the primary, in the words of most sentinels; none while they do not agree.
    pub fn primary(&self) -> Option<usize> {
        let told = |watcher: &RedisServer| -> Option<u16> {
            let place: (String, String) = watcher.try_run(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).ok()?;
            place.1.parse().ok()
        };
        let told: Vec<_> = self.watchers.iter().filter_map(told).collect();
        let most = |port: u16| told.iter().filter(|other| **other == port).count() * 2 > WATCHERS;
        self.servers.iter().position(|server| most(server.port()))
    }

    /// Waits until another server than `old` is the primary, and says so itself.
    ///
    /// # Panics
    /// When none takes its place.
    pub fn await_successor(&self, old: usize) -> usize {
        let mut successor = old;
        until("another server is the primary", || {
            successor = self.primary().unwrap_or(old);
            successor != old && self.servers[successor].info("role") == "master"
        });
        successor
    }
}

/// Writes a sentinel's file, unless it has one: it keeps there what it has learnt.
pub(super) fn write_file(dir: &Path, port: u16, log: &str, lines: &[String]) {
    let file = dir.join(FILE);
    let mut text = format!("port {port}\nbind 127.0.0.1\ndir {}\nlogfile {log}\n", dir.display());
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    // One that was started in vain, on a port that was taken, has learnt nothing.
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if !kept.lines().any(|line| line == format!("port {port}")) {
        std::fs::write(file, text).unwrap();
    }
}
