//! Doubts that end otherwise than by their own attempt: by somebody's word, or because the operation that was held beside
//! this one has an outcome. What that means is decided by the rules.

use std::sync::Arc;

use super::settling::{Step, settle_once};
use super::{Arbiter, ROUNDS, Terms};
use crate::machine::{
    Ending, Expect, NamespaceTag, OperationId, Policy, Record, Settled, State, are_a_pair, ended_beside, lapse,
};
use crate::store::StoreError;
use crate::telemetry::StoreOp;

/// What became of an operator's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// It is written.
    Done(Settled),
    /// The operation is not in doubt, or no longer the doubt that the operator saw; this is what is there.
    NotInDoubt(Option<Record>),
}

/// What is known of a doubt by the operation that was held beside it.
pub(super) enum Beside {
    /// It is over; this is what the store holds now.
    Over(Option<Arc<Record>>),
    /// That one, in this namespace, has no outcome either: its attempt runs, or is in doubt.
    Open(NamespaceTag),
    /// Nothing.
    Nothing,
}

/// What became of the other half of a pair.
enum Half {
    /// Nothing of it is in doubt any more, or ever was.
    Ended,
    /// It has an outcome of its own, and this is what that says of the first half.
    Known(Ending),
    /// Its attempt is heard of.
    Runs(Arc<Record>),
}

impl Arbiter {
    /// Writes an operator's word over a doubt: what happened, conditional on the record that the operator looked at. Where
    /// its attempt held another operation beside it, the word holds for both.
    ///
    /// # Errors
    /// When the store gave no answer.
    pub async fn resolve(
        &self,
        id: &OperationId,
        doubt: &Record,
        ending: &Ending,
        terms: &Terms,
    ) -> Result<Resolved, StoreError> {
        if !matches!(doubt.state, State::InDoubt { .. }) {
            return Ok(Resolved::NotInDoubt(Some(doubt.clone())));
        }
        // The other half first: as long as this one is in doubt, whoever ends it comes again.
        let known = match self.end_other_half(id, doubt, ending, terms.policy_beside()).await? {
            Half::Ended => None,
            Half::Known(ending) => Some(ending),
            Half::Runs(record) => return Ok(Resolved::NotInDoubt(Some(Arc::unwrap_or_clone(record)))),
        };
        match settle_once(self, id, doubt, Some(doubt), known.as_ref().unwrap_or(ending), &terms.policy).await? {
            Step::Settled(settled) => {
                self.shared.lines.wake(id);
                match known {
                    None => Ok(Resolved::Done(settled)),
                    Some(_) => Ok(Resolved::NotInDoubt(self.timed(StoreOp::Load, self.store.load(id)).await?)),
                }
            }
            Step::Lost(found) => Ok(Resolved::NotInDoubt(found.map(Arc::unwrap_or_clone))),
        }
    }

    /// Ends the doubt of the operation that was held beside this one.
    async fn end_other_half(
        &self,
        id: &OperationId,
        doubt: &Record,
        ending: &Ending,
        policy: &Policy,
    ) -> Result<Half, StoreError> {
        let Some(other) = doubt.beside.as_deref() else { return Ok(Half::Ended) };
        let mut found = self.timed(StoreOp::Load, self.store.load(other)).await?.map(Arc::new);
        for _ in 0..ROUNDS {
            let Some(record) = found.filter(|found| are_a_pair((id, doubt), (other, found))) else {
                return Ok(Half::Ended);
            };
            if let Some(lapsed) = lapse(&record, policy.doubt_retention, self.shared.clock.now()) {
                found = self.write_lapse(other, Expect::Fence(record.fence), lapsed).await?;
                continue;
            }
            if let Some(known) = ended_beside((id, doubt), (other, &record)) {
                return Ok(Half::Known(known));
            }
            if let State::InFlight { .. } = record.state {
                return Ok(Half::Runs(record));
            }
            match settle_once(self, other, &record, Some(&*record), ending, policy).await? {
                Step::Lost(newer) => found = newer,
                Step::Settled(_) => {
                    self.shared.lines.wake(other);
                    return Ok(Half::Ended);
                }
            }
        }
        Err(StoreError::Unavailable(format!("{ROUNDS} races lost in a row for {}", other.short())))
    }

    /// Looks at the operation that was held beside a doubt, and ends the doubt if that has an outcome: one of two writes did
    /// not come through. Where the store does not say, the doubt goes on.
    pub(super) async fn look_beside(&self, id: &OperationId, doubt: &Record, policy: &Policy) -> Beside {
        let (State::InDoubt { .. }, Some(other)) = (&doubt.state, doubt.beside.as_deref()) else {
            return Beside::Nothing;
        };
        let ended = self.end_by(id, doubt, other, policy).await;
        ended.unwrap_or_else(|error| {
            tracing::debug!(operation = %id.short(), %error, "what was held beside a doubt is not known");
            Beside::Nothing
        })
    }

    async fn end_by(
        &self,
        id: &OperationId,
        doubt: &Record,
        other: &OperationId,
        policy: &Policy,
    ) -> Result<Beside, StoreError> {
        let Some(partner) = self.timed(StoreOp::Load, self.store.load(other)).await? else {
            return Ok(Beside::Nothing);
        };
        let Some(ending) = ended_beside((id, doubt), (other, &partner)) else {
            let open = are_a_pair((id, doubt), (other, &partner));
            return Ok(if open { Beside::Open(partner.namespace) } else { Beside::Nothing });
        };
        match settle_once(self, id, doubt, Some(doubt), &ending, policy).await? {
            Step::Lost(newer) => Ok(Beside::Over(newer)),
            Step::Settled(_) => {
                self.shared.lines.wake(id);
                tracing::info!(operation = %id.short(), beside = %other.short(), "no longer in doubt: what was held beside it has an outcome");
                Ok(Beside::Over(self.timed(StoreOp::Load, self.store.load(id)).await?.map(Arc::new)))
            }
        }
    }

    /// The operation, and its namespace, whose attempt holds this one beside it: where it is to be asked about.
    ///
    /// # Errors
    /// When the store gave no answer.
    pub async fn holder(&self, id: &OperationId) -> Result<Option<(OperationId, NamespaceTag)>, StoreError> {
        let Some(record) = self.timed(StoreOp::Load, self.store.load(id)).await? else { return Ok(None) };
        let Some(other) = record.beside.as_deref() else { return Ok(None) };
        let holder = self.timed(StoreOp::Load, self.store.load(other)).await?;
        let holder = holder.filter(|holder| are_a_pair((id, &record), (other, holder)));
        Ok(holder.map(|holder| (*other, holder.namespace)))
    }
}
