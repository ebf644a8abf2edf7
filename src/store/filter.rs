//! The Bloom filter in front of the store: which operations this process may have met. It saves work, decides nothing.
//!
//! A false positive costs a look that was not needed. An operation that another gateway reserved, or this one before a
//! restart, is simply not in it: whoever asks must leave the last word to the store.

mod layout;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use layout::{Generation, Layout, Marks};

use crate::clock::Clock;
use crate::machine::{OperationId, Time};

/// The most that a generation may hold: beyond it memory for the bits cannot be had anyway.
const MOST: usize = 1 << 32;

/// How large the filter is, and how long it remembers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Operations that one generation holds at the stated rate.
    pub capacity: usize,
    /// Share of new operations that may be called perhaps seen, at capacity.
    pub false_positive_rate: f64,
    /// How long a generation takes insertions: the longest time that any route's record may live.
    pub lifetime: Duration,
}

/// Why a filter cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It would hold nothing, or more than there is memory for.
    #[error("the filter's capacity must lie between 1 and {MOST}")]
    Capacity,
    /// The rate is no share.
    #[error("the filter's false positive rate must lie between 0 and 1, both excluded")]
    Rate,
    /// The bits cannot be laid out.
    #[error("the filter cannot be made: {0}")]
    Layout(&'static str),
}

/// A filter of operations, in blocks: each is a small Bloom filter of its own, with a current generation that takes
/// insertions and a previous one, and asks both. So all that is known of an operation lies within a few pages of memory.
///
/// Within capacity an operation is known for at least one `lifetime` after its last insertion.
pub struct Filter {
    blocks: Vec<Mutex<Block>>,
    layout: Layout,
    /// In milliseconds.
    lifetime: AtomicU64,
    /// Since when everything that was claimed is in the filter: a [`Time`], or one of the two below.
    complete_since: AtomicU64,
    /// How often something that may still be alive had to go for want of room.
    discards: AtomicU64,
    clock: Clock,
}

/// Every record that lives is in the filter, however old.
const ALWAYS: u64 = 0;
/// Nobody knows what is missing.
const NEVER: u64 = u64::MAX;

struct Block {
    /// None as long as it would hold nothing: memory is used as it fills.
    current: Option<Box<Generation>>,
    previous: Option<Box<Generation>>,
    /// How many operations the current generation has taken.
    taken: usize,
    /// When the current generation began.
    since: Time,
}

impl Filter {
    /// An empty filter. Its memory (24 bits an operation and generation at a rate of 0.00001) is used as it fills.
    ///
    /// # Errors
    /// When the settings make no filter.
    pub fn new(settings: Settings, clock: Clock) -> Result<Self, SettingsError> {
        let Settings { capacity, false_positive_rate: rate, lifetime } = settings;
        if capacity == 0 || capacity > MOST {
            return Err(SettingsError::Capacity);
        }
        if !(rate > 0.0 && rate < 1.0) {
            return Err(SettingsError::Rate);
        }
        let (blocks, layout) = Layout::new(capacity, rate);
        // One that cannot be made is found out now, and not when it is needed.
        layout.generation().map_err(SettingsError::Layout)?;
        let since = clock.now();
        let block = || Mutex::new(Block { current: None, previous: None, taken: 0, since });
        let filter = Self {
            blocks: std::iter::repeat_with(block).take(blocks).collect(),
            layout,
            lifetime: AtomicU64::new(0),
            complete_since: AtomicU64::new(NEVER),
            discards: AtomicU64::new(0),
            clock,
        };
        filter.remember_for(lifetime);
        Ok(filter)
    }

