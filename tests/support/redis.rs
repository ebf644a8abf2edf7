//! A Redis server of a test's own: started on a free port, paused, killed, restarted, and gone when it is dropped. What
//! is made of several of them is in `redis/`: replicas under sentinels, and a cluster.
//! Other test crates take it in with `#[path = "../support/redis.rs"] mod redis;`. It never skips: no server, no pass.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test crate uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "redis/cluster.rs"]
mod cluster;
#[path = "redis/sentinel.rs"]
mod sentinel;

pub use cluster::{Cluster, slot};
pub use sentinel::Sentinels;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncegate::clock::Clock;
use tempfile::TempDir;

/// How long a server may take to start, stop or stand still.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file in the server's directory that it writes its log to.
const LOG: &str = "redis.log";

/// A running `redis-server`: without persistence, unless its options say otherwise.
pub struct RedisServer {
    dir: TempDir,
    port: u16,
    role: Role,
    options: Vec<String>,
    environment: Environment,
    child: Child,
}

/// Variables that a process is started with, besides its parent's.
pub type Environment = Vec<(String, String)>;

/// What a process is started as.
#[derive(Clone, Copy)]
enum Role {
    /// One that keeps data.
    Server,
    /// One that watches others; its options are the lines of its file.
    Sentinel,
}

impl RedisServer {
    /// Starts a server.
    ///
    /// # Panics
    /// When there is no `redis-server` to start, or it does not come up.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further options, such as `["--requirepass", "secret"]`.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_as(Role::Server, options)
    }

    /// Starts a server that follows another one.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn replica_of(primary: &Self, options: &[&str]) -> Self {
        let port = primary.port.to_string();
        Self::start_with(&[&["--replicaof", "127.0.0.1", &port], options].concat())
    }

    /// Starts a server with further options and variables.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn start_under(environment: Environment, options: &[&str]) -> Self {
        Self::start_in(environment, Role::Server, options)
    }

    fn start_as(role: Role, options: &[&str]) -> Self {
        Self::start_in(Environment::new(), role, options)
    }

    fn start_in(environment: Environment, role: Role, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        // Between choosing a free port and the server's binding it somebody else may take it.
        for _ in 0..5 {
            let port = free_port();
            let child = spawn(role, dir.path(), port, &options, &environment);
            if let Some(child) = ready(role, dir.path(), child) {
                return Self { dir, port, role, options, environment, child };
            }
        }
        panic!("redis-server does not start; its log:\n{}", log(dir.path()));
    }

    /// The port it listens on, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens, as a gateway's configuration names it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The directory of its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its URL, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Runs a command over a connection of its own and returns the reply.
    ///
    /// # Panics
    /// When the server cannot be reached or answers with an error.
    pub fn run<T: redis::FromRedisValue>(&self, command: &[impl redis::ToRedisArgs]) -> T {
        self.try_run(command).unwrap()
    }

    /// The same, where the server may be away or refuse.
    ///
    /// # Errors
    /// When the server cannot be reached or answers with an error.
    pub fn try_run<T: redis::FromRedisValue>(&self, command: &[impl redis::ToRedisArgs]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let mut words = redis::Cmd::new();
        words.arg(command);
        words.query(&mut connection)
    }

    /// A field of what `INFO` says; empty when the server is away or does not say it.
    pub fn info(&self, field: &str) -> String {
        let told: String = self.try_run(&["INFO", "everything"]).unwrap_or_default();
        let value = told.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }

    /// Waits until so many replicas follow it, each with all that was there before.
    ///
    /// # Panics
    /// When they do not come.
    pub fn await_replicas(&self, replicas: usize) {
        until("the replicas follow", || {
            (0..replicas).all(|replica| self.info(&format!("slave{replica}")).contains("state=online"))
        });
    }

    /// Stops the process where it stands: connections stay open and nobody answers.
    ///
    /// # Panics
    /// When it goes on running.
    pub fn pause(&self) {
        self.signal("STOP");
        until("redis-server stands still", || self.is_paused());
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends the process at once; its data is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the process and starts another one on the same port, with what its files hold: without persistence, an
    /// empty one.
    ///
    /// # Panics
    /// When it does not come up again.
    pub fn restart(&mut self) {
        self.restart_unready(&[]);
        assert!(self.comes_up(), "redis-server does not come back:\n{}", log(self.dir.path()));
    }

    /// The same with options for this one time, and without waiting until it is ready: it may still be loading.
    pub fn restart_unready(&mut self, options: &[&str]) {
        self.kill();
        let options: Vec<_> = self.options.iter().map(String::as_str).chain(options.iter().copied()).collect();
        let options: Vec<_> = options.into_iter().map(ToOwned::to_owned).collect();
        self.child = spawn(self.role, self.dir.path(), self.port, &options, &self.environment);
    }

    fn comes_up(&mut self) -> bool {
        let (dir, role) = (self.dir.path(), self.role);
        wait_until_ready(role, dir, &mut self.child)
    }

    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").arg("-c").arg(command).status().unwrap();
        assert!(status.success(), "cannot send SIG{name} to redis-server");
    }

    fn is_paused(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on just now, below those that the system gives to outgoing connections: one of these
/// could take it while its server is away.
pub fn free_port() -> u16 {
    let mut choices = std::iter::repeat_with(|| rand::random_range(10_000..32_000));
    choices.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Starts a process. It is not ready yet, and may end instead.
fn spawn(role: Role, dir: &Path, port: u16, options: &[String], environment: &Environment) -> Child {
    // What an earlier process wrote must not speak for this one.
    let _ = std::fs::remove_file(dir.join(LOG));
    let mut command = Command::new("redis-server");
    command.envs(environment.iter().cloned());
    match role {
        Role::Server => {
            command
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .args(["--repl-diskless-sync-delay", "0", "--logfile", LOG, "--dir"])
                .arg(dir)
                .args(options);
        }
        Role::Sentinel => {
            sentinel::write_file(dir, port, LOG, options);
            command.arg(dir.join(sentinel::FILE)).arg("--sentinel");
        }
    }
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    spawned.unwrap_or_else(|error| panic!("these tests need a redis-server of version 7.0 or later in PATH: {error}"))
}

/// The process once it can be reached; none when it ended instead.
fn ready(role: Role, dir: &Path, mut child: Child) -> Option<Child> {
    wait_until_ready(role, dir, &mut child).then_some(child)
}

fn wait_until_ready(role: Role, dir: &Path, child: &mut Child) -> bool {
    // Its own log is the witness: on the port somebody else's server might answer.
    let sign = if matches!(role, Role::Sentinel) { "+monitor master" } else { "Ready to accept connections" };
    let mut ended = false;
    until("redis-server accepts connections", || {
        ended = child.try_wait().unwrap().is_some();
        ended || log(dir).contains(sign)
    });
    !ended
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join(LOG)).unwrap_or_else(|error| error.to_string())
}

/// Waits until something holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, holds);
}

/// The same, for so long at most.
pub fn until_within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Clock::instant();
    while !holds() {
        assert!(start.elapsed() < patience, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
