//! What all parts of the bench share: the upstream, the table, and how one load on one server is measured and verified.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use oncegate::clock::Clock;

use crate::Arguments;
use crate::generator::{Load, Pace, Sent};
use crate::goals::Table;
use crate::processes::own_time;
use crate::requests::{HELD, HELD_BEGIN, Looks, POOL, POOL_BEGINS, Workload};
use crate::servers::{Running, Server, Setup, Tuning, Used};
use crate::upstream::{Executions, Upstream};

pub(crate) struct Bench {
    pub(crate) seconds: Duration,
    pub(crate) rounds: usize,
    pub(crate) connections: usize,
    /// Requests a second where they are paced.
    pub(crate) rate: u32,
    /// What its requests look like.
    pub(crate) looks: Looks,
    pub(crate) setup: Setup,
    pub(crate) upstream: Upstream,
    pub(crate) table: Table,
    loads: AtomicU64,
}

/// One server under one load.
pub(crate) struct Measured {
    pub(crate) sent: Sent,
    pub(crate) used: Used,
    /// Of clients and upstream, which share the machine.
    own: Duration,
}

impl Measured {
    /// Requests in a second.
    #[expect(clippy::cast_precision_loss, reason = "requests of a run are far from the limits of a double")]
    pub(crate) fn throughput(&self) -> f64 {
        self.sent.requests as f64 / self.sent.elapsed.as_secs_f64()
    }

    /// Microseconds of processor time for a request, of the gateway alone.
    pub(crate) fn gateway(&self) -> f64 {
        self.micros(self.used.gateway)
    }

    /// What of that is in user space.
    pub(crate) fn user(&self) -> f64 {
        self.micros(self.used.user)
    }

    /// The same, with its store.
    pub(crate) fn with_store(&self) -> f64 {
        self.micros(self.used.gateway + self.used.store)
    }

    /// Redis commands for a request.
    #[expect(clippy::cast_precision_loss, reason = "commands of a run are far from the limits of a double")]
    pub(crate) fn commands(&self) -> f64 {
        self.used.commands as f64 / self.sent.requests as f64
    }

    /// The same of the bench itself.
    pub(crate) fn own(&self) -> f64 {
        self.micros(self.own)
    }

    #[expect(clippy::cast_precision_loss, reason = "requests of a run are far from the limits of a double")]
    fn micros(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 1e6 / self.sent.requests as f64
    }
}

impl Bench {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        let upstream = Upstream::start().context("the upstream")?;
        let gateway = arguments.gateway.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_oncegate").into());
        Ok(Self {
            seconds: Duration::from_secs(arguments.seconds),
            rounds: arguments.rounds,
            connections: arguments.connections,
            rate: arguments.rate,
            looks: if arguments.train { Looks::Training } else { Looks::Measured },
            setup: Setup { upstream: upstream.port(), gateway },
            upstream,
            table: Table::default(),
            loads: AtomicU64::new(0),
        })
    }

    pub(crate) fn start(&self, server: Server, tuning: &Tuning) -> Result<Running> {
        server.start(&self.setup, tuning).with_context(|| format!("starting {server}"))
    }

    /// A load whose keys nobody has used before.
    pub(crate) fn load(&self, running: &Running, workload: Workload, pace: Pace) -> Load {
        Load {
            port: running.port,
            connections: self.connections,
            outstanding: self.connections,
            workload,
            looks: self.looks,
            prefix: format!("load-{:04}", self.loads.fetch_add(1, Ordering::Relaxed)),
            first: 0,
            pace,
        }
    }

    /// Warms the server up, measures it under the load, and checks that the upstream executed each operation once.
    pub(crate) fn measure(&self, running: &Running, workload: Workload, pace: Pace) -> Result<Measured> {
        self.measure_load(running, self.load(running, workload, pace))
            .with_context(|| format!("{}, {workload:?}", running.server))
    }

    pub(crate) fn measure_load(&self, running: &Running, load: Load) -> Result<Measured> {
        self.warmed(load, |load| Self::run(running, load))
    }

    /// The load alone, and what it uses; not what its connections take to be made and closed.
    pub(crate) fn run(running: &Running, load: Load) -> Result<Measured> {
        let (connections, mut looks) = (load.connections, Vec::new());
        let sent = load.run_watched(|| {
            if looks.is_empty() {
                running.has_accepted(connections)?;
            }
            looks.push((running.used()?, own_time()?));
            Ok(())
        })?;
        let [(before, own_before), (after, own)] = looks[..] else { bail!("the load was not watched") };
        Ok(Measured { sent, used: after.since(&before), own: own.saturating_sub(own_before) })
    }

    /// Sends what the load repeats, and lets its connections and caches grow warm, before `work` sends the load itself.
    /// Nothing else may be under way at the upstream.
    pub(crate) fn warmed(&self, load: Load, work: impl FnOnce(Load) -> Result<Measured>) -> Result<Measured> {
        self.upstream.forget();
        if load.workload == Workload::InFlight {
            return self.held(load, work);
        }
        let workload = match load.workload {
            Workload::Replay | Workload::Mix => Workload::Unique,
            own => own,
        };
        let pool = Load { workload, first: POOL_BEGINS, pace: Pace::Count(POOL), ..load.clone() };
        let pool = pool.run()?;
        let measured = work(load)?;
        self.verify(pool.fresh + measured.sent.fresh)?;
        Ok(measured)
    }

    /// The same, while the operations that it repeats are under way.
    fn held(&self, load: Load, work: impl FnOnce(Load) -> Result<Measured>) -> Result<Measured> {
        let connections = usize::try_from(HELD)?;
        let held = Load { workload: Workload::Unique, first: HELD_BEGIN, pace: Pace::Count(HELD), ..load.clone() };
        let held = Load { connections, outstanding: connections, ..held };
        self.upstream.hold(true);
        std::thread::scope(|scope| {
            let held = scope.spawn(move || held.run());
            let measured = self.await_executions(HELD).and_then(|()| work(load));
            self.upstream.hold(false);
            let held = held.join().map_err(|_| anyhow!("the clients of what is held panicked"))??;
            let measured = measured?;
            self.verify(held.fresh + measured.sent.fresh)?;
            Ok(measured)
        })
    }

    fn await_executions(&self, requests: u64) -> Result<()> {
        let begun = Clock::instant();
        while self.upstream.executions().requests < requests {
            ensure!(begun.elapsed() < Duration::from_secs(30), "requests do not reach the upstream");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether the upstream executed so many operations, each of them once.
    pub(crate) fn verify(&self, operations: u64) -> Result<()> {
        let (done, due) = (self.upstream.executions(), Executions { keys: operations, requests: operations });
        ensure!(done == due, "executed were {done:?}, not {due:?}");
        Ok(())
    }
}
