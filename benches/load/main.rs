//! The end-to-end load bench: oncegate beside nginx as a plain reverse proxy, in interleaved rounds of one run.
//! `tests/bench/run` explains and starts it. It compares ratios; it is no test, though it fails on a wrong answer.

mod generator;
mod processes;
mod report;
mod upstream;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};

use generator::{Load, Until};
use processes::{Running, Server};
use report::{Measured, Table};
use upstream::Upstream;

/// Keys that the replay and mix loads send again and again.
const POOL: u64 = 1_000;

#[derive(Parser)]
#[command(about = "Compares oncegate with nginx as a plain reverse proxy")]
struct Arguments {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How often each server meets each load.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Client connections, each with one request at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Which servers; nginx is the measure of the ratios.
    #[arg(long, value_delimiter = ',', default_values = ["nginx", "redis", "embedded"])]
    servers: Vec<Server>,
    /// Which loads.
    #[arg(long, value_delimiter = ',', default_values = ["unique", "replay", "mix"])]
    loads: Vec<Workload>,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What the clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Every request is an operation of its own.
    Unique,
    /// Every request repeats a completed operation.
    Replay,
    /// One of each in turn.
    Mix,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).context("a folder to work in")?;
    let upstream = Upstream::start().context("the upstream")?;
    let mut table = Table::default();
    for round in 1..=arguments.rounds {
        for &server in &arguments.servers {
            // Each server runs alone, so that none takes processor time from another.
            let place = folder.path().join(format!("{server}-{round}"));
            std::fs::create_dir(&place)?;
            let running = server.start(&place, upstream.port()).with_context(|| format!("starting {server}"))?;
            for &workload in &arguments.loads {
                let measured = measure(&arguments, &running, &upstream, workload, &format!("{server}-{round}"))
                    .with_context(|| format!("{server}, {workload:?}, round {round}"))?;
                eprintln!("round {round}: {server}, {workload:?}: {:.0} requests/s", measured.throughput());
                table.add(workload, server, measured);
            }
            drop(running);
            forget(&place);
        }
    }
    table.print(&arguments.loads, &arguments.servers);
    Ok(())
}

fn measure(
    arguments: &Arguments,
    running: &Running,
    upstream: &Upstream,
    workload: Workload,
    prefix: &str,
) -> Result<Measured> {
    upstream.forget();
    let replays = running.server != Server::Nginx;
    let prefix = format!("{prefix}-{workload:?}");
    let load = |workload, prefix: &str, until| Load {
        port: running.port,
        connections: arguments.connections,
        workload,
        prefix: prefix.to_owned(),
        replays,
        until,
    };
    // The pool's operations are done before anything is measured, and connections and caches are warm.
    let pool = load(Workload::Unique, &format!("{prefix}-pool"), Until::Count(POOL)).run()?;
    let load = load(workload, &prefix, Until::Passed(Duration::from_secs(arguments.seconds)));
    let before = running.processor_time()?;
    let sent = load.run()?;
    let used = running.processor_time()?.since(&before);
    let done = upstream.executions();
    let (operations, requests) = (pool.fresh + sent.fresh, pool.requests + sent.requests);
    if replays {
        ensure!(done.keys == operations, "{operations} operations were sent, {} were executed", done.keys);
        ensure!(done.requests == operations, "{operations} operations were executed {} times", done.requests);
    } else {
        ensure!(done.requests == requests, "{requests} requests were sent, {} were executed", done.requests);
    }
    Ok(Measured { sent, used })
}

/// Frees the disk that a server used; the next one finds the machine as this one did.
fn forget(place: &Path) {
    if let Err(error) = std::fs::remove_dir_all(place) {
        eprintln!("{}: {error}", place.display());
    }
}
