//! What the database holds: records, the order in which they expire, and the time. One transaction's steps, no more.

use std::ops::Bound;

use redb::{AccessGuard, ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};
use sha2::{Digest, Sha256};

use super::super::codec::{self, Codec, CodecError, SealError};
use super::super::{Cursor, Page, Written};
use crate::machine::{Expect, OperationId, Record, Time};

type Id = &'static [u8; 32];

/// Records by operation, as [`Stored`] makes them.
pub(super) const RECORDS: TableDefinition<Id, &[u8]> = TableDefinition::new("records");

/// One entry a record: when it expires. Always in step with [`RECORDS`].
const EXPIRIES: TableDefinition<(u64, Id), ()> = TableDefinition::new("expiries");

/// Facts about the whole database.
const FACTS: TableDefinition<&str, u64> = TableDefinition::new("facts");

/// The fact that says which layout these tables have.
const LAYOUT: &str = "layout";
/// The fact that holds the high-water mark of the store's time, in milliseconds.
const HIGH_WATER: &str = "high-water";

/// The layout that this version reads and writes.
const LAYOUT_VERSION: u64 = 1;

/// A page of a listing ends when its records are this large, however few they are.
const PAGE_BYTES: usize = 4 << 20;

/// Expiry and checksum, in front of a record's bytes.
const FRONT_LEN: usize = 16;

/// The outcome of one change. A record that cannot be read spoils its own change, not its neighbours'.
pub(super) type Answer = Result<Written, CodecError>;

/// A conditional write, or a conditional removal.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) id: OperationId,
    pub(super) expect: Expect,
    /// What to store; none: remove what is there.
    pub(super) put: Option<Stored>,
}

/// A record as it is stored: its expiry and a checksum in front, since the database trusts its pages unseen.
#[derive(Debug)]
pub(super) struct Stored {
    expires: Time,
    bytes: Vec<u8>,
}

impl Stored {
    pub(super) fn new(codec: &Codec, id: &OperationId, record: &Record) -> Result<Self, SealError> {
        let expires = record.expires.0.to_be_bytes();
        let mut bytes = codec.encode_behind(vec![0; FRONT_LEN], id, record)?;
        let sum = checksum(id, expires, &bytes[FRONT_LEN..]);
        bytes[..8].copy_from_slice(&expires);
        bytes[8..FRONT_LEN].copy_from_slice(&sum);
        Ok(Self { expires: record.expires, bytes })
    }
}

/// The id is part of it, so that a record which turns up in another's place does not pass.
fn checksum(id: &OperationId, expires: [u8; 8], body: &[u8]) -> [u8; 8] {
    let digest = Sha256::new().chain_update(id.0).chain_update(expires).chain_update(body).finalize();
    std::array::from_fn(|place| digest[place])
}

/// Takes a stored value apart: when it expires, and the record's bytes.
fn take_apart<'a>(id: &OperationId, stored: &'a [u8]) -> Result<(Time, &'a [u8]), CodecError> {
    let (front, body) = stored.split_first_chunk::<FRONT_LEN>().ok_or(CodecError::Damaged)?;
    let (expires, sum) = front.split_first_chunk::<8>().ok_or(CodecError::Damaged)?;
    if sum != checksum(id, *expires, body) {
        return Err(CodecError::Damaged);
    }
    Ok((Time(u64::from_be_bytes(*expires)), body))
}

/// Whether a stored value is as it was written.
pub(super) fn is_whole(id: &OperationId, stored: &[u8]) -> bool {
    take_apart(id, stored).is_ok()
}

/// What is stored under an operation, for whoever asks at `now`.
struct Found<'a>(Option<&'a [u8]>);

impl<'a> Found<'a> {
    fn new(id: &OperationId, stored: Option<&'a [u8]>, now: Time) -> Result<Self, CodecError> {
        let live = stored.map(|stored| take_apart(id, stored)).transpose()?.filter(|(expires, _)| *expires > now);
        Ok(Self(live.map(|(_, body)| body)))
    }

