//! Completed records in this gateway's memory. A stale entry can repeat an answer; it can never run anything.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::machine::{Answer, OperationId, Record, State, Time};

/// How long an entry is believed before the store is asked again.
const TRUST: Duration = Duration::from_mins(1);
/// What a record without an answer weighs, in bytes: itself, its place in the cache's tables, which are never quite full,
/// what the allocator adds to an entry and a buffer, and what a store had in front of the answer, with which it is kept.
const BASE_WEIGHT: usize = size_of::<Record>() + 2 * size_of::<(OperationId, Entry)>() + 96 + 96;

/// Completed records, bounded by bytes. With a size of zero it holds nothing.
pub struct ReplayCache(Option<Cache<OperationId, Entry, ByBytes>>);

#[derive(Clone)]
struct Entry {
    record: Arc<Record>,
    checked: Time,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<OperationId, Entry> for ByBytes {
    fn weight(&self, _: &OperationId, entry: &Entry) -> u64 {
        u64::try_from(weight(&entry.record)).unwrap_or(u64::MAX)
    }
}

fn weight(record: &Record) -> usize {
    let State::Completed { answer: Answer::Recorded(recorded) | Answer::Told { answer: recorded, .. }, .. } =
        &record.state
    else {
        return BASE_WEIGHT;
    };
    BASE_WEIGHT + recorded.packed().len()
}

impl ReplayCache {
    /// A cache of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let typical = BASE_WEIGHT + 1024;
        Self((bytes > 0).then(|| Cache::with_weighter((bytes / typical).max(16), bytes as u64, ByBytes)))
    }

    /// The record, while it lives and the store was asked for it not long ago.
    pub fn get(&self, id: &OperationId, now: Time) -> Option<Arc<Record>> {
        let entry = self.0.as_ref()?.get(id)?;
        let fresh = now < entry.record.expires && now.since(entry.checked) < TRUST;
        fresh.then_some(entry.record)
    }

    /// The record, however long ago the store was asked for it: for a store that has lost it.
    pub(super) fn keeps(&self, id: &OperationId) -> Option<Arc<Record>> {
        Some(self.0.as_ref()?.get(id)?.record)
    }

    /// Takes over a completed record that the store has just confirmed; anything else is refused. Its answer is in a
    /// buffer of its own, as settling and stores make it: else an entry would hold more than it weighs.
    pub fn insert(&self, id: OperationId, record: Arc<Record>, now: Time) {
        if let (Some(cache), State::Completed { .. }) = (&self.0, &record.state) {
            cache.insert(id, Entry { record, checked: now });
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        if let Some(cache) = &self.0 {
            cache.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{AttemptId, Fence, NamespaceTag, Print, Prints, RawPrint, Recorded, Witness};

    fn completed(body: &[u8]) -> Record {
        let recorded = Recorded::new(200, [("x-own", "1")], body);
        Record {
            fence: Fence { attempt: AttemptId([1; 16]), version: 2 },
            number: 1,
            state: State::Completed { at: Time(0), answer: Answer::Recorded(recorded) },
            prints: Prints { raw: RawPrint([0; 16]), canonical: Print([0; 16]), settings: 0 },
            credentials: None,
            namespace: NamespaceTag(0),
            expires: Time(100_000_000),
            probe: None,
            beside: None,
            good_until: None,
        }
    }

    #[test]
    fn what_goes_in_comes_out_until_it_is_old() {
        let cache = ReplayCache::new(1 << 20);
        let (id, record) = (OperationId([7; 32]), Arc::new(completed(b"answer")));
        cache.insert(id, Arc::clone(&record), Time(0));
        assert_eq!(cache.get(&id, Time(59_999)), Some(Arc::clone(&record)));
        assert_eq!(cache.get(&id, Time(60_000)).as_deref(), None, "the store has to be asked again");
        cache.insert(id, record, Time(99_999_000));
        assert_eq!(cache.get(&id, Time(100_000_000)).as_deref(), None, "expired");
    }

    #[test]
    fn an_answer_that_somebody_told_weighs_as_much_as_one_that_was_recorded() {
        let recorded = completed(&[b'x'; 1000]);
        let mut told = recorded.clone();
        if let State::Completed { answer, .. } = &mut told.state
            && let Answer::Recorded(recorded) = answer.clone()
        {
            *answer = Answer::Told { by: Witness::Probe, answer: recorded };
        }
        assert_ne!(told, recorded);
        assert_eq!(weight(&told), weight(&recorded));
    }

    #[test]
    fn nothing_is_kept_beyond_the_bytes_allowed_and_nothing_at_all_at_zero() {
        let cache = ReplayCache::new(64 * 1024);
        for index in 0..=255 {
            cache.insert(OperationId([index; 32]), Arc::new(completed(&[b'x'; 1000])), Time(0));
        }
        let kept = (0..=255).filter(|index| cache.get(&OperationId([*index; 32]), Time(1)).is_some()).count();
        assert!((1..=64).contains(&kept), "{kept} entries of over 1,000 bytes in 64 KiB");
        let none = ReplayCache::new(0);
        none.insert(OperationId([7; 32]), Arc::new(completed(b"")), Time(0));
        assert_eq!(none.get(&OperationId([7; 32]), Time(1)).as_deref(), None);
    }
}
