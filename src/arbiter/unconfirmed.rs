//! Claims whose reply was lost. Nothing was sent for them, so each is withdrawn as soon as the store answers, and
//! recognised if a request meets it before.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;

use super::Arbiter;
use super::permit::{Step, settle_once};
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
pub struct Unconfirmed(Mutex<Claims>);

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
        shared.unconfirmed.lock().insert((self.id, self.record.fence.attempt), claim);
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
        self.lock().by_name.len()
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
        // The first alone: a store that is still away costs one call.
        let (first, others) = batch.split_at(batch.len().min(1));
        for claims in [first, others] {
            try_join_all(claims.iter().map(|(name, claim)| self.withdraw_remembered(arbiter, name, claim))).await?;
        }
        Ok(())
    }

    async fn withdraw_remembered(&self, arbiter: &Arbiter, name: &Name, claim: &Claim) -> Result<(), StoreError> {
        if self.withdraw_one(arbiter, &name.0, name.1, claim).await? {
            self.lock().by_name.remove(name);
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
        self.withdraw_one(arbiter, id, met.fence.attempt, &claim).await?;
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
        let mut found = Some(claim.record.clone());
        for _ in 0..super::ROUNDS {
            let step = settle_once(arbiter, id, &claim.record, found.as_ref(), &Ending::NotSent, &claim.policy).await?;
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

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
