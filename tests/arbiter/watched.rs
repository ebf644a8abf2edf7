//! A store that counts the calls it gets and fails as told, around one that does neither.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use oncegate::clock::Clock;
use oncegate::machine::{Expect, Fence, OperationId, Record, Time};
use oncegate::store::memory::MemoryStore;
use oncegate::store::{Cursor, Page, Reply, Store, StoreError, Written};
use tokio::sync::Notify;

/// What happens to a write or a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is carried out, and the reply is lost.
    ReplyLost,
    /// It is not carried out.
    Refused,
    /// It is carried out, and the reply never comes.
    Hangs,
    /// It is not carried out yet: it arrives when the test says so.
    Late,
    /// It is carried out when the test says so, while its caller waits.
    Slow,
    /// A write is sent twice, as over a connection that broke.
    Twice,
    /// Nothing.
    None,
}

pub(crate) struct Watched {
    store: MemoryStore,
    calls: AtomicUsize,
    writes: AtomicUsize,
    faults: Mutex<VecDeque<Fault>>,
    away: AtomicBool,
    late: Mutex<Vec<(OperationId, Expect, Record)>>,
    slow: Notify,
}

impl Watched {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            store: MemoryStore::new(clock),
            calls: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            faults: Mutex::default(),
            away: AtomicBool::new(false),
            late: Mutex::default(),
            slow: Notify::new(),
        }
    }

    /// The next writes and removals meet these faults; those after them go well.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// From now on it answers nobody, or answers again.
    pub(crate) fn is_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How many calls there were since the last time of asking.
    pub(crate) fn calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }

    /// How many of all calls there were would have changed something.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// What is stored, without being counted.
    pub(crate) async fn look(&self, id: &OperationId) -> Option<Record> {
        self.store.load(id).await.unwrap()
    }

    /// The store loses a record.
    pub(crate) async fn lose(&self, id: &OperationId) {
        let lost = self.look(id).await.unwrap();
        assert_eq!(self.store.remove(id, lost.fence).await.unwrap(), Written::Done);
    }

    /// Somebody else has written this, over whatever was there.
    pub(crate) async fn overwrite(&self, id: &OperationId, record: &Record) {
        self.lose(id).await;
        let fence = Fence { version: record.fence.version + 1, ..record.fence };
        let record = Record { fence, ..record.clone() };
        assert_eq!(self.store.write(id, Expect::Absent, &record).await.unwrap(), Written::Done);
    }

    /// What was late arrives.
    pub(crate) async fn arrive(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        for (id, expect, record) in late {
            self.store.write(&id, expect, &record).await.unwrap();
        }
    }

    /// What is slow is carried out.
    pub(crate) fn go_on(&self) {
        self.slow.notify_one();
    }

    fn called(&self) -> Fault {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.faults.lock().unwrap().pop_front().unwrap_or_else(|| self.usual())
    }

    fn usual(&self) -> Fault {
        if self.away.load(Ordering::SeqCst) { Fault::Refused } else { Fault::None }
    }
}

impl Watched {
    /// A call that meets a fault.
    fn faulty<'a, T: Send + 'a>(&'a self, fault: Fault, call: Reply<'a, T>) -> Reply<'a, T> {
        Box::pin(async move {
            let lost = || Err(StoreError::Unavailable("told to fail".to_owned()));
            match fault {
                Fault::None | Fault::Twice => call.await,
                Fault::Refused | Fault::Late => lost(),
                Fault::ReplyLost => {
                    call.await?;
                    lost()
                }
                Fault::Hangs => {
                    call.await?;
                    std::future::pending().await
                }
                Fault::Slow => {
                    self.slow.notified().await;
                    call.await
                }
            }
        })
    }
}

impl Store for Watched {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.faulty(self.usual(), self.store.load(id))
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        let fault = self.called();
        if fault == Fault::Late {
            self.late.lock().unwrap().push((*id, expect, record.clone()));
        }
        let again = (fault == Fault::Twice).then(|| self.store.write(id, expect, record));
        let call = self.store.write(id, expect, record);
        self.faulty(
            fault,
            Box::pin(async move {
                let first = call.await;
                if let Some(again) = again { again.await } else { first }
            }),
        )
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        self.faulty(self.called(), self.store.remove(id, fence))
    }

    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
        self.store.list(from, limit)
    }

    fn time(&self) -> Reply<'_, Time> {
        self.store.time()
    }

    fn probe(&self) -> Reply<'_, ()> {
        self.store.probe()
    }
}
