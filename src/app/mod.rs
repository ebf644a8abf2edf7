//! Builds the whole gateway from its settings, runs it, and takes it down in order. Nothing is decided here.

mod demo;
mod house;
mod worker;

pub use demo::{DemoError, demo};

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::arbiter::{self, Lines, ReplayCache, Unconfirmed};
use crate::clock::Clock;
use crate::config::Settings;
use crate::gateway;
use crate::server::{self, Connections, Doorway};
use crate::store::filter::Filter;
use crate::store::{self, OpenError, Opened};
use crate::telemetry::{LinesLost, Metrics};
use crate::wire::framing::Limits;

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on: the setting that names it, and the address.
    #[error("cannot listen on {1} (`{0}`): is another process there?")]
    Listen(&'static str, SocketAddr, #[source] io::Error),
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
    lines_lost: LinesLost,
    stop: CancellationToken,
}

/// Starts the gateway; returns when it listens. `lines_lost` counts the log lines that nobody will see.
///
/// # Errors
/// When it cannot: then nothing is left running.
pub fn start(settings: Settings, lines_lost: LinesLost) -> Result<Running, StartError> {
    raise_descriptor_limit();
    let parts = Parts::new(settings, lines_lost)?;
    let server = &parts.settings.server;
    let clients = server::bind(server.listen, server.workers)
        .map_err(|error| StartError::Listen("listen", server.listen, error))?;
    let operators = parts.settings.admin.listen.map(house::bind).transpose()?;
    let admin = operators.as_ref().map(TcpListener::local_addr).transpose().map_err(StartError::Thread)?;
    let mut running = Running {
        address: clients[0].local_addr().map_err(StartError::Thread)?,
        stop: parts.stop.clone(),
        threads: Vec::new(),
    };
    let doorway = parts.doorway();
    for listener in clients {
        let store = parts.store.for_worker();
        running.spawn("oncegate-worker", worker::run(parts.clone(), store, listener, doorway.clone()))?;
    }
    running.spawn("oncegate-house", house::run(parts.clone(), parts.store.for_worker(), operators))?;
    tracing::info!(address = %running.address, admin = admin.map(tracing::field::display), "listening");
    Ok(running)
}

/// Runs the gateway until a signal ends it: the first SIGTERM or SIGINT drains, the second ends at once. Until then it
/// counts the log lines that were lost.
///
/// # Errors
/// When it cannot start.
pub fn serve(settings: Settings, lines_lost: LinesLost) -> Result<(), StartError> {
    let runtime = runtime().map_err(StartError::Thread)?;
    // Before the gateway listens: whoever sees it listen may send a signal.
    let (mut signals, hangups) = {
        let _inside = runtime.enter();
        (Signals::new().map_err(StartError::Thread)?, signal(SignalKind::hangup()).map_err(StartError::Thread)?)
    };
    let running = start(settings, lines_lost)?;
    let ended = runtime.block_on(async move {
        tokio::spawn(pass_over(hangups));
        signals.next().await;
        tracing::info!("stopping: no new connections, requests under way are finished");
        let stopped = tokio::task::spawn_blocking(move || running.stop());
        tokio::select! {
            _ = stopped => tracing::info!("stopped"),
            () = signals.next() => tracing::warn!("stopped at once: attempts under way will be in doubt"),
        }
        Ok(())
    });
    // Dropped, it would wait for the thread that waits for the drain.
    runtime.shutdown_background();
    ended
}

/// A hangup means "read the configuration again" to many servers. This one reads it at its start only, and must not die of
/// a terminal that closes.
async fn pass_over(mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        tracing::warn!("SIGHUP does nothing: a changed configuration needs a restart");
    }
}

struct Signals(Signal, Signal);

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

    /// Stops in order: takes no new connections, finishes and records what is under way, within `drain_timeout`.
    pub fn stop(mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread ended by a panic");
            }
        }
    }

    fn spawn(&mut self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> Result<(), StartError> {
        let runtime = runtime().map_err(StartError::Thread)?;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work));
        self.threads.push(thread.map_err(StartError::Thread)?);
        Ok(())
    }
}

/// A gateway that nobody holds any longer stops, also when it was only half started.
impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Parts {
    fn new(settings: Settings, lines_lost: LinesLost) -> Result<Self, StartError> {
        let clock = Clock::system();
        let metrics = Arc::new(metrics(&settings)?);
        let store = store(&settings, &clock)?;
        Ok(Self {
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
            lines_lost,
            stop: CancellationToken::new(),
        })
    }

    fn doorway(&self) -> Doorway {
        let limits = &self.settings.gateway.limits;
        Doorway {
            connections: Connections::new(limits.connections),
            header_timeout: limits.header_timeout,
            heads: Limits::REQUEST,
            turned_away: gateway::turned_away(&self.settings.gateway.problem_types),
            preserve_header_case: self.settings.server.preserve_header_case,
            stop: self.stop.clone(),
        }
    }

    /// Until a stop has taken as long as it may.
    async fn overdue(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.settings.server.drain_timeout).await;
    }
}

fn metrics(settings: &Settings) -> Result<Metrics, prometheus::Error> {
    let routes: Vec<_> = settings.gateway.routes.iter().map(|route| route.name.clone()).collect();
    let upstreams: Vec<_> = settings.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
    Metrics::new(&routes, &upstreams)
}

fn store(settings: &Settings, clock: &Clock) -> Result<Opened, StartError> {
    let store = store::open(&settings.store, clock)?;
    match runtime().map_err(StartError::Thread)?.block_on(store.refusal()) {
        Some(reason) => Err(StartError::Refused(reason)),
        None => Ok(store),
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
