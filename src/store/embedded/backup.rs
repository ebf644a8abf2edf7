//! A whole database as a stream of bytes, and a database out of such a stream. It neither opens nor closes a live one.
//!
//! The stream: a first line; the high-water mark; then frames, each with a letter in front: `r` a record (operation,
//! length, bytes as they are stored), `x` an expiry (time, operation), and at last `.` with the number of records and
//! SHA-256 over all that came before. What is cut short has no end, so it is never taken for a whole one.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use sha2::{Digest, Sha256};

use super::disk::{self, FILE, guarded};
use super::tables::{Frozen, Tables};
use crate::machine::{OperationId, Time};

const FIRST_LINE: &[u8] = b"oncegate backup 1\n";
const RECORD: u8 = b'r';
const EXPIRY: u8 = b'x';
const END: u8 = b'.';

/// How much is handed on at once.
const CHUNK: usize = 64 << 10;

/// How much is written in one transaction.
const BATCH: usize = 4 << 20;

/// The longest stored record that is believed.
const LONGEST: usize = 1 << 30;

/// Why a copy did not come about. What there was of it is gone.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Something is there already.
    #[error("{} is there already: a backup replaces nothing", .0.display())]
    Exists(PathBuf),
    /// The copy cannot be written, or is not what was written.
    #[error("the copy in {path} cannot be made: {reason}")]
    Unwritable {
        /// Where it was to be.
        path: PathBuf,
        /// What the database or the system says.
        reason: String,
    },
    /// The stream has no end, or makes no sense.
    #[error("the backup broke off or was garbled on its way: {0}")]
    Torn(&'static str),
}

/// A finished copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Its records.
    pub records: u64,
    /// How many of them are damaged, as they were in the original: nothing that looks like an unknown operation.
    pub damaged: u64,
    /// The size of its file.
    pub bytes: u64,
}

/// Writes the stream of a database, as long as `sink` takes it. Whether it took all.
pub(super) fn dump(frozen: &Frozen, sink: impl FnMut(Vec<u8>) -> bool) -> Result<bool, redb::Error> {
    let mut stream = Stream { buffer: Vec::with_capacity(2 * CHUNK), digest: Sha256::new(), sink };
    stream.buffer.extend_from_slice(FIRST_LINE);
    stream.buffer.extend_from_slice(&frozen.high_water.0.to_be_bytes());
    let mut count: u64 = 0;
    for entry in frozen.records.iter()? {
        let (key, stored) = entry?;
        let stored = stored.value();
        let length = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        count += 1;
        if !stream.frame(RECORD, &[key.value(), &length.to_be_bytes(), stored]) {
            return Ok(false);
        }
    }
    for entry in frozen.expiries.iter()? {
        let (key, _) = entry?;
        let (expires, id) = key.value();
        if !stream.frame(EXPIRY, &[&expires.to_be_bytes(), id]) {
            return Ok(false);
        }
    }
    Ok(stream.end(count))
}

struct Stream<F> {
    buffer: Vec<u8>,
    digest: Sha256,
    sink: F,
}

impl<F: FnMut(Vec<u8>) -> bool> Stream<F> {
    fn frame(&mut self, letter: u8, parts: &[&[u8]]) -> bool {
        self.buffer.push(letter);
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        self.buffer.len() < CHUNK || self.hand_on()
    }

    fn hand_on(&mut self) -> bool {
        self.digest.update(&self.buffer);
        (self.sink)(std::mem::replace(&mut self.buffer, Vec::with_capacity(2 * CHUNK)))
    }

    fn end(mut self, count: u64) -> bool {
        self.buffer.push(END);
        self.buffer.extend_from_slice(&count.to_be_bytes());
        self.digest.update(&self.buffer);
        let digest = self.digest.clone().finalize();
        self.buffer.extend_from_slice(&digest);
        (self.sink)(std::mem::take(&mut self.buffer))
    }
}

