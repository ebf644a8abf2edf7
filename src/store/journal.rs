//! Records of operations that began while the store was away: in memory, and in a file that is synced before anybody
//! acts on them. It is a store like the others and holds no rules; what it holds is handed over when the store is back.

mod file;
mod frames;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::codec::Codec;
use super::{Cursor, Page, Reply, Store, StoreError, Written};
use crate::clock::Clock;
use crate::machine::{Expect, Fence, OperationId, Record, State, Time};
use crate::telemetry::Metrics;
pub use file::OpenError;
use file::{Job, Line};
use frames::Entry;

/// Where the journal is, and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// From this size on, in bytes, nothing begins any more. What has begun still records its end.
    pub size: u64,
}

/// A journal. It forgets nothing by itself, whatever its records' expiry says.
pub struct Journal {
    inner: Mutex<Inner>,
    size: u64,
    codec: Codec,
    clock: Clock,
    metrics: Arc<Metrics>,
}

struct Inner {
    records: HashMap<OperationId, Record>,
    line: Line,
    /// What the file holds once all that was sent is written.
    bytes: u64,
}

/// When what was sent is on the disk, or that it is not.
type Synced = oneshot::Receiver<Result<(), StoreError>>;

impl Journal {
    /// Opens the file, or makes it, and reads what an earlier run has left.
    ///
    /// # Errors
    /// When the file cannot be used, belongs to another process, or is damaged.
    pub fn open(settings: &Settings, codec: Codec, clock: Clock, metrics: Arc<Metrics>) -> Result<Self, OpenError> {
        let (line, records, bytes) = file::open(&settings.path, &codec)?;
        metrics.kept().journal_holds(records.len());
        Ok(Self { inner: Mutex::new(Inner { records, line, bytes }), size: settings.size, codec, clock, metrics })
    }

    /// Whether the journal speaks of the operation.
    pub fn holds(&self, id: &OperationId) -> bool {
        self.lock().records.contains_key(id)
    }

    /// How many operations it speaks of.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Whether it speaks of none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most so many of its records, of those that are asked for: any, so that none waits behind others for ever.
    pub fn some(&self, most: usize, wanted: impl Fn(&OperationId, &Record) -> bool) -> Vec<(OperationId, Record)> {
        let inner = self.lock();
        let (all, from) = (inner.records.len(), rand::random_range(0..inner.records.len().max(1)));
        let wanted = inner.records.iter().cycle().skip(from).take(all).filter(|(id, record)| wanted(id, record));
        wanted.take(most).map(|(id, record)| (*id, record.clone())).collect()
    }

    /// Forgets a record, if it is still that one. The disk may forget it later, or never: then it comes back with the next
    /// start, as what it was.
    pub fn forget(&self, id: &OperationId, fence: Fence) -> Written {
        let mut inner = self.lock();
        match inner.records.get(id) {
            Some(record) if record.fence == fence => {}
            other => return Written::lost(other.cloned()),
        }
        inner.records.remove(id);
        if inner.records.is_empty() {
            // Everything sent so far speaks of what is gone.
            inner.line.send(Job::Empty);
            inner.bytes = 0;
        } else {
            inner.append(&Entry::Remove(*id), None);
        }
        self.metrics.kept().journal_holds(inner.records.len());
        Written::Done
    }

    async fn put(&self, id: &OperationId, expect: Expect, record: &Record) -> Result<Written, StoreError> {
        let (before, synced) = match self.put_in_memory(id, expect, record)? {
            Put::Lost(found) => return Ok(Written::lost(found)),
            Put::Known => return Ok(Written::Done),
            Put::Sent(before, synced) => (before, synced),
        };
        let Err(error) = synced.await.unwrap_or_else(|_| Err(StoreError::Unavailable("no journal".to_owned()))) else {
            return Ok(Written::Done);
        };
        self.take_back(id, record, before);
        Err(error)
    }

    /// In memory and in the queue to the disk in one step: the file tells things in the order in which they happened.
    fn put_in_memory(&self, id: &OperationId, expect: Expect, record: &Record) -> Result<Put, StoreError> {
        let mut inner = self.lock();
        let found = inner.records.get(id);
        let meets = match (expect, found) {
            (Expect::Absent, None) => true,
            (Expect::Fence(fence), Some(found)) => found.fence == fence,
            (Expect::Absent, Some(_)) | (Expect::Fence(_), None) => false,
        };
        if !meets {
            return Ok(Put::Lost(found.cloned()));
        }
        if found.is_none() && inner.bytes >= self.size {
            return Err(StoreError::Unavailable(format!("the journal is full ({} bytes)", inner.bytes)));
        }
        // A lease that goes on is no news after a crash: it will have ended.
        let is_renewal = found.is_some_and(|found| is_renewal(found, record));
        if is_renewal {
            inner.records.insert(*id, record.clone());
            return Ok(Put::Known);
        }
        let bytes = self.codec.encode(id, record).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let before = inner.records.insert(*id, record.clone());
        self.metrics.kept().journal_holds(inner.records.len());
        let (told, synced) = oneshot::channel();
        inner.append(&Entry::Put(*id, bytes), Some(told));
        Ok(Put::Sent(before, synced))
    }

    /// The disk has not taken it: what was there before stands, unless something newer does.
    fn take_back(&self, id: &OperationId, record: &Record, before: Option<Record>) {
        let mut inner = self.lock();
        if inner.records.get(id).is_some_and(|found| found.fence == record.fence) {
            match before {
                Some(before) => inner.records.insert(*id, before),
                None => inner.records.remove(id),
            };
        }
        self.metrics.kept().journal_holds(inner.records.len());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a write has come to in memory.
enum Put {
    Lost(Option<Record>),
    /// It stands, and the disk need not know.
    Known,
    Sent(Option<Record>, Synced),
}

impl Inner {
    fn append(&mut self, entry: &Entry, told: Option<oneshot::Sender<Result<(), StoreError>>>) {
        let bytes = entry.encode();
        self.bytes += bytes.len() as u64;
        self.line.send(Job::Append(bytes, told));
    }
}

fn is_renewal(found: &Record, record: &Record) -> bool {
    let in_flight = |record: &Record| matches!(record.state, State::InFlight { .. });
    in_flight(found) && in_flight(record) && found.fence.attempt == record.fence.attempt
}

impl Store for Journal {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        Box::pin(async move { Ok(self.lock().records.get(id).cloned()) })
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        Box::pin(self.put(id, expect, record))
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        Box::pin(async move { Ok(self.forget(id, fence)) })
    }

    /// All at once: there is no more than a bounded file holds.
    fn list(&self, _: Cursor, _: usize) -> Reply<'_, Page> {
        Box::pin(async move { Ok(Page { records: self.some(usize::MAX, |_, _| true), unreadable: 0, next: None }) })
    }

    fn time(&self) -> Reply<'_, Time> {
        Box::pin(async move { Ok(self.clock.now()) })
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(async move {
            let (told, synced) = oneshot::channel();
            self.lock().line.send(Job::Append(Vec::new(), Some(told)));
            synced.await.unwrap_or_else(|_| Err(StoreError::Unavailable("no journal".to_owned())))
        })
    }
}

#[cfg(test)]
mod tests;
