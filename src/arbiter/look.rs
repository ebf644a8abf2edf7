//! Looking without acting, for clients who ask what became of their operations. Nothing is written but that a lease has
//! ended unheard of, as every request that meets the record would write it.

use std::sync::Arc;

use super::doubts::Beside;
use super::{Arbiter, ROUNDS};
use crate::machine::{Inquiry, Policy, Record, Sight, State, Time, look};
use crate::store::StoreError;
use crate::telemetry::StoreOp;

impl Arbiter {
    /// The store's time. It is asked for it only as long as it has never told it.
    ///
    /// # Errors
    /// When it gave no answer.
    pub async fn time(&self) -> Result<Time, StoreError> {
        let clock = &self.shared().clock;
        if clock.is_calibrated() { Ok(clock.now()) } else { self.store().time().await }
    }

    /// What is known of an operation: one load, or none when its outcome is in the local cache.
    ///
    /// # Errors
    /// When the store gave no answer.
    pub async fn look(&self, inquiry: &Inquiry, policy: &Policy) -> Result<Sight, StoreError> {
        let (shared, id) = (self.shared(), &inquiry.operation);
        self.time().await?;
        let mut found = shared.cache.get(id, shared.clock.now()).map(Arc::unwrap_or_clone);
        if found.is_none() {
            found = self.timed(StoreOp::Load, self.store().load(id)).await?;
            if let Some(record) = found.as_ref().filter(|record| matches!(record.state, State::Completed { .. })) {
                self.remember_completed(id, Arc::new(record.clone()), shared.clock.now());
            }
        }
        if found.is_none() {
            found = self.lost(inquiry, policy).await?;
        }
        for _ in 0..ROUNDS {
            if let Some(record) = found.as_ref().filter(|record| record.beside.is_some())
                && let Beside::Over(newer) = self.look_beside(id, record, policy).await
            {
                found = newer;
                continue;
            }
            match look(found.as_ref(), inquiry, policy, shared.clock.now()) {
                Sight::Lapse { expect, record } => found = self.write_lapse(id, expect, record).await?,
                told => return Ok(told),
            }
        }
        Err(StoreError::Unavailable(format!("{ROUNDS} races lost in a row for {}", id.short())))
    }

    /// What this gateway still knows of a record that the store has lost. It is not written here: that is for the next
    /// request that would act.
    async fn lost(&self, inquiry: &Inquiry, policy: &Policy) -> Result<Option<Record>, StoreError> {
        let (shared, id) = (self.shared(), &inquiry.operation);
        match shared.dispatched.known(id, shared.clock.now()) {
            Some(known) if !self.was_ended(id, &known.record).await? => {
                Ok(Some(self.recalled(id, &known.record, known.running, policy)))
            }
            _ => Ok(None),
        }
    }
}
