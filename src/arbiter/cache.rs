//! Completed records in this gateway's memory. A stale entry can repeat an answer; it can never run anything.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::machine::{Answer, OperationId, Record, State, Time};

/// How long an entry is believed before the store is asked again.
const TRUST: Duration = Duration::from_mins(1);
/// What a record without an answer weighs, in bytes.
const BASE_WEIGHT: usize = 256;

/// Completed records, bounded by bytes. With a size of zero it holds nothing.
pub struct ReplayCache(Option<Cache<OperationId, Arc<Entry>, ByBytes>>);

struct Entry {
    record: Record,
    checked: Time,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<OperationId, Arc<Entry>> for ByBytes {
    fn weight(&self, _: &OperationId, entry: &Arc<Entry>) -> u64 {
        u64::try_from(weight(&entry.record)).unwrap_or(u64::MAX)
    }
}

fn weight(record: &Record) -> usize {
    let State::Completed { answer: Answer::Recorded(recorded), .. } = &record.state else { return BASE_WEIGHT };
    let headers: usize = recorded.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    BASE_WEIGHT + headers + recorded.body.len()
}

impl ReplayCache {
    /// A cache of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let typical = BASE_WEIGHT + 1024;
        Self((bytes > 0).then(|| Cache::with_weighter((bytes / typical).max(16), bytes as u64, ByBytes)))
    }

    /// The record, while it lives and the store was asked for it not long ago.
    pub fn get(&self, id: &OperationId, now: Time) -> Option<Record> {
        let entry = self.0.as_ref()?.get(id)?;
        let fresh = now < entry.record.expires && now.since(entry.checked) < TRUST;
        fresh.then(|| entry.record.clone())
    }

    /// Takes over a completed record that the store has just confirmed; anything else is refused.
    pub fn insert(&self, id: OperationId, record: Record, now: Time) {
        if let (Some(cache), State::Completed { .. }) = (&self.0, &record.state) {
            cache.insert(id, Arc::new(Entry { record, checked: now }));
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        if let Some(cache) = &self.0 {
            cache.clear();
        }
    }
}
