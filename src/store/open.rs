//! From settings to a store that each worker can use.

use std::sync::{Arc, Mutex, PoisonError};

use super::codec::{Codec, Keyring};
use super::embedded::{self, Dump, EmbeddedStore, NoDump};
use super::journal::{self, Journal};
use super::memory::MemoryStore;
use super::redis::{Condition, RedisStore};
use super::{Kind, Settings, Store, StoreError};
use crate::clock::Clock;
use crate::telemetry::Metrics;

/// Expired records freed in one step; writes free more in passing.
const RECLAIMED: usize = 10_000;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database file.
    #[error(transparent)]
    Embedded(#[from] embedded::OpenError),
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum NoBackup {
    /// Not now.
    #[error(transparent)]
    Dump(#[from] NoDump),
    /// There is nothing to keep.
    #[error("`kind: memory` forgets everything at exit: there is nothing to back up")]
    Memory,
    /// The records are not this gateway's.
    #[error("the records are in Redis: back that up by its own means, such as BGSAVE and a copy of its dump file")]
    Redis,
}

/// An opened store. Memory and the embedded store are one for all workers; each worker has its own line to Redis.
pub struct Opened {
    lines: Lines,
    codec: Codec,
}

enum Lines {
    Memory(Arc<MemoryStore>),
    Embedded(Arc<EmbeddedStore>),
    /// The background's own line; each worker has a sibling, because a line belongs to the runtime that uses it. With
    /// what the log was told last.
    Redis(Box<RedisStore>, Mutex<Option<Condition>>),
}

/// Opens the store.
///
/// # Errors
/// When it cannot be used at all. A Redis that does not answer yet is none: guarded routes work once it does.
pub fn open(settings: &Settings, clock: &Clock) -> Result<Opened, OpenError> {
    let (timeout, clock) = (settings.command_timeout, clock.clone());
    let codec = Codec::new(settings.encryption.clone());
    let lines = match &settings.kind {
        Kind::Memory => Lines::Memory(Arc::new(MemoryStore::new(clock))),
        Kind::Embedded(file) => Lines::Embedded(Arc::new(EmbeddedStore::open(file, timeout, clock, codec.clone())?)),
        Kind::Redis(redis) => {
            let store = RedisStore::new((**redis).clone(), timeout, clock).with_codec(codec.clone());
            Lines::Redis(Box::new(store), Mutex::default())
        }
    };
    Ok(Opened { lines, codec })
}

impl Opened {
    /// The whole store as a stream, where it is this gateway's own.
    ///
    /// # Errors
    /// When it is not, another backup is under way, or the store is unavailable.
    pub async fn backup(&self) -> Result<Dump, NoBackup> {
        match &self.lines {
            Lines::Embedded(store) => Ok(store.backup().await?),
            Lines::Memory(_) => Err(NoBackup::Memory),
            Lines::Redis(..) => Err(NoBackup::Redis),
        }
    }

    /// Has the store seal and open with other keys from now on.
    pub fn exchange_keys(&self, keys: Keyring) {
        self.codec.exchange(keys);
    }

    /// The journal for what begins while the store is away. It seals as the store does.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn journal(
        &self,
        settings: &journal::Settings,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Journal, journal::OpenError> {
        Journal::open(settings, self.codec.clone(), clock, metrics)
    }

    /// A worker's way to the store.
    pub fn for_worker(&self) -> Arc<dyn Store> {
        match &self.lines {
            Lines::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            Lines::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Lines::Redis(line, _) => Arc::new(line.sibling()),
        }
    }

    /// Why the store must not be used, if it says so already. One that does not answer yet is refused by its workers'
    /// lines later, call by call. For the background, whose line this is.
    pub async fn refusal(&self) -> Option<String> {
        let Lines::Redis(line, told) = &self.lines else { return None };
        match line.check().await {
            Ok(condition) => {
                let refusal = condition.refusal();
                tell(told, condition);
                refusal
            }
            Err(error) => {
                tracing::warn!(%error, "started without its store: guarded routes answer 503 until it is there");
                None
            }
        }
    }

    /// Waits until it is time to look whether the store's servers are still the ones to write to, and leaves those that
    /// are not; one step of a background task.
    ///
    /// # Errors
    /// When nobody answers who could know.
    pub async fn watch(&self) -> Result<(), StoreError> {
        match &self.lines {
            Lines::Memory(_) | Lines::Embedded(_) => std::future::pending().await,
            Lines::Redis(line, _) => line.watch().await,
        }
    }

    /// Looks after the store, one step of a background task: frees expired records where Redis does not do it by itself.
    /// Says how the store is.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn tend(&self) -> Result<Health, StoreError> {
        match &self.lines {
            Lines::Memory(store) => {
                store.reclaim(RECLAIMED);
                Ok(Health::Own)
            }
            Lines::Embedded(store) => {
                store.reclaim().await?;
                Ok(Health::Own)
            }
            Lines::Redis(line, told) => {
                let condition = line.check().await?;
                tell(told, condition.clone());
                Ok(Health::Redis(condition))
            }
        }
    }
}

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// This gateway's own: it does what it is told.
    Own,
    /// As its primaries say.
    Redis(Condition),
}

/// Writes to the log how the store is, when that has changed.
fn tell(told: &Mutex<Option<Condition>>, now: Condition) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if told.as_ref() != Some(&now) {
        tracing::info!(condition = %now, "store");
        for warning in now.warnings() {
            tracing::warn!("{warning}");
        }
        *told = Some(now);
    }
}
