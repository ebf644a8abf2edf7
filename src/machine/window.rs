//! How long a completed operation keeps its like away: from its completion on, or from the last duplicate on. It gives
//! nobody the right to act, and moves no end backwards.

use std::time::Duration;

use super::{Policy, Record, State, Time};

/// A move of the end by less than this part of the retention is left out: it would not be worth a write.
const LEAST_PART: u32 = 50;

/// When what is remembered of an outcome ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Window {
    /// A retention after it was recorded.
    #[default]
    Fixed,
    /// A retention after the last duplicate that was told of it.
    Sliding,
}

/// The record as a duplicate that is told of it leaves it behind, to be written over the very one that was found; none
/// when its end stays where it is.
///
/// An outcome whose upstream wants it remembered for a shorter time than others ends when that says.
pub fn slide(found: &Record, policy: &Policy, now: Time) -> Option<Record> {
    let State::Completed { at, .. } = found.state else { return None };
    if policy.window == Window::Fixed {
        return None;
    }
    let span = policy.remembered();
    let is_short_lived = found.expires < at.plus(span);
    let until = now.plus(span);
    let worth_a_write = (policy.retention / LEAST_PART).max(Duration::from_millis(1));
    let slides = !is_short_lived && until.since(found.expires) >= worth_a_write;
    if slides { found.remembered_until(until) } else { None }
}
