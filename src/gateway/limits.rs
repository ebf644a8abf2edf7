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
    fn grow(&mut self, amount: usize) -> bool {
        let taken = self.budget.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount));
        if taken.is_ok() {
            self.taken += amount;
        }
        taken.is_ok()
    }

    /// Takes as much more as makes it `amount` in all, if there is that much.
    pub(super) fn cover(&mut self, amount: usize) -> bool {
        self.grow(amount.saturating_sub(self.taken))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// Requests that may be under way: in all, and on each route.
#[derive(Debug)]
pub(super) struct Slots {
    all: Budget,
    routes: Vec<Option<Budget>>,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Slot(#[expect(dead_code, reason = "held while the request is under way")] (Hold, Option<Hold>));

impl Slots {
    /// So many in all; and on each route, in order, as many as it says.
    pub(super) fn new(all: usize, routes: impl Iterator<Item = Option<usize>>) -> Self {
        Self { all: Budget::new(all), routes: routes.map(|most| most.map(Budget::new)).collect() }
    }

    /// Takes one for a request of this route; or says of what there are too many.
    pub(super) fn take(&self, route: usize) -> Result<Slot, &'static str> {
        let own = self.routes.get(route).and_then(Option::as_ref);
        let own = own.map(|own| own.take(1).ok_or("requests under way on this route")).transpose()?;
        Ok(Slot((self.all.take(1).ok_or("requests under way")?, own)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = Budget::new(10);
        let mut hold = budget.take(4).unwrap();
        assert!(hold.cover(10) && hold.cover(3));
        assert!(!hold.cover(11));
        assert!(budget.take(1).is_none());
        drop(hold);
        assert!(budget.take(10).is_some());
    }

    #[test]
    fn a_route_has_its_own_bound_within_that_of_all() {
        let slots = Slots::new(2, [Some(1), None].into_iter());
        let first = slots.take(0);
        assert_eq!(slots.take(0).unwrap_err(), "requests under way on this route");
        let second = slots.take(1);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(slots.take(1).unwrap_err(), "requests under way");
        drop(second);
        assert!(slots.take(0).is_err());
        drop(first);
        assert!(slots.take(0).is_ok());
    }
}
