//! The verb *settle*: an attempt has ended; what is written down?

use std::time::Duration;

use super::lapse::doubt;
use super::{Answer, Cause, Expect, Fence, Judgement, Policy, Record, State, Time};

/// The shortest time for which an outcome is remembered.
const LEAST_RETENTION: Duration = Duration::from_secs(1);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The upstream answered, and the answer was judged.
    Answered {
        /// By the outcome table, or by the upstream's own word where that is trusted.
        judgement: Judgement,
        /// The answer's status.
        status: u16,
        /// What duplicates would be told.
        answer: Answer,
        /// How long a kept outcome is to be remembered; none: as long as the route says.
        retention: Option<Duration>,
    },
    /// Not a byte of the request reached the upstream.
    NotSent,
    /// There is no answer, and the request asked for nothing to be done: a read.
    Harmless,
    /// The upstream may have acted.
    Unknown(Cause),
}

/// What settling asks of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settling {
    /// Write this record. Written, the attempt is settled; lost, ask again with what was found.
    Write {
        /// What the write demands.
        expect: Expect,
        /// The record as it will stand.
        record: Record,
        /// What that amounts to.
        settled: Settled,
    },
    /// Remove the record. Removed, the attempt is settled; lost, ask again with what was found.
    Remove {
        /// The fence that the removal demands.
        fence: Fence,
        /// What that amounts to.
        settled: Settled,
    },
    /// Nothing to do.
    Done(Settled),
}

impl Settling {
    /// Whether it frees the key, if what is there has not moved on meanwhile.
    pub fn frees(&self) -> bool {
        let (Self::Write { settled, .. } | Self::Remove { settled, .. } | Self::Done(settled)) = self;
        matches!(settled, Settled::Released | Settled::NotSent)
    }
}

/// What became of a settled attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The outcome is recorded until this time.
    Kept(Time),
    /// The upstream's answer freed the key.
    Released,
    /// Nothing was sent, and the key is free.
    NotSent,
    /// The operation is in doubt.
    Doubted,
    /// The record speaks of a later attempt by now: this one's outcome has no place in it.
    Superseded,
}

/// Decides how an attempt is written down. `held` is the record as the attempt last wrote it, `found` what the store
/// holds now (at first: the same).
pub fn settle(held: &Record, found: Option<&Record>, ending: &Ending, policy: &Policy, now: Time) -> Settling {
    let Some(found) = found else { return settle_absent(held, ending, policy, now) };
    if found.fence.attempt != held.fence.attempt {
        return Settling::Done(Settled::Superseded);
    }
    if let State::Completed { .. } = found.state {
        // An earlier write of this settling, whose reply was lost, or an operator's word.
        return Settling::Done(Settled::Kept(found.expires));
    }
    match ending {
        Ending::Answered { judgement: Judgement::Release, .. } | Ending::Harmless => {
            Settling::Remove { fence: found.fence, settled: Settled::Released }
        }
        // A never-sent attempt proves nothing about the ones before it.
        Ending::NotSent if held.number == 1 => Settling::Remove { fence: found.fence, settled: Settled::NotSent },
        _ if matches!(found.state, State::InDoubt { .. }) && doubt_cause(ending).is_some() => {
            Settling::Done(Settled::Doubted)
        }
        _ => write(found, Expect::Fence(found.fence), ending, policy, now),
    }
}

/// The store has lost the record. What is known is written again; what frees the key is done already.
fn settle_absent(held: &Record, ending: &Ending, policy: &Policy, now: Time) -> Settling {
    match ending {
        Ending::Answered { judgement: Judgement::Release, .. } | Ending::Harmless => Settling::Done(Settled::Released),
        Ending::NotSent if held.number == 1 => Settling::Done(Settled::NotSent),
        _ => write(&held.anew(), Expect::Absent, ending, policy, now),
    }
}

fn write(base: &Record, expect: Expect, ending: &Ending, policy: &Policy, now: Time) -> Settling {
    if let Some(cause) = doubt_cause(ending) {
        let record = doubt(base, cause, policy.doubt_retention, now);
        return Settling::Write { expect, record, settled: Settled::Doubted };
    }
    let Ending::Answered { answer, retention, .. } = ending else { return Settling::Done(Settled::Doubted) };
    let expires = now.plus(remembered_for(*retention, policy));
    let record = base.moved_to(State::Completed { at: now, answer: answer.clone() }, expires);
    let settled = Settled::Kept(record.expires);
    Settling::Write { expect, record, settled }
}

/// How long a kept outcome is remembered. A wish of the outcome's own has its bounds: what counts on how long a route's
/// records live, such as the filter, goes by the policy alone.
fn remembered_for(wish: Option<Duration>, policy: &Policy) -> Duration {
    let most = policy.doubt_retention.max(LEAST_RETENTION);
    wish.map_or(policy.remembered(), |wish| policy.slack() + wish.clamp(LEAST_RETENTION, most))
}

/// Why an ending leaves doubt; none when it settles the matter.
fn doubt_cause(ending: &Ending) -> Option<Cause> {
    match ending {
        Ending::Answered { judgement: Judgement::Doubt, status, .. } => Some(Cause::Status(*status)),
        Ending::Answered { .. } | Ending::Harmless => None,
        Ending::NotSent => Some(Cause::RetryNotSent),
        Ending::Unknown(cause) => Some(*cause),
    }
}
