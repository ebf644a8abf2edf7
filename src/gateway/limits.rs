//! What may be held at once: slots for requests under way, bytes of buffered bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of things that may be held at once, shared by all workers.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    size: AtomicUsize,
    taken: AtomicUsize,
}

/// What one holder has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    budget: Budget,
    taken: usize,
}

impl Budget {
    /// A budget of this size.
    pub(super) fn new(size: usize) -> Self {
        Self(Arc::new(Counts { size: AtomicUsize::new(size), taken: AtomicUsize::new(0) }))
    }

    /// Another size from now on. What is taken stays taken, also where it is more than that.
    pub(super) fn resize(&self, size: usize) {
        self.0.size.store(size, Ordering::Relaxed);
    }

    /// Takes `amount`, if there is that much.
    pub(super) fn take(&self, amount: usize) -> Option<Hold> {
        let mut hold = self.hold();
        hold.grow(amount).then_some(hold)
    }

    /// Takes nothing yet.
    pub(super) fn hold(&self) -> Hold {
        Hold { budget: self.clone(), taken: 0 }
    }
}

impl Hold {
    /// Takes `amount` more, if there is that much.
    pub(super) fn grow(&mut self, amount: usize) -> bool {
        let size = self.budget.0.size.load(Ordering::Relaxed);
        let fits = |taken: usize| taken.checked_add(amount).filter(|sum| amount == 0 || *sum <= size);
        let taken = self.budget.0.taken.try_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if taken.is_ok() {
            self.taken += amount;
        }
        taken.is_ok()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.0.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = Budget::new(10);
        let mut hold = budget.take(4).unwrap();
        assert!(hold.grow(6));
        assert!(!hold.grow(1));
        assert!(budget.take(1).is_none());
        drop(hold);
        assert!(budget.take(10).is_some());
    }

    #[test]
    fn a_new_size_counts_what_is_taken_already() {
        let budget = Budget::new(10);
        let hold = budget.take(8).unwrap();
        budget.resize(4);
        assert!(budget.take(1).is_none());
        budget.resize(9);
        assert!(budget.take(1).is_some());
        drop(hold);
        assert!(budget.take(10).is_none());
        assert!(budget.take(9).is_some());
    }
}
