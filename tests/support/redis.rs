//! A Redis server of a test's own: started on a free port, paused, killed, restarted, and gone when it is dropped.
//! Other test crates take it in with `#[path = "../support/redis.rs"] mod redis;`. It never skips: no server, no pass.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

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

/// A running `redis-server` without persistence.
pub struct RedisServer {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
    child: Child,
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
        let dir = tempfile::tempdir().unwrap();
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        // Between choosing a free port and the server's binding it somebody else may take it.
        for _ in 0..5 {
            let port = free_port();
            if let Some(child) = launch(dir.path(), port, &options) {
                return Self { dir, port, options, child };
            }
        }
        panic!("redis-server does not start; its log:\n{}", log(dir.path()));
    }

    /// The port it listens on, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
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
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection_with_timeout(PATIENCE).unwrap();
        let mut words = redis::Cmd::new();
        words.arg(command);
        words.query(&mut connection).unwrap()
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

    /// Ends the process and starts an empty server on the same port.
    ///
    /// # Panics
    /// When it does not come up again.
    pub fn restart(&mut self) {
        self.kill();
        let child = launch(self.dir.path(), self.port, &self.options);
        self.child = child.unwrap_or_else(|| panic!("redis-server does not come back:\n{}", log(self.dir.path())));
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

/// The process once it can be reached; none when it ended instead.
fn launch(dir: &Path, port: u16, options: &[String]) -> Option<Child> {
    // What an earlier process wrote must not speak for this one.
    let _ = std::fs::remove_file(dir.join(LOG));
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--logfile", LOG, "--dir"])
        .arg(dir)
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("these tests need a redis-server of version 7.0 or later in PATH: {error}"));
    let mut ended = false;
    // Its own log is the witness: on the port somebody else's server might answer.
    until("redis-server accepts connections", || {
        ended = child.try_wait().unwrap().is_some();
        ended || log(dir).contains("Ready to accept connections")
    });
    (!ended).then_some(child)
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join(LOG)).unwrap_or_else(|error| error.to_string())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Clock::instant();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
