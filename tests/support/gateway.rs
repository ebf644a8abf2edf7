//! The real binary, started for a test and stopped with it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncegate::clock::Clock;

use super::client::{Answer, Call, PATIENCE};

/// A running gateway.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    config: PathBuf,
    /// Removed with the gateway.
    folder: Option<tempfile::TempDir>,
}

impl Gateway {
    /// Starts `oncegate serve` on a configuration; `{dir}` in it stands for a fresh folder of the test's own.
    pub(crate) fn start(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("oncegate.yaml");
        write(&config, yaml);
        let mut gateway = Self::run(&config);
        gateway.folder = Some(folder);
        gateway
    }

    fn run(config: &Path) -> Self {
        Self::try_run(config).unwrap_or_else(|(ended, log)| panic!("it did not start ({ended}):\n{log}"))
    }

    /// Starts on a configuration file that outlives it; or how it ended instead, and what it said.
    pub(crate) fn try_run(config: &Path) -> Result<Self, (ExitStatus, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["serve", "--config"]).arg(config);
        Self::try_command(command, config)
    }

    /// Starts by a command that runs the binary on this file.
    pub(crate) fn try_command(mut command: Command, config: &Path) -> Result<Self, (ExitStatus, String)> {
        let mut child = command
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the oncegate binary");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let sink = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        let mut gateway = Self {
            child,
            address: ([127, 0, 0, 1], 0).into(),
            admin: ([127, 0, 0, 1], 0).into(),
            log,
            config: config.to_owned(),
            folder: None,
        };
        let Ok(line) = gateway.look_for_log("listening") else {
            let ended = gateway.wait();
            reader.join().expect("the log's reader");
            return Err((ended, gateway.log()));
        };
        gateway.address = address_after(&line, "address=").expect("an address");
        gateway.admin = address_after(&line, "admin=").expect("an admin address");
        Ok(gateway)
    }

    /// Writes another configuration in the place of the one it was started on, in one step.
    pub(crate) fn rewrite(&self, yaml: &str) {
        let fresh = self.config.with_extension("fresh");
        write(&fresh, yaml);
        std::fs::rename(fresh, &self.config).expect("configuration");
    }

    /// Waits for a log line that holds `text`.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        let found = self.look_for_log(text);
        found.unwrap_or_else(|ended| panic!("no `{text}` in the log ({ended}):\n{}", self.log()))
    }

    /// The same, or how the process ended without it.
    fn look_for_log(&mut self, text: &str) -> Result<String, ExitStatus> {
        let deadline = Clock::instant() + PATIENCE;
        loop {
            let found = self.log.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
            if let Some(line) = found {
                return Ok(line);
            }
            if let Some(ended) = self.child.try_wait().expect("the child's state") {
                return Err(ended);
            }
            assert!(Clock::instant() < deadline, "no `{text}` in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    pub(crate) fn send(&self, call: &Call) -> Answer {
        call.send(self.address)
    }

    pub(crate) fn get_admin(&self, path: &str) -> Answer {
        Call::new("GET", path).send(self.admin)
    }

    /// The value of one series, 0 when it is not there.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let page = self.get_admin("/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Waits until a series has at least this value.
    pub(crate) fn wait_for_metric(&self, series: &str, least: f64) {
        wait_until(&format!("{series} >= {least}"), || self.metric(series) >= least);
    }

    /// The folder that `{dir}` stood for.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().expect("a folder of its own").path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name: `TERM`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill").success());
    }

    /// SIGKILL: nothing is said goodbye to.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Starts the same configuration again, in the same folder, on new ports.
    pub(crate) fn restart(&mut self) {
        let folder = self.folder.take();
        let mut fresh = Self::run(&self.config.clone());
        fresh.folder = folder;
        *self = fresh;
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Clock::instant() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child's state") {
                return status;
            }
            assert!(Clock::instant() < deadline, "still running:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- gateway's log\n{}", self.log());
        }
    }
}

/// Writes a configuration; `{dir}` in it stands for the file's folder.
pub(crate) fn write(config: &Path, yaml: &str) {
    let folder = config.parent().expect("a folder").display().to_string();
    std::fs::write(config, yaml.replace("{dir}", &folder)).expect("configuration");
}

fn address_after(line: &str, mark: &str) -> Option<SocketAddr> {
    let rest = line.split_once(mark)?.1;
    rest.split(' ').next()?.parse().ok()
}

/// Looks again and again until it is so; fails after a long while.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Clock::instant() + PATIENCE;
    while !holds() {
        assert!(Clock::instant() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
