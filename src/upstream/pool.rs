//! Connections to one server: kept while idle, taken again newest first. Which request goes where is not its matter.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::connection::Connection;
use super::way::Way;
use super::{NotSent, Protocol, Server, Settings, http2};
use crate::clock::Clock;

/// How many idle connections to a server each worker keeps.
const MOST_IDLE: usize = 128;

/// One server's connections.
#[derive(Debug)]
pub(super) struct Pool {
    way: Arc<Way>,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
    /// Where HTTP/2 is spoken: then there are no others.
    pub(super) shared: Option<http2::Connections>,
    idle_timeout: Duration,
    /// Oldest first.
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(server: &Server, settings: &Settings) -> Self {
        let way = Arc::new(Way::new(server, settings));
        let shared = || http2::Connections::new(Arc::clone(&way), settings.idle_timeout);
        Self {
            authority: HeaderValue::from_str(&way.authority()).ok(),
            shared: (settings.protocol == Protocol::Http2).then(shared),
            way,
            idle_timeout: settings.idle_timeout,
            idle: Mutex::default(),
        }
    }

    /// The idle connection that was used last, unless it has been idle for too long.
    ///
    /// A connection that is not ready is passed over: it may still be about its last request, answered early. One whose
    /// answer overtook its request is passed over for good.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Clock::instant();
        let mut idle = self.idle();
        idle.retain(|idle| !idle.connection.line().is_crossed());
        let newest = idle.iter().rposition(|idle| self.fresh(idle, now) && idle.connection.is_ready())?;
        idle.remove(newest).map(|idle| idle.connection)
    }

    /// Keeps a connection for the next request, unless it is closed or there are enough.
    pub(super) fn put(&self, connection: Connection) {
        let now = Clock::instant();
        let mut idle = self.idle();
        while idle.front().is_some_and(|oldest| oldest.connection.is_closed() || !self.fresh(oldest, now)) {
            idle.pop_front();
        }
        if !connection.is_closed() && idle.len() < MOST_IDLE {
            idle.push_back(Idle { connection, since: now });
        }
    }

    /// A new connection, or the proof that nothing was sent.
    pub(super) async fn connect(&self) -> Result<Connection, NotSent> {
        self.way.connect(Connection::begin).await
    }

    fn fresh(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) < self.idle_timeout
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