    /// From now on a generation takes insertions for at least this long. It never takes them for a shorter time than
    /// before: what was recorded under longer times is still there.
    pub fn remember_for(&self, lifetime: Duration) {
        self.lifetime.fetch_max(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the operation was perhaps inserted. `false` is certain for what this process inserted within a lifetime.
    pub fn check(&self, id: &OperationId) -> bool {
        let (block, marks) = (self.block(id), marks(id));
        let generations = [&block.current, &block.previous];
        generations.into_iter().flatten().any(|generation| generation.check(&marks))
    }

    /// Makes the operation known. A block whose generation is full by it begins the next one.
    pub fn insert(&self, id: &OperationId) {
        let mut block = self.block(id);
        if block.insert(&marks(id), &self.layout) && block.taken >= self.layout.capacity {
            let (since, discards) = (block.since, block.previous.is_some());
            block.rotate(self.clock.now());
            if discards {
                self.discarded(since);
            }
        }
    }

    /// Every claim is inserted from here on at the latest; the clock is right by now.
    pub fn starts(&self) {
        let now = self.clock.now().0;
        // Of two that say so at once the first one counts.
        let _ = self.complete_since.compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether an operation that the filter does not know has surely no record: all records were [found](Self::rebuilt) and
    /// inserted, or the filter has run for a whole lifetime, so that older ones are gone.
    pub fn is_complete(&self) -> bool {
        match self.complete_since.load(Ordering::Relaxed) {
            ALWAYS => true,
            NEVER => false,
            since => self.clock.now() >= Time(since).plus(self.lifetime()),
        }
    }

    /// Whether all records that live are in the filter, however old.
    pub fn is_rebuilt(&self) -> bool {
        self.complete_since.load(Ordering::Relaxed) == ALWAYS
    }

    /// How often something that may still be alive had to go: to be asked before a store is read, and told after.
    pub fn discards(&self) -> u64 {
        self.discards.load(Ordering::Relaxed)
    }

    /// Makes an operation known whose record was found, and lives until then.
    pub fn found(&self, id: &OperationId, expires: Time) {
        self.remember_for(expires.since(self.clock.now()));
        self.insert(id);
    }

    /// Every record of the store was inserted, which began when there were so many discards.
    pub fn rebuilt(&self, discards: u64) {
        if self.discards() == discards {
            self.complete_since.store(ALWAYS, Ordering::Relaxed);
        }
    }

    /// What was inserted before `since` is lost.
    fn discarded(&self, since: Time) {
        self.discards.fetch_add(1, Ordering::Relaxed);
        let later = |before| (before != NEVER).then_some(since.0.max(before));
        // Nothing to change where nobody knows anyway.
        let _ = self.complete_since.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Begins the next generation in every block whose current one is older than `lifetime`. A single step, to be
    /// called a few times in a lifetime.
    pub fn rotate_if_due(&self) {
        let now = self.clock.now();
        for mut block in self.all() {
            if now >= block.since.plus(self.lifetime()) {
                block.rotate(now);
            }
        }
    }

    /// How full the current generation is: 0 is empty, near 1 the next one begins.
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    pub fn fill_ratio(&self) -> f64 {
        let taken: usize = self.all().map(|block| block.taken).sum();
        taken as f64 / (self.blocks.len() * self.layout.capacity) as f64
    }

    /// Forgets everything, as a restart does. It may cost time and must change no answer to a client.
    pub fn clear(&self) {
        for mut block in self.all() {
            block.current = None;
            block.previous = None;
            block.taken = 0;
        }
        self.discarded(self.clock.now());
    }

    /// Makes every operation perhaps seen until two lifetimes have gone by: the worst that the filter can do. It may
    /// cost time and must change no answer to a client.
    pub fn saturate(&self) {
        for mut block in self.all() {
            block.saturate(&self.layout);
        }
    }

    fn lifetime(&self) -> Duration {
        Duration::from_millis(self.lifetime.load(Ordering::Relaxed))
    }

    fn block(&self, id: &OperationId) -> MutexGuard<'_, Block> {
        lock(&self.blocks[self.place(id)])
    }

    /// Which block is an operation's: the share of all numbers of 64 bits that lie below its own says that.
    fn place(&self, id: &OperationId) -> usize {
        let place = (u128::from(number(id, 0)) * self.blocks.len() as u128) >> u64::BITS;
        usize::try_from(place).unwrap_or(0)
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Block>> {
        self.blocks.iter().map(lock)
    }
}

/// What of an id goes into the filter. It is a digest, so that sixteen of its bytes do as well as all; those before have
/// chosen the block.
fn marks(id: &OperationId) -> Marks {
    [number(id, 8), number(id, 16)]
}

/// Eight bytes of an id, from there on.
fn number(id: &OperationId, from: usize) -> u64 {
    id.0[from..].first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// A panic elsewhere cannot leave bits half set, so the block is still good.
fn lock(block: &Mutex<Block>) -> MutexGuard<'_, Block> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Block {
    /// Whether it was not there yet.
    fn insert(&mut self, marks: &Marks, layout: &Layout) -> bool {
        let Some(current) = self.current(layout) else { return false };
        let is_new = !current.check_and_set(marks);
        self.taken += usize::from(is_new);
        is_new
    }

    fn saturate(&mut self, layout: &Layout) {
        if let Some(current) = self.current(layout) {
            current.fill();
            self.taken = layout.capacity;
        }
    }

    /// The current generation. One that has been made can be made again.
    fn current(&mut self, layout: &Layout) -> Option<&mut Generation> {
        if self.current.is_none() {
            self.current = layout.generation().ok().map(Box::new);
        }
        self.current.as_deref_mut()
    }

    fn rotate(&mut self, now: Time) {
        self.previous = self.current.take();
        self.taken = 0;
        self.since = now;
    }
}

#[cfg(test)]
mod tests;
