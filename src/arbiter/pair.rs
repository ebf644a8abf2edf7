//! A request that names two operations: it may act when it may act on both. They are reserved in this order, the first and
//! then the second, so that whoever holds the second holds all; and nobody waits for anything while it holds one.

use std::sync::Arc;

use super::{Admitted, Arbiter, Terms};
use crate::machine::{Arrival, AttemptId};
use crate::store::StoreError;

impl Arbiter {
    /// Asks whether a request may act on both. What the first says goes before what the second says.
    ///
    /// Dropped, or failed, between the two, the first is free again: nothing was sent. A gateway that dies there leaves the
    /// first in doubt, for two keys are not one atomic step in any store.
    pub(super) async fn admit_pair(
        self: &Arc<Self>,
        arrival: &Arrival<'_>,
        terms: &Arc<Terms>,
        attempt: AttemptId,
    ) -> Result<Admitted, StoreError> {
        let first = match self.admit_one(arrival, terms, attempt).await? {
            Admitted::Proceed(first) => first,
            told => return Ok(told),
        };
        let Some(second) = arrival.second() else { return Ok(Admitted::Proceed(first)) };
        match self.admit_one(&second, &Arc::new(terms.of_second()), attempt).await? {
            Admitted::Proceed(second) => Ok(Admitted::Proceed(first.joined_by(second))),
            Admitted::Duplicate(duplicate) => {
                // Before the request is told, or waits: by then it must hold nothing.
                if let Err(error) = first.free().await {
                    tracing::error!(%error, "a key was not freed");
                }
                Ok(Admitted::Also(duplicate))
            }
            told @ (Admitted::Also(_) | Admitted::Untimely(_)) => Ok(told),
        }
    }
}
