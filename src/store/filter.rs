//! The Bloom filter in front of the store: which operations this process may have met. It saves work, decides nothing.
//!
//! A false positive costs a look that was not needed. An operation that another gateway reserved, or this one before a
//! restart, is simply not in it: whoever asks must leave the last word to the store.

mod bits;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bits::{Bits, Layout};

use crate::clock::Clock;
use crate::machine::{OperationId, Time};

/// Enough that the workers of one machine rarely meet at the same lock, which is held for less than a microsecond; and so
/// few that the ends of their last pages count for nothing.
const SHARDS: usize = 16;

/// So many operations in a shard spread evenly enough.
const MANY: usize = 10_000;

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
}

/// A filter of operations, in shards: each has a current generation that takes insertions and a previous one, and asks
/// both.
///
/// Within capacity an operation is known for at least one `lifetime` after its last insertion.
pub struct Filter {
    shards: Vec<Mutex<Shard>>,
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

/// Alone in its lines of memory: two workers at two shards do not meet there.
#[repr(align(128))]
struct Shard {
    current: Bits,
    /// None when it would hold nothing.
    previous: Option<Bits>,
    layout: Layout,
    /// How many operations the current generation has taken, and how many it may.
    taken: usize,
    capacity: usize,
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
        let keys = rand::random();
        let shard = || Mutex::new(Shard::new(capacity.div_ceil(SHARDS), rate, keys, clock.now()));
        let filter = Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
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
        let shard = self.shard(id);
        shard.current.has(id) || shard.previous.as_ref().is_some_and(|previous| previous.has(id))
    }

    /// Makes the operation known. A shard whose generation is full by it begins the next one.
    pub fn insert(&self, id: &OperationId) {
        let mut shard = self.shard(id);
        if !shard.current.put(id) {
            shard.taken += 1;
            if shard.taken >= shard.capacity {
                let (since, discards) = (shard.since, shard.previous.is_some());
                shard.rotate(self.clock.now());
                if discards {
                    self.discarded(since);
                }
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

    /// Begins the next generation in every shard whose current one is older than `lifetime`. A single step, to be
    /// called a few times in a lifetime.
    pub fn rotate_if_due(&self) {
        let now = self.clock.now();
        for mut shard in self.all() {
            if now >= shard.since.plus(self.lifetime()) {
                shard.rotate(now);
            }
        }
    }

    /// How full the current generation is: 0 is empty, near 1 the next one begins.
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    pub fn fill_ratio(&self) -> f64 {
        let (taken, capacity) =
            self.all().fold((0, 0), |(taken, capacity), shard| (taken + shard.taken, capacity + shard.capacity));
        taken as f64 / capacity as f64
    }

    /// Forgets everything, as a restart does. It may cost time and must change no answer to a client.
    pub fn clear(&self) {
        for mut shard in self.all() {
            shard.current.clear();
            shard.previous = None;
            shard.taken = 0;
        }
        self.discarded(self.clock.now());
    }

    /// Makes every operation perhaps seen until two lifetimes have gone by: the worst that the filter can do. It may
    /// cost time and must change no answer to a client.
    pub fn saturate(&self) {
        for mut shard in self.all() {
            shard.current.fill();
            shard.taken = shard.capacity;
        }
    }

    fn lifetime(&self) -> Duration {
        Duration::from_millis(self.lifetime.load(Ordering::Relaxed))
    }

    fn shard(&self, id: &OperationId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(id.0[0]) % SHARDS])
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

/// A panic elsewhere cannot leave bits half set, so the shard is still good.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// A shard for its even share of the operations.
    fn new(share: usize, rate: f64, keys: [u64; 4], now: Time) -> Self {
        // Ids do not spread evenly: with six standard deviations more no shard is full before its time.
        let capacity = share + 6 * share.isqrt();
        // Where they are few the bits are for all of them; where they are many they differ by so little that shards with
        // less than their share make up for those with more.
        let operations = if share < MANY { capacity } else { share };
        let layout = Layout::of(operations, rate, keys);
        Self { current: Bits::new(layout), previous: None, layout, taken: 0, capacity, since: now }
    }

    fn rotate(&mut self, now: Time) {
        let old = self.previous.take();
        if self.taken > 0 {
            let empty = old.map_or_else(|| Bits::new(self.layout), cleared);
            self.previous = Some(std::mem::replace(&mut self.current, empty));
        }
        self.taken = 0;
        self.since = now;
    }
}

fn cleared(mut generation: Bits) -> Bits {
    generation.clear();
    generation
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const CAPACITY: u64 = 20_000;
    const RATE: f64 = 0.001;
    const LIFETIME: Duration = Duration::from_hours(1);

    fn filter(clock: &Clock) -> Filter {
        let settings =
            Settings { capacity: usize::try_from(CAPACITY).unwrap(), false_positive_rate: RATE, lifetime: LIFETIME };
        Filter::new(settings, clock.clone()).unwrap()
    }

    fn clock() -> Clock {
        Clock::manual(Time(1_000))
    }

    fn id(number: u64) -> OperationId {
        OperationId(Sha256::digest(number.to_be_bytes()).into())
    }

    fn insert(filter: &Filter, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| filter.insert(&id(number)));
    }

    fn knows_all(filter: &Filter, mut numbers: std::ops::Range<u64>) -> bool {
        numbers.all(|number| filter.check(&id(number)))
    }

    /// The share of these operations that the filter calls perhaps seen.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn share_known(filter: &Filter, numbers: std::ops::Range<u64>) -> f64 {
        let count = numbers.end - numbers.start;
        numbers.filter(|number| filter.check(&id(*number))).count() as f64 / count as f64
    }