    fn meets(&self, expect: Expect) -> bool {
        match (expect, self.0) {
            (Expect::Absent, None) => true,
            (Expect::Fence(fence), Some(body)) => body.starts_with(&codec::fence_prefix(&fence)),
            (Expect::Absent, Some(_)) | (Expect::Fence(_), None) => false,
        }
    }

    fn record(&self, codec: &Codec, id: &OperationId) -> Result<Option<Record>, CodecError> {
        self.0.map(|body| codec.decode(id, body)).transpose()
    }
}

/// The answer to a change whose condition does not hold in `records`; none when it does.
fn refusal(
    records: &impl ReadableTable<Id, &'static [u8]>,
    codec: &Codec,
    change: &Change,
    now: Time,
) -> Result<Option<Answer>, redb::StorageError> {
    let stored = records.get(&change.id.0)?;
    let found = match Found::new(&change.id, stored.as_ref().map(AccessGuard::value), now) {
        Ok(found) => found,
        Err(damage) => return Ok(Some(Err(damage))),
    };
    Ok((!found.meets(change.expect)).then(|| found.record(codec, &change.id).map(Written::lost)))
}

/// The high-water mark of the store's time, if the database has the layout that this version knows.
pub(super) fn high_water(transaction: &ReadTransaction) -> Result<Option<Time>, redb::Error> {
    let facts = transaction.open_table(FACTS)?;
    let layout = facts.get(LAYOUT)?.map(|fact| fact.value());
    let mark = facts.get(HIGH_WATER)?.map_or(0, |fact| fact.value());
    Ok((layout == Some(LAYOUT_VERSION)).then_some(Time(mark)))
}

/// Everything that a read transaction sees.
pub(super) struct Frozen {
    pub(super) records: ReadOnlyTable<Id, &'static [u8]>,
    pub(super) expiries: ReadOnlyTable<(u64, Id), ()>,
    pub(super) high_water: Time,
}

impl Frozen {
    /// None if the database has a layout that this version does not know.
    pub(super) fn new(transaction: &ReadTransaction) -> Result<Option<Self>, redb::Error> {
        let Some(high_water) = high_water(transaction)? else { return Ok(None) };
        let (records, expiries) = (transaction.open_table(RECORDS)?, transaction.open_table(EXPIRIES)?);
        Ok(Some(Self { records, expiries, high_water }))
    }
}

/// The records of a read transaction.
pub(super) struct Snapshot {
    pub(super) records: ReadOnlyTable<Id, &'static [u8]>,
    pub(super) codec: Codec,
}

impl Snapshot {
    pub(super) fn load(
        &self,
        id: &OperationId,
        now: Time,
    ) -> Result<Result<Option<Record>, CodecError>, redb::StorageError> {
        let stored = self.records.get(&id.0)?;
        Ok(Found::new(id, stored.as_ref().map(AccessGuard::value), now).and_then(|found| found.record(&self.codec, id)))
    }

    /// The answer to a change that would lose; none when it may win and has to be carried out.
    pub(super) fn refusal(&self, change: &Change, now: Time) -> Result<Option<Answer>, redb::StorageError> {
        refusal(&self.records, &self.codec, change, now)
    }

    /// A cursor that this store did not make starts from the beginning.
    pub(super) fn list(&self, from: &Cursor, limit: usize, now: Time) -> Result<Page, redb::StorageError> {
        let mut page = Page { records: Vec::new(), unreadable: 0, next: None };
        let after: Option<&[u8; 32]> = from.0.as_slice().try_into().ok();
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        for (seen, entry) in self.records.range::<&[u8; 32]>((lower, Bound::Unbounded))?.enumerate() {
            if seen == limit.max(1) || bytes >= PAGE_BYTES {
                return Ok(page);
            }
            let (key, stored) = entry?;
            let id = OperationId(*key.value());
            bytes += stored.value().len();
            page.next = Some(Cursor(id.0.to_vec()));
            match Found::new(&id, Some(stored.value()), now).and_then(|found| found.record(&self.codec, &id)) {
                Ok(Some(record)) => page.records.push((id, record)),
                Ok(None) => {}
                Err(_) => page.unreadable += 1,
            }
        }
        page.next = None;
        Ok(page)
    }
}

