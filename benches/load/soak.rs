//! The soak: a mixed, paced load for as long as is wanted, over Redis and over the embedded store side by side, and each
//! minute what the gateways hold and how fast they answer. Early minutes, after the warm-up, are compared with the last.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use crate::bench::{Bench, Measured};
use crate::generator::Pace;
use crate::goals::median;
use crate::requests::Workload::All;
use crate::servers::Server::{Embedded, Redis};
use crate::servers::{Running, Tuning};

/// Short enough that records come and go, and the filter's generations too, many times in half an hour.
const OFTEN: (&str, &str, u64) = ("60s", "10s", 200_000);
const MINUTE: Duration = Duration::from_mins(1);
const MIB: f64 = 1024.0 * 1024.0;

/// What a minute was like.
struct Minute {
    resident: f64,
    store: f64,
    descriptors: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    processor: f64,
}

type Value = fn(&Minute) -> f64;

const COLUMNS: [(&str, Value); 7] = [
    ("resident, MiB", |minute| minute.resident),
    ("store, MiB", |minute| minute.store),
    ("descriptors", |minute| minute.descriptors),
    ("p50, us", |minute| minute.p50),
    ("p99, us", |minute| minute.p99),
    ("p99.9, us", |minute| minute.p999),
    ("gateway, us a request", |minute| minute.processor),
];

pub(crate) fn measure(bench: &Bench, minutes: usize) -> Result<()> {
    ensure!(minutes >= 4, "a soak of fewer than four minutes shows nothing");
    let (retention, sweep, filter) = OFTEN;
    let tuning = Tuning { retention, sweep, filter, ..Tuning::default() };
    let gateways = [bench.start(Redis, &tuning)?, bench.start(Embedded, &tuning)?];
    println!("{} requests/s to each, records live {retention}", bench.rate / 2);
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    println!("| minute | server | {} |\n|---|---|{}", names.join(" | "), "---|".repeat(COLUMNS.len()));
    let mut passed = [const { Vec::new() }; 2];
    for number in 1..=minutes {
        for ((gateway, measured), passed) in gateways.iter().zip(both(bench, &gateways)?).zip(&mut passed) {
            let minute = Minute::after(gateway, &measured)?;
            line(&number.to_string(), gateway, |value| format!("{:.1}", value(&minute)));
            passed.push(minute);
        }
    }
    for (gateway, minutes) in gateways.iter().zip(&passed) {
        let (early, last) = compared(minutes);
        let of = |minutes: &[Minute], value: Value| median(minutes.iter().map(value).collect());
        line("last to early", gateway, |value| format!("{:.2}", of(last, value) / of(early, value)));
    }
    Ok(())
}

/// A minute of load on both; together they execute each operation once.
fn both(bench: &Bench, gateways: &[Running; 2]) -> Result<Vec<Measured>> {
    bench.upstream.forget();
    let measured: Vec<Measured> = std::thread::scope(|scope| {
        let run = |gateway| {
            let load = bench.load(gateway, All, Pace::Rate(bench.rate / 2, MINUTE));
            scope.spawn(move || Bench::run(gateway, load))
        };
        let runs: Vec<_> = gateways.iter().map(run).collect();
        runs.into_iter().map(|run| run.join().map_err(|_| anyhow!("the clients panicked"))?).collect::<Result<_>>()
    })?;
    bench.verify(measured.iter().map(|measured| measured.sent.fresh).sum())?;
    Ok(measured)
}

fn line(first: &str, gateway: &Running, cell: impl Fn(Value) -> String) {
    let cells: Vec<String> = COLUMNS.iter().map(|(_, value)| cell(*value)).collect();
    println!("| {first} | {} | {} |", gateway.server, cells.join(" | "));
}

/// A fifth of the minutes after the first fifth, in which caches fill; and the last fifth.
fn compared(minutes: &[Minute]) -> (&[Minute], &[Minute]) {
    let part = minutes.len().div_ceil(5);
    (&minutes[part..2 * part], &minutes[minutes.len() - part..])
}

impl Minute {
    #[expect(clippy::cast_precision_loss, reason = "memory and counts are far from the limits of a double")]
    fn after(gateway: &Running, measured: &Measured) -> Result<Self> {
        let store = gateway.stored()?;
        Ok(Self {
            resident: gateway.process()?.resident()? as f64 / MIB,
            store: store as f64 / MIB,
            descriptors: gateway.process()?.descriptors()? as f64,
            p50: measured.sent.micros(0.5),
            p99: measured.sent.micros(0.99),
            p999: measured.sent.micros(0.999),
            processor: measured.gateway(),
        })
    }
}
