//! Builds the whole gateway from its settings, runs it, and takes it down in order. Nothing is decided here.

mod demo;
mod house;
mod worker;

pub use demo::{DemoError, demo};

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::arbiter::{self, Lines, ReplayCache, Unconfirmed};
use crate::clock::Clock;
use crate::config::Settings;
use crate::gateway;
use crate::server::{self, Connections, Doorway};
use crate::store::filter::Filter;
use crate::store::{self, OpenError, Opened};
use crate::telemetry::Metrics;

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The store cannot be opened, or may not be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store is there, and must not be used.
    #[error("the store must not be used: {0}")]
    Refused(String),
    /// The filter's settings.
    #[error("filter: {0}")]
    Filter(#[from] store::filter::SettingsError),
    /// Two routes or upstreams cannot be told apart in the metrics.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A thread or a runtime cannot be had.
    #[error("cannot start a worker: {0}")]
    Thread(#[source] io::Error),
}

/// A gateway that runs.
pub struct Running {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

/// What every thread of the gateway is built from.
#[derive(Clone)]
struct Parts {
    settings: Arc<Settings>,
    store: Arc<Opened>,
    arbiter: Arc<arbiter::Shared>,
    gateway: Arc<gateway::Shared>,
    stop: CancellationToken,
}

/// Starts the gateway; returns when it listens.
///
/// # Errors
/// When it cannot: then nothing is left running.
pub fn start(settings: Settings) -> Result<Running, StartError> {
    raise_descriptor_limit();
    let clock = Clock::system();
    let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect::<Vec<_>>();
    let metrics = Arc::new(Metrics::new(
        &names(&mut settings.gateway.routes.iter().map(|route| &route.name)),
        &names(&mut settings.upstreams.iter().map(|upstream| &upstream.name)),
    )?);
    let store = store::open(&settings.store, &clock)?;
    if let Some(reason) = runtime().map_err(StartError::Thread)?.block_on(store.refusal())? {
        return Err(StartError::Refused(reason));
    }
    let listeners = server::bind(settings.server.listen, settings.server.workers)
        .map_err(|error| StartError::Listen(settings.server.listen, error))?;
    let address = listeners[0].local_addr().map_err(StartError::Thread)?;
    let admin = settings.admin.listen.map(house::bind).transpose()?;
    let admin_address =
        admin.as_ref().map(std::net::TcpListener::local_addr).transpose().map_err(StartError::Thread)?;
    let stop = CancellationToken::new();
    let parts = Parts {
        arbiter: Arc::new(arbiter::Shared {
            filter: Filter::new(settings.filter, clock.clone())?,
            cache: ReplayCache::new(settings.replay_cache),
            lines: Lines::new(settings.gateway.limits.waiters),
            unconfirmed: Unconfirmed::default(),
            tasks: TaskTracker::new(),
            give_up: CancellationToken::new(),
            metrics: Arc::clone(&metrics),
            clock,
        }),
        gateway: Arc::new(gateway::Shared::new(settings.gateway.clone(), metrics)),
        store: Arc::new(store),
        settings: Arc::new(settings),
        stop: stop.clone(),
    };
    let doorway = parts.doorway();
    let mut running = Running { address, admin: admin_address, stop, threads: Vec::new() };
    for listener in listeners {
        running.spawn(
            "oncegate-worker",
            worker::run(parts.clone(), parts.store.for_worker()?, listener, doorway.clone()),
        )?;
    }
    running.spawn("oncegate-house", house::run(parts.clone(), parts.store.for_worker()?, admin))?;
    tracing::info!(%address, admin = ?admin_address, "listening");
    Ok(running)
}

/// Runs the gateway until a signal ends it: the first SIGTERM or SIGINT drains, the second ends at once.
///
/// # Errors
/// When it cannot start.
pub fn serve(settings: Settings) -> Result<(), StartError> {
    let running = start(settings)?;
    runtime().map_err(StartError::Thread)?.block_on(async move {
        let mut signals = Signals::new().map_err(StartError::Thread)?;
        signals.next().await;
        tracing::info!("stopping: no new connections, requests under way are finished");
        let stopped = tokio::task::spawn_blocking(move || running.stop());
        tokio::select! {
            _ = stopped => tracing::info!("stopped"),
            () = signals.next() => tracing::warn!("stopped at once: attempts under way will be in doubt"),
        }
        Ok(())
    })
}

struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.0.recv() => {}, _ = self.1.recv() => {} }
    }
}

impl Running {
    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Stops in order: takes no new connections, finishes and records what is under way, within `drain_timeout`.
    pub fn stop(self) {
        self.stop.cancel();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread ended by a panic");
            }
        }
    }

    fn spawn(&mut self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> Result<(), StartError> {
        let run = || -> io::Result<JoinHandle<()>> {
            let runtime = runtime()?;
            std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work))
        };
        match run() {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                self.stop.cancel();
                return Err(StartError::Thread(error));
            }
        }
        Ok(())
    }
}

impl Parts {
    fn doorway(&self) -> Doorway {
        let limits = &self.settings.gateway.limits;
        Doorway {
            connections: Connections::new(limits.connections),
            header_timeout: limits.header_timeout,
            stop: self.stop.clone(),
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// As many open files as this process may have: every connection is one.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// How long the end of a drain may take on top: the doubts of attempts that were given up are still written.
const LAST_WRITES: Duration = Duration::from_secs(2);