/// The tables of a write transaction.
pub(super) struct Tables<'txn> {
    records: Table<'txn, Id, &'static [u8]>,
    expiries: Table<'txn, (u64, Id), ()>,
    facts: Table<'txn, &'static str, u64>,
}

impl<'txn> Tables<'txn> {
    /// Opens the tables; a new database gets them.
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, redb::TableError> {
        Ok(Self {
            records: transaction.open_table(RECORDS)?,
            expiries: transaction.open_table(EXPIRIES)?,
            facts: transaction.open_table(FACTS)?,
        })
    }

    /// Marks a new database with the layout.
    pub(super) fn set_layout(&mut self) -> Result<(), redb::StorageError> {
        self.facts.insert(LAYOUT, LAYOUT_VERSION).map(drop)
    }

    /// Remembers the store's time.
    pub(super) fn set_high_water(&mut self, now: Time) -> Result<(), redb::StorageError> {
        self.facts.insert(HIGH_WATER, now.0).map(drop)
    }

    /// Puts a stored value where it was in another database.
    pub(super) fn put_record(&mut self, id: &[u8; 32], stored: &[u8]) -> Result<(), redb::StorageError> {
        self.records.insert(id, stored).map(drop)
    }

    /// Puts an expiry where it was in another database.
    pub(super) fn put_expiry(&mut self, expires: Time, id: &[u8; 32]) -> Result<(), redb::StorageError> {
        self.expiries.insert((expires.0, id), ()).map(drop)
    }

    /// Carries out a change if its condition holds: by what the last commit left, which has been looked at, or, `anew`, by
    /// what this transaction has made of it.
    pub(super) fn apply(
        &mut self,
        codec: &Codec,
        change: &Change,
        now: Time,
        anew: bool,
    ) -> Result<Answer, redb::StorageError> {
        if anew && let Some(answer) = refusal(&self.records, codec, change, now)? {
            return Ok(answer);
        }
        match &change.put {
            Some(stored) => self.put(&change.id, stored)?,
            None => self.take(&change.id)?,
        }
        Ok(Ok(Written::Done))
    }

    /// Puts a record where there is none, or in the place of the one that is there.
    fn put(&mut self, id: &OperationId, stored: &Stored) -> Result<(), redb::StorageError> {
        let old = self.records.insert(&id.0, stored.bytes.as_slice())?.and_then(|old| expiry_of(old.value()));
        if old == Some(stored.expires) {
            return Ok(());
        }
        if let Some(old) = old {
            self.expiries.remove((old.0, &id.0))?;
        }
        self.expiries.insert((stored.expires.0, &id.0), ()).map(drop)
    }

    /// Frees at most `limit` expired records, the longest expired first, and says how many.
    pub(super) fn reclaim(&mut self, now: Time, limit: usize) -> Result<usize, redb::StorageError> {
        let due: Vec<(u64, [u8; 32])> = self
            .expiries
            .range(..=(now.0, &[0xFF; 32]))?
            .take(limit)
            .map(|entry| {
                entry.map(|(key, _)| {
                    let (expires, id) = key.value();
                    (expires, *id)
                })
            })
            .collect::<Result<_, _>>()?;
        for (expires, id) in &due {
            self.expiries.remove((*expires, id))?;
            self.records.remove(id)?;
        }
        Ok(due.len())
    }

    /// Removes a record, if there is one, from both tables. Its checksum has been checked.
    fn take(&mut self, id: &OperationId) -> Result<(), redb::StorageError> {
        let Some(old) = self.records.remove(&id.0)? else { return Ok(()) };
        if let Some(expires) = expiry_of(old.value()) {
            self.expiries.remove((expires.0, &id.0))?;
        }
        Ok(())
    }
}

/// When a stored value expires, whatever else is in it.
fn expiry_of(stored: &[u8]) -> Option<Time> {
    stored.first_chunk().map(|expires| Time(u64::from_be_bytes(*expires)))
}
