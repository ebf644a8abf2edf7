//! What stands in the place of a record that the store has lost before its time: what this gateway still knows of it.
//! It belongs to the verbs; it gives nobody the right to act.

use std::time::Duration;

use super::arrival::Likeness;
use super::lapse::doubt;
use super::{Arrival, Cause, Record, State, Time};

/// What is written again for a lost record. `lost` is what is known of it, and `lease` how long its attempt may go
/// unheard of, if that still runs here. Nobody knows what became of any other attempt unless its outcome is at hand.
pub fn recall(lost: &Record, lease: Option<Duration>, doubt_retention: Duration, now: Time) -> Record {
    let known = lost.anew();
    match (&known.state, lease) {
        (State::Completed { .. }, _) => known,
        (State::InFlight { since, .. }, Some(lease)) => {
            let state = State::InFlight { since: *since, lease: now.plus(lease) };
            known.heard_of(state, known.expires)
        }
        _ => doubt(&known, Cause::Forgotten, doubt_retention, now),
    }
}

/// What is known of a lost record, with the question by which the upstream can be asked: an equal request's is as good as
/// the first one's, which was not kept.
pub fn asked_by(lost: Record, later: &Arrival<'_>) -> Record {
    let equal = later.likeness_to_act(&lost.prints) == Likeness::Same;
    let probe = if equal { later.probe.clone() } else { None };
    Record { probe: lost.probe.or(probe), ..lost }
}
