//! The bounded look through the store that makes crash doubts visible without a duplicate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::doubts::Beside;
use super::{Arbiter, Shared, Terms};
use crate::machine::{Expect, NamespaceTag, OperationId, Policy, Record, State, Time, lapse};
use crate::store::{Cursor, StoreError, Written};
use crate::telemetry::{DoubtsFound, RouteMetrics, StoreOp};

/// Records looked at in one step. Few: what a store and a processor do for one page, they do for nobody else meanwhile.
const PAGE: usize = 100;
/// How long before its end a doubt counts as expiring: time for somebody to look into it.
const SOON: Duration = Duration::from_hours(24);

/// A namespace that the sweep knows: its route's counters, and the rules that its operations live by.
#[derive(Clone)]
pub struct Watched {
    /// The route's counters.
    pub route: Arc<RouteMetrics>,
    /// The rules.
    pub policy: Arc<Policy>,
    /// Under which terms the upstream is asked about its doubts; none: it is not.
    pub probed: Option<Terms>,
    /// Where it holds second keys: the namespaces of the first ones. Two operations that one attempt holds are one
    /// trouble, and that is counted by its first, as soon as that one is in doubt.
    pub second_to: HashSet<NamespaceTag>,
}

/// A pass through the store, a page a step. Leases that ended lapse; doubts are counted, by namespace, for the metrics.
pub struct Sweep {
    watched: HashMap<NamespaceTag, Watched>,
    from: Cursor,
    /// Doubts of this pass.
    doubts: HashMap<NamespaceTag, Found>,
    /// Where this pass puts what it finds into the filter: how much that had discarded before.
    rebuilds: Option<u64>,
    /// No pass has come to its end: who noticed the doubts that are met may be gone.
    first: bool,
}

/// Doubts of one namespace.
struct Found {
    count: usize,
    expiring: usize,
    oldest: Time,
}

impl Sweep {
    /// A sweep of these namespaces; records of others are left alone.
    pub fn new(watched: HashMap<NamespaceTag, Watched>) -> Self {
        Self { watched, from: Cursor::START, doubts: HashMap::new(), rebuilds: None, first: true }
    }

    /// From now on these are the namespaces. A route that is watched no longer has no doubts to tell of.
    pub fn watch(&mut self, watched: HashMap<NamespaceTag, Watched>) {
        let before = std::mem::replace(&mut self.watched, watched);
        let stays = |route: &RouteMetrics| self.watched.values().any(|watched| watched.route.name() == route.name());
        for gone in before.values().filter(|watched| !stays(&watched.route)) {
            gone.route.doubts_found(DoubtsFound::default());
        }
    }

    /// Looks at one page. True when that was the last one: the counts are then published, and the next step begins anew.
    ///
    /// # Errors
    /// When the store did not answer: the pass begins anew.
    pub async fn step(&mut self, arbiter: &Arbiter) -> Result<bool, StoreError> {
        // Until this step has succeeded, the next one begins anew.
        let from = std::mem::replace(&mut self.from, Cursor::START);
        if from == Cursor::START {
            self.doubts.clear();
            let Shared { filter, journal, .. } = &**arbiter.shared();
            self.rebuilds = (journal.is_some() && !filter.is_rebuilt()).then(|| filter.discards());
        }
        let page = arbiter.timed(StoreOp::List, arbiter.store().list(from, PAGE)).await?;
        if page.unreadable > 0 {
            self.rebuilds = None;
        }
        for (id, record) in page.records {
            if self.rebuilds.is_some() {
                arbiter.shared().filter.found(&id, record.expires);
            }
            self.look_at(arbiter, &id, record).await?;
        }
        let done = page.next.is_none();
        if let Some(next) = page.next {
            self.from = next;
        } else {
            self.publish(arbiter);
            if let Some(discards) = self.rebuilds {
                arbiter.shared().filter.rebuilt(discards);
                arbiter.shared().publish_completeness();
            }
            self.first = false;
        }
        Ok(done)
    }

    async fn look_at(&mut self, arbiter: &Arbiter, id: &OperationId, record: Record) -> Result<(), StoreError> {
        let Some(Watched { policy, probed, second_to, .. }) = self.watched.get(&record.namespace) else {
            return Ok(());
        };
        let (doubt_retention, now) = (policy.doubt_retention, arbiter.shared().clock.now());
        let (record, from) = match lapse(&record, doubt_retention, now) {
            None => (record, (!self.first).then_some(now)),
            Some(doubt) => {
                let expect = Expect::Fence(record.fence);
                match arbiter.timed(StoreOp::Settle, arbiter.store().write(id, expect, &doubt)).await? {
                    // Somebody else moved it on: the next pass sees how.
                    Written::Lost(_) => return Ok(()),
                    Written::Done => {
                        arbiter.lapsed(id);
                        (doubt, Some(now))
                    }
                }
            }
        };
        match arbiter.look_beside(id, &record, policy).await {
            Beside::Over(_) => return Ok(()),
            Beside::Open(first) if second_to.contains(&first) => return Ok(()),
            Beside::Open(_) | Beside::Nothing => {}
        }
        if let State::InDoubt { since, .. } = record.state {
            let found = self.doubts.entry(record.namespace).or_insert(Found { count: 0, expiring: 0, oldest: since });
            found.count += 1;
            found.oldest = since.min(found.oldest);
            // Where doubts are short, the last half of their time.
            if record.expires.since(now) <= SOON.min(doubt_retention / 2) {
                found.expiring += 1;
            }
            if let Some(terms) = probed {
                arbiter.noticed(id, &record, terms, from);
            }
        }
        Ok(())
    }

    fn publish(&mut self, arbiter: &Arbiter) {
        let doubts = std::mem::take(&mut self.doubts);
        let now = arbiter.shared().clock.now();
        // A route with two keys has two namespaces.
        let mut by_route: HashMap<&str, (&RouteMetrics, DoubtsFound)> = HashMap::new();
        for (namespace, watched) in &self.watched {
            let none = || (&*watched.route, DoubtsFound::default());
            let (_, sum) = by_route.entry(watched.route.name()).or_insert_with(none);
            if let Some(found) = doubts.get(namespace) {
                sum.count += found.count;
                sum.expiring += found.expiring;
                sum.oldest = sum.oldest.max(now.since(found.oldest));
            }
        }
        for (route, found) in by_route.into_values() {
            route.doubts_found(found);
        }
    }
}
