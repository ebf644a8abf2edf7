//! What a route has decided about its operations.

use std::time::Duration;

use super::{Outcomes, Window};

/// A route's rules for its operations. Lease, patience, upstream timeout and retention are separate by design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long an attempt may go unheard of before it counts as lost.
    pub lease: Duration,
    /// How long an attempt may take in all.
    pub attempt_timeout: Duration,
    /// How long an outcome is remembered, from its recording.
    pub retention: Duration,
    /// Whether duplicates prolong that.
    pub window: Window,
    /// How long a doubt is remembered, from its beginning, and an outcome at most. Never below `retention` and its slack.
    pub doubt_retention: Duration,
    /// Where keys say when they were made: how far off their makers' clocks may be, against the store's. None: keys say
    /// nothing.
    pub clock_skew: Option<Duration>,
    /// What happens to duplicates of an operation in doubt.
    pub in_doubt: InDoubt,
    /// Whether a changed request under the same key is refused (422) instead of counting as a duplicate.
    pub compare: bool,
    /// Whether duplicates of an outcome are shown its answer. Where they are not, credentials have nothing to open.
    pub replays: bool,
    /// Which answers are kept, released or held for doubt.
    pub outcomes: Outcomes,
}

/// What happens to duplicates of an operation in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InDoubt {
    /// They are refused until an operator, a late answer or `doubt_retention` ends the doubt.
    Hold,
    /// The next one is forwarded as a further attempt, for upstreams that deduplicate by the forwarded key.
    Retry,
    /// They are refused too, and the upstream is asked.
    Probe {
        /// How long after the doubt began an operation that the upstream does not know of may still come.
        absent_after: Duration,
    },
}