    fn pass_a_lifetime(filter: &Filter, clock: &Clock) {
        clock.advance(LIFETIME);
        filter.rotate_if_due();
    }

    #[test]
    fn knows_two_generations_and_forgets_the_third() {
        let clock = clock();
        let filter = filter(&clock);
        insert(&filter, 0..CAPACITY);
        pass_a_lifetime(&filter, &clock);
        assert!(filter.fill_ratio() < f64::EPSILON);
        insert(&filter, CAPACITY..2 * CAPACITY);
        assert!(knows_all(&filter, 0..2 * CAPACITY), "a false negative");
        pass_a_lifetime(&filter, &clock);
        assert!(knows_all(&filter, CAPACITY..2 * CAPACITY), "a false negative");
        assert!(share_known(&filter, 0..CAPACITY) < 3.0 * RATE);
        pass_a_lifetime(&filter, &clock);
        assert!(share_known(&filter, 0..2 * CAPACITY) < f64::EPSILON);
    }

    #[test]
    fn does_not_rotate_before_its_time() {
        let clock = clock();
        let filter = filter(&clock);
        insert(&filter, 0..100);
        for _ in 0..3 {
            clock.advance(LIFETIME / 4);
            filter.rotate_if_due();
        }
        assert!(filter.fill_ratio() > 0.0);
    }

    #[test]
    fn keeps_the_stated_rate_at_capacity() {
        let clock = clock();
        let filter = filter(&clock);
        insert(&filter, 0..CAPACITY);
        assert!((0.5..1.0).contains(&filter.fill_ratio()), "{}", filter.fill_ratio());
        let strangers = 1_000_000..1_100_000;
        let one = share_known(&filter, strangers.clone());
        assert!(one < 2.0 * RATE, "{one}");
        pass_a_lifetime(&filter, &clock);
        insert(&filter, CAPACITY..2 * CAPACITY);
        // Two full generations are asked.
        let two = share_known(&filter, strangers);
        assert!(two < 3.0 * RATE, "{two}");
    }

    /// Millions of operations at the usual rate: 3 bytes for each in a generation, and none of the memory used before it
    /// is needed.
    #[test]
    #[cfg(target_os = "linux")]
    fn its_memory_is_bounded_and_used_as_it_fills() {
        const MANY: usize = 60_000_000;
        let before = resident();
        let settings = Settings { capacity: MANY, false_positive_rate: 0.000_01, lifetime: LIFETIME };
        let filter = Filter::new(settings, clock()).unwrap();
        let bytes: usize = filter.all().map(|shard| shard.current.bytes()).sum();
        assert!(bytes <= 3 * MANY, "{bytes}");
        insert(&filter, 0..100);
        assert!(!filter.check(&id(200)));
        // A generation that has taken nothing is not gone through either.
        filter.all().for_each(|mut shard| shard.rotate(Time(2_000)));
        let used = usize::try_from(resident().saturating_sub(before)).unwrap();
        // Pages that 100 operations touch, and what other tests take meanwhile.
        assert!(used < bytes / 4, "{used} of {bytes}");
    }

