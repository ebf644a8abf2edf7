//! One worker's connections to one address: kept while idle, taken again newest first. Which request goes where is not
//! its matter.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::connection::Connection;
use super::way::Way;
use super::{NotSent, Protocol, Server, Settings, http2};
use crate::clock::Clock;

/// One worker's connections to one address of a server.
#[derive(Debug)]
pub(super) struct Pool {
    way: Arc<Way>,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
    /// Where HTTP/2 is spoken: then there are no others.
    pub(super) shared: Option<http2::Connections>,
    idle_timeout: Duration,
    /// How many are kept.
    idle_connections: usize,
    connection_age: Duration,
    preserve_header_case: bool,
    /// Oldest first. None: nothing is kept any longer.
    idle: Mutex<Option<VecDeque<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(server: &Server, address: SocketAddr, settings: &Settings) -> Self {
        let way = Arc::new(Way::new(server, address, settings));
        let shared = || http2::Connections::new(Arc::clone(&way), settings);
        Self {
            authority: HeaderValue::from_str(way.authority()).ok(),
            shared: (settings.protocol == Protocol::Http2).then(shared),
            way,
            idle_timeout: settings.idle_timeout,
            idle_connections: settings.idle_connections,
            connection_age: settings.connection_age,
            preserve_header_case: settings.preserve_header_case,
            idle: Mutex::new(Some(VecDeque::new())),
        }
    }

    /// The idle connection that was used last, unless it has been idle for too long or is too old.
    ///
    /// A connection that is not ready is passed over: it may still be about its last request, answered early. One whose
    /// answer overtook its request, or was followed by more, is passed over for good.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Clock::instant();
        let mut idle = self.idle();
        let idle = idle.as_mut()?;
        idle.retain(|idle| !idle.connection.line().is_spoiled());
        let newest = idle.iter().rposition(|idle| self.fresh(idle, now) && idle.connection.is_ready())?;
        idle.remove(newest).map(|idle| idle.connection)
    }

    /// Keeps a connection for the next request, unless it is closed or there are enough.
    pub(super) fn put(&self, connection: Connection) {
        let now = Clock::instant();
        let mut idle = self.idle();
        let Some(idle) = idle.as_mut() else { return };
        while idle.front().is_some_and(|oldest| oldest.connection.is_closed() || !self.fresh(oldest, now)) {
            idle.pop_front();
        }
        let back = Idle { connection, since: now };
        if !back.connection.is_closed() && idle.len() < self.idle_connections && self.fresh(&back, now) {
            idle.push_back(back);
        }
    }

    /// Closes the idle connections that will not be used again.
    pub(super) fn tidy(&self) {
        if let Some(shared) = &self.shared {
            shared.tidy();
        }
        let now = Clock::instant();
        if let Some(idle) = self.idle().as_mut() {
            idle.retain(|idle| !idle.connection.is_closed() && self.fresh(idle, now));
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
        self.way.connect(|stream| Connection::begin(stream, self.preserve_header_case)).await
    }

    fn fresh(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) < self.idle_timeout
            && now.saturating_duration_since(idle.connection.made()) < self.connection_age
    }

    fn idle(&self) -> MutexGuard<'_, Option<VecDeque<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
