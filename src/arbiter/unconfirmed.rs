//! Claims whose reply was lost. Nothing was sent for them, so each is withdrawn as soon as the store answers, and
//! recognised if a request meets it before.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Arbiter;
use super::few_first::few_first;
use super::settling::{Step, settle_once};
use crate::machine::{AttemptId, Ending, OperationId, Policy, Record, Settled, Time};
use crate::store::StoreError;

/// How long a claim is remembered after it was not found: a command that a connection lost can still arrive late.
const GRACE: Duration = Duration::from_mins(1);
/// Claims remembered at most. One that finds no place lapses with its lease instead, which is safe and slower.
const MOST: usize = 65_536;
/// Claims looked at in one step, all at once: after a long outage there are thousands, and each may block its key.
const BATCH: usize = 1_024;

/// Claims that may or may not be in the store.
#[derive(Default)]
pub struct Unconfirmed {
    claims: Mutex<Claims>,
    /// How many there are: for those who only ask whether there are any, which all workers do all the time.
    count: AtomicUsize,
}

#[derive(Default)]
struct Claims {
    by_name: HashMap<Name, Claim>,
    /// Whose turn is next. New ones come first; those that were not found stand at the back, so that they never hold up
    /// the others.
    turns: VecDeque<Name>,
}

type Name = (OperationId, AttemptId);

#[derive(Clone)]
struct Claim {
    record: Record,
    policy: Arc<Policy>,
    since: Time,
}

/// A claim under way: remembered if it is dropped before the store has answered.
pub(super) struct Pending<'a> {
    arbiter: &'a Arbiter,
    id: OperationId,
    record: &'a Record,
    policy: &'a Arc<Policy>,
    answered: bool,
}

impl<'a> Pending<'a> {
    pub(super) fn new(arbiter: &'a Arbiter, id: OperationId, record: &'a Record, policy: &'a Arc<Policy>) -> Self {
        Self { arbiter, id, record, policy, answered: false }
    }

    /// The store has answered: whatever it said, nothing is unconfirmed.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let shared = self.arbiter.shared();
        let since = shared.clock.now();
        let claim = Claim { record: self.record.clone(), policy: Arc::clone(self.policy), since };
        shared.unconfirmed.change(|claims| claims.insert((self.id, self.record.fence.attempt), claim));
    }
}

impl Claims {
    fn insert(&mut self, name: Name, claim: Claim) {
        // A second claim of the same name takes the first one's place and turn.
        if self.by_name.len() < MOST && self.by_name.insert(name, claim).is_none() {
            self.turns.push_front(name);
        }
    }

    /// Those whose turn it is; each goes to the back.
    fn next(&mut self) -> Vec<(Name, Claim)> {
        let due: Vec<_> = self.turns.drain(..self.turns.len().min(BATCH)).collect();
        let known = due.into_iter().filter_map(|name| Some((name, self.by_name.get(&name)?.clone())));
        let batch: Vec<_> = known.collect();
        self.turns.extend(batch.iter().map(|(name, _)| *name));
        batch
    }
}

impl Unconfirmed {
    /// How many claims are remembered.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Withdraws some of the remembered claims; one step of a background task.
    ///
    /// # Errors
    /// When the store still does not answer: the claims stay remembered.
    pub async fn withdraw(&self, arbiter: &Arbiter) -> Result<(), StoreError> {
        let batch = self.lock().next();
        few_first(batch, |(name, claim)| async move { self.withdraw_remembered(arbiter, &name, &claim).await }).await
    }

    /// Withdraws this claim, if it is remembered.
    pub(super) async fn withdraw_claim(
        &self,
        arbiter: &Arbiter,
        id: OperationId,
        attempt: AttemptId,
    ) -> Result<(), StoreError> {
        let claim = self.lock().by_name.get(&(id, attempt)).cloned();
        match claim {
            Some(claim) => self.withdraw_remembered(arbiter, &(id, attempt), &claim).await,
            None => Ok(()),
        }
    }

    async fn withdraw_remembered(&self, arbiter: &Arbiter, name: &Name, claim: &Claim) -> Result<(), StoreError> {
        let done = match self.withdraw_one(arbiter, &name.0, name.1, claim).await {
            // What is there is no claim of ours, and must not keep the others waiting.
            Err(StoreError::Unreadable(_)) => true,
            answered => answered?,
        };
        if done {
            self.change(|claims| claims.by_name.remove(name));
        }
        Ok(())
    }

    /// Withdraws the claim that a request has met, if it is one of these. True when there was one: what the request has
    /// met is then no longer so.
    pub(super) async fn withdraw_met(
        &self,
        arbiter: &Arbiter,
        id: &OperationId,
        met: &Record,
    ) -> Result<bool, StoreError> {
        let name = (*id, met.fence.attempt);
        let Some(claim) = self.lock().by_name.get(&name).cloned() else { return Ok(false) };
        Box::pin(self.withdraw_one(arbiter, id, met.fence.attempt, &claim)).await?;
        Ok(true)
    }

