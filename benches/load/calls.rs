//! System calls a request, counted by `perf`, or by `strace` where the kernel does not let `perf` count.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use oncegate::clock::Clock;

use crate::bench::Bench;
use crate::generator::Pace;
use crate::processes::Process;
use crate::requests::Workload::{Replay, Unique};
use crate::servers::Server::{Nginx, Redis, Uncached};
use crate::servers::{Running, Tuning};

const REQUESTS: u64 = 40_000;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let mut counts = Vec::new();
    for (server, workload) in [(Nginx, Unique), (Redis, Unique), (Uncached, Replay), (Redis, Replay)] {
        let running = bench.start(server, &Tuning::default())?;
        let load = bench.load(&running, workload, Pace::Count(REQUESTS));
        let mut calls = 0.0;
        bench.warmed(load, |load| {
            let counter = Counter::start(&running)?;
            let measured = Bench::run(&running, load)?;
            calls = counter.stop()? / f64::from(u32::try_from(REQUESTS)?);
            Ok(measured)
        })?;
        eprintln!("system calls: {server}, {workload:?}: {calls:.2} a request");
        counts.push(calls);
    }
    let made_of = format!("nginx {:.2}", counts[0]);
    bench.table.put("system calls a request: unique", counts[1], made_of)?;
    bench.table.put("system calls a request: replay", counts[2], format!("from the local cache {:.2}", counts[3]))
}

/// A counter that watches all threads of a server.
struct Counter {
    process: Process,
    result: std::path::PathBuf,
    perf: bool,
}

impl Counter {
    fn start(running: &Running) -> Result<Self> {
        let ids: Vec<String> = running.process()?.ids()?.iter().map(ToString::to_string).collect();
        let result = running.folder().join("counted");
        let log = running.folder().join("counter.log");
        let perf = perf_counts();
        let mut command = if perf {
            let mut command = Command::new("perf");
            command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", &ids.join(","), "-o"]).arg(&result);
            command
        } else {
            let mut command = Command::new("strace");
            command.args(["-c", "-f", "-o"]).arg(&result);
            for id in &ids {
                command.args(["-p", id]);
            }
            command
        };
        let process = Process::spawn(&mut command, &log, None).context("perf or strace is needed")?;
        let counter = Self { process, result, perf };
        counter.wait_until_it_watches(&log, ids.len())?;
        Ok(counter)
    }

    fn wait_until_it_watches(&self, log: &Path, processes: usize) -> Result<()> {
        let begun = Clock::instant();
        loop {
            let watches = if self.perf {
                self.process.opened("perf_event")? >= processes
            } else {
                fs::read_to_string(log)?.matches("attached").count() >= processes
            };
            if watches {
                return Ok(());
            }
            ensure!(begun.elapsed() < Duration::from_secs(10), "no counter:\n{}", fs::read_to_string(log)?);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(mut self) -> Result<f64> {
        self.process.signal("INT")?;
        self.process.wait()?;
        let text = fs::read_to_string(&self.result)?;
        let count = if self.perf {
            text.lines().find_map(|line| line.split_once(",,raw_syscalls")?.0.parse().ok())
        } else {
            // The last line: percent, seconds, microseconds a call, calls, errors, "total".
            text.lines()
                .find(|line| line.ends_with("total"))
                .and_then(|line| line.split_whitespace().nth(3)?.parse().ok())
        };
        count.with_context(|| format!("no count in\n{text}"))
    }
}

fn perf_counts() -> bool {
    let perf = Command::new("perf").args(["stat", "-e", "raw_syscalls:sys_enter", "true"]).output();
    perf.is_ok_and(|output| output.status.success())
}
