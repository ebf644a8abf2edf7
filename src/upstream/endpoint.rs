//! One address of one server, as all workers share it: its connections, its requests under way, its health.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::TaskTracker;

use super::Settings;
use super::health::Health;
use super::pool::Pool;

/// An address that requests can go to.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// The server's place in the settings.
    pub(super) server: usize,
    pub(super) address: SocketAddr,
    /// One for each worker, since a connection lives on its worker's runtime; and one for who checks the server's health.
    pools: Box<[Arc<Pool>]>,
    health: Mutex<Health>,
    /// Nothing speaks against it.
    calm: AtomicBool,
}

impl Endpoint {
    pub(super) fn new(
        settings: &Settings,
        server: usize,
        address: SocketAddr,
        workers: usize,
        tasks: &TaskTracker,
    ) -> Self {
        let pool = |_| Arc::new(Pool::new(&settings.servers[server], address, settings, tasks));
        let pools = (0..=workers.max(1)).map(pool).collect();
        let calm = AtomicBool::new(true);
        Self { server, address, pools, health: Mutex::default(), calm }
    }

    /// A worker's connections to it.
    pub(super) fn pool(&self, worker: usize) -> &Arc<Pool> {
        &self.pools[worker % (self.pools.len() - 1)]
    }

    /// The connections of whoever asks whether the server is well.
    pub(super) fn pool_for_checks(&self) -> &Arc<Pool> {
        &self.pools[self.pools.len() - 1]
    }

    /// Closes idle connections that have been kept for long enough.
    pub(super) fn tidy(&self) {
        self.pools.iter().for_each(|pool| pool.tidy());
    }

    /// The server has this address no more: requests that are under way end as they will, and their connections with them.
    pub(super) fn retire(&self) {
        self.pools.iter().for_each(|pool| pool.retire());
    }

    /// How many requests of all workers are under way there.
    pub(super) fn running(&self) -> usize {
        self.pools.iter().map(|pool| pool.running()).sum()
    }

    /// What its health says, or is told.
    pub(super) fn health<T>(&self, about: impl FnOnce(&mut Health) -> T) -> T {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let said = about(&mut health);
        self.calm.store(health.is_calm(), Ordering::Relaxed);
        said
    }

    /// The same of a request that has not failed. While nothing speaks against the server, it is as well as a new one, and
    /// stays so: then requests take no lock, which those of all workers would share.
    pub(super) fn health_unfailed<T>(&self, about: impl FnOnce(&mut Health) -> T) -> T {
        if self.calm.load(Ordering::Relaxed) { about(&mut Health::default()) } else { self.health(about) }
    }
}
