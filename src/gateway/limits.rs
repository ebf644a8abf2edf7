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
    fn grow(&mut self, amount: usize) -> bool {
        let size = self.budget.0.size.load(Ordering::Relaxed);
        let fits = |taken: usize| taken.checked_add(amount).filter(|sum| amount == 0 || *sum <= size);
        let taken = self.budget.0.taken.try_update(Ordering::Relaxed, Ordering::Relaxed, fits);
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
        self.budget.0.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// Requests that may be under way: in all, and on each route.
#[derive(Debug)]
pub(super) struct Slots {
    all: Budget,
    /// By the route's name.
    routes: Vec<(String, Option<Budget>)>,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Slot(#[expect(dead_code, reason = "held while the request is under way")] (Hold, Option<Hold>));

impl Slots {
    /// So many in all; and on each route, in order, as many as it says.
    pub(super) fn new<'a>(all: usize, routes: impl Iterator<Item = (&'a str, Option<usize>)>) -> Self {
        let own = |(name, most): (&str, Option<usize>)| (name.to_owned(), most.map(Budget::new));
        Self { all: Budget::new(all), routes: routes.map(own).collect() }
    }

    /// The same with other numbers. What is under way counts on, on a route as long as its name stays.
    pub(super) fn succeeded_by<'a>(&self, all: usize, routes: impl Iterator<Item = (&'a str, Option<usize>)>) -> Self {
        self.all.resize(all);
        let known = |name: &str| self.routes.iter().find(|(known, _)| known == name).and_then(|(_, own)| own.clone());
        let own = |name: &str, most: usize| match known(name) {
            Some(own) => {
                own.resize(most);
                own
            }
            None => Budget::new(most),
        };
        let routes = routes.map(|(name, most)| (name.to_owned(), most.map(|most| own(name, most)))).collect();
        Self { all: self.all.clone(), routes }
    }

    /// Takes one for a request of this route; or says of what there are too many.
    pub(super) fn take(&self, route: usize) -> Result<Slot, &'static str> {
        let own = self.routes.get(route).and_then(|(_, own)| own.as_ref());
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

    #[test]
    fn a_route_has_its_own_bound_within_that_of_all() {
        let slots = Slots::new(2, [("a", Some(1)), ("b", None)].into_iter());
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

    #[test]
    fn a_routes_bound_follows_its_name() {
        let slots = Slots::new(9, [("a", Some(1)), ("b", Some(1))].into_iter());
        let held = slots.take(0);
        let next = slots.succeeded_by(9, [("b", Some(1)), ("a", Some(2)), ("c", None)].into_iter());
        assert!(next.take(0).is_ok());
        let second = next.take(1);
        assert!(held.is_ok() && second.is_ok());
        assert!(next.take(1).is_err());
        assert!(next.take(2).is_ok());
    }
}
