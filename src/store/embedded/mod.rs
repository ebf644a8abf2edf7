//! Records in a database file of this gateway's own: durable, for one process. Not shared between gateways.

mod backup;
mod disk;
mod high_water;
mod rest;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::future::{Future, ready};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::codec::Codec;
use super::{Cursor, Page, Reply, Store, StoreError, Written};
use crate::boxed::in_box;
use crate::clock::Clock;
use crate::machine::{
    AttemptId, Expect, Fence, NamespaceTag, OperationId, Print, Prints, RawPrint, Record, State, Time,
};
pub use backup::{Copied, Copier, CopyError};
use disk::{Disk, FILE, Reopen};
use high_water::HighWater;
use tables::{Change, Snapshot, Stored};
use writer::{Request, Writer};

/// Commands that may wait for the writer; more wait in their callers, within their time.
const QUEUE: usize = 512;

/// Reads that may be on the disk at once. A disk that hangs holds this many threads and no more.
const READS: usize = 16;

/// Pieces of a backup that wait for whoever reads it.
const PIECES: usize = 4;

/// How long the record of a probe may stay when the process dies in the middle.
const PROBE_LIFE: Duration = Duration::from_secs(10);

/// A store in a file. A write is on the disk when it returns; concurrent writes share one sync.
pub struct EmbeddedStore {
    disk: Arc<Disk>,
    time: Arc<HighWater>,
    clock: Clock,
    command_timeout: Duration,
    reads: Arc<Semaphore>,
    backups: Arc<Semaphore>,
    /// None only while the store is dropped.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// A backup on its way, in pieces. An error in it means that there is no more to come.
pub type Dump = mpsc::Receiver<io::Result<Bytes>>;

/// Why no backup was begun.
#[derive(Debug, thiserror::Error)]
pub enum NoDump {
    /// One is on its way already.
    #[error("another backup is under way")]
    Busy,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where the database is, and how it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directory of the database.
    pub path: PathBuf,
    /// Whether every page is checked against its checksum before the first request.
    pub check_at_start: bool,
}

impl Settings {
    /// The database in this directory, checked at the start.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), check_at_start: true }
    }
}

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, has the database open.
    #[error(
        "the store in {0} is in use by another process: give each gateway a `store.path` of its own, or all of them one `kind: redis`"
    )]
    InUse(PathBuf),
    /// The database has a layout that this version does not know.
    #[error("the store in {0} was written by another version of oncegate")]
    UnknownLayout(PathBuf),
    /// The file is not the one that was written: cut short, changed, or no database at all.
    #[error(
        "the store in {path} cannot be opened: {FILE} is damaged ({reason}). Put a backup in its place (`oncegate backup` \
         makes them). Operations that are not in it may run a second time, and so may all of them when the file is just \
         removed"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What the database says.
        reason: String,
    },
    /// The directory or the file cannot be used.
    #[error("the store in {path} cannot be opened: {reason}")]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the database or the system says.
        reason: String,
    },
}

impl EmbeddedStore {
    /// Opens the store; its directory is made if it is missing. Calls end within `command_timeout`.
    /// `clock` is calibrated with the store's time; `codec` makes records into bytes.
    ///
    /// # Errors
    /// When another process has it open, it is of another version, or it cannot be read.
    pub fn open(settings: &Settings, command_timeout: Duration, clock: Clock, codec: Codec) -> Result<Self, OpenError> {
        let path = &settings.path;
        if disk::guarded(|| disk::create(path)).map_err(|error| OpenError::new(path, error))? {
            // A first start and a lost file look the same.
            tracing::warn!(path = %path.display(), "no store was there: an empty one was begun, which knows of no operation");
        }
        Self::start(settings, disk::opener(path), command_timeout, clock, codec)
    }

    fn start(
        settings: &Settings,
        reopen: Reopen,
        command_timeout: Duration,
        clock: Clock,
        codec: Codec,
    ) -> Result<Self, OpenError> {
        let path = &settings.path;
        let (disk, mark) =
            Disk::open(path, reopen, codec, settings.check_at_start).map_err(|error| OpenError::new(path, error))?;
        let mark = mark.ok_or_else(|| OpenError::UnknownLayout(path.to_owned()))?;
        let (disk, time) = (Arc::new(disk), Arc::new(HighWater::new(Clock::system(), mark, Clock::wall())));
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(Arc::clone(&disk), Arc::clone(&time), queue);
        let writer = std::thread::Builder::new()
            .name("embedded-store".to_owned())
            .spawn(|| writer.run())
            .map_err(|error| OpenError::new(path, error.into()))?;
        clock.calibrate(time.now(), Duration::ZERO);
        let (reads, backups) = (Arc::new(Semaphore::new(READS)), Arc::new(Semaphore::new(1)));
        Ok(Self { disk, time, clock, command_timeout, reads, backups, requests: Some(requests), writer: Some(writer) })
    }

    /// Frees some expired records, at most 200, and says how many. Writes do the same in passing; this is for a store
    /// that nobody writes to.
    ///
    /// # Errors
    /// When the store is unavailable.
    pub async fn reclaim(&self) -> Result<usize, StoreError> {
        self.ask(Request::Reclaim).await
    }

