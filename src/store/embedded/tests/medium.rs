//! A disk in memory whose faults are planned: writes that fail or tear, syncs that fail, power that goes. No database.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

/// What a power cut may tear a write into.
const SECTOR: usize = 512;

/// What happens to one write, change of length or sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing of it happens. After a sync that fails, what it should have made durable never will be, and yet it is read:
    /// so Linux does it.
    Fails,
    /// No room: it and nothing of it happens.
    Full,
    /// The first bytes of a write happen; anything else fails.
    Torn(usize),
    /// The power goes: everything fails from here on.
    PowerCut,
}

/// The disk. Its clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Medium(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// What a read gives.
    seen: Vec<u8>,
    /// What is there after a power cut in any case.
    durable: Vec<u8>,
    /// What has been written since the last sync: there or not after a power cut, whole or in part.
    pending: Vec<Change>,
    plan: BTreeMap<usize, Fault>,
    /// Writes, changes of length and syncs so far.
    steps: usize,
    off: bool,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl Medium {
    /// A disk with this on it.
    pub(super) fn new(image: Vec<u8>) -> Self {
        let medium = Self::default();
        let mut inner = medium.inner();
        (inner.seen, inner.durable) = (image.clone(), image);
        drop(inner);
        medium
    }

    /// Plans faults, by the number of the step counted from now.
    pub(super) fn plan(&self, faults: impl IntoIterator<Item = (usize, Fault)>) {
        let mut inner = self.inner();
        let steps = inner.steps;
        inner.plan = faults.into_iter().map(|(step, fault)| (steps + step, fault)).collect();
    }

    pub(super) fn steps(&self) -> usize {
        self.inner().steps
    }

    /// The disk as it is found when the power comes back. `chance` decides what of the unsynced is there.
    pub(super) fn after_power_cut(&self, mut chance: impl FnMut(usize) -> usize) -> Self {
        let inner = self.inner();
        let mut image = inner.durable.clone();
        for change in &inner.pending {
            match (chance(4), change) {
                (0, _) => {}
                (1, Change::Write(at, bytes)) => {
                    // Some of its sectors, in no order.
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if chance(2) == 0 {
                            put(&mut image, at + number * SECTOR, sector);
                        }
                    }
                }
                (_, whole) => whole.apply(&mut image),
            }
        }
        Self::new(image)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl Inner {
    /// The fault that is planned for the next step.
    fn step(&mut self) -> Option<Fault> {
        let fault = self.plan.get(&self.steps).copied();
        self.steps += 1;
        self.off |= fault == Some(Fault::PowerCut);
        if self.off { Some(Fault::PowerCut) } else { fault }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => put(image, *at, bytes),
            Self::Length(length) => image.resize(*length, 0),
        }
    }
}

fn put(image: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if image.len() < at + bytes.len() {
        image.resize(at + bytes.len(), 0);
    }
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn failure(fault: Fault) -> io::Error {
    match fault {
        Fault::Full => io::ErrorKind::StorageFull.into(),
        _ => io::Error::from_raw_os_error(5),
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inner().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.inner();
        if inner.off {
            return Err(failure(Fault::PowerCut));
        }
        let bytes = inner.seen.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut inner = self.inner();
        if let Some(fault) = inner.step() {
            return Err(failure(fault));
        }
        inner.change(Change::Length(place(length)));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.inner();
        match inner.step() {
            Some(Fault::PowerCut) => Err(failure(Fault::PowerCut)),
            Some(fault) => {
                inner.pending.clear();
                Err(failure(fault))
            }
            None => {
                let Inner { durable, pending, .. } = &mut *inner;
                pending.drain(..).for_each(|change| change.apply(durable));
                Ok(())
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.inner();
        match inner.step() {
            Some(Fault::Torn(length)) => {
                let torn = data[..length.min(data.len())].to_vec();
                inner.change(Change::Write(place(offset), torn));
                Err(failure(Fault::Torn(length)))
            }
            Some(fault) => Err(failure(fault)),
            None => {
                inner.change(Change::Write(place(offset), data.to_vec()));
                Ok(())
            }
        }
    }
}
