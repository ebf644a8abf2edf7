//! Asking the upstream afterwards: when a doubt is asked about, and what the answer says. It asks nobody itself.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::{Answer, Cause, Ending, InDoubt, Judgement, Policy, Record, State, Time};

/// The question by which the upstream is asked about an operation: a GET. The record keeps it while the operation is in
/// flight or in doubt, so that any gateway can ask.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Probe {
    /// The target in origin form.
    pub target: Bytes,
    /// Name and value of each field.
    pub headers: Vec<(Bytes, Bytes)>,
}

/// It holds what the client sent, perhaps credentials: none of it is for a log.
impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("fields", &self.headers.len()).finish_non_exhaustive()
    }
}

/// What the upstream said when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The operation was executed; this is what duplicates are told.
    Executed(Answer),
    /// It knows of no such operation.
    Absent,
    /// Nothing that settles the matter.
    Unknown,
}

/// How a doubt ends by what was found at `asked`; none when it goes on.
///
/// An operation that is not there yet may still come: the upstream has the policy's `absent_after` for that, counted from
/// the doubt's beginning to the moment of asking, not of the answer.
pub fn probed(doubt: &Record, finding: &Finding, policy: &Policy, asked: Time) -> Option<Ending> {
    let certain = absence_counts_from(doubt, policy)?;
    match finding {
        Finding::Executed(answer) => {
            Some(Ending::Answered { judgement: Judgement::Keep, status: 200, answer: answer.clone(), retention: None })
        }
        Finding::Absent if asked >= certain => Some(Ending::Answered {
            judgement: Judgement::Release,
            status: 404,
            answer: Answer::Unseen,
            retention: None,
        }),
        Finding::Absent | Finding::Unknown => None,
    }
}

/// From when on an operation that is not there was not executed; none when nobody is to be asked.
///
/// Where a lease or a record was lost, some gateway may merely be cut off from the store, with its attempt still under
/// way. It is over when `attempt_timeout` is: what was lost began after the attempt. What was sent at its very end may
/// then still wait at the upstream.
fn absence_counts_from(doubt: &Record, policy: &Policy) -> Option<Time> {
    let (State::InDoubt { since, cause }, InDoubt::Probe { absent_after }) = (&doubt.state, policy.in_doubt) else {
        return None;
    };
    let patience = match cause {
        Cause::LeaseLost | Cause::Forgotten => absent_after.saturating_add(policy.attempt_timeout),
        Cause::Broken | Cause::TimedOut | Cause::Status(_) | Cause::RetryNotSent | Cause::Abandoned => absent_after,
    };
    Some(since.plus(patience))
}

/// When a doubt is asked about next, after `now`: by the schedule, counted from the doubt's beginning, and once more when
/// absence counts, should that be later. None when it has been asked about often enough, or cannot be.
pub fn next_probe(doubt: &Record, schedule: &[Duration], policy: &Policy, now: Time) -> Option<Time> {
    doubt.probe.as_ref()?;
    let certain = absence_counts_from(doubt, policy)?;
    let State::InDoubt { since, .. } = doubt.state else { return None };
    let times = schedule.iter().map(|after| since.plus(*after));
    let last = times.clone().max();
    times.chain((last < Some(certain)).then_some(certain)).filter(|time| *time > now).min()
}
