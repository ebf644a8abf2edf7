//! An issuer's keys as they are known, and how they are kept up to date. The last good ones stay whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::fetch::fetch;
use super::keyset::KeySet;
use super::settings::{Origin, Reading};
use crate::clock::Clock;
use crate::telemetry::{KeysRead, Metrics};

/// The keys of an issuer.
pub struct Ring {
    origin: Origin,
    reading: Reading,
    set: ArcSwapOption<KeySet>,
    /// Counts the readings that have ended.
    readings: watch::Sender<u64>,
    /// Somebody has met a key that is not there.
    wanted: Notify,
    /// The keys were read just now, and are not read again at once.
    resting: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Ring {
    pub(super) fn new(origin: Origin, reading: Reading, metrics: Arc<Metrics>) -> Self {
        let set = match &origin {
            Origin::File { set, .. } => Some(Arc::clone(set)),
            Origin::Url { .. } => None,
        };
        let (readings, wanted, resting) = (watch::Sender::new(0), Notify::new(), AtomicBool::new(false));
        Self { origin, reading, set: ArcSwapOption::new(set), readings, wanted, resting, metrics }
    }

    /// Whether it is the ring for these.
    pub(super) fn is_for(&self, origin: &Origin, reading: &Reading) -> bool {
        (&self.origin, &self.reading) == (origin, reading)
    }

    /// The keys; none before they were read for the first time.
    pub(super) fn set(&self) -> Option<Arc<KeySet>> {
        self.set.load_full()
    }

    /// Wants the keys read again, and waits until they are. Where that was done just now, they will be a little later,
    /// and nobody waits for it.
    pub(super) async fn renewed(&self) {
        let mut readings = self.readings.subscribe();
        self.wanted.notify_one();
        if !self.resting.load(Ordering::Acquire) {
            // Whatever came of it, and also when nothing did: what is known then is what counts.
            let _ = timeout(self.reading.timeout, readings.changed()).await;
        }
    }

    /// Reads the keys once. True when they are good.
    pub async fn step(&self) -> bool {
        let read = self.read().await;
        let good = read.is_ok();
        self.metrics.keys_read(if good { KeysRead::Ok } else { KeysRead::Failed }, Clock::wall().0 / 1_000);
        match read {
            Ok(set) => self.take(set),
            Err(error) => {
                let known = self.set.load().is_some();
                tracing::warn!(from = %self.origin, error, known, "the keys for tokens were not read; known ones stay");
            }
        }
        // Before those who wait are told: whoever comes after them must not wait for the next reading.
        self.resting.store(true, Ordering::Release);
        self.readings.send_modify(|count| *count = count.wrapping_add(1));
        good
    }

    /// Keeps the keys up to date, for ever.
    pub async fn tend(&self) {
        loop {
            self.resting.store(false, Ordering::Relaxed);
            let good = self.step().await;
            sleep(self.reading.pause).await;
            if good {
                self.resting.store(false, Ordering::Relaxed);
                let rest = self.reading.refresh.saturating_sub(self.reading.pause);
                let _ = timeout(rest, self.wanted.notified()).await;
            }
        }
    }

    /// Equal keys stay the same ones: what they have verified stays verified.
    pub(super) fn take(&self, set: KeySet) {
        if self.set.load().as_ref().is_none_or(|known| **known != set) {
            tracing::info!(from = %self.origin, "new keys for tokens are in use");
            self.set.store(Some(Arc::new(set)));
        }
    }

    async fn read(&self) -> Result<KeySet, String> {
        let limit = self.reading.size_limit;
        match &self.origin {
            Origin::File { path, .. } => KeySet::load(path, limit).map_err(|error| format!("it {error}")),
            Origin::Url { url, tls } => {
                let text = fetch(url, tls.as_deref(), limit, self.reading.timeout).await?;
                KeySet::read(&text).map_err(|error| format!("the answer {error}"))
            }
        }
    }
}
