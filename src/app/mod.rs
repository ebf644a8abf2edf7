//! Builds the whole gateway from its settings, runs it, and takes it down in order. Nothing is decided here.

mod backup;
mod changes;
mod crew;
mod demo;
mod house;
mod jwks;
mod metronome;
mod reload;
mod state;
mod systemd;
mod upstreams;
mod watch;
mod worker;

pub use backup::{BackupError, backup};
pub use demo::{DemoError, demo};

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arbiter;
use crate::clock::Clock;
use crate::config::Settings;
use crate::server::{self, Listener};
use crate::store::filter::Filter;
use crate::store::{self, OpenError, Opened};
use crate::telemetry::access::AccessLog;
use crate::telemetry::{LinesLost, Logs, Metrics};
use crate::tls;
use crate::wire::{Closing, Step};
use crew::Asking;
use reload::Source;
use state::{Live, State};
use systemd::{Inherited, Pulse, Service};

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
    /// The certificates cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] tls::Error),
    /// The journal for what begins while the store is away.
    #[error(transparent)]
    Journal(#[from] store::journal::OpenError),
    /// The filter's settings.
    #[error("filter: {0}")]
    Filter(#[from] store::filter::SettingsError),
    /// A socket that the process was started with cannot be used.
    #[error("the sockets that this process was started with (`LISTEN_FDS`) cannot be used: {0}")]
    Inherited(#[source] io::Error),
    /// Two metrics have one name.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The access log cannot be written.
    #[error("{0}")]
    AccessLog(String),
    /// A thread or a runtime cannot be had.
    #[error("cannot start a worker: {0}")]
    Thread(#[source] io::Error),
}

/// How a gateway ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// In order, within its time.
    Drained,
    /// By a second signal: what was under way was left.
    AtOnce,
}

/// A gateway that runs.
struct Running {
    parts: Parts,
    workers: Vec<JoinHandle<io::Result<()>>>,
    house: Option<JoinHandle<io::Result<()>>>,
}

/// What every thread of the gateway is built from.
#[derive(Clone)]
struct Parts {
    live: Arc<Live>,
    store: Arc<Opened>,
    arbiter: Arc<arbiter::Shared>,
    service: Arc<Service>,
    lines_lost: LinesLost,
    access: Arc<AccessLog>,
    closing: Closing,
    /// When the last worker has ended.
    end: Step,
}

/// Runs the gateway until a signal ends it: the first SIGTERM or SIGINT drains, the second ends at once. SIGHUP reads the
/// file again, and so does a change of it, where it is watched.
///
/// # Errors
/// When it cannot start.
pub fn serve(settings: Settings, file: &Path, logs: Logs) -> Result<Ended, StartError> {
    // Before there are threads that could look at the environment.
    let inherited = systemd::inherited().map_err(StartError::Inherited)?;
    let runtime = runtime().map_err(StartError::Thread)?;
    // Before the gateway listens: whoever sees it listen may send a signal.
    let (signals, words) = {
        let _inside = runtime.enter();
        (Signals::new().map_err(StartError::Thread)?, Words::new().map_err(StartError::Thread)?)
    };
    let lines_lost = logs.lines_lost();
    let mut source = Source::new(file.to_owned(), settings.watch, logs);
    let running = Running::start(settings, lines_lost, inherited)?;
    let access = Arc::clone(&running.parts.access);
    let ended = runtime.block_on(running.live_out(&mut source, signals, words));
    if !access.finish(LAST_WRITES) {
        tracing::warn!("the access log was not written to its end: what it goes to does not take it");
    }
    Ok(ended)
}

/// Who ends a process and then its group, as `timeout` does, sends one word twice. A person's second word comes later.
const ECHO: Duration = Duration::from_millis(250);

/// How often a stop looks whether a thread has ended.
const LOOK: Duration = Duration::from_millis(2);

struct Signals(Signal, Signal);

/// The signals after which the gateway goes on.
struct Words {
    hangup: Signal,
    user: Signal,
}

impl Words {
    fn new() -> io::Result<Self> {
        Ok(Self { hangup: signal(SignalKind::hangup())?, user: signal(SignalKind::user_defined1())? })
    }
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.0.recv() => {}, _ = self.1.recv() => {} }
    }

    /// The next one that is no echo of the first.
    async fn second(&mut self) {
        let first = Clock::instant();
        loop {
            self.next().await;
            if first.elapsed() > ECHO {
                return;
            }
        }
    }
}

impl Running {
    /// Starts the gateway; it listens on return. When it cannot, nothing is left running.
    fn start(settings: Settings, lines_lost: LinesLost, inherited: Inherited) -> Result<Self, StartError> {
        raise_descriptor_limit();
        spare_memory();
        let clock = Clock::system();
        let store = Arc::new(store::open(&settings.store, &clock)?);
        // The answer takes as long as all the rest.
        let asking = Asking::begin(&store)?;
        let parts = Parts::new(settings, store, clock, lines_lost)?;
        // Not before: on few cores they would hold up both.
        let workers = crew::workers(&parts.store, parts.live.now().settings.server.workers)?;
        let house = asking.end()?;
        let (clients, operators) = parts.listeners(inherited)?;
        let address = clients[0].local_addr().map_err(StartError::Thread)?;
        let admin = operators.as_ref().map(Listener::local_addr).transpose().map_err(StartError::Thread)?;
        let mut running = Self { parts, workers: Vec::new(), house: None };
        let mut pulses = Vec::new();
        for (worker, listener) in workers.into_iter().zip(clients) {
            let (parts, pulse) = (running.parts.clone(), Pulse::default());
            pulses.push(pulse.clone());
            running.workers.push(worker.set_to(worker::Work { parts, listener, pulse })?);
        }
        let parts = running.parts.clone();
        running.house = Some(house.set_to(house::Work { parts, operators, workers: pulses })?);
        running.parts.note_configuration();
        tracing::info!(%address, admin = admin.map(tracing::field::display), "listening");
        Ok(running)
    }

