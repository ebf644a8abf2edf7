//! Listeners, connections, runtimes.

use std::net::SocketAddr;
use std::time::Duration;

/// How to listen and how to stop.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// How many single-threaded runtimes; by default one per core.
    pub workers: usize,
    /// How long a stop may take.
    pub drain_timeout: Duration,
}