/// Makes a database out of a stream: under another name, which it only gets rid of when it is whole, safe and checked.
pub struct Copier {
    to: PathBuf,
    partial: Partial,
    database: Option<Database>,
    /// What has come and is not written yet.
    buffer: Vec<u8>,
    /// How much of the buffer is no whole frame, at least.
    needs: usize,
    digest: Sha256,
    begun: bool,
    ended: bool,
    records: u64,
}

/// A directory that goes unless it is kept.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone already, when it has got its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A frame of the stream.
enum Frame<'a> {
    Record([u8; 32], &'a [u8]),
    Expiry(Time, [u8; 32]),
    End(u64, [u8; 32]),
}

impl Copier {
    /// A copier into the directory `to`, which must not be there yet.
    ///
    /// # Errors
    /// When it is, or nothing can be written beside it.
    pub fn new(to: &Path) -> Result<Self, CopyError> {
        if to.symlink_metadata().is_ok() {
            return Err(CopyError::Exists(to.to_owned()));
        }
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".partial-{:016x}", rand::random::<u64>()));
        let partial = PathBuf::from(name);
        let failed = |error: redb::Error| unwritable(to, &error);
        let made = DirBuilder::new().mode(0o700).create(&partial).map_err(redb::Error::from);
        made.map_err(failed)?;
        let partial = Partial(partial);
        let database = guarded(|| Ok(disk::builder().create(partial.0.join(FILE))?)).map_err(failed)?;
        Ok(Self {
            to: to.to_owned(),
            partial,
            database: Some(database),
            buffer: Vec::new(),
            needs: 0,
            digest: Sha256::new(),
            begun: false,
            ended: false,
            records: 0,
        })
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// When they make no sense, or cannot be written.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.needs + BATCH { self.write() } else { Ok(()) }
    }

    /// Ends the copy: it is checked, made safe, and gets its name.
    ///
    /// # Errors
    /// When the stream had no end, or the copy is not what the stream said, or cannot be made safe.
    pub fn finish(mut self) -> Result<Copied, CopyError> {
        self.write()?;
        if !self.ended || !self.buffer.is_empty() {
            return Err(CopyError::Torn("it has no end"));
        }
        let failed = |error: redb::Error| unwritable(&self.to, &error);
        let database = self.database.take();
        guarded(|| database.map_or(Ok(()), |database| Ok(database.close()?))).map_err(failed)?;
        let copied = guarded(|| check(&self.partial.0.join(FILE))).map_err(failed)?;
        if copied.records != self.records {
            return Err(CopyError::Torn("the copy has another number of records"));
        }
        self.name().map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                CopyError::Exists(self.to.clone())
            }
            _ => failed(error.into()),
        })?;
        Ok(copied)
    }

    /// The name comes last: whoever sees it sees a whole copy. A rename replaces no directory that holds anything.
    fn name(&self) -> io::Result<()> {
        disk::sync(&self.partial.0)?;
        std::fs::rename(&self.partial.0, &self.to)?;
        let parent = self.to.parent().filter(|parent| !parent.as_os_str().is_empty());
        disk::sync(parent.unwrap_or(Path::new(".")))
    }

    /// Writes all whole frames of the buffer in one transaction.
    fn write(&mut self) -> Result<(), CopyError> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut from = &buffer[..];
        let high_water = self.begin(&mut from)?;
        let mut frames = Vec::new();
        while let Some((frame, length)) = (!self.ended).then(|| next(from)).transpose()?.flatten() {
            self.take_note(&frame, &from[..length])?;
            from = &from[length..];
            frames.push(frame);
        }
        let to = &self.to;
        let database = self.database.as_ref().ok_or(CopyError::Torn("it goes on behind its end"))?;
        guarded(|| put(database, high_water, &frames)).map_err(|error| unwritable(to, &error))?;
        self.needs = from.len();
        self.buffer = from.to_vec();
        Ok(())
    }

    /// Takes what the stream begins with, once.
    fn begin(&mut self, from: &mut &[u8]) -> Result<Option<Time>, CopyError> {
        if self.begun {
            return Ok(None);
        }
        let head = FIRST_LINE.len() + 8;
        let begin = from.get(..head).ok_or(CopyError::Torn("it ends within its beginning"))?;
        let mark = begin.strip_prefix(FIRST_LINE).and_then(|mark| mark.try_into().ok());
        let mark = mark.map(u64::from_be_bytes).ok_or(CopyError::Torn("it is no backup of this version"))?;
        self.digest.update(begin);
        *from = &from[head..];
        self.begun = true;
        Ok(Some(Time(mark)))
    }

    fn take_note(&mut self, frame: &Frame<'_>, bytes: &[u8]) -> Result<(), CopyError> {
        match frame {
            Frame::Record(..) => self.records += 1,
            Frame::Expiry(..) => {}
            Frame::End(records, digest) => {
                self.digest.update(&bytes[..bytes.len() - digest.len()]);
                if *records != self.records || digest[..] != self.digest.clone().finalize()[..] {
                    return Err(CopyError::Torn("its end does not fit the rest"));
                }
                self.ended = true;
                return Ok(());
            }
        }
        self.digest.update(bytes);
        Ok(())
    }
}

