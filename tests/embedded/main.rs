//! The embedded store under the real binary: backups, and disks that are full, take nothing, or lose a part of the file.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/upstream.rs"]
mod upstream;

mod backup;
mod disk;
mod sealed;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use client::{Answer, Call};
use gateway::Gateway;
use upstream::{Recorded, Reply, ScriptedUpstream};

const TOKEN: &str = "an-operators-token-of-some-length";

/// A folder with a configuration in it, for a gateway on the store in its `store` or elsewhere.
struct Home {
    folder: tempfile::TempDir,
    upstream: SocketAddr,
}

impl Home {
    fn new(upstream: &ScriptedUpstream) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), upstream: upstream.address() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration with the store of that name; `top` holds further top-level lines.
    fn config(&self, store: &str, top: &str) -> PathBuf {
        self.config_with(&format!("path: '{}'", self.path(store).display()), top)
    }

    fn config_with(&self, store: &str, top: &str) -> PathBuf {
        let path = self.path(&format!("{:016x}.yaml", rand::random::<u64>()));
        let token = if top.contains("admin:") { String::new() } else { admin(TOKEN) };
        let kind = if store.contains("kind:") { "" } else { "kind: embedded, command_timeout: 5s, " };
        let text = format!(
            "listen: 127.0.0.1:0
replay_cache: 0
{token}store: {{ {kind}{store} }}
{top}
upstreams:
  orders: {{ servers: [ \"http://{}\" ] }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
      lease: 1s
",
            self.upstream
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    fn start(&self, store: &str) -> Gateway {
        started(&self.config(store, ""))
    }
}

fn admin(token: &str) -> String {
    format!("admin: {{ listen: 127.0.0.1:0, token: '{token}' }}\n")
}

fn started(config: &Path) -> Gateway {
    Gateway::try_run(config).unwrap_or_else(|(ended, log)| panic!("it did not start ({ended}):\n{log}"))
}

/// Ends a gateway in order.
fn stop(mut gateway: Gateway) {
    gateway.signal("TERM");
    assert!(gateway.wait().success(), "{}", gateway.log());
}

fn oncegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncegate")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

/// An upstream whose answers name their keys.
fn naming() -> ScriptedUpstream {
    ScriptedUpstream::start(|request: &Recorded| {
        Reply::whole(201, &[], format!("made {}", request.text("Idempotency-Key")))
    })
}

fn made(answer: &Answer, key: &str) -> bool {
    answer.status == 201 && answer.text() == format!("made {key}")
}

fn replays(gateway: &Gateway, key: &str) -> bool {
    let answer = gateway.send(&order(key));
    made(&answer, key) && answer.is_replay()
}

fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

fn refused(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}
