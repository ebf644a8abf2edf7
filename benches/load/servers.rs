//! What stands between the clients and the upstream, and the settings of each. What oncegate has is on: fingerprints
//! compared, filter, metrics, detached attempts, records before answers, an access log; nginx writes one too.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use oncegate::clock::Clock;
use tempfile::TempDir;

use crate::processes::{Process, free_port};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    /// Nothing: clients talk to the upstream.
    Direct,
    /// nginx as a plain proxy, which keeps no operation apart from another.
    Nginx,
    /// nginx with Lua doing the least of what oncegate does, over Redis.
    Lua,
    /// oncegate with Redis.
    Redis,
    /// The same without its local replay cache.
    Uncached,
    /// oncegate with its own durable store.
    Embedded,
}

/// What is the same for all servers.
pub(crate) struct Setup {
    /// The port of the API behind them.
    pub(crate) upstream: u16,
    /// The build of oncegate that is measured.
    pub(crate) gateway: PathBuf,
}

/// What else is set.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    /// Routes before the ones that are used.
    pub(crate) routes: usize,
    pub(crate) retention: &'static str,
    pub(crate) sweep: &'static str,
    pub(crate) filter: u64,
    /// One process or worker alone, under this command.
    pub(crate) under: Vec<String>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { routes: 0, retention: "1h", sweep: "60s", filter: 4_000_000, under: Vec::new() }
    }
}

/// A machine that is busy with other things is no fault here.
const PATIENCE: &str = "command_timeout: 10s";

/// A server that takes requests.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) port: u16,
    gateway: Option<Process>,
    store: Option<Redis>,
    /// Where it works; its disk is freed with it.
    folder: TempDir,
}

/// What a load has used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// Processor time, user and system, of the gateway and its worker processes.
    pub(crate) gateway: Duration,
    /// The part of it in user space.
    pub(crate) user: Duration,
    /// Of Redis, where there is one.
    pub(crate) store: Duration,
    /// How many commands it was sent.
    pub(crate) commands: u64,
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            gateway: self.gateway.saturating_sub(before.gateway),
            user: self.user.saturating_sub(before.user),
            store: self.store.saturating_sub(before.store),
            commands: self.commands.saturating_sub(before.commands),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "no proxy",
            Self::Nginx => "nginx",
            Self::Lua => "nginx + Lua",
            Self::Redis => "oncegate, Redis",
            Self::Uncached => "oncegate, Redis, no cache",
            Self::Embedded => "oncegate, embedded",
        })
    }
}

impl Server {
    /// A folder of its own, and Redis where it needs that.
    pub(crate) fn place(self, setup: &Setup) -> Result<Running> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).context("a folder to work in")?;
        let redis = matches!(self, Self::Lua | Self::Redis | Self::Uncached);
        let store = if redis { Some(Redis::start(folder.path())?) } else { None };
        Ok(Running { server: self, port: setup.upstream, gateway: None, store, folder })
    }

    /// Starts the server, and waits until it takes connections.
    pub(crate) fn start(self, setup: &Setup, tuning: &Tuning) -> Result<Running> {
        let mut running = self.place(setup)?;
        if self != Self::Direct {
            let (command, port, stop) = running.command(setup, tuning)?;
            running.port = port;
            running.gateway = Some(Process::start(command, port, &running.log(), stop)?);
        }
        Ok(running)
    }
}