/// The frame that the bytes begin with, and its length; none when it is not whole.
fn next(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, CopyError> {
    let Some((letter, rest)) = bytes.split_first() else { return Ok(None) };
    let parsed = match *letter {
        RECORD => {
            let Some((id, rest)) = rest.split_first_chunk::<32>() else { return Ok(None) };
            let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if length > LONGEST {
                return Err(CopyError::Torn("it has a record that is far too long"));
            }
            rest.get(..length).map(|stored| (Frame::Record(*id, stored), 37 + length))
        }
        EXPIRY => rest.first_chunk::<40>().map(|key| {
            let (expires, id) = (key.first_chunk::<8>(), key.last_chunk::<32>());
            let expires = expires.map_or(0, |expires| u64::from_be_bytes(*expires));
            (Frame::Expiry(Time(expires), id.copied().unwrap_or_default()), 41)
        }),
        END => rest.first_chunk::<40>().map(|end| {
            let (count, digest) = (end.first_chunk::<8>(), end.last_chunk::<32>());
            let count = count.map_or(0, |count| u64::from_be_bytes(*count));
            (Frame::End(count, digest.copied().unwrap_or_default()), 41)
        }),
        _ => return Err(CopyError::Torn("it has a part that this version does not know")),
    };
    Ok(parsed)
}

fn put(database: &Database, high_water: Option<Time>, frames: &[Frame<'_>]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    {
        let mut tables = Tables::open(&transaction)?;
        if let Some(mark) = high_water {
            tables.set_layout()?;
            tables.set_high_water(mark)?;
        }
        for frame in frames {
            match frame {
                Frame::Record(id, stored) => tables.put_record(id, stored)?,
                Frame::Expiry(expires, id) => tables.put_expiry(*expires, id)?,
                Frame::End(..) => {}
            }
        }
    }
    Ok(transaction.commit()?)
}

/// Reads a finished copy back, every page and every record.
fn check(file: &Path) -> Result<Copied, redb::Error> {
    let mut builder = disk::builder();
    let database = builder.set_check_integrity_on_open(true).open(file)?;
    let frozen = Frozen::new(&database.begin_read()?)?.ok_or(redb::Error::Corrupted("it has no layout".to_owned()))?;
    let mut copied = Copied { records: frozen.records.len()?, damaged: 0, bytes: 0 };
    for entry in frozen.records.iter()? {
        let (key, stored) = entry?;
        copied.damaged += u64::from(!super::tables::is_whole(&OperationId(*key.value()), stored.value()));
    }
    drop(frozen);
    database.close()?;
    copied.bytes = file.metadata()?.len();
    Ok(copied)
}

fn unwritable(path: &Path, error: &redb::Error) -> CopyError {
    CopyError::Unwritable { path: path.to_owned(), reason: error.to_string() }
}
