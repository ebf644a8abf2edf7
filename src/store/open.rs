//! From settings to a store that each worker can use.

use std::sync::Arc;
use std::time::Duration;

use super::embedded::{self, EmbeddedStore};
use super::memory::MemoryStore;
use super::redis::{self, BadUrl, RedisStore};
use super::{Kind, Settings, Store, StoreError};
use crate::clock::Clock;

/// Expired records freed in one step; writes free more in passing.
const RECLAIMED: usize = 10_000;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database file.
    #[error(transparent)]
    Embedded(#[from] embedded::OpenError),
    /// The address of Redis.
    #[error(transparent)]
    Redis(#[from] BadUrl),
}

/// An opened store. Memory and the embedded store are one for all workers; each worker has its own line to Redis.
pub struct Opened(Lines);

enum Lines {
    Memory(Arc<MemoryStore>),
    Embedded(Arc<EmbeddedStore>),
    /// Each line belongs to the runtime that uses it; the watch is the background's.
    Redis {
        watch: Box<RedisStore>,
        settings: redis::Settings,
        timeout: Duration,
        clock: Clock,
    },
}

/// Opens the store.
///
/// # Errors
/// When it cannot be used at all. A Redis that does not answer yet is none: guarded routes work once it does.
pub fn open(settings: &Settings, clock: &Clock) -> Result<Opened, OpenError> {
    let timeout = settings.command_timeout;
    Ok(Opened(match &settings.kind {
        Kind::Memory => Lines::Memory(Arc::new(MemoryStore::new(clock.clone()))),
        Kind::Embedded { path } => Lines::Embedded(Arc::new(EmbeddedStore::open(path, timeout, clock.clone())?)),
        Kind::Redis(redis) => Lines::Redis {
            watch: Box::new(RedisStore::new(redis, timeout, clock.clone())?),
            settings: redis.clone(),
            timeout,
            clock: clock.clone(),
        },
    }))
}

impl Opened {
    /// A worker's way to the store.
    ///
    /// # Errors
    /// Never, once [`open`] has succeeded with the same settings.
    pub fn for_worker(&self) -> Result<Arc<dyn Store>, OpenError> {
        match &self.0 {
            Lines::Memory(store) => Ok(Arc::clone(store) as Arc<dyn Store>),
            Lines::Embedded(store) => Ok(Arc::clone(store) as Arc<dyn Store>),
            Lines::Redis { settings, timeout, clock, .. } => {
                Ok(Arc::new(RedisStore::new(settings, *timeout, clock.clone())?))
            }
        }
    }

    /// Why the store must not be used, if it says so already. One that does not answer yet is refused by its workers'
    /// lines later, call by call.
    ///
    /// # Errors
    /// As [`for_worker`](Self::for_worker).
    pub async fn refusal(&self) -> Result<Option<String>, OpenError> {
        let Lines::Redis { settings, timeout, clock, .. } = &self.0 else { return Ok(None) };
        let line = RedisStore::new(settings, *timeout, clock.clone())?;
        match line.check().await {
            Ok(report) => Ok(report.refusal),
            Err(error) => {
                tracing::warn!(%error, "started without its store: guarded routes answer 503 until it is there");
                Ok(None)
            }
        }
    }

    /// Looks after the store, one step of a background task: frees expired records where Redis does not do it by itself.
    /// Says whether the store may drop records that have not expired.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn tend(&self) -> Result<bool, StoreError> {
        match &self.0 {
            Lines::Memory(store) => {
                store.reclaim(RECLAIMED);
                Ok(false)
            }
            Lines::Embedded(store) => {
                store.reclaim().await?;
                Ok(false)
            }
            Lines::Redis { watch, .. } => watch.check().await.map(|report| report.may_evict),
        }
    }
}
