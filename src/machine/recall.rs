//! What stands in the place of a record that the store has lost before its time: what this gateway still knows of it.
//! It belongs to the verbs; it gives nobody the right to act.

use std::time::Duration;

use super::lapse::doubt;
use super::{Cause, Record, State, Time};

/// What is written again for a lost record. `lost` is what is known of it, and `lease` how long its attempt may go
/// unheard of, if that still runs here. Nobody knows what became of any other attempt unless its outcome is at hand.
pub fn recall(lost: &Record, lease: Option<Duration>, doubt_retention: Duration, now: Time) -> Record {
    let known = lost.anew();
    match (&known.state, lease) {
        (State::Completed { .. }, _) => known,
        (State::InFlight { since, .. }, Some(lease)) => {
            let state = State::InFlight { since: *since, lease: now.plus(lease) };
            known.moved_to(state, known.expires)
        }
        _ => doubt(&known, Cause::Forgotten, doubt_retention, now),
    }
}
