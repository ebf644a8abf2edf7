//! Latency: what a gateway adds at one connection, the tails at many, and stalls while everything that comes round in the
//! background comes round all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::bench::Bench;
use crate::generator::{Load, Pace, Sent};
use crate::goals::{median, number};
use crate::requests::Workload::{self, Replay, Unique};
use crate::servers::Server::{self, Direct, Embedded, Lua, Nginx, Redis, Uncached};
use crate::servers::Tuning;

/// What is added to the way without a proxy, and to nginx's own addition.
pub(crate) fn measure_one(bench: &mut Bench) -> Result<()> {
    const SERVERS: [(Server, Workload); 5] =
        [(Direct, Unique), (Nginx, Unique), (Redis, Unique), (Uncached, Replay), (Redis, Replay)];
    let mut rounds = Vec::new();
    for _ in 0..bench.rounds {
        let mut round = [0.0; 5];
        for (place, (server, workload)) in round.iter_mut().zip(SERVERS) {
            let running = bench.start(server, &Tuning::default())?;
            let load = bench.load(&running, workload, Pace::During(bench.seconds / 2));
            let load = Load { connections: 1, outstanding: 1, ..load };
            *place = bench.measure_load(&running, load)?.sent.micros(0.5);
        }
        eprintln!("p50 at one connection, us: {round:.1?}");
        rounds.push(round);
    }
    let of = |place: usize| median(rounds.iter().map(|round| round[place]).collect());
    let added = |place: usize| (of(place) - of(0)) / (of(1) - of(0));
    let goals = ["unique", "replay", "cached replay"];
    for (place, what) in goals.into_iter().enumerate().map(|(at, what)| (at + 2, what)) {
        let what = ["added p50 at one connection: ", what].concat();
        let made_of = format!("{:.0} us; nginx {:.0}, no proxy {:.0}", of(place), of(1), of(0));
        bench.table.put(&what, added(place), made_of)?;
    }
    Ok(())
}

/// The slowest of many, closed loop and paced, beside nginx with Lua.
pub(crate) fn measure_tails(bench: &mut Bench) -> Result<()> {
    let paces = [("at 64 connections", Pace::During(bench.seconds)), ("paced", Pace::Rate(bench.rate, bench.seconds))];
    for (name, pace) in paces {
        let servers = [Nginx, Lua, Redis];
        let mut all: Vec<Sent> = servers.iter().map(|_| Sent::nothing()).collect::<Result<_>>()?;
        for _ in 0..bench.rounds {
            for (server, sent) in servers.into_iter().zip(&mut all) {
                let running = bench.start(server, &Tuning::default())?;
                sent.add(&bench.measure(&running, Unique, pace)?.sent)?;
            }
        }
        println!("\nlatency of unique POSTs {name}, us: p50, p99, p99.9, the longest; how many took over 20 ms");
        for (server, sent) in servers.into_iter().zip(&all) {
            println!("{server}: {}", tail(sent));
        }
        for (share, quantile) in [("p99 ", 0.99), ("p99.9 ", 0.999)] {
            let [lua, redis] = [&all[1], &all[2]].map(|sent| sent.micros(quantile));
            let what = [share, name, ", to nginx + Lua"].concat();
            bench.table.put(&what, redis / lua, format!("{redis:.0} to {lua:.0} us"))?;
        }
    }
    Ok(())
}

fn tail(sent: &Sent) -> String {
    let of = |share| sent.micros(share);
    format!("{:.0}, {:.0}, {:.0}, {:.0}; {} of {}", of(0.5), of(0.99), of(0.999), of(1.0), sent.stalls(), sent.requests)
}

/// Paced, with a sweep and a reload every second, and a filter that is full every few. The embedded store, whose speed is
/// the disk's, gets a quarter of the load.
pub(crate) fn measure_stalls(bench: &mut Bench) -> Result<()> {
    let often = Tuning { retention: "5s", sweep: "1s", filter: 20_000, ..Tuning::default() };
    let pace = |rate| Pace::Rate(rate, bench.seconds * 5);
    let running = bench.start(Nginx, &Tuning::default())?;
    let nginx = bench.measure(&running, Unique, pace(bench.rate))?.sent.stalls();
    drop(running);
    let goals = [
        (Redis, bench.rate, "stalls over 20 ms under sweep, rotation, reload"),
        (Embedded, bench.rate / 4, "stalls over 20 ms, embedded, the same"),
    ];
    for (server, rate, what) in goals {
        let running = bench.start(server, &often)?;
        let over = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            let reloading = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_secs(1));
                    running.process()?.signal("HUP")?;
                }
                anyhow::Ok(())
            });
            let measured = bench.measure(&running, Unique, pace(rate));
            over.store(true, Ordering::Relaxed);
            reloading.join().map_err(|_| anyhow!("the thread that reloads panicked"))??;
            anyhow::Ok(measured?.sent)
        })?;
        println!("{server}, paced, under sweep, rotation, reload: {}", tail(&sent));
        let stalls = f64::from(u32::try_from(sent.stalls())?);
        let made_of = format!("of {}, longest {} ms; nginx {nginx}", sent.requests, number(sent.micros(1.0) / 1e3));
        bench.table.put(what, stalls, made_of)?;
    }
    Ok(())
}
