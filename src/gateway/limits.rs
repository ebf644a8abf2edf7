//! What may be held at once: slots for requests under way, bytes of buffered bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of things that may be held at once, shared by all workers.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<AtomicUsize>);

/// What one holder has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    budget: Budget,
    taken: usize,
}

impl Budget {
    /// A budget of this size.
    pub(super) fn new(size: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(size)))
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
        let taken = self.budget.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount));
        if taken.is_ok() {
            self.taken += amount;
        }
        taken.is_ok()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken, Ordering::Relaxed);
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
}
