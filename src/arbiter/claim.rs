//! A claim as it is written, and when it stands: then it gives the right to act. What is claimed is decided by the rules.

use std::sync::Arc;

use super::Arbiter;
use super::unconfirmed::Pending;
use crate::machine::{Arrival, AttemptId, Expect, OperationId, Policy, Record, Time, asked_by};
use crate::store::{StoreError, Written};
use crate::telemetry::StoreOp;

impl Arbiter {
    /// Writes a claim, unless this gateway knows of an attempt that the store has lost: then that is written, and is
    /// what the claim has lost to.
    pub(super) async fn claim(
        self: &Arc<Self>,
        arrival: &Arrival<'_>,
        expect: Expect,
        record: &Record,
        policy: &Arc<Policy>,
        now: Time,
    ) -> Result<Written, StoreError> {
        let id = &arrival.operation;
        if expect == Expect::Absent
            && let Some(known) = self.shared.dispatched.known(id, now)
        {
            return Box::pin(self.instead(arrival, &known, policy)).await.map(Written::Lost);
        }
        // If this future is dropped or the call fails, the claim may be written all the same.
        let pending = Pending::new(self, *id, record, policy);
        let written = match self.timed(StoreOp::Reserve, self.store.write(id, expect, record)).await {
            Ok(written) => written,
            Err(error @ StoreError::Unacknowledged(_)) => {
                self.shared.metrics.redis().unacknowledged();
                drop(pending);
                self.withdraw_soon(*id, record.fence.attempt);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        match written {
            Written::Done => self.stands(arrival, expect, record, policy, pending, now).await,
            Written::Lost(newer) => {
                pending.answered();
                Ok(Written::Lost(newer))
            }
        }
    }

    /// A claim stands, and gives the right to act; unless this gateway knows of another attempt by now, dispatched between
    /// the two looks and lost or freed since. Then nobody acts on the claim.
    pub(super) async fn stands(
        self: &Arc<Self>,
        arrival: &Arrival<'_>,
        expect: Expect,
        claim: &Record,
        policy: &Arc<Policy>,
        pending: Pending<'_>,
        now: Time,
    ) -> Result<Written, StoreError> {
        let id = &arrival.operation;
        let dispatched = &self.shared.dispatched;
        if !self.may_act_on(id, expect) {
            // Dropped unanswered, the claim is withdrawn as one that nobody acts on.
            return Err(begun_elsewhere(id));
        }
        let known = if expect == Expect::Absent {
            dispatched.begin_unknown(id, claim, now)
        } else {
            dispatched.begin(id, claim, now);
            None
        };
        match known {
            None => {
                pending.answered();
                Ok(Written::Done)
            }
            Some(known) if known.running => {
                drop(pending);
                self.withdraw_soon(*id, claim.fence.attempt);
                Ok(Written::Lost(self.running(id, policy)))
            }
            Some(known) => {
                let lost = asked_by(known.record, arrival);
                let found = Box::pin(self.recall(id, Expect::Fence(claim.fence), &lost, policy)).await?;
                pending.answered();
                Ok(Written::Lost(found))
            }
        }
    }

    /// Takes a claim back that is known to be written, and that nobody acts on: there is a store to answer at once.
    fn withdraw_soon(self: &Arc<Self>, id: OperationId, attempt: AttemptId) {
        let arbiter = Arc::clone(self);
        self.shared.tasks.spawn(async move {
            if let Err(error) = arbiter.shared.unconfirmed.withdraw_claim(&arbiter, id, attempt).await {
                tracing::debug!(operation = %id.short(), %error, "a claim that was not acknowledged still waits");
            }
        });
    }
}

fn begun_elsewhere(id: &OperationId) -> StoreError {
    StoreError::Unavailable(format!("{} has begun under the journal meanwhile", id.short()))
}