    /// The whole database as it is now, for a [`Copier`]. Changes go on meanwhile and are not in it. It goes at the
    /// reader's pace, and holds the room of what was changed meanwhile: one at a time.
    ///
    /// # Errors
    /// When another one is under way, or the store is unavailable.
    pub async fn backup(&self) -> Result<Dump, NoDump> {
        let permit = Arc::clone(&self.backups).try_acquire_owned().map_err(|_| NoDump::Busy)?;
        let disk = Arc::clone(&self.disk);
        let frozen = self.blocking(move || disk.frozen()?.ok_or(redb::Error::DatabaseClosed)).await?;
        let (sender, dump) = mpsc::channel(PIECES);
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let sink = |piece: Vec<u8>| sender.blocking_send(Ok(piece.into())).is_ok();
            if let Err(error) = disk::guarded(|| backup::dump(&frozen, sink)) {
                tracing::error!(%error, "a backup broke off");
                let _ = sender.blocking_send(Err(io::Error::other(error.to_string())));
            }
        });
        Ok(dump)
    }

    async fn change(&self, id: &OperationId, expect: Expect, put: Option<&Record>) -> Result<Written, StoreError> {
        let put = put.map(|record| Stored::new(&self.disk.codec, id, record)).transpose()?;
        let change = Change { id: *id, expect, put };
        self.ask(|reply| Request::Change(change, reply)).await
    }

    /// Hands the writer a command and waits for the answer.
    async fn ask<T>(&self, request: impl FnOnce(writer::Reply<T>) -> Request) -> Result<T, StoreError> {
        let stopped = || StoreError::Unavailable("the store's writer has stopped".to_owned());
        self.bounded(async {
            let (reply, answer) = oneshot::channel();
            let requests = self.requests.as_ref().ok_or_else(stopped)?;
            requests.send(request(reply)).await.map_err(|_| stopped())?;
            answer.await.map_err(|_| stopped())?
        })
        .await
    }

    /// Looks at the records as the last commit left them.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Snapshot, Time) -> Result<T, redb::StorageError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (disk, now) = (Arc::clone(&self.disk), self.time.now());
        self.blocking(move || Ok(look(&disk.snapshot()?, now)?)).await
    }

    /// Works on a thread that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.bounded(async {
            let permit = Arc::clone(&self.reads).acquire_owned().await;
            let work = move || {
                let _permit = permit;
                disk::guarded(work).map_err(|error| error.to_string())
            };
            let outcome = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()));
            outcome.map_err(|reason| self.mend(reason))
        })
        .await
    }

    /// After a failed read: has the writer look whether the database still works. If its queue is full, it is about to.
    fn mend(&self, reason: String) -> StoreError {
        tracing::error!(reason, "the embedded store failed to read");
        let _ = self.requests.as_ref().map(|requests| requests.try_send(Request::Reclaim(oneshot::channel().0)));
        StoreError::Unavailable(reason)
    }

    async fn bounded<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = |_| Err(StoreError::Unavailable(format!("no answer within {:?}", self.command_timeout)));
        tokio::time::timeout(self.command_timeout, work).await.unwrap_or_else(late)
    }

    /// Reserves and releases an operation that nobody can name.
    async fn probe_now(&self) -> Result<(), StoreError> {
        let id = OperationId(rand::random());
        let now = self.time.now();
        let expires = now.plus(PROBE_LIFE);
        let record = Record {
            fence: Fence { attempt: AttemptId(rand::random()), version: 1 },
            number: 1,
            state: State::InFlight { since: now, lease: expires },
            prints: Prints { raw: RawPrint([0; 16]), canonical: Print([0; 16]), settings: 0 },
            credentials: None,
            namespace: NamespaceTag(0),
            expires,
            probe: None,
            beside: None,
            good_until: None,
        };
        self.change(&id, Expect::Absent, Some(&record)).await?;
        self.change(&id, Expect::Fence(record.fence), None).await?;
        Ok(())
    }
}

/// Hands the database in `path`, which no gateway has open, to `sink` for a [`Copier`], as long as that takes it.
///
/// # Errors
/// When there is none, a gateway has it open, or it cannot be read.
pub fn dump_closed(path: &Path, sink: impl FnMut(Vec<u8>) -> bool) -> Result<(), OpenError> {
    let failed = |error| OpenError::new(path, error);
    let (disk, mark) = Disk::open(path, disk::opener(path), Codec::default(), true).map_err(failed)?;
    mark.ok_or_else(|| OpenError::UnknownLayout(path.to_owned()))?;
    let dumped = disk::guarded(|| disk.frozen()?.map_or(Ok(true), |frozen| backup::dump(&frozen, sink)));
    disk.close();
    dumped.map(drop).map_err(failed)
}

impl Store for EmbeddedStore {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        let id = *id;
        Box::pin(async move { Ok(self.read(move |snapshot, now| snapshot.load(&id, now)).await??) })
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        in_box(|| self.change(id, expect, Some(record)))
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        in_box(|| self.change(id, Expect::Fence(fence), None))
    }

    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
        Box::pin(self.read(move |snapshot, now| snapshot.list(&from, limit, now)))
    }

    fn time(&self) -> Reply<'_, Time> {
        let now = self.time.now();
        self.clock.calibrate(now, Duration::ZERO);
        Box::pin(ready(Ok(now)))
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.bounded(self.probe_now()))
    }
}

impl Drop for EmbeddedStore {
    /// Lets the writer finish what it was given, and waits until the file is closed.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the embedded store's writer had died");
        }
    }
}

impl OpenError {
    fn new(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse(path.to_owned()),
            redb::Error::Corrupted(reason) => Self::Damaged { path: path.to_owned(), reason },
            // No gateway ever wrote another version.
            error @ redb::Error::UpgradeRequired(_) => {
                Self::Damaged { path: path.to_owned(), reason: error.to_string() }
            }
            redb::Error::Io(error)
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                Self::Damaged { path: path.to_owned(), reason: error.to_string() }
            }
            other => Self::Unusable { path: path.to_owned(), reason: other.to_string() },
        }
    }
}
