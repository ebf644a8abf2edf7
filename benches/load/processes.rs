//! The servers of the bench as child processes, and the processor time that they use.
//! Each ends when its value is dropped.

use std::fmt;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use oncegate::clock::Clock;

/// How many ticks of `/proc/PID/stat` make a second: Linux tells all programs 100, whatever the kernel counts in.
const TICKS: u32 = 100;
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// What stands between the clients and the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    /// nginx as a plain proxy, which keeps no operation apart from another.
    Nginx,
    /// oncegate with Redis.
    Redis,
    /// oncegate with its own durable store.
    Embedded,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nginx => "nginx",
            Self::Redis => "oncegate-redis",
            Self::Embedded => "oncegate-embedded",
        })
    }
}

/// A server that takes requests.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) port: u16,
    gateway: Process,
    store: Option<Process>,
}

/// Processor time, user and system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// Of the gateway and its worker processes.
    pub(crate) gateway: Duration,
    /// Of the store's process, where there is one.
    pub(crate) store: Duration,
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self { gateway: self.gateway.saturating_sub(before.gateway), store: self.store.saturating_sub(before.store) }
    }
}

impl Server {
    /// Starts the server in a folder of its own, and waits until it takes connections.
    pub(crate) fn start(self, folder: &Path, upstream: u16) -> Result<Running> {
        let port = free_port()?;
        let store = if self == Self::Redis { Some(redis(folder)?) } else { None };
        let gateway = match (self, &store) {
            (Self::Nginx, _) => nginx(folder, port, upstream)?,
            (_, Some((_, redis))) => {
                oncegate(folder, port, upstream, &format!("{{ kind: redis, url: \"redis://127.0.0.1:{redis}/0\" }}"))?
            }
            (_, None) => {
                let path = folder.join("store");
                oncegate(folder, port, upstream, &format!("{{ kind: embedded, path: \"{}\" }}", path.display()))?
            }
        };
        Ok(Running { server: self, port, gateway, store: store.map(|(process, _)| process) })
    }
}

impl Running {
    pub(crate) fn processor_time(&self) -> Result<Used> {
        let store = self.store.as_ref().map_or(Ok(Duration::ZERO), Process::processor_time)?;
        Ok(Used { gateway: self.gateway.processor_time()?, store })
    }
}

/// A child process; a server that has children of its own also says how to be stopped.
struct Process {
    child: Child,
    stop: Option<Command>,
}

impl Process {
    /// Starts the command and waits until the port answers.
    fn start(mut command: Command, port: u16, log: &Path, stop: Option<Command>) -> Result<Self> {
        let output = fs::File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("starting {}", name(&command)))?;
        let mut process = Self { child, stop };
        let begun = Clock::instant();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > STARTS_WITHIN {
                bail!("{} does not answer ({ended:?}):\n{}", name(&command), fs::read_to_string(log)?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    fn processor_time(&self) -> Result<Duration> {
        let own = self.child.id();
        let mut ticks = stat(own).with_context(|| format!("process {own} is gone"))?.ticks;
        for entry in fs::read_dir("/proc")? {
            // Processes come and go while we look; only children of ours matter, and they stay.
            let process = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(stat);
            ticks += process.filter(|process| process.parent == own).map_or(0, |process| process.ticks);
        }
        Ok(Duration::from_secs(ticks) / TICKS)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A killed nginx would leave its workers behind; whatever is left after the polite way is killed.
        let stopped = self.stop.as_mut().is_some_and(|stop| stop.status().is_ok_and(|status| status.success()));
        if !stopped {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

struct Stat {
    parent: u32,
    ticks: u64,
}

/// Reads `/proc/PID/stat`; the name in parentheses may itself hold spaces and parentheses.
fn stat(process: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn nginx(folder: &Path, port: u16, upstream: u16) -> Result<Process> {
    let text = format!(
        "daemon off; user root; worker_processes auto; pid nginx.pid; error_log error.log warn;\n\
         events {{ worker_connections 2048; }}\n\
         http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi; keepalive_requests 1000000000; tcp_nodelay on;\n\
         upstream api {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://api; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header Host $host; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text)?;
    let command = || {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
        command
    };
    let mut stop = command();
    stop.args(["-s", "stop"]).stderr(Stdio::null());
    Process::start(command(), port, &folder.join("nginx.log"), Some(stop))
}

/// Redis without a disk: the bench measures processor time, not discs.
fn redis(folder: &Path) -> Result<(Process, u16)> {
    let port = free_port()?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--maxmemory-policy", "noeviction"]).arg("--dir").arg(folder);
    Ok((Process::start(command, port, &folder.join("redis.log"), None)?, port))
}

fn oncegate(folder: &Path, port: u16, upstream: u16, store: &str) -> Result<Process> {
    let admin = free_port()?;
    let text = format!(
        "listen: 127.0.0.1:{port}\n\
         admin: {{ listen: \"127.0.0.1:{admin}\" }}\n\
         store: {store}\n\
         log: {{ format: text, level: warn }}\n\
         upstreams:\n  api:\n    servers: [ \"http://127.0.0.1:{upstream}\" ]\n\
         routes:\n  - name: create-order\n    match: {{ methods: [POST], path: \"/orders\" }}\n    upstream: api\n\
         \x20   idempotency:\n      key: [ {{ header: Idempotency-Key }} ]\n      scope: none\n      retention: 1h\n"
    );
    let file = folder.join("oncegate.yaml");
    fs::write(&file, text)?;
    let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_oncegate")));
    command.args(["serve", "--config"]).arg(file);
    Process::start(command, port, &folder.join("oncegate.log"), None)
}
