//! Places for connections: how many may be open, and which is closed to make room. What they carry is not its matter.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::wire::Watch;

/// Connections over the limit that are being told so, at once; any more are closed without a word.
const FAREWELLS: usize = 256;
/// How many open connections are looked at to find one that rests.
const LOOKS: usize = 64;

/// Connections that may be open at once, over all workers.
///
/// When all places are taken, one that has rested long makes room for a newcomer.
#[derive(Debug, Clone, Default)]
pub struct Connections {
    open: Arc<AtomicUsize>,
    leaving: Arc<AtomicUsize>,
    watched: Arc<Mutex<VecDeque<Weak<Watch>>>>,
}

/// One open connection.
pub(super) struct Place(Arc<AtomicUsize>);

impl Connections {
    /// A place for a newcomer. One that was told to leave still has its own for a moment.
    pub(super) fn take(&self, most: usize) -> Option<Place> {
        let (place, others) = Place::new(&self.open);
        (others < most || self.make_room()).then_some(place)
    }

    /// A place for one that is told that there is no place.
    pub(super) fn farewell(&self) -> Option<Place> {
        let (place, others) = Place::new(&self.leaving);
        (others < FAREWELLS).then_some(place)
    }

    /// A connection that can be told to leave while it rests.
    pub(super) fn watch(&self, watch: &Arc<Watch>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Each newcomer looks at two old ones, so those that are closed never become many.
        for _ in 0..2 {
            if let Some(known) = watched.pop_front().filter(|known| known.strong_count() > 0) {
                watched.push_back(known);
            }
        }
        watched.push_back(Arc::downgrade(watch));
    }

    /// Tells the one to leave that has rested longest, of as many as can be looked at quickly.
    fn make_room(&self) -> bool {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut longest = None;
        for _ in 0..LOOKS.min(watched.len()) {
            let Some((known, watch)) = watched.pop_front().and_then(|known| Some((known.clone(), known.upgrade()?)))
            else {
                continue;
            };
            watched.push_back(known);
            if let Some(since) = watch.resting()
                && longest.as_ref().is_none_or(|(longest, _)| since < *longest)
            {
                longest = Some((since, watch));
            }
        }
        longest.is_some_and(|(_, watch)| watch.dismiss())
    }
}

impl Place {
    fn new(count: &Arc<AtomicUsize>) -> (Self, usize) {
        let others = count.fetch_add(1, Ordering::Relaxed);
        (Self(Arc::clone(count)), others)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http::Version;

    use super::*;
    use crate::wire::Phase;

    #[test]
    fn places_are_given_back() {
        let connections = Connections::default();
        let first = connections.take(1);
        assert!(first.is_some());
        assert!(connections.take(1).is_none());
        drop(first);
        assert!(connections.take(1).is_some());
    }

    #[test]
    fn the_one_that_rested_longest_makes_room() {
        let connections = Connections::default();
        let open = |_| {
            let watch = Arc::new(Watch::new(Version::HTTP_11));
            connections.watch(&watch);
            (watch, connections.take(3).unwrap())
        };
        let held: Vec<_> = (0..3).map(open).collect();
        let busy = held[0].0.begin();
        // The second comes back to rest after the third.
        drop(held[1].0.begin());
        let phases = || held.iter().map(|(watch, _)| watch.waits(Waker::noop())).collect::<Vec<_>>();
        let fourth = connections.take(3);
        assert!(fourth.is_some());
        assert!(matches!(phases()[..], [Phase::Busy, Phase::Rest(_), Phase::Leaving]), "{:?}", phases());
        let fifth = connections.take(3);
        assert!(fifth.is_some());
        assert!(matches!(phases()[..], [Phase::Busy, Phase::Leaving, Phase::Leaving]), "{:?}", phases());
        assert!(connections.take(3).is_none(), "a busy connection makes no room");
        drop(busy);
        assert!(connections.take(3).is_some());
    }

    #[test]
    fn closed_connections_are_forgotten() {
        let connections = Connections::default();
        for _ in 0..1_000 {
            connections.watch(&Arc::new(Watch::new(Version::HTTP_11)));
        }
        assert!(connections.watched.lock().unwrap().len() <= 2);
    }
}
