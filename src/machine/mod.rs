//! The rules: who may act on an operation, and what is known of its outcome.
//!
//! Pure functions over values. No I/O, no clock, no async: time comes in as an argument, a write goes out as a
//! description. The same functions drive the gateway and the simulation in `tests/simulation.rs`.
//!
//! Four verbs: [`admit`] a request, [`renew`] a lease, [`settle`] an attempt, [`lapse`] a lease that nobody renewed.
//! A doubt that the upstream was asked about ([`probed`]) is settled like an attempt. What is remembered of an outcome may
//! be remembered longer ([`slide`]); that moves nothing else.

mod admit;
mod arrival;
mod hand_over;
mod identity;
mod lapse;
mod look;
mod outcomes;
mod pair;
mod policy;
mod probe;
mod recall;
mod record;
mod recorded;
mod settle;
mod timely;
mod window;
mod word;

pub use admit::{Admission, Duplicate, admit};
pub use arrival::{Also, Arrival, Comparable, FINGERPRINT_VERSION, Prints};
pub use hand_over::{HandOver, hand_over};
pub use identity::{AttemptId, NamespaceTag, OperationId, Print, RawPrint, Salt, Time, hex_digits};
pub use lapse::{lapse, renew};
pub use look::{Inquiry, Sight, look};
pub use outcomes::{Judgement, Outcomes, Preset, StatusRule};
pub use pair::{are_a_pair, ended_beside, ending_of_both};
pub use policy::{InDoubt, Policy};
pub use probe::{Finding, Probe, next_probe, probed};
pub use recall::{asked_by, recall};
pub use record::{Answer, Cause, Fence, Record, State, Witness};
pub use recorded::Recorded;
pub use settle::{Ending, Settled, Settling, settle};
pub use timely::{Untimely, Validity};
pub use window::{Window, slide};
pub use word::{Said, Word};

/// What a conditional write demands of the store's present content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expect {
    /// Nothing is stored under the operation.
    Absent,
    /// The stored record carries exactly this fence.
    Fence(Fence),
}
