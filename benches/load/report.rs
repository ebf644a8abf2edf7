//! The bench's table: medians over the rounds, latencies over all of them, ratios to nginx.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Workload;
use crate::generator::Sent;
use crate::processes::{Server, Used};

/// One server under one load, in one round.
pub(crate) struct Measured {
    pub(crate) sent: Sent,
    pub(crate) used: Used,
}

#[expect(clippy::cast_precision_loss, reason = "requests of a few seconds are far from the limits of a double")]
impl Measured {
    /// Requests in a second.
    pub(crate) fn throughput(&self) -> f64 {
        self.sent.requests as f64 / self.sent.elapsed.as_secs_f64()
    }

    /// Microseconds of processor time for a request.
    fn micros(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 1e6 / self.sent.requests as f64
    }
}

/// All that was measured.
#[derive(Default)]
pub(crate) struct Table(Vec<(Workload, Server, Measured)>);

/// A line of the table.
struct Line {
    throughput: f64,
    latency: Histogram<u64>,
    gateway: f64,
    with_store: f64,
}

impl Table {
    pub(crate) fn add(&mut self, workload: Workload, server: Server, measured: Measured) {
        self.0.push((workload, server, measured));
    }

    pub(crate) fn print(&self, workloads: &[Workload], servers: &[Server]) {
        println!("requests/s and processor time: median of the rounds, ratio to nginx in parentheses");
        println!(
            "{:<8}{:<20}{:>18}{:>10}{:>10}{:>22}{:>22}",
            "load", "server", "requests/s", "p50 us", "p99 us", "gateway us/request", "with its store"
        );
        for &workload in workloads {
            let plain = self.line(workload, Server::Nginx);
            for &server in servers {
                if let Some(line) = self.line(workload, server) {
                    print(workload, server, &line, plain.as_ref());
                }
            }
        }
    }

    fn line(&self, workload: Workload, server: Server) -> Option<Line> {
        let rounds = self.0.iter().filter(|(w, s, _)| (*w, *s) == (workload, server));
        let rounds: Vec<&Measured> = rounds.map(|(_, _, measured)| measured).collect();
        let mut latency = rounds.first()?.sent.latency.clone();
        for round in &rounds[1..] {
            latency.add(&round.sent.latency).ok()?;
        }
        let median_of = |value: &dyn Fn(&Measured) -> f64| median(rounds.iter().map(|round| value(round)).collect());
        Some(Line {
            throughput: median_of(&Measured::throughput),
            latency,
            gateway: median_of(&|round| round.micros(round.used.gateway)),
            with_store: median_of(&|round| round.micros(round.used.gateway + round.used.store)),
        })
    }
}

fn print(workload: Workload, server: Server, line: &Line, plain: Option<&Line>) {
    let ratio = |value: f64, of: &dyn Fn(&Line) -> f64| {
        plain.map_or_else(|| format!("{value:.1}"), |plain| format!("{value:.1} ({:.2})", value / of(plain)))
    };
    println!(
        "{:<8}{server:<20}{:>18}{:>10}{:>10}{:>22}{:>22}",
        format!("{workload:?}").to_lowercase(),
        ratio(line.throughput.round(), &|plain| plain.throughput),
        line.latency.value_at_quantile(0.5),
        line.latency.value_at_quantile(0.99),
        ratio(line.gateway, &|plain| plain.gateway),
        ratio(line.with_store, &|plain| plain.with_store),
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
