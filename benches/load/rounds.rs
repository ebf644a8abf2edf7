//! Processor time and requests a second: each server under each load, round after round, beside nginx in the same round;
//! and the plain loop that the embedded store's speed is compared with.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use oncegate::clock::Clock;

use crate::bench::{Bench, Measured};
use crate::generator::{Pace, Sent};
use crate::goals::{median, number};
use crate::requests::Workload::{self, Fingerprint, InFlight, Mix, Plain, Replay, Unique};
use crate::servers::Server::{self, Embedded, Nginx, Redis, Uncached};
use crate::servers::Tuning;

/// Each server is started alone, so that none takes processor time from another.
const SERVERS: [(Server, &[Workload]); 4] = [
    (Nginx, &[Unique]),
    (Redis, &[Unique, Fingerprint, InFlight, Plain, Replay]),
    (Uncached, &[Replay, Mix]),
    (Embedded, &[Unique, Replay]),
];
/// About what a record takes.
const APPENDED: usize = 512;
const APPENDING: Duration = Duration::from_secs(1);

type Value = fn(&Measured) -> f64;

/// Each server under each load, in all rounds.
struct Rows(Vec<(Server, Workload, Vec<Measured>)>);

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let mut rows = Rows(Vec::new());
    for (server, workloads) in SERVERS {
        rows.0.extend(workloads.iter().map(|&workload| (server, workload, Vec::new())));
    }
    let mut appended = Vec::new();
    for round in 1..=bench.rounds {
        for (server, workloads) in SERVERS {
            let running = bench.start(server, &Tuning::default())?;
            if server == Embedded {
                appended.push(append(running.folder())?);
            }
            for &workload in workloads {
                let measured = bench.measure(&running, workload, Pace::During(bench.seconds))?;
                eprintln!("round {round}: {server}, {workload:?}: {:.0} requests/s", measured.throughput());
                rows.of(server, workload)?.push(measured);
            }
        }
    }
    rows.print()?;
    rows.goals(bench)?;
    let requests = rows.median((Embedded, Unique), Measured::throughput)?;
    let appended = median(appended);
    let made_of = format!("{} to {} a second", number(requests), number(appended));
    bench.table.put("embedded, unique POST: to append + fdatasync", requests / appended, made_of)
}

/// How often a second a loop appends to a file and syncs it.
fn append(folder: &Path) -> Result<f64> {
    let mut file = File::create(folder.join("appended"))?;
    let (begun, mut writes) = (Clock::instant(), 0_u32);
    while begun.elapsed() < APPENDING {
        file.write_all(&[b'x'; APPENDED])?;
        file.sync_data()?;
        writes += 1;
    }
    Ok(f64::from(writes) / begun.elapsed().as_secs_f64())
}

impl Rows {
    fn of(&mut self, server: Server, workload: Workload) -> Result<&mut Vec<Measured>> {
        let row = self.0.iter_mut().find(|(s, w, _)| (*s, *w) == (server, workload));
        row.map(|(.., rounds)| rounds).context("no such row")
    }

    fn get(&self, server: Server, workload: Workload) -> Result<&[Measured]> {
        let row = self.0.iter().find(|(s, w, _)| (*s, *w) == (server, workload));
        row.map(|(.., rounds)| &**rounds).context("no such row")
    }

    fn median(&self, (server, workload): (Server, Workload), value: Value) -> Result<f64> {
        Ok(median(self.get(server, workload)?.iter().map(value).collect()))
    }

    /// To nginx in the same round.
    fn ratio(&self, (server, workload): (Server, Workload), value: Value) -> Result<f64> {
        let pairs = self.get(server, workload)?.iter().zip(self.get(Nginx, Unique)?);
        Ok(median(pairs.map(|(own, nginx)| value(own) / value(nginx)).collect()))
    }

    fn print(&self) -> Result<()> {
        println!(
            "\nmedians of the rounds; in parentheses to nginx in the same round; latencies of all rounds together"
        );
        println!(
            "| server | load | requests/s | gateway, us | in user space | with Redis, us | Redis commands | p50, us | p99, us | \
             p99.9, us | the bench itself, us |\n|---|---|---|---|---|---|---|---|---|---|---|"
        );
        for (server, workload, rounds) in &self.0 {
            let row = (*server, *workload);
            let both = |value: Value| -> Result<String> {
                Ok(format!("{} ({:.2})", number(self.median(row, value)?), self.ratio(row, value)?))
            };
            let mut sent = Sent::nothing()?;
            rounds.iter().try_for_each(|round| sent.add(&round.sent))?;
            println!(
                "| {server} | {workload:?} | {} | {} | {:.1} | {} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} |",
                both(Measured::throughput)?,
                both(Measured::gateway)?,
                self.median(row, Measured::user)?,
                both(Measured::with_store)?,
                self.median(row, Measured::commands)?,
                sent.micros(0.5),
                sent.micros(0.99),
                sent.micros(0.999),
                self.median(row, Measured::own)?,
            );
        }
        Ok(())
    }

    fn goals(&self, bench: &mut Bench) -> Result<()> {
        let (gateway, both, speed): (Value, Value, Value) =
            (Measured::gateway, Measured::with_store, Measured::throughput);
        let goals: [(&str, (Server, Workload), Value); 11] = [
            ("unique POST: gateway", (Redis, Unique), gateway),
            ("unique POST: gateway and Redis", (Redis, Unique), both),
            ("unique POST: requests a second", (Redis, Unique), speed),
            ("unique POST by fingerprint: gateway", (Redis, Fingerprint), gateway),
            ("replay from Redis: gateway", (Uncached, Replay), gateway),
            ("replay from Redis: gateway and Redis", (Uncached, Replay), both),
            ("replay from Redis: requests a second", (Uncached, Replay), speed),
            ("replay from the local cache: gateway and Redis", (Redis, Replay), both),
            ("409 for a duplicate in flight: gateway", (Redis, InFlight), gateway),
            ("50/50 mix: gateway and Redis", (Uncached, Mix), both),
            ("plain route: gateway", (Redis, Plain), gateway),
        ];
        for (what, row, value) in goals {
            let made_of =
                format!("{} to {}", number(self.median(row, value)?), number(self.median((Nginx, Unique), value)?));
            bench.table.put(what, self.ratio(row, value)?, made_of)?;
        }
        let commands: u64 = self.get(Redis, Replay)?.iter().map(|round| round.used.commands).sum();
        let requests: u64 = self.get(Redis, Replay)?.iter().map(|round| round.sent.requests).sum();
        let made_of = format!("{commands} for {requests} requests");
        bench.table.put("replay from the local cache: Redis commands", f64::from(u32::try_from(commands)?), made_of)
    }
}
