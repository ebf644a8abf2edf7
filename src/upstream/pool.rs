//! One worker's connections to one address: kept while idle, taken again newest first. Which request goes where is not
//! its matter.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use tokio_util::task::TaskTracker;

use super::connection::Connection;
use super::way::Way;
use super::{NotSent, Protocol, Server, Settings, http2};
use crate::clock::Clock;

/// From how long on a connection that lay idle is looked at without the event loop, where its server has not been seen to
/// close sooner. Servers that do so after a time wait for seconds; under load, connections rest for a moment only.
const REST: Duration = Duration::from_millis(20);

/// How much of it comes back with each tidying, once a second, after a server has closed one sooner: all within ten
/// minutes.
const FORGIVEN: Duration = Duration::from_micros(34);

/// One worker's connections to one address of a server.
#[derive(Debug)]
pub(super) struct Pool {
    way: Arc<Way>,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
    /// Where HTTP/2 is spoken: then there are no others.
    pub(super) shared: Option<http2::Connections>,
    /// How long a connection may lie idle.
    pub(super) idle_timeout: Duration,
    /// How many are kept.
    idle_connections: usize,
    connection_age: Duration,
    /// Whether answers keep the spelling of their fields' names.
    pub(super) preserve_header_case: bool,
    /// What goes on when its request is answered.
    pub(super) tasks: TaskTracker,
    /// None: nothing is kept any longer.
    idle: Mutex<Option<Lying>>,
    /// Requests of this worker that are under way there.
    running: AtomicUsize,
}

/// What lies idle.
#[derive(Debug)]
struct Lying {
    /// Oldest first.
    connections: VecDeque<Idle>,
    /// After what rest a connection is looked at. A server that has closed one sooner may do so again, for a while.
    restless: Duration,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Lying {
    /// Forgets a little of how soon a server has closed one.
    fn forgive(&mut self) {
        self.restless = (self.restless + FORGIVEN).min(REST);
    }
}

impl Pool {
    pub(super) fn new(server: &Server, address: SocketAddr, settings: &Settings, tasks: &TaskTracker) -> Self {
        let way = Arc::new(Way::new(server, address, settings));
        let shared = || http2::Connections::new(Arc::clone(&way), settings, tasks);
        Self {
            authority: HeaderValue::from_str(way.authority()).ok(),
            shared: (settings.protocol == Protocol::Http2).then(shared),
            way,
            idle_timeout: settings.idle_timeout,
            idle_connections: settings.idle_connections,
            connection_age: settings.connection_age,
            preserve_header_case: settings.preserve_header_case,
            idle: Mutex::new(Some(Lying { connections: VecDeque::new(), restless: REST })),
            tasks: tasks.clone(),
            running: AtomicUsize::new(0),
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// A request goes there.
    pub(super) fn enter(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// It is over.
    pub(super) fn leave(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// The idle connection that was used last, unless it has been idle for too long, is too old or is over.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Clock::lately();
        let mut idle = self.idle();
        let idle = idle.as_mut()?;
        loop {
            let Idle { mut connection, since } = idle.connections.pop_back()?;
            let rest = now.saturating_duration_since(since);
            if connection.is_over_now(rest >= idle.restless) {
                // It closed somewhere in between.
                idle.restless = idle.restless.min(rest / 2);
            } else if self.is_fresh(rest, &connection, now) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, unless it is too old or there are enough.
    pub(super) fn put(&self, connection: Connection) {
        let now = Clock::lately();
        let mut idle = self.idle();
        let Some(idle) = idle.as_mut() else { return };
        let idle = &mut idle.connections;
        while idle.front_mut().is_some_and(|oldest| self.is_past(oldest, now)) {
            idle.pop_front();
        }
        if idle.len() < self.idle_connections && self.is_fresh(Duration::ZERO, &connection, now) {
            idle.push_back(Idle { connection, since: now });
        }
    }

    /// Closes the idle connections that will not be used again, and forgets by and by that some closed early.
    pub(super) fn tidy(&self) {
        if let Some(shared) = &self.shared {
            shared.tidy();
        }
        let now = Clock::instant();
        if let Some(idle) = self.idle().as_mut() {
            idle.connections.retain_mut(|idle| !self.is_past(idle, now));
            idle.forgive();
        }
    }

    /// Closes what is idle, and from now on whatever comes back.
    pub(super) fn retire(&self) {
        if let Some(shared) = &self.shared {
            shared.retire();
        }
        *self.idle() = None;
    }

    /// A new connection, or the proof that nothing was sent.
    pub(super) async fn connect(&self) -> Result<Connection, NotSent> {
        self.way.connect(|stream| std::future::ready(Ok::<_, Infallible>(Connection::new(stream)))).await
    }

    /// Whether it will not be used again: its time is over, or its server has closed it.
    fn is_past(&self, idle: &mut Idle, now: Instant) -> bool {
        let rest = now.saturating_duration_since(idle.since);
        !self.is_fresh(rest, &idle.connection, now) || idle.connection.is_over()
    }

    fn is_fresh(&self, rest: Duration, connection: &Connection, now: Instant) -> bool {
        rest < self.idle_timeout && now.saturating_duration_since(connection.made()) < self.connection_age
    }

    fn idle(&self) -> MutexGuard<'_, Option<Lying>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_close_is_forgotten_within_ten_minutes() {
        let mut lying = Lying { connections: VecDeque::new(), restless: Duration::ZERO };
        for _ in 0..300 {
            lying.forgive();
        }
        assert!(lying.restless > REST / 3 && lying.restless < REST, "{:?}", lying.restless);
        for _ in 0..300 {
            lying.forgive();
        }
        assert_eq!(lying.restless, REST);
    }
}
