//! Windows that slide: a duplicate that is told of an outcome has it remembered for longer. Whether it does is decided by
//! the rules; what it is told does not wait for a store that is away.

use std::sync::Arc;

use super::{Arbiter, Terms};
use crate::machine::{Duplicate, Expect, OperationId, Record, slide};
use crate::store::Written;
use crate::telemetry::StoreOp;

/// What a duplicate leads to.
pub(super) enum Met {
    /// It is told this.
    Told(Duplicate),
    /// The outcome is not there any more as it was found: this is what is there.
    Moved(Option<Arc<Record>>),
}

impl Arbiter {
    /// A duplicate is about to be told of what was found. If that is an outcome whose window slides, its end moves first:
    /// to where this record has it.
    pub(super) fn later_end(&self, duplicate: &Duplicate, terms: &Terms) -> Option<Record> {
        let Duplicate::Completed(found) = duplicate else { return None };
        slide(found, &terms.policy, self.shared().clock.now_lately())
    }

    /// Moves the end of the outcome that this duplicate is about to be told of.
    pub(super) async fn slid(&self, id: &OperationId, duplicate: Duplicate, later: Record) -> Met {
        let shared = self.shared();
        let Duplicate::Completed(found) = &duplicate else { return Met::Told(duplicate) };
        match self.timed(StoreOp::Renew, self.store().write(id, Expect::Fence(found.fence), &later)).await {
            Ok(Written::Done) => {
                shared.dispatched.stays(id, later.fence.attempt, later.expires);
                let later = Arc::new(later);
                self.remember_completed(id, Arc::clone(&later), shared.clock.now_lately());
                Met::Told(Duplicate::Completed(later))
            }
            Ok(Written::Lost(newer)) => Met::Moved(newer),
            Err(error) => {
                // It is told of the end that holds: that it is refused or replayed honours the window all the same.
                tracing::debug!(operation = %id.short(), %error, "a window's end was not moved");
                Met::Told(duplicate)
            }
        }
    }
}