    /// Bytes of this process that are in memory.
    #[cfg(target_os = "linux")]
    fn resident() -> u64 {
        let told = std::fs::read_to_string("/proc/self/statm").unwrap();
        told.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn beyond_capacity_the_oldest_go_first() {
        let filter = filter(&clock());
        insert(&filter, 0..5 * CAPACITY);
        assert!(knows_all(&filter, 4 * CAPACITY..5 * CAPACITY), "a false negative");
        assert!(share_known(&filter, 0..CAPACITY) < 3.0 * RATE);
    }

    #[test]
    fn a_full_generation_gives_no_early_end_to_the_one_before() {
        let clock = clock();
        let filter = filter(&clock);
        // One shard is filled until it begins its next generation, shortly before the lifetime ends.
        clock.advance(LIFETIME / 60 * 59);
        let mut same_shard = (0..).map(id).filter(|id| usize::from(id.0[0]) % SHARDS == 7);
        let first = same_shard.next().unwrap();
        filter.insert(&first);
        while lock(&filter.shards[7]).taken > 0 {
            filter.insert(&same_shard.next().unwrap());
        }
        clock.advance(LIFETIME / 60);
        filter.rotate_if_due();
        assert!(filter.check(&first));
    }

    #[test]
    fn inserting_again_takes_no_room() {
        let filter = filter(&clock());
        for _ in 0..2 * CAPACITY {
            filter.insert(&id(7));
        }
        let taken: usize = filter.all().map(|shard| shard.taken).sum();
        assert_eq!(taken, 1);
    }

    #[test]
    fn can_be_emptied_and_saturated() {
        let filter = filter(&clock());
        insert(&filter, 0..1_000);
        filter.clear();
        assert!(share_known(&filter, 0..1_000) < f64::EPSILON);
        assert!(filter.fill_ratio() < f64::EPSILON);
        filter.saturate();
        insert(&filter, 0..2 * CAPACITY);
        assert!(knows_all(&filter, 1_000_000..1_010_000));
        assert!(filter.fill_ratio() > 0.99);
        filter.clear();
        assert!(!filter.check(&id(1_000_000)));
    }

    #[test]
    fn is_complete_after_a_lifetime_or_when_it_was_rebuilt() {
        let clock = clock();
        let filter = filter(&clock);
        clock.advance(LIFETIME * 2);
        assert!(!filter.is_complete(), "nobody has said that claims are inserted");
        filter.starts();
        clock.advance(LIFETIME / 2);
        filter.starts();
        assert!(!filter.is_complete());
        clock.advance(LIFETIME / 2);
        assert!(filter.is_complete() && !filter.is_rebuilt());
        // A record that lives longer than any of the present routes would keep one.
        filter.found(&id(1), clock.now().plus(LIFETIME * 3));
        assert!(!filter.is_complete());
        filter.rebuilt(filter.discards());
        assert!(filter.is_complete() && filter.is_rebuilt());
        for _ in 0..5 {
            clock.advance(LIFETIME / 2);
            filter.rotate_if_due();
        }
        assert!(filter.check(&id(1)), "as long as the record lives");
    }

    #[test]
    fn what_had_to_go_for_want_of_room_makes_it_incomplete_until_it_is_rebuilt() {
        let clock = clock();
        let filter = filter(&clock);
        filter.rebuilt(filter.discards());
        let before = filter.discards();
        insert(&filter, 0..CAPACITY / 2);
        assert!(filter.is_complete());
        clock.advance(LIFETIME / 10);
        insert(&filter, 0..3 * CAPACITY);
        assert!(!filter.is_complete() && filter.discards() > before);
        filter.rebuilt(before);
        assert!(!filter.is_complete(), "it went while the store was read");
        clock.advance(LIFETIME);
        assert!(filter.is_complete(), "what went would be gone by now");
        filter.clear();
        assert!(!filter.is_complete());
    }

    #[test]
    fn many_threads_lose_nothing() {
        let filter = filter(&clock());
        std::thread::scope(|scope| {
            for part in 0..4 {
                let filter = &filter;
                scope.spawn(move || insert(filter, part * 4_000..(part + 1) * 4_000));
            }
        });
        assert!(knows_all(&filter, 0..16_000));
    }

    #[test]
    fn settings_that_make_no_filter_are_refused() {
        let made = |capacity, false_positive_rate| {
            let settings = Settings { capacity, false_positive_rate, lifetime: LIFETIME };
            Filter::new(settings, clock()).map(|_| ())
        };
        assert_eq!(made(0, 0.1), Err(SettingsError::Capacity));
        assert_eq!(made(usize::MAX, 0.1), Err(SettingsError::Capacity));
        for rate in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(made(100, rate), Err(SettingsError::Rate));
        }
        assert_eq!(made(1, 0.999_999), Ok(()));
        assert_eq!(made(1, 1e-300), Ok(()));
    }
}