    /// Runs until a signal ends it.
    async fn live_out(self, source: &mut Source, mut signals: Signals, mut words: Words) -> Ended {
        loop {
            tokio::select! {
                () = signals.next() => break,
                _ = words.user.recv() => self.parts.access.reopen(),
                _ = words.hangup.recv() => {
                    source.reload(&self.parts);
                    self.parts.access.reopen();
                }
                () = source.changed() => source.reload(&self.parts),
            }
        }
        tokio::select! {
            () = self.drain() => {
                tracing::info!("stopped");
                Ended::Drained
            }
            () = signals.second() => {
                tracing::warn!("stopped at once: attempts under way will be in doubt");
                Ended::AtOnce
            }
        }
    }

    /// Says that it is going, then goes.
    async fn drain(self) {
        let delay = self.parts.live.now().settings.server.drain.delay;
        tracing::info!(
            ?delay,
            "stopping: not ready any longer; after the delay no new connections, and what is under way is finished"
        );
        Service::stopping();
        self.parts.closing.announced.take();
        tokio::time::sleep(delay).await;
        self.stop().await;
    }

    /// Takes no new connections, finishes and records what is under way, within `drain_timeout`. Operators can look on
    /// until the last worker has ended.
    async fn stop(mut self) {
        self.parts.closing.begun.take();
        for thread in self.workers.drain(..) {
            end(thread).await;
        }
        self.parts.end.take();
        if let Some(thread) = self.house.take() {
            end(thread).await;
        }
    }
}

/// A gateway that nobody holds any longer stops, also when it was only half started.
impl Drop for Running {
    fn drop(&mut self) {
        for step in [&self.parts.closing.announced, &self.parts.closing.begun, &self.parts.end] {
            step.take();
        }
    }
}

/// Waits for the end of a thread. It is looked for, since a thread that waited for it might not be had: a stop must not
/// depend on one.
async fn end(thread: JoinHandle<io::Result<()>>) {
    while !thread.is_finished() {
        tokio::time::sleep(LOOK).await;
    }
    if thread.join().is_err() {
        tracing::error!("a thread ended by a panic");
    }
}

impl Parts {
    /// What workers share, and the first configuration in force.
    fn new(settings: Settings, store: Arc<Opened>, clock: Clock, lines_lost: LinesLost) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new()?);
        let closing = Closing::default();
        let access = Arc::new(AccessLog::new(settings.server.workers, Arc::clone(&metrics)));
        if let Some(settings) = settings.access_log.clone() {
            access.turn(settings.open().map_err(StartError::AccessLog)?).map_err(StartError::Thread)?;
        }
        let filter = Filter::new(settings.filter, clock.clone())?;
        let kept = settings.store.journal.as_ref();
        let journal = kept.map(|kept| store.journal(kept, clock.clone(), Arc::clone(&metrics))).transpose()?;
        let shared = arbiter::Shared::new(settings.arbiter, filter, journal, Arc::clone(&metrics), clock);
        let state = State::new(settings, metrics, Arc::clone(&access), closing.clone(), shared.tasks.clone())?;
        Ok(Self {
            arbiter: Arc::new(shared),
            live: Arc::new(Live::new(state)),
            store,
            service: Arc::default(),
            lines_lost,
            access,
            closing,
            end: Step::default(),
        })
    }

    /// Clients' listeners, one for each worker, and the operators'. A socket that the process was started with goes
    /// before the setting.
    fn listeners(&self, inherited: Inherited) -> Result<(Vec<Listener>, Option<Listener>), StartError> {
        let settings = &self.live.now().settings;
        let server = &settings.server;
        let clients = match inherited.clients {
            Some(socket) => Listener::lent(&socket, server.workers).map_err(StartError::Inherited)?,
            None => server::bind(server.listen, server.workers, server.listen_shared)
                .map_err(|error| StartError::Listen("listen", server.listen, error))?,
        };
        let operators = match inherited.operators {
            Some(socket) => Listener::lent(&socket, 1).map_err(StartError::Inherited)?.pop(),
            None => settings.admin.listen.map(house::bind).transpose()?,
        };
        Ok((clients, operators))
    }

    /// Reads the certificates again, and says what came of it.
    fn reload_certificates(&self) {
        let state = self.live.now();
        let Some(tls) = state.certificates() else { return };
        let reloaded = tls.reload();
        self.arbiter.metrics.tls_reload_failed(reloaded.is_err());
        match reloaded {
            Ok(true) => tracing::info!("new certificates are in use"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the certificates stay as they were"),
        }
    }

    /// Until a stop has taken as long as it may.
    async fn overdue(&self) {
        self.closing.begun.taken().await;
        tokio::time::sleep(self.live.now().settings.server.drain.timeout).await;
    }
}

/// A runtime for one thread, which tells the clock when that rests.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().on_thread_park(crate::server::turn::rests).build()
}

/// As many open files as this process may have: every connection is one.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Large pages would make all of the filter resident at the first bit that is set, and much of each connection's memory.
fn spare_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "memory comes in large pages where the system says so");
    }
}

/// How long the end of a drain may take on top: the doubts of attempts that were given up are still written.
const LAST_WRITES: Duration = Duration::from_secs(2);
