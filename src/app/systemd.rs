//! What a service manager and this process tell each other: readiness, life signs, sockets it was started with. Without
//! one, all of it does nothing.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use listenfd::ListenFd;
use sd_notify::NotifyState;

/// The name of the operators' socket; any other is the clients'.
const OPERATORS: &str = "admin";

/// The manager's view of this process.
#[derive(Default)]
pub(super) struct Service {
    ready: AtomicBool,
}

/// A worker's life signs.
#[derive(Clone, Default)]
pub(super) struct Pulse(Arc<AtomicU64>);

/// The sockets that this process was started with.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) clients: Option<TcpListener>,
    pub(super) operators: Option<TcpListener>,
}

impl Service {
    /// Whether anybody listens.
    pub(super) fn is_there() -> bool {
        std::env::var_os("NOTIFY_SOCKET").is_some()
    }

    /// The gateway does its work.
    pub(super) fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
        tell(&[NotifyState::Ready, NotifyState::Status("Serving.")]);
    }

    /// Not yet, and why.
    pub(super) fn waits_for(what: &str) {
        tell(&[NotifyState::Status(&format!("Waiting for {what}."))]);
    }

    /// The configuration is read anew, from here to [`reloaded`](Self::reloaded).
    pub(super) fn reloading(&self) {
        if self.ready.load(Ordering::Relaxed)
            && let Ok(now) = NotifyState::monotonic_usec_now()
        {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// That is over; a gateway that was not ready before is not ready by this.
    pub(super) fn reloaded(&self, status: &str) {
        if self.ready.load(Ordering::Relaxed) {
            tell(&[NotifyState::Ready, NotifyState::Status(status)]);
        }
    }

    /// The gateway takes no further work.
    pub(super) fn stopping() {
        tell(&[NotifyState::Stopping, NotifyState::Status("Finishing what is under way.")]);
    }
}

fn tell(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        tracing::debug!(%error, "service manager not told");
    }
}

impl Pulse {
    /// Shows again and again that the caller's runtime moves on, where a watchdog asks for it.
    pub(super) async fn beat(&self) {
        let Some(period) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
        loop {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(period / 4).await;
        }
    }
}

/// Tells the watchdog that the gateway is alive, for as long as all of its workers are.
pub(super) async fn watch_over(workers: &[Pulse]) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let count = || workers.iter().map(|worker| worker.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let mut before = count();
    loop {
        tokio::time::sleep(period / 2).await;
        let now = count();
        if now.iter().zip(&before).all(|(now, before)| now != before) {
            tell(&[NotifyState::Watchdog]);
        }
        before = now;
    }
}

/// Takes over the sockets that a service manager has opened: one named `admin` for operators, one for clients. To be
/// called before there are threads.
///
/// # Errors
/// When they are not such sockets.
pub(super) fn inherited() -> io::Result<Inherited> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut given = ListenFd::from_env();
    let mut taken = Inherited::default();
    for index in 0..given.len() {
        let door = if names.next() == Some(OPERATORS) { &mut taken.operators } else { &mut taken.clients };
        if door.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than one socket for the same door"));
        }
        *door = given.take_tcp_listener(index)?;
    }
    Ok(taken)
}