impl Running {
    /// How the gateway is started, at which port, and how it is stopped.
    pub(crate) fn command(&self, setup: &Setup, tuning: &Tuning) -> Result<(Command, u16, Option<Command>)> {
        let (folder, port) = (self.folder.path(), free_port()?);
        let redis = self.store.as_ref().map_or(0, |redis| redis.port);
        let url = format!("{{ kind: redis, url: \"redis://127.0.0.1:{redis}/0\", {PATIENCE} }}");
        let (command, stop) = match self.server {
            Server::Nginx | Server::Direct => nginx(folder, setup.upstream, &plain(port), tuning)?,
            Server::Lua => nginx(folder, setup.upstream, &lua(port, redis), tuning)?,
            Server::Redis => (oncegate(folder, port, setup, &url, "64MiB", tuning)?, None),
            Server::Uncached => (oncegate(folder, port, setup, &url, "0B", tuning)?, None),
            Server::Embedded => {
                let store = format!("{{ kind: embedded, path: \"{}\", {PATIENCE} }}", folder.join("store").display());
                (oncegate(folder, port, setup, &store, "64MiB", tuning)?, None)
            }
        };
        Ok((command, port, stop))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until it has taken so many connections.
    pub(crate) fn has_accepted(&self, connections: usize) -> Result<()> {
        let Some(gateway) = &self.gateway else { return Ok(()) };
        let begun = Clock::instant();
        while gateway.descriptors()? < connections {
            ensure!(begun.elapsed() < Duration::from_secs(10), "{} does not take connections", self.server);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// What it has used so far.
    pub(crate) fn used(&self) -> Result<Used> {
        let mut used = Used::default();
        if let Some(gateway) = &self.gateway {
            (used.gateway, used.user) = gateway.processor_time()?;
        }
        if let Some(redis) = &self.store {
            (used.store, _) = redis.process.processor_time()?;
            used.commands = redis.commands()?;
        }
        Ok(used)
    }

    /// Bytes that its store takes: of Redis in memory, of the embedded one on disk.
    pub(crate) fn stored(&self) -> Result<u64> {
        if let Some(redis) = &self.store {
            return redis.memory();
        }
        let files = fs::read_dir(self.folder.path().join("store"))?;
        files.map(|file| Ok(file?.metadata()?.len())).sum()
    }

    /// Ends it the polite way, and waits for that.
    pub(crate) fn end(mut self) -> Result<()> {
        let mut process = self.gateway.take().context("there is no server to end")?;
        process.signal("TERM")?;
        process.wait()
    }

    pub(crate) fn process(&self) -> Result<&Process> {
        self.gateway.as_ref().context("there is no server to look at")
    }

    pub(crate) fn redis(&self) -> Result<&Redis> {
        self.store.as_ref().context("there is no Redis to look at")
    }
}

/// Redis without a disk: the bench measures processor time and memory, not disks.
pub(crate) struct Redis {
    port: u16,
    process: Process,
}

impl Redis {
    fn start(folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--maxmemory-policy", "noeviction"]).arg("--dir").arg(folder);
        Ok(Self { port, process: Process::start(command, port, &folder.join("redis.log"), None)? })
    }

    fn connection(&self) -> Result<redis::Connection> {
        Ok(redis::Client::open(("127.0.0.1", self.port))?.get_connection()?)
    }

    fn info(&self, section: &str) -> Result<String> {
        Ok(redis::cmd("INFO").arg(section).query(&mut self.connection()?)?)
    }

    /// How many keys live.
    pub(crate) fn keys(&self) -> Result<u32> {
        Ok(redis::cmd("DBSIZE").query(&mut self.connection()?)?)
    }

    /// Commands on records that were called so far, those of scripts too; not those that ask how Redis is.
    fn commands(&self) -> Result<u64> {
        let info = self.info("commandstats")?;
        let counts = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let records =
            counts.filter(|(name, _)| matches!(*name, "get" | "set" | "getrange" | "del" | "eval" | "evalsha"));
        Ok(records.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum())
    }

    /// Bytes that it has allocated.
    pub(crate) fn memory(&self) -> Result<u64> {
        let info = self.info("memory")?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).context("INFO memory")?;
        Ok(line.trim().parse()?)
    }
}

fn nginx(folder: &Path, upstream: u16, server: &str, tuning: &Tuning) -> Result<(Command, Option<Command>)> {
    let processes = if tuning.under.is_empty() { "worker_processes auto;" } else { "master_process off;" };
    let modules = if server.contains("_lua_") {
        "load_module /usr/lib/nginx/modules/ndk_http_module.so;\n\
         load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;\n"
    } else {
        ""
    };
    let text = format!(
        "{modules}daemon off; user root; {processes} pid nginx.pid; error_log error.log warn;\n\
         worker_rlimit_nofile 20000; events {{ worker_connections 16384; }}\n\
         http {{ access_log access.log combined buffer=64k flush=1s; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi; keepalive_requests 1000000000; keepalive_time 24h;\n\
         tcp_nodelay on; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;\n\
         upstream api {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}\n\
         {server} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text)?;
    let mut command = under(tuning, "nginx");
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
    let mut stop = Command::new("nginx");
    stop.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log", "-s", "stop"]).stderr(Stdio::null());
    Ok((command, tuning.under.is_empty().then_some(stop)))
}

fn plain(port: u16) -> String {
    format!("server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://api; }} }}")
}

/// What people write: reserve, forward, record, answer; refuse a changed request, and one that is under way.
fn lua(port: u16, redis: u16) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/load/once.lua");
    format!(
        "lua_package_path '/usr/share/lua/5.1/?.lua;;';\n\
         server {{ listen 127.0.0.1:{port} backlog=4096; client_body_buffer_size 64k; set $redis {redis};\n\
         location /upstream/ {{ internal; proxy_pass http://api/; }}\n\
         location / {{ content_by_lua_file {script}; }} }}"
    )
}

/// The command, or one that runs it.
fn under(tuning: &Tuning, program: impl AsRef<std::ffi::OsStr>) -> Command {
    match tuning.under.split_first() {
        None => Command::new(program),
        Some((outer, arguments)) => {
            let mut command = Command::new(outer);
            command.args(arguments).arg(program);
            command
        }
    }
}

fn oncegate(folder: &Path, port: u16, setup: &Setup, store: &str, cache: &str, tuning: &Tuning) -> Result<Command> {
    let (admin, upstream) = (free_port()?, setup.upstream);
    let Tuning { retention, sweep, filter, .. } = tuning;
    let workers = if tuning.under.is_empty() { "" } else { "workers: 1\n" };
    let other = |n| format!("  - {{ name: other-{n}, match: {{ path: \"/other-{n}/{{id}}\" }}, upstream: api }}\n");
    let others: Vec<String> = (0..tuning.routes).map(other).collect();
    let guard = |key: &str| {
        format!(
            "    upstream: api\n    idempotency:\n      key: [ {key} ]\n      retention: {retention}\n\
             \x20     scope: {{ trusted_header: X-Customer-Id }}\n"
        )
    };
    let lines = folder.join("access.log");
    let lines = lines.display();
    let text = format!(
        "listen: 127.0.0.1:{port}\nadmin: {{ listen: \"127.0.0.1:{admin}\" }}\n{workers}store: {store}\n\
         filter: {{ capacity: {filter} }}\nsweep_interval: {sweep}\nreplay_cache: {cache}\n\
         limits: {{ connections: 16384, in_flight: 16384 }}\nlog: {{ format: text, level: warn }}\n\
         access_log: {{ path: \"{lines}\" }}\n\
         upstreams:\n  api:\n    servers: [ \"http://127.0.0.1:{upstream}\" ]\n    response_timeout: 4m\n\
         routes:\n{}\
         \x20 - name: orders\n    match: {{ methods: [POST], path: \"/orders\" }}\n{}\
         \x20 - name: prints\n    match: {{ methods: [POST], path: \"/prints\" }}\n{}\
         \x20 - name: plain\n    match: {{ path: \"/plain\" }}\n    upstream: api\n",
        others.concat(),
        guard("{ header: Idempotency-Key }"),
        guard("{ fingerprint: {} }"),
    );
    let file = folder.join("oncegate.yaml");
    fs::write(&file, text)?;
    let mut command = under(tuning, &setup.gateway);
    command.args(["serve", "--config"]).arg(file);
    Ok(command)
}
