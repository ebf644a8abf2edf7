//! The journal's file, and the one thread that writes it: what has gathered shares a sync. It knows bytes only.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use super::frames::{self, Entry, MAGIC};
use crate::machine::{OperationId, Record};
use crate::store::StoreError;
use crate::store::codec::{Codec, CodecError};

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened, read or written.
    #[error("the journal {0} (`store.journal`) cannot be used")]
    File(PathBuf, #[source] io::Error),
    /// Another process has it.
    #[error("the journal {0} (`store.journal`) is in use by another process: `sole_gateway` means that there is one")]
    InUse(PathBuf),
    /// It holds something else than what was written.
    #[error(
        "the journal {0} (`store.journal`) cannot be read: {1}. What ran during an outage may be in it: keep it, resolve by hand, and start with another"
    )]
    Damaged(PathBuf, String),
}

/// What the thread is asked for.
pub(super) enum Job {
    /// To put these entries on the disk, and to tell when they are there.
    Append(Vec<u8>, Option<oneshot::Sender<Result<(), StoreError>>>),
    /// To forget everything.
    Empty,
}

/// The way to the thread. It ends when this is dropped.
pub(super) struct Line(mpsc::UnboundedSender<Job>);

impl Line {
    /// Whoever waits for a job that finds no thread is told so by its answer, which never comes.
    pub(super) fn send(&self, job: Job) {
        let _ = self.0.send(job);
    }
}

/// Opens the file, takes it for this process, and reads it.
pub(super) fn open(path: &Path, codec: &Codec) -> Result<(Line, HashMap<OperationId, Record>, u64), OpenError> {
    let failed = |error| OpenError::File(path.to_owned(), error);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    begin(path).map_err(failed)?;
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let damaged = |fault: String| OpenError::Damaged(path.to_owned(), fault);
    let (entries, counts) = frames::read(&bytes).map_err(|fault| damaged(fault.to_string()))?;
    let records = replay(entries, codec).map_err(|error| damaged(error.to_string()))?;
    let mut disk = Disk { file, length: counts as u64, broken: false };
    disk.prepare().map_err(failed)?;
    let length = disk.length;
    let (sender, jobs) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name("oncegate-journal".to_owned());
    thread.spawn(move || disk.run(jobs)).map_err(failed)?;
    Ok((Line(sender), records, length))
}

/// Begins a journal where there is no file. It appears with its first bytes: an empty one was emptied by somebody else,
/// and what ran may have been in it.
fn begin(path: &Path) -> io::Result<()> {
    if path.try_exists()? {
        return Ok(());
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // It holds answers, as the store does.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(MAGIC)?;
    file.sync_all()?;
    // A link, where a renaming would take the place of another process's.
    let linked = std::fs::hard_link(&fresh, path);
    std::fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(path),
    }
}

/// What stands at the end of the story.
fn replay(entries: Vec<Entry>, codec: &Codec) -> Result<HashMap<OperationId, Record>, CodecError> {
    let mut last = HashMap::new();
    for entry in entries {
        match entry {
            Entry::Put(id, record) => last.insert(id, record),
            Entry::Remove(id) => last.remove(&id),
        };
    }
    last.into_iter().map(|(id, record)| Ok((id, codec.decode(&id, &record)?))).collect()
}

/// A new file is there after a crash only if its folder says so.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

struct Disk {
    file: File,
    /// How much of the file counts.
    length: u64,
    /// A write has failed, and what it left could not be cut off.
    broken: bool,
}

impl Disk {
    /// Cuts off what does not count.
    fn prepare(&mut self) -> io::Result<()> {
        self.cut(self.length)?;
        self.file.sync_all()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.length = length;
        Ok(())
    }

    fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let (mut entries, mut waiting) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Append(bytes, told) => {
                        entries.extend_from_slice(&bytes);
                        waiting.extend(told);
                    }
                    Job::Empty => {
                        // What came before it need not be written; whoever waits for it has what it wanted.
                        entries.clear();
                        if let Err(error) = self.cut(MAGIC.len() as u64) {
                            tracing::warn!(%error, "the journal could not be emptied; what it holds is handed over again");
                        }
                    }
                }
                next = jobs.try_recv().ok();
            }
            self.write(&entries, waiting);
        }
    }

    fn write(&mut self, entries: &[u8], waiting: Vec<oneshot::Sender<Result<(), StoreError>>>) {
        let answer = self.append(entries).map_err(|error| {
            tracing::error!(%error, "the journal takes nothing");
            StoreError::Unavailable(format!("the journal takes nothing: {error}"))
        });
        for told in waiting {
            // Whoever has left will not act on it.
            let _ = told.send(answer.clone());
        }
    }

    fn append(&mut self, entries: &[u8]) -> io::Result<()> {
        if self.broken {
            self.broken = self.cut(self.length).is_err();
        }
        if self.broken {
            return Err(io::Error::other("an earlier write has failed"));
        }
        if entries.is_empty() {
            return self.file.sync_data();
        }
        let frame = frames::frame(entries);
        let written = self.file.write_all(&frame).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length += frame.len() as u64,
            // Half a frame must not stand before whole ones.
            Err(_) => self.broken = self.cut(self.length).is_err(),
        }
        written
    }
}
