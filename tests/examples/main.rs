//! The example configurations, run by the real binary and played through: first, again, changed, at the same time. The one
//! under sentinels is only loaded.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/upstream.rs"]
mod upstream;

mod signatures;
mod stories;
mod webhooks;

use std::path::Path;
use std::process::Command;

use client::{Answer, Call};
use gateway::Gateway;
use upstream::{Recorded, Reply, ScriptedUpstream};

/// A gateway on an example, in front of an upstream.
struct Example {
    gateway: Gateway,
    upstream: ScriptedUpstream,
    _folder: tempfile::TempDir,
}

impl Example {
    /// Starts `config/examples/NAME.yaml`, whose upstream's address is in the variable `url`. Every answer is another one.
    fn start(name: &str, url: &str, more: &[(&str, &str)]) -> Self {
        let count = std::sync::atomic::AtomicUsize::new(0);
        Self::scripted(name, url, more, move |_| {
            let number = 1 + count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Reply::whole(200, &[], format!("answer {number}"))
        })
    }

    fn scripted(
        name: &str,
        url: &str,
        more: &[(&str, &str)],
        script: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let upstream = ScriptedUpstream::start(script);
        let folder = tempfile::tempdir().unwrap();
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("config/examples/{name}.yaml"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["serve", "--config"]).arg(&config);
        command.env("LISTEN", "127.0.0.1:0").env("ADMIN_LISTEN", "127.0.0.1:0").env("PROXIES", "127.0.0.1/32");
        command.env("STORE_PATH", folder.path().join("store")).env(url, format!("http://{}", upstream.address()));
        command.envs(more.iter().copied());
        let gateway = Gateway::try_command(command, &config).unwrap_or_else(|(ended, log)| panic!("{ended}:\n{log}"));
        Self { gateway, upstream, _folder: folder }
    }

    fn send(&self, call: &Call) -> Answer {
        self.gateway.send(call)
    }

    /// How many requests came to the upstream.
    fn executed(&self) -> usize {
        self.upstream.requests().len()
    }

    /// Sends the same many times at once.
    fn crowd(&self, call: &Call) -> Vec<Answer> {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| self.send(call))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }
}
