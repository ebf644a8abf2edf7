//! Connections to one server: kept while idle, taken again newest first. Which request goes where is not its matter.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::connection::{Connection, Way};
use super::{NotSent, Server};
use crate::clock::Clock;

/// How many idle connections to a server each worker keeps.
const MOST_IDLE: usize = 128;

/// One server's connections.
#[derive(Debug)]
pub(super) struct Pool {
    way: Way,
    /// The `Host` that names this server; none when the name cannot stand in a field, and then it has no address either.
    pub(super) authority: Option<HeaderValue>,
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
    pub(super) fn new(server: &Server, connect_timeout: Duration, idle_timeout: Duration) -> Self {
        let host = server.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = server.port;
        let name = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if port == 80 { name } else { format!("{name}:{port}") };
        let authority = HeaderValue::from_str(&authority).ok();
        Self { way: Way { host, port, connect_timeout }, authority, idle_timeout, idle: Mutex::default() }
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
        self.way.connect().await
    }

    fn fresh(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) < self.idle_timeout
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_as_a_host_field_wants_it() {
        let cases = [
            ("orders.internal", 80, "orders.internal"),
            ("orders.internal", 9001, "orders.internal:9001"),
            ("127.0.0.1", 8080, "127.0.0.1:8080"),
            ("::1", 80, "[::1]"),
            ("[::1]", 9001, "[::1]:9001"),
        ];
        for (host, port, expected) in cases {
            let server = Server { host: host.to_owned(), port };
            let pool = Pool::new(&server, Duration::ZERO, Duration::ZERO);
            assert_eq!(pool.authority.unwrap(), expected);
        }
    }
}
