//! How cost grows with live keys, with routes, and with connections: processor time a request, small beside large.

use anyhow::Result;

use crate::bench::Bench;
use crate::generator::{Load, Pace};
use crate::goals::{median, number};
use crate::requests::Workload::Unique;
use crate::servers::Server::{Nginx, Redis};
use crate::servers::{Running, Tuning};

const KEYS: u64 = 1_000_000;
const ROUTES: usize = 499;
const CONNECTIONS: usize = 5_000;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    keys(bench)?;
    routes(bench)?;
    connections(bench)
}

/// Each time beside nginx: filling takes a minute, in which the machine may change.
fn keys(bench: &mut Bench) -> Result<()> {
    let running = bench.start(Redis, &Tuning::default())?;
    let empty = running.process()?.resident()?;
    let nginx = bench.start(Nginx, &Tuning::default())?;
    let to_nginx = || -> Result<f64> {
        let ratios = (0..bench.rounds).map(|_| {
            let plain = bench.measure(&nginx, Unique, short(bench))?.gateway();
            Ok(bench.measure(&running, Unique, short(bench))?.gateway() / plain)
        });
        Ok(median(ratios.collect::<Result<_>>()?))
    };
    let few = to_nginx()?;
    bench.measure(&running, Unique, Pace::Count(KEYS))?;
    let (keys, resident) = (running.redis()?.keys()?, running.process()?.resident()?.saturating_sub(empty));
    let many = to_nginx()?;
    let made_of = format!("{} to nginx, then {}", number(few), number(many));
    bench.table.put("growth: 1,000 to 1,000,000 live keys", many / few, made_of)?;
    let bytes = f64::from(u32::try_from(resident)?) / f64::from(keys);
    let made_of = format!("{} MiB more with {keys} keys, its full caches among them", resident >> 20);
    bench.table.put("resident bytes per live key", bytes, made_of)
}

/// As short as a round can be that tells something: there are many.
fn short(bench: &Bench) -> Pace {
    Pace::During(bench.seconds / 2)
}

fn routes(bench: &mut Bench) -> Result<()> {
    let mut ratios = Vec::new();
    let mut last = (0.0, 0.0);
    for _ in 0..bench.rounds {
        let gateway = |routes| {
            let running = bench.start(Redis, &Tuning { routes, ..Tuning::default() })?;
            anyhow::Ok(bench.measure(&running, Unique, short(bench))?.gateway())
        };
        last = (gateway(0)?, gateway(ROUTES)?);
        ratios.push(last.1 / last.0);
    }
    let made_of = format!("{:.1} us, then {:.1}", last.0, last.1);
    bench.table.put("growth: 1 to 500 routes", median(ratios), made_of)
}

/// The same load, as many requests under way: over more connections, each used in its turn. The kernel's part of it grows
/// for nginx too, so that the goal is that oncegate's own does not.
fn connections(bench: &mut Bench) -> Result<()> {
    let running = [bench.start(Nginx, &Tuning::default())?, bench.start(Redis, &Tuning::default())?];
    let mut ratios = [const { Vec::new() }; 2];
    for _ in 0..bench.rounds {
        for (running, ratios) in running.iter().zip(&mut ratios) {
            let few = over(bench, running, bench.connections)?;
            ratios.push(over(bench, running, CONNECTIONS)? / few);
        }
    }
    let [nginx, own] = ratios.map(median);
    bench.table.put("growth: 64 to 5,000 connections", own / nginx, format!("{own:.2}, nginx {nginx:.2}"))
}

fn over(bench: &Bench, running: &Running, connections: usize) -> Result<f64> {
    let load = bench.load(running, Unique, short(bench));
    Ok(bench.measure_load(running, Load { connections, ..load })?.gateway())
}
