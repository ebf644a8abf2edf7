//! Memory: of Redis for each key, of the gateway idle and with many connections, of the filter; and the filter's time.

use std::hint::black_box;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use oncegate::clock::Clock;
use oncegate::machine::OperationId;
use oncegate::store::filter::{Filter, Settings};

use crate::bench::Bench;
use crate::generator::Pace;
use crate::processes::own_memory;
use crate::requests::Workload::Unique;
use crate::requests::{Looks, Requests, ask};
use crate::servers::Server::{self, Lua, Nginx, Redis};
use crate::servers::{Running, Tuning};

const KEYS: u32 = 100_000;
const CONNECTIONS: u64 = 10_000;
const MIB: f64 = 1024.0 * 1024.0;
/// What the filter is measured with: full, it is far larger than any processor cache.
const CAPACITY: u32 = 4_000_000;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let own = redis_a_key(bench, Redis)?;
    let lua = redis_a_key(bench, Lua)?;
    let made_of = format!("{KEYS} keys; nginx + Lua {lua:.0}");
    bench.table.put("Redis bytes a key at a 400 B answer", own, made_of)?;
    let mut resident = Vec::new();
    for server in [Nginx, Redis] {
        let running = bench.start(server, &Tuning::default())?;
        let mut connections = Vec::new();
        let idle = after(&running, &mut connections, 1)?;
        resident.push((idle, after(&running, &mut connections, CONNECTIONS)?));
    }
    let (nginx, own) = (resident[0], resident[1]);
    bench.table.put("resident MiB: idle", own.0, format!("nginx {:.1}", nginx.0))?;
    bench.table.put("resident MiB: 10,000 connections", own.1, format!("nginx {:.1}", nginx.1))
}

/// What Redis takes for each of many operations, its tables of keys and expiries included.
fn redis_a_key(bench: &Bench, server: Server) -> Result<f64> {
    let running = bench.start(server, &Tuning::default())?;
    let redis = running.redis()?;
    let mut before = 0;
    let load = bench.load(&running, Unique, Pace::Count(u64::from(KEYS)));
    bench.warmed(load, |load| {
        before = redis.memory()?;
        Bench::run(&running, load)
    })?;
    // Its tables grow in steps, in the background.
    let mut after = redis.memory()?;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = redis.memory()?;
        if now.abs_diff(after) < u64::from(KEYS) {
            return Ok(f64::from(u32::try_from(now.saturating_sub(before))?) / f64::from(KEYS));
        }
        after = now;
    }
}

/// Resident memory in MiB when so many connections are open, each of which has sent one order.
fn after(running: &Running, connections: &mut Vec<TcpStream>, wanted: u64) -> Result<f64> {
    let mut requests = Requests::new("memory", Looks::Measured);
    for number in connections.len() as u64..wanted {
        let mut connection = TcpStream::connect(("127.0.0.1", running.port))?;
        ask(&mut connection, &mut requests, number).with_context(|| format!("connection {number}"))?;
        connections.push(connection);
    }
    mebibytes(running.process()?.resident()?)
}

fn mebibytes(bytes: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(bytes / 1024)?) * 1024.0 / MIB)
}

/// The filter alone, in this process: what its pages take when they are used, and the time of a check and an insertion.
pub(crate) fn measure_filter(bench: &mut Bench) -> Result<()> {
    let settings = Settings {
        capacity: usize::try_from(CAPACITY)?,
        false_positive_rate: 0.00001,
        lifetime: Duration::from_hours(1),
    };
    // The first look and the first filter take memory that is not this filter's.
    own_memory()?;
    let first = Filter::new(Settings { capacity: 1, ..settings }, Clock::system())?;
    first.insert(&operation(0));
    drop(first);
    let before = own_memory()?;
    let filter = Filter::new(settings, Clock::system())?;
    let empty = own_memory()?.saturating_sub(before);
    let mut ids = (0..CAPACITY / 20 * 19).map(operation);
    let begun = Clock::instant();
    let mut done = 0_u32;
    for id in &mut ids {
        black_box(filter.check(&id));
        filter.insert(&id);
        done += 1;
    }
    let nanos = begun.elapsed().as_secs_f64() * 1e9 / f64::from(done);
    let full = own_memory()?.saturating_sub(before);
    drop(filter);
    let idle = |filter| -> Result<f64> {
        let running = bench.start(Redis, &Tuning { filter, ..Tuning::default() })?;
        mebibytes(running.process()?.resident()?)
    };
    let untouched = idle(u64::from(CAPACITY) * 10)? - idle(1_000)?;
    let running = bench.start(Redis, &Tuning::default())?;
    let unique = bench.measure(&running, Unique, Pace::During(bench.seconds))?.gateway();
    let made_of = format!("{nanos:.0} ns of {unique:.1} us, the filter filled to 95 %");
    bench.table.put("filter: processor time, percent of a unique POST", nanos / unique / 10.0, made_of)?;
    let bytes = mebibytes(full)? * MIB / f64::from(CAPACITY);
    let made_of = format!(
        "of {CAPACITY} keys; {:.1} MiB before the first, in a gateway with ten times as many {untouched:.1} MiB",
        mebibytes(empty)?
    );
    bench.table.put("filter: bytes a key of capacity and generation", bytes, made_of)
}

/// An id whose bits are as spread as a digest's.
fn operation(n: u32) -> OperationId {
    let mut id = [0; 32];
    let mut state = u64::from(n) + 1;
    for part in id.chunks_exact_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        part.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    OperationId(id)
}
