//! User instructions a request, counted by valgrind in one worker of each server. It is slow, and its processor has no
//! SHA instructions: what SHA-256 takes is told apart.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::Bench;
use crate::generator::{Load, Pace};
use crate::requests::Workload::{self, Replay, Unique};
use crate::servers::Server::{self, Nginx, Redis, Uncached};
use crate::servers::Tuning;

const REQUESTS: u32 = 2_000;
const CONNECTIONS: usize = 16;
/// How many functions are told of each server.
const TOLD: usize = 12;
/// What `callgrind_annotate` calls all functions together.
const TOTALS: &str = "PROGRAM TOTALS";

/// Instructions a request.
struct Counted {
    all: f64,
    digests: f64,
}

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let nginx = count(bench, Nginx, Unique)?;
    let cached = count(bench, Redis, Replay)?;
    let rows = [
        ("user instructions a request: unique", Redis, Unique, String::new()),
        (
            "user instructions a request: replay",
            Uncached,
            Replay,
            format!("; from the local cache {:.0}", cached.own()),
        ),
    ];
    for (what, server, workload, more) in rows {
        let counted = count(bench, server, workload)?;
        let made_of =
            format!("{:.0} to {:.0}, SHA-256 apart: {:.0}{more}", counted.own(), nginx.own(), counted.digests);
        bench.table.put(what, counted.own() / nginx.own(), made_of)?;
    }
    Ok(())
}

impl Counted {
    fn own(&self) -> f64 {
        self.all - self.digests
    }
}

fn count(bench: &Bench, server: Server, workload: Workload) -> Result<Counted> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let result = folder.path().join("callgrind.out");
    let valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"].map(str::to_owned);
    let out = format!("--callgrind-out-file={}", result.display());
    let tuning = Tuning { under: valgrind.into_iter().chain([out]).collect(), ..Tuning::default() };
    let running = bench.start(server, &tuning)?;
    let id = running.process()?.id().to_string();
    let load = bench.load(&running, workload, Pace::Count(u64::from(REQUESTS)));
    let load = Load { connections: CONNECTIONS, outstanding: CONNECTIONS, ..load };
    bench.warmed(load, |load| {
        switch("on", &id)?;
        let measured = Bench::run(&running, load)?;
        switch("off", &id)?;
        Ok(measured)
    })?;
    running.end()?;
    annotate(&result, server, workload)
}

fn switch(to: &str, id: &str) -> Result<()> {
    let output = Command::new("callgrind_control").args(["-i", to, id]).output().context("callgrind_control")?;
    ensure!(output.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Tells where the instructions went. What SHA-256 took is what its outermost function took with all that it called.
fn annotate(result: &Path, server: Server, workload: Workload) -> Result<Counted> {
    let mut own: HashMap<String, f64> = HashMap::new();
    for (function, count) in functions(result, &[])? {
        *own.entry(function).or_default() += count;
    }
    let all = own.remove(TOTALS).context("no totals")?;
    let with_called = functions(result, &["--inclusive=yes"])?;
    let digests = with_called.iter().filter(|(function, _)| function.starts_with("sha2::"));
    let digests = digests.map(|(_, count)| *count).fold(0.0, f64::max);
    let mut own: Vec<_> = own.into_iter().collect();
    own.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    println!("\n{server}, {workload:?}: {all:.0} instructions a request, of them");
    for (function, count) in own.iter().take(TOLD) {
        println!("{count:>9.0}  {function}");
    }
    Ok(Counted { all, digests })
}

/// Functions, and instructions a request of each. Different ones may have one name.
fn functions(result: &Path, options: &[&str]) -> Result<Vec<(String, f64)>> {
    let mut command = Command::new("callgrind_annotate");
    let output = command.args(["--auto=no", "--threshold=100"]).args(options).arg(result).output()?;
    ensure!(output.status.success(), "callgrind_annotate: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(line).map(|(count, function)| (function.to_owned(), count)).collect())
}

/// A line that begins with a count: that, for a request, and of which function, which may have several lines.
fn line(line: &str) -> Option<(f64, &str)> {
    let (count, rest) = line.trim_start().split_once(' ')?;
    let count: f64 = count.replace(',', "").parse().ok()?;
    let place = rest.split_once("%) ").map_or(rest, |(_, place)| place).trim();
    let place = place.split_once(" [").map_or(place, |(place, _)| place);
    Some((count / f64::from(REQUESTS), place.split_once(':').map_or(place, |(_, function)| function)))
}
