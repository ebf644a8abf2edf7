//! What may be held at once: slots for requests under way, bytes of buffered bodies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The part of a budget that one share keeps at hand at most. A small budget has no such parts.
const AT_HAND: usize = 256;

/// A number of things that may be held at once, shared by all workers. Each worker takes from a [share](Self::share) of
/// its own, which keeps a little of what comes back: so workers seldom count on one number together.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Share>);

/// What all shares count.
#[derive(Debug)]
struct Counts {
    size: AtomicUsize,
    /// Alone in its line of memory: everybody reads the size.
    taken: Apart<AtomicUsize>,
    shares: Mutex<Vec<Weak<Share>>>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// A share counts as taken what it has at hand.
#[derive(Debug)]
struct Share {
    counts: Arc<Counts>,
    at_hand: AtomicUsize,
}

/// What one holder has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    budget: Budget,
    taken: usize,
}

impl Counts {
    /// Takes `amount`, if there is that much.
    fn take(&self, amount: usize) -> bool {
        let size = self.size.load(Ordering::Relaxed);
        let fits = |taken: usize| taken.checked_add(amount).filter(|sum| *sum <= size);
        self.taken.0.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give_back(&self, amount: usize) {
        self.taken.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Has back what the shares have at hand: nobody is refused for what nobody holds, but for what is being given back at
    /// that very moment.
    fn collect(&self) {
        for share in self.shares().iter().filter_map(Weak::upgrade) {
            // At the limit there is nothing at hand, and many ask: they only look.
            if share.at_hand.load(Ordering::Relaxed) > 0 {
                self.give_back(share.at_hand.swap(0, Ordering::Relaxed));
            }
        }
    }

    fn shares(&self) -> MutexGuard<'_, Vec<Weak<Share>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn of(counts: Arc<Counts>) -> Arc<Self> {
        let share = Arc::new(Self { counts, at_hand: AtomicUsize::new(0) });
        let mut shares = share.counts.shares();
        shares.retain(|share| share.strong_count() > 0);
        shares.push(Arc::downgrade(&share));
        drop(shares);
        share
    }

    fn take(&self, amount: usize) -> bool {
        let at_hand = |held: usize| held.checked_sub(amount);
        self.at_hand.try_update(Ordering::Relaxed, Ordering::Relaxed, at_hand).is_ok() || self.counts.take(amount) || {
            self.counts.collect();
            self.counts.take(amount)
        }
    }

    fn give_back(&self, amount: usize) {
        let held = self.at_hand.fetch_add(amount, Ordering::Relaxed) + amount;
        if held > self.counts.size.load(Ordering::Relaxed) / AT_HAND {
            self.counts.give_back(self.at_hand.swap(0, Ordering::Relaxed));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counts.give_back(*self.at_hand.get_mut());
    }
}

impl Budget {
    /// A budget of this size.
    pub(super) fn new(size: usize) -> Self {
        let taken = Apart(AtomicUsize::new(0));
        Self(Share::of(Arc::new(Counts { size: AtomicUsize::new(size), taken, shares: Mutex::default() })))
    }

    /// Another share of the same budget.
    pub(super) fn share(&self) -> Self {
        Self(Share::of(Arc::clone(&self.0.counts)))
    }

    /// Another size from now on. What is taken stays taken, also where it is more than that.
    pub(super) fn resize(&self, size: usize) {
        self.0.counts.size.store(size, Ordering::Relaxed);
        // What is at hand is given out without a look at the size.
        self.0.counts.collect();
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
        let fits = amount == 0 || self.budget.0.take(amount);
        if fits {
            self.taken += amount;
        }
        fits
    }

    /// Takes as much more as makes it `amount` in all, if there is that much.
    pub(super) fn cover(&mut self, amount: usize) -> bool {
        self.grow(amount.saturating_sub(self.taken))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.0.give_back(self.taken);
        }
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

    /// A share of those for all routes together.
    pub(super) fn share(&self) -> Budget {
        self.all.share()
    }

    /// Takes one for a request of this route, out of a share of those for all; or says of what there are too many.
    pub(super) fn take(&self, share: &Budget, route: usize) -> Result<Slot, &'static str> {
        let own = self.routes.get(route).and_then(|(_, own)| own.as_ref());
        let own = own.map(|own| own.take(1).ok_or("requests under way on this route")).transpose()?;
        Ok(Slot((share.take(1).ok_or("requests under way")?, own)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slots: &Slots, route: usize) -> Result<Slot, &'static str> {
        slots.take(&slots.all, route)
    }

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
    fn nobody_is_refused_for_what_another_share_has_at_hand() {
        let budget = Budget::new(1000);
        let shares = [budget.share(), budget.share()];
        for share in &shares {
            drop(share.take(3));
        }
        assert_eq!(shares.each_ref().map(|share| share.0.at_hand.load(Ordering::Relaxed)), [3, 3]);
        let all = budget.take(1000);
        assert!(all.is_some() && shares[0].take(1).is_none());
        drop(all);
        drop(shares);
        assert!(budget.take(1000).is_some(), "a share takes nothing with it");
    }

    #[test]
    fn shares_that_work_at_once_never_hold_more_than_there_is_and_lose_nothing() {
        const SIZE: usize = 600;
        let (budget, held) = (Budget::new(SIZE), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (share, held) = (budget.share(), &held);
                scope.spawn(move || {
                    for turn in 0..20_000 {
                        let amount = 1 + (turn * 7 + thread * 13) % 200;
                        let Some(taken) = share.take(amount) else { continue };
                        assert!(held.fetch_add(amount, Ordering::SeqCst) + amount <= SIZE);
                        held.fetch_sub(amount, Ordering::SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        assert!(budget.take(SIZE).is_some() && budget.0.counts.shares().len() <= 5);
    }

    #[test]
    fn what_is_at_hand_is_gone_when_the_size_changes() {
        let budget = Budget::new(1024);
        drop(budget.take(4));
        budget.resize(1);
        let first = budget.take(1);
        assert!(first.is_some() && budget.take(1).is_none());
    }

    #[test]
    fn a_route_has_its_own_bound_within_that_of_all() {
        let slots = Slots::new(2, [("a", Some(1)), ("b", None)].into_iter());
        let first = taken(&slots, 0);
        assert_eq!(taken(&slots, 0).unwrap_err(), "requests under way on this route");
        let second = taken(&slots, 1);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(taken(&slots, 1).unwrap_err(), "requests under way");
        drop(second);
        assert!(taken(&slots, 0).is_err());
        drop(first);
        assert!(taken(&slots, 0).is_ok());
    }

    #[test]
    fn a_routes_bound_follows_its_name() {
        let slots = Slots::new(9, [("a", Some(1)), ("b", Some(1))].into_iter());
        let held = taken(&slots, 0);
        let next = slots.succeeded_by(9, [("b", Some(1)), ("a", Some(2)), ("c", None)].into_iter());
        assert!(taken(&next, 0).is_ok());
        let second = taken(&next, 1);
        assert!(held.is_ok() && second.is_ok());
        assert!(taken(&next, 1).is_err());
        assert!(taken(&next, 2).is_ok());
    }
}
