//! The demo's gateway: this same program, as a process that can be killed and started again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::DemoError;
use crate::server;

/// Where the demo listens when these are free.
const USUAL: [u16; 2] = [8080, 9900];
/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The running gateway.
pub(super) struct Gateway {
    child: Child,
    config: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Gateway {
    /// Writes a configuration into `folder` and starts on it.
    pub(super) fn start(folder: &Path, api: SocketAddr) -> Result<Self, DemoError> {
        let [address, admin] = USUAL.map(free_port);
        let (address, admin) = (address?, admin?);
        let config = folder.join("oncegate.yaml");
        let text = configuration(address, admin, folder, api);
        std::fs::write(&config, text).map_err(|error| DemoError::Io("configuration", error))?;
        Ok(Self { child: spawn(&config)?, config, address, admin })
    }

    /// The configuration that it runs on.
    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Kills it without a chance to say goodbye, and starts it again on the same store.
    pub(super) fn crash(&mut self) -> Result<(), DemoError> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| DemoError::Io("kill", error))?;
        self.child = spawn(&self.config)?;
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended with the same Ctrl-C.
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// The usual port, or any other when that is taken.
fn free_port(usual: u16) -> Result<SocketAddr, DemoError> {
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let probe = server::bind(loopback(usual), 1, false).or_else(|_| server::bind(loopback(0), 1, false));
    let address = probe.and_then(|listeners| listeners[0].local_addr());
    address.map_err(|error| DemoError::Io("port", error))
}

fn configuration(address: SocketAddr, admin: SocketAddr, folder: &Path, api: SocketAddr) -> String {
    format!(
        "listen: {address}
admin:
  listen: {admin}
store:
  kind: embedded
  path: '{store}'
upstreams:
  orders:
    servers: [ \"http://{api}\" ]
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
      lease: 2s
  - name: everything-else
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        store = folder.join("store").display(),
    )
}

fn spawn(config: &Path) -> Result<Child, DemoError> {
    let failed = |error| DemoError::Io("gateway", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(["serve", "--config"])
        .arg(config)
        .env("RUST_LOG", "info")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let Some(log) = child.stderr.take() else { return Err(DemoError::Story("no log".to_owned())) };
    let (ready, listening) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            // Nobody may be waiting any longer; the log must be read on all the same.
            let _ = ready.send(line);
        }
    });
    let mut said = Vec::new();
    while let Ok(line) = listening.recv_timeout(PATIENCE) {
        if line.contains("listening") {
            return Ok(child);
        }
        said.push(line);
    }
    Err(DemoError::Story(format!("the gateway did not start:\n{}", said.join("\n"))))
}
