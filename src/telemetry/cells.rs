//! Numbers that many threads count. Each thread has cells of its own for them, so that counting is a load and a store on
//! memory that no other thread writes; whoever reads adds up. Knows nothing of what is counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many threads at once have cells of their own. All others share some, and take turns.
const SLOTS: usize = 256;
/// How many cells a page has.
const PAGE: usize = 512;

/// Where cells are taken from.
pub(super) struct Ledger(Mutex<Free>);

/// What is left of the newest page: the cells from here on.
struct Free {
    page: Arc<Page>,
    from: usize,
}

/// A page of cells, as many times as there are threads that have counted on it.
struct Page {
    own: [OnceLock<Box<Sheet>>; SLOTS],
    shared: OnceLock<Box<Sheet>>,
    turn: Mutex<()>,
}

type Sheet = [AtomicU64; PAGE];

/// A few cells side by side, of which each thread has its own. They begin at zero.
#[derive(Clone)]
pub(super) struct Cells {
    page: Arc<Page>,
    from: usize,
    len: usize,
}

impl Ledger {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Free { page: Page::new(), from: 0 })))
    }
}

impl Page {
    fn new() -> Arc<Self> {
        let own = std::array::from_fn(|_| OnceLock::new());
        Arc::new(Self { own, shared: OnceLock::new(), turn: Mutex::default() })
    }
}

impl Cells {
    /// So many new cells, at most as many as a page has.
    pub(super) fn new(ledger: &Ledger, len: usize) -> Self {
        let mut free = locked(&ledger.0);
        if free.from + len > PAGE {
            *free = Free { page: Page::new(), from: 0 };
        }
        let taken = Self { page: Arc::clone(&free.page), from: free.from, len };
        free.from += len;
        taken
    }

    /// Counts in this thread's cells, which nobody else writes meanwhile.
    #[inline]
    pub(super) fn write(&self, count_in: impl FnOnce(&[AtomicU64])) {
        match self.page.own.get(SLOT.get()).and_then(OnceLock::get) {
            Some(sheet) => count_in(self.of(sheet)),
            None => self.begin(count_in),
        }
    }

    /// Counts what is this thread's first on the page, or what it has no slot for.
    #[cold]
    fn begin(&self, count_in: impl FnOnce(&[AtomicU64])) {
        let blank = || Box::new([const { AtomicU64::new(0) }; PAGE]);
        // A thread that ends may have given its slot back already.
        let slot = HELD.try_with(|held| held.0).unwrap_or(NONE);
        SLOT.set(slot);
        if let Some(own) = self.page.own.get(slot) {
            count_in(self.of(own.get_or_init(blank)));
        } else {
            let _turn = locked(&self.page.turn);
            count_in(self.of(self.page.shared.get_or_init(blank)));
        }
    }

    /// The cells of every thread that has counted in them, or might have.
    pub(super) fn all(&self) -> impl Iterator<Item = &[AtomicU64]> {
        let sheets = self.page.own.iter().chain([&self.page.shared]).filter_map(OnceLock::get);
        sheets.map(|sheet| self.of(sheet))
    }

    #[inline]
    fn of<'a>(&self, sheet: &'a Sheet) -> &'a [AtomicU64] {
        &sheet[self.from..self.from + self.len]
    }
}

/// Adds to a cell that nobody else writes meanwhile.
#[inline]
pub(super) fn add(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No slot of one's own.
const NONE: usize = usize::MAX;

thread_local! {
    /// This thread's slot, once it has counted; known without asking whether the thread is about to end.
    static SLOT: Cell<usize> = const { Cell::new(NONE) };
    static HELD: Held = Held::take();
}

static TAKEN: Mutex<[bool; SLOTS]> = Mutex::new([false; SLOTS]);

/// A slot that this thread holds until it ends. The next one that takes it counts on in its cells.
struct Held(usize);

impl Held {
    fn take() -> Self {
        let mut taken = locked(&TAKEN);
        let Some(free) = taken.iter().position(|taken| !taken) else { return Self(NONE) };
        taken[free] = true;
        Self(free)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        SLOT.set(NONE);
        if let Some(taken) = locked(&TAKEN).get_mut(self.0) {
            *taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn sum(cells: &Cells, at: usize) -> u64 {
        cells.all().map(|cells| cells[at].load(Ordering::Relaxed)).sum()
    }

    #[test]
    fn none_of_many_threads_at_once_loses_anything() {
        let cells = Cells::new(&Ledger::new(), 2);
        let threads = SLOTS + 64;
        let all_there = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    cells.write(|cells| add(&cells[0], 1));
                    all_there.wait();
                    (0..10_000).for_each(|_| cells.write(|cells| add(&cells[1], 1)));
                    all_there.wait();
                });
            }
        });
        assert_eq!((sum(&cells, 0), sum(&cells, 1)), (320, 3_200_000));
        assert!(cells.all().count() <= SLOTS + 1);
    }

    #[test]
    fn threads_that_come_after_others_count_on_in_their_cells() {
        let cells = Cells::new(&Ledger::new(), 1);
        for _ in 0..2 * SLOTS {
            std::thread::scope(|scope| scope.spawn(|| cells.write(|cells| add(&cells[0], 1))).join()).unwrap();
        }
        assert_eq!(sum(&cells, 0), 512);
        assert!(cells.all().count() < SLOTS, "{}", cells.all().count());
    }

    #[test]
    fn what_a_thread_counts_when_it_ends_is_counted() {
        struct Last(Cells);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.write(|cells| add(&cells[0], 1));
            }
        }
        thread_local! {
            static BEFORE: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
            static AFTER: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
        }
        let cells = Cells::new(&Ledger::new(), 1);
        let last = || Last(cells.clone());
        // Whichever way round a thread drops what is its own, one of them comes after the slot.
        let counts = || {
            BEFORE.with(|kept| kept.set(last()).ok());
            cells.write(|cells| add(&cells[0], 1));
            AFTER.with(|kept| kept.set(last()).ok());
        };
        std::thread::scope(|scope| scope.spawn(counts).join()).unwrap();
        assert_eq!(sum(&cells, 0), 3);
    }

    #[test]
    fn cells_do_not_overlap() {
        let ledger = Ledger::new();
        let many: Vec<_> = (0..500).map(|i| Cells::new(&ledger, 1 + i % 16)).collect();
        for cells in &many {
            cells.write(|cells| cells.iter().for_each(|cell| add(cell, 1)));
        }
        for cells in &many {
            assert!((0..cells.len).all(|at| sum(cells, at) == 1));
        }
    }

    #[test]
    fn a_page_comes_with_the_first_write_to_it() {
        let cells = Cells::new(&Ledger::new(), 1);
        assert_eq!(cells.all().count(), 0);
        cells.write(|cells| add(&cells[0], 1));
        assert_eq!(cells.all().count(), 1);
    }
}
