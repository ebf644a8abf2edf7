//! The verb *settle*, carried out: the rules are asked, the store does what they say, this gateway keeps it in mind.

use std::sync::Arc;

use super::Arbiter;
use crate::machine::{Ending, Expect, OperationId, Policy, Record, Settled, Settling, settle};
use crate::store::{StoreError, Written};
use crate::telemetry::StoreOp;

/// One step of settling.
pub(super) enum Step {
    Settled(Settled),
    Lost(Option<Record>),
}

/// Writes down how an attempt ended, however often its record moves on meanwhile.
pub(super) async fn settle_held(
    arbiter: &Arbiter,
    id: &OperationId,
    held: &Record,
    ending: &Ending,
    policy: &Policy,
) -> Result<Settled, StoreError> {
    let mut lost: Option<Option<Record>> = None;
    for _ in 0..super::ROUNDS {
        let found = lost.as_ref().map_or(Some(held), Option::as_ref);
        match settle_once(arbiter, id, held, found, ending, policy).await? {
            Step::Lost(newer) => lost = Some(newer),
            Step::Settled(settled) => return Ok(settled),
        }
    }
    Err(StoreError::Unavailable(format!("{} races lost in a row", super::ROUNDS)))
}

/// Asks the rules, does what they say, once.
pub(super) async fn settle_once(
    arbiter: &Arbiter,
    id: &OperationId,
    held: &Record,
    found: Option<&Record>,
    ending: &Ending,
    policy: &Policy,
) -> Result<Step, StoreError> {
    let shared = arbiter.shared();
    let store = arbiter.store();
    let attempt = held.fence.attempt;
    let now = shared.clock.now_lately();
    let settling = settle(held, found, ending, policy, now);
    // Before the record goes: from here on nobody may take its absence for a loss.
    let forgotten = settling.frees() && shared.dispatched.forget(id, attempt);
    let (written, settled, record) = match settling {
        Settling::Done(settled) => {
            arbiter.keep_in_mind(id, attempt, settled, None);
            return Ok(Step::Settled(settled));
        }
        Settling::Write { expect, record, settled } => {
            arbiter.announce(id, held, found, settled).await?;
            let written = arbiter.timed(StoreOp::Settle, store.write(id, expect, &record)).await?;
            if expect == Expect::Absent
                && written == Written::Done
                && !arbiter.was_ended(id, held).await.unwrap_or(true)
            {
                arbiter.written_again(id, &record);
            }
            (written, settled, Some(record))
        }
        Settling::Remove { fence, settled } => {
            arbiter.announce(id, held, found, settled).await?;
            (arbiter.timed(StoreOp::Remove, store.remove(id, fence)).await?, settled, None)
        }
    };
    match written {
        Written::Lost(newer) => {
            if let (true, Some(newer)) = (forgotten, &newer) {
                // It has moved on, and stays.
                shared.dispatched.begin(id, newer, now);
            }
            Ok(Step::Lost(newer))
        }
        Written::Done => {
            arbiter.keep_in_mind(id, attempt, settled, record.as_ref());
            if let (Settled::Kept(_), Some(record)) = (settled, record) {
                // Confirmed just now, which is later: no entry is believed for longer than it may be.
                arbiter.remember_completed(id, Arc::new(record), now);
            }
            Ok(Step::Settled(settled))
        }
    }
}
