//! The end-to-end load bench: oncegate beside nginx as a plain reverse proxy, in interleaved rounds of one run.
//! `tests/bench/run` explains and starts it. It compares ratios; it is no test, though it fails on a wrong answer.

mod bench;
mod calls;
mod generator;
mod goals;
mod growth;
mod instructions;
mod latency;
mod memory;
mod processes;
mod requests;
mod rounds;
mod servers;
mod soak;
mod start;
mod training;
mod upstream;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use bench::Bench;

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
    /// Requests a second where they are paced.
    #[arg(long, default_value_t = 3_000)]
    rate: u32,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["rounds", "calls"])]
    parts: Vec<Part>,
    /// Every part.
    #[arg(long)]
    all: bool,
    /// Instead of all that: a mixed load for so many minutes.
    #[arg(long)]
    soak: Option<usize>,
    /// Instead of all that: what a build that counts is to see (`deploy/build`).
    #[arg(long)]
    train: bool,
    /// Another build of oncegate than this tree's.
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of what can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time and memory of the filter alone, in this process: while that is small.
    Filter,
    /// Processor time and requests a second under each load, in interleaved rounds.
    Rounds,
    /// System calls a request.
    Calls,
    /// What is added to the median latency at one connection.
    Latency,
    /// The slowest answers at many connections, closed loop and paced.
    Tails,
    /// Answers that took long while sweep, rotation and reload come round all the time.
    Stalls,
    /// Memory of Redis for each key, and of the gateway idle and with many connections.
    Memory,
    /// From the start to the first answer.
    Start,
    /// How processor time grows with keys, routes, connections.
    Growth,
    /// User instructions a request.
    Instructions,
}

impl Part {
    fn measure(self, bench: &mut Bench) -> Result<()> {
        match self {
            Self::Rounds => rounds::measure(bench),
            Self::Calls => calls::measure(bench),
            Self::Latency => latency::measure_one(bench),
            Self::Tails => latency::measure_tails(bench),
            Self::Stalls => latency::measure_stalls(bench),
            Self::Memory => memory::measure(bench),
            Self::Filter => memory::measure_filter(bench),
            Self::Start => start::measure(bench),
            Self::Growth => growth::measure(bench),
            Self::Instructions => instructions::measure(bench),
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut bench = Bench::new(&arguments)?;
    if arguments.train {
        return training::run(&bench);
    }
    if let Some(minutes) = arguments.soak {
        return soak::measure(&bench, minutes);
    }
    let parts = if arguments.all { Part::value_variants().to_vec() } else { arguments.parts };
    let measured = parts.into_iter().try_for_each(|part| part.measure(&mut bench));
    // What was measured before something failed is worth reading too.
    bench.table.print();
    measured
}
