//! Claims whose reply was lost. Nothing was sent for them, so each is withdrawn as soon as the store answers, and
//! recognised if a request meets it before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Arbiter;
use super::permit::{Step, settle_once};
use crate::machine::{AttemptId, Ending, OperationId, Policy, Record, Settled, Time};
use crate::store::StoreError;

/// How long a claim is remembered after it was not found: a command that a connection lost can still arrive late.
const GRACE: Duration = Duration::from_mins(1);
/// Claims remembered at most. One that finds no place lapses with its lease instead, which is safe and slower.
const MOST: usize = 65_536;
/// Claims withdrawn in one step.
const BATCH: usize = 256;

/// Claims that may or may not be in the store.
#[derive(Default)]
pub struct Unconfirmed(Mutex<HashMap<(OperationId, AttemptId), Claim>>);

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
        let mut claims = shared.unconfirmed.lock();
        if claims.len() < MOST {
            let since = shared.clock.now();
            let claim = Claim { record: self.record.clone(), policy: Arc::clone(self.policy), since };
            claims.insert((self.id, self.record.fence.attempt), claim);
        }
    }
}

impl Unconfirmed {
    /// How many claims are remembered.
    pub fn len(&self) -> usize {
        self.lock().len()
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
        let batch: Vec<_> = self.lock().iter().take(BATCH).map(|(name, claim)| (*name, claim.clone())).collect();
        for ((id, attempt), claim) in batch {
            if self.withdraw_one(arbiter, &id, attempt, &claim).await? {
                self.lock().remove(&(id, attempt));
            }
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
        let Some(claim) = self.lock().get(&name).cloned() else { return Ok(false) };
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

    fn lock(&self) -> MutexGuard<'_, HashMap<(OperationId, AttemptId), Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
