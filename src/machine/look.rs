//! What somebody is told who only asks for an operation. It gives nobody the right to act.

use super::{Expect, OperationId, Policy, Print, Record, Time, Untimely, Validity, lapse};

/// A question for what is known of an operation.
#[derive(Debug, Clone)]
pub struct Inquiry {
    /// The operation.
    pub operation: OperationId,
    /// Digest of the credentials that were shown; none when the scope itself proves the caller, or nothing is required.
    pub credentials: Option<Print>,
    /// When the key says that it was made, where keys do.
    pub made: Option<Time>,
    /// When a request with this key might act, if nothing is known of the operation.
    pub validities: Vec<Validity>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// Nothing that this caller may know. That there is nothing, and that it is another's, look the same.
    Nothing(Option<Untimely>),
    /// Write down that the attempt on record was lost, then look again.
    Lapse {
        /// What the write demands.
        expect: Expect,
        /// The record, now in doubt.
        record: Record,
    },
    /// This.
    Known(Record),
}

/// Decides on a question. `found` is what the store holds.
pub fn look(found: Option<&Record>, inquiry: &Inquiry, policy: &Policy, now: Time) -> Sight {
    let may_see = |record: &&Record| inquiry.credentials.is_none() || inquiry.credentials == record.credentials;
    let Some(record) = found.filter(may_see) else {
        let outside = inquiry.validities.iter().find_map(|span| span.untimely(now));
        return Sight::Nothing(outside.or_else(|| policy.untimely(inquiry.made, now)));
    };
    match lapse(record, policy.doubt_retention, now) {
        Some(lapsed) => Sight::Lapse { expect: Expect::Fence(record.fence), record: lapsed },
        None => Sight::Known(record.clone()),
    }
}