    /// Settles the claim as never sent: the first attempt's frees the key, a later one's leads back to doubt. True when
    /// it need not be remembered any longer.
    async fn withdraw_one(
        &self,
        arbiter: &Arbiter,
        id: &OperationId,
        attempt: AttemptId,
        claim: &Claim,
    ) -> Result<bool, StoreError> {
        let mut found = Some(Arc::new(claim.record.clone()));
        for _ in 0..super::ROUNDS {
            let step =
                settle_once(arbiter, id, &claim.record, found.as_deref(), &Ending::NotSent, &claim.policy).await?;
            match step {
                Step::Lost(newer) if newer.as_ref().is_some_and(|newer| newer.fence.attempt == attempt) => {
                    found = newer;
                }
                Step::Settled(Settled::NotSent | Settled::Doubted) => return Ok(true),
                // Not there may mean not there yet.
                Step::Settled(_) | Step::Lost(_) => {
                    return Ok(arbiter.shared().clock.now().since(claim.since) > GRACE);
                }
            }
        }
        Ok(false)
    }

    /// Takes a claim in or lets one go. The count is set under the lock, so that the last one set is right.
    fn change<T>(&self, change: impl FnOnce(&mut Claims) -> T) -> T {
        let mut claims = self.lock();
        let changed = change(&mut claims);
        self.count.store(claims.by_name.len(), Ordering::Release);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::arbiter::Shared;
    use crate::clock::Clock;
    use crate::machine::{
        Admission, Arrival, Comparable, Expect, Fence, InDoubt, NamespaceTag, Outcomes, Preset, Print, Record, Salt,
        Window, admit,
    };
    use crate::store::codec::CodecError;
    use crate::store::filter::{Filter, Settings};
    use crate::store::memory::MemoryStore;
    use crate::store::{Cursor, Page, Reply, Store, Written};
    use crate::telemetry::Metrics;

    const FOREIGN: OperationId = OperationId([7; 32]);

    /// A memory that holds a foreign record under one operation.
    struct OneForeign(MemoryStore);

    impl Store for OneForeign {
        fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
            self.0.load(id)
        }
        fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
            self.0.write(id, expect, record)
        }
        fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
            if *id == FOREIGN {
                return Box::pin(async { Err(StoreError::Unreadable(CodecError::UnknownFormat(9))) });
            }
            self.0.remove(id, fence)
        }
        fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
            self.0.list(from, limit)
        }
        fn time(&self) -> Reply<'_, Time> {
            self.0.time()
        }
        fn probe(&self) -> Reply<'_, ()> {
            self.0.probe()
        }
    }

    fn arbiter() -> Arbiter {
        let clock = Clock::manual(Time(1_000));
        let filter = Settings { capacity: 1_000, false_positive_rate: 0.01, lifetime: Duration::from_hours(1) };
        let settings =
            crate::arbiter::Settings { replay_cache: 0, waiters: 1, dispatched: 0, outcomes_waiting: 0, alone: true };
        let filter = Filter::new(filter, clock.clone()).unwrap();
        let shared = Shared::new(settings, filter, None, Arc::new(Metrics::new().unwrap()), clock.clone());
        Arbiter::new(Arc::new(OneForeign(MemoryStore::new(clock))), Arc::new(shared))
    }

    fn policy() -> Arc<Policy> {
        let hour = Duration::from_hours(1);
        Arc::new(Policy {
            lease: hour,
            attempt_timeout: hour,
            retention: hour,
            doubt_retention: hour,
            clock_skew: None,
            window: Window::Fixed,
            in_doubt: InDoubt::Hold,
            compare: true,
            replays: true,
            outcomes: Outcomes::new(Preset::SuccessOnly, BTreeMap::new()),
        })
    }

    /// A request like any other.
    struct Any;

    impl Comparable for Any {
        fn raw(&self, _: Salt) -> [u8; 8] {
            [0; 8]
        }

        fn canonical(&self) -> Print {
            Print([0; 16])
        }
    }

    fn claim(id: OperationId, policy: &Policy) -> Record {
        let arrival = Arrival::new(id, NamespaceTag(0), Salt([0; 8]), 0, None, Any);
        match admit(None, &arrival, policy, AttemptId(rand::random()), Time(1_000)) {
            Admission::Claim { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn claims_that_are_not_found_keep_no_other_waiting() {
        let (arbiter, policy) = (arbiter(), policy());
        let id = |number: usize| {
            let mut id = OperationId([0; 32]);
            id.0[..8].copy_from_slice(&number.to_be_bytes());
            id
        };
        for number in 0..3 * BATCH {
            drop(Pending::new(&arbiter, id(number), &claim(id(number), &policy), &policy));
        }
        let late = id(3 * BATCH);
        let record = claim(late, &policy);
        arbiter.store().write(&late, Expect::Absent, &record).await.unwrap();
        drop(Pending::new(&arbiter, late, &record, &policy));
        for _ in 0..4 {
            arbiter.shared().unconfirmed.withdraw(&arbiter).await.unwrap();
        }
        assert_eq!(arbiter.store().load(&late).await.unwrap(), None);
        assert_eq!(arbiter.shared().unconfirmed.len(), 3 * BATCH);
    }

    #[tokio::test]
    async fn a_foreign_record_keeps_no_other_claim_waiting() {
        let (arbiter, policy) = (arbiter(), policy());
        let ids: Vec<_> = (0..20).map(|byte| OperationId([byte; 32])).collect();
        for id in &ids {
            let record = claim(*id, &policy);
            assert_eq!(arbiter.store().write(id, Expect::Absent, &record).await.unwrap(), Written::Done);
            // Its reply is lost.
            drop(Pending::new(&arbiter, *id, &record, &policy));
        }
        arbiter.shared().unconfirmed.withdraw(&arbiter).await.unwrap();
        assert!(arbiter.shared().unconfirmed.is_empty());
        for id in ids.iter().filter(|id| **id != FOREIGN) {
            assert_eq!(arbiter.store().load(id).await.unwrap(), None);
        }
    }
}
