//! The database file: made, opened, read, written, and opened again after a fault. It decides nothing about records.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use redb::{Builder, Database, ReadableDatabase};

use super::super::codec::Codec;
use super::tables::{self, Frozen, RECORDS, Snapshot, Tables};
use crate::machine::Time;

pub(super) const FILE: &str = "records.redb";
/// What the file is called until it is whole: a file under its real name always has tables, so an empty one is a fault
/// and never a new beginning.
const UNBORN: &str = "records.redb.new";

/// Pages that the database keeps in memory, in bytes.
const CACHE_BYTES: usize = 128 << 20;

/// Opens the same database, for the first time or again.
pub(super) type Reopen = Box<dyn Fn(Builder) -> Result<Database, redb::Error> + Send + Sync>;

/// A database that can be lost and found again while others use it.
pub(super) struct Disk {
    /// None between a fault and the next success in opening it.
    open: RwLock<Option<Open>>,
    pub(super) file: PathBuf,
    reopen: Reopen,
    /// Whether every page is checked when it is opened next.
    suspect: AtomicBool,
    /// How records become bytes.
    pub(super) codec: Codec,
}

struct Open {
    database: Database,
    /// Which file was opened.
    inode: Inode,
    /// How long it was after the last commit.
    length: AtomicU64,
}

/// Device and number: what stays of a file when its name has gone.
type Inode = (u64, u64);

fn inode(file: &Path) -> io::Result<Inode> {
    let facts = file.metadata()?;
    Ok((facts.dev(), facts.ino()))
}

/// The settings, before the file is named.
pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes the directory and an empty database in it, unless they are there. Says whether it did.
pub(super) fn create(directory: &Path) -> Result<bool, redb::Error> {
    // The records hold what upstreams answered: none of other users' business.
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let (file, unborn) = (directory.join(FILE), directory.join(UNBORN));
    if file.try_exists()? {
        return Ok(false);
    }
    let database = match builder().create(&unborn) {
        Err(redb::DatabaseError::DatabaseAlreadyOpen) => return Err(redb::Error::DatabaseAlreadyOpen),
        // What a crash has left of an earlier attempt: nothing was ever in it.
        Err(_) if std::fs::remove_file(&unborn).is_ok() => builder().create(&unborn)?,
        made => made?,
    };
    let transaction = database.begin_write()?;
    Tables::open(&transaction)?.set_layout()?;
    transaction.commit()?;
    drop(database);
    // Unlike a rename, a link never replaces a database that another process has made meanwhile.
    let linked = std::fs::hard_link(&unborn, &file).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    });
    linked?;
    // A file is not safe before its name is.
    sync(directory)?;
    directory.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync)?;
    // A second process may have been faster; a left-over is written over by nobody.
    let _ = std::fs::remove_file(&unborn);
    Ok(true)
}

/// Makes the names in a directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// How to open the database of a directory.
pub(super) fn opener(directory: &Path) -> Reopen {
    let file = directory.join(FILE);
    Box::new(move |builder| Ok(builder.open(&file)?))
}

impl Disk {
    /// Opens the database of a directory; if `checked`, every page of it is looked at first. Also answers the stored
    /// high-water mark; none if the layout is a stranger's.
    pub(super) fn open(
        directory: &Path,
        reopen: Reopen,
        codec: Codec,
        checked: bool,
    ) -> Result<(Self, Option<Time>), redb::Error> {
        let (open, suspect) = (RwLock::new(None), AtomicBool::new(checked));
        let disk = Self { open, file: directory.join(FILE), reopen, suspect, codec };
        disk.ensure_open()?;
        let mark = guarded(|| disk.with(|database| tables::high_water(&database.begin_read()?)))?;
        Ok((disk, mark))
    }

    /// The records as the last commit left them. Reads from it fail once the database has been closed.
    pub(super) fn snapshot(&self) -> Result<Snapshot, redb::Error> {
        let records = self.with(|database| Ok(database.begin_read()?.open_table(RECORDS)?))?;
        Ok(Snapshot { records, codec: self.codec.clone() })
    }

    /// The whole database as the last commit left it; none if its layout is a stranger's.
    pub(super) fn frozen(&self) -> Result<Option<Frozen>, redb::Error> {
        self.with(|database| Frozen::new(&database.begin_read()?))
    }

    /// Runs `steps` in one write transaction, and commits durably if they say that they changed anything.
    pub(super) fn commit<T>(
        &self,
        steps: impl FnOnce(&mut Tables<'_>) -> Result<(T, Changed), redb::StorageError>,
    ) -> Result<T, redb::Error> {
        self.with(|database| {
            let mut transaction = database.begin_write()?;
            // Opens at once after a crash; and it syncs the pages before the header that names them, so a header never
            // points at pages that a failed sync has lost.
            transaction.set_quick_repair(true);
            let (value, changed) = steps(&mut Tables::open(&transaction)?)?;
            match changed {
                Changed::Yes => transaction.commit()?,
                Changed::No => transaction.abort()?,
            }
            Ok(value)
        })
        .inspect(|_| self.measure())
    }

    /// Takes note of how long the file is: commits alone may change it.
    pub(super) fn measure(&self) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if let (Some(open), Ok(facts)) = (open.as_ref(), self.file.metadata()) {
            open.length.store(facts.len(), Ordering::Relaxed);
        }
    }

    /// Opens the database if it is closed; says whether it was.
    pub(super) fn ensure_open(&self) -> Result<bool, redb::Error> {
        if self.with(|_| Ok(())).is_ok() {
            return Ok(false);
        }
        let mut builder = builder();
        builder.set_check_integrity_on_open(self.suspect.load(Ordering::Relaxed));
        let database = guarded(|| (self.reopen)(builder))?;
        self.suspect.store(false, Ordering::Relaxed);
        let length = AtomicU64::new(self.file.metadata()?.len());
        let open = Open { database, inode: inode(&self.file)?, length };
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(true)
    }

    /// Takes note of a fault: where it speaks of the file's content, the next opening looks at all of it.
    pub(super) fn suspect(&self, error: &redb::Error) {
        if matches!(error, redb::Error::Corrupted(_)) {
            self.suspect.store(true, Ordering::Relaxed);
        }
    }

    /// Fails when the open file is not the one of its name any longer, or was cut: it would take further writes and lose
    /// them all with the end of this process.
    pub(super) fn ensure_sound(&self) -> Result<(), redb::Error> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        if inode(&self.file)? != open.inode {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file has taken the database's name").into());
        }
        if self.file.metadata()?.len() < open.length.load(Ordering::Relaxed) {
            return Err(redb::Error::Corrupted("something has cut the file".to_owned()));
        }
        Ok(())
    }

    /// Closes the database and gives its lock back. Snapshots that are still about read no more.
    pub(super) fn close(&self) {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(error) = guarded(|| open.map_or(Ok(()), |open| Ok(open.database.close()?))) {
            tracing::warn!(%error, "the embedded store was not closed cleanly; the next opening repairs it");
        }
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(&open.as_ref().ok_or(redb::Error::DatabaseClosed)?.database)
    }
}

/// Whether a transaction has anything to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// It has to be durable before anybody hears of it.
    Yes,
    /// There is nothing to sync.
    No,
}

/// Runs `work`; the database trusts its file and may panic over a damaged one, which is an error like any other here.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let panicked = |_| Err(redb::Error::Corrupted("the file makes no sense".to_owned()));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}
