//! Words for what a search has seen.

use std::fmt::Write as _;

use oncegate::machine::{Record, State as Stands};

use super::explore::Model as _;
use super::state::{Action, State, name};
use super::store::{Call, Held};
use super::world::World;

/// What a search has to meet: what it never meets, it says nothing about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Own,
    InFlight,
    InDoubt,
    Changed,
    Replayed,
    /// Its lease ended before it began: it did not begin.
    TooLate,
    Further,
    Superseded,
    Anew,
    Late,
    Kept,
    Doubted,
    Freed,
    Withdrawn,
    NeverArrived,
    Lapsed,
    Recalled,
    /// A probe found the operation executed,
    Found,
    /// or not executed, which freed the key,
    Absent,
    /// or not there, too early for that to count.
    Early,
    /// It learned nothing.
    Unheard,
    /// Somebody else was quicker to end the doubt.
    Outrun,
    /// A window's end has moved.
    Slid,
    /// A request was refused by its second key, and its first is freed.
    BySecond,
    /// A doubt has the outcome of what was held beside it.
    Healed,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks(u32);

impl Marks {
    pub(crate) fn with(self, mark: Mark) -> Self {
        Self(self.0 | 1 << mark as u32)
    }

    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & 1 << mark as u32 != 0
    }
}

/// The way that these actions take, one line a step: what happens, and what the store then holds.
pub(crate) fn tell(world: &World, way: &[Action]) -> String {
    let mut state = world.first();
    let mut text = String::new();
    for action in way {
        let what = words(&state, *action);
        state = world.next(&state, *action);
        let stored = stored(state.store.primary.as_ref());
        writeln!(text, "  {:>2}  {what:<64}  {stored}", state.now).expect("a string takes all");
    }
    text
}

fn words(state: &State, action: Action) -> String {
    let who = |gateway: usize, task: usize| format!("gateway {gateway}: attempt {}", state.task(gateway, task).name);
    let call = |gateway: usize, task: usize| state.task(gateway, task).phase.call().map_or(String::new(), asked);
    match action {
        Action::Arrive { gateway, changed, looks } => {
            let which = if changed { "a changed request" } else { "the request" };
            let first = if looks { ", and looks first" } else { "" };
            format!("gateway {gateway}: {which} comes{first}, would be attempt {}", state.names + 1)
        }
        Action::Answer { gateway, task } => format!("{} has its answer: {}", who(gateway, task), call(gateway, task)),
        Action::Echo { gateway, task } => format!("{} meets its own: {}", who(gateway, task), call(gateway, task)),
        Action::Lose { gateway, task } => format!("{} hears nothing: {}", who(gateway, task), call(gateway, task)),
        Action::Send { gateway, task } => format!("{} is FORWARDED", who(gateway, task)),
        Action::Beat { gateway, task } => format!("{} renews its lease", who(gateway, task)),
        Action::End { gateway, task, end } => format!("{} ends: {end:?}", who(gateway, task)),
        Action::Withdraw { gateway, claim } => {
            let claim = &state.gateways[gateway].unconfirmed[claim];
            format!("gateway {gateway}: withdraws the claim of {}", name(claim.fence.attempt))
        }
        Action::Look { gateway } => format!("gateway {gateway} is about to ask about the doubt"),
        Action::Tell { .. } => match state.upstream.first {
            Some(name) => format!("the upstream is asked: it has executed {name}"),
            None => "the upstream is asked: it knows nothing of it".to_owned(),
        },
        Action::Hear { gateway, .. } => format!("gateway {gateway} hears what the upstream said"),
        Action::Unheard { gateway, .. } => format!("gateway {gateway} hears nothing from the upstream"),
        Action::Execute { run } => format!("the upstream EXECUTES attempt {}", state.upstream.runs[run].name),
        Action::Crash { gateway } => format!("gateway {gateway} CRASHES"),
        Action::Stray { place } => format!("a call that nobody waits for: {}", asked(&state.strays[place])),
        Action::Sweep => "a sweep finds a lease that has ended".to_owned(),
        Action::FailOver { lost } => format!("the replica BECOMES THE PRIMARY, without the last {lost} writes"),
        Action::Flush => "the store is FLUSHED".to_owned(),
        Action::Tick => "time passes".to_owned(),
        Action::Leap => "time passes until something ends".to_owned(),
    }
}

fn asked(call: &Call) -> String {
    match call {
        Call::Load => "load".to_owned(),
        Call::Write { record, .. } => format!("write {}", stands(record)),
        Call::Remove { fence } => format!("remove {}", name(fence.attempt)),
        Call::RemoveAny => "remove".to_owned(),
    }
}

pub(crate) fn stored(record: Option<&Held>) -> String {
    record.map_or("-".to_owned(), |record| stands(record))
}

fn stands(record: &Record) -> String {
    let Record { fence, expires, .. } = record;
    let state = match record.state {
        Stands::InFlight { lease, .. } => format!("in flight to {}", lease.0),
        Stands::InDoubt { cause, .. } => format!("in doubt ({cause:?})"),
        Stands::Completed { .. } => "completed".to_owned(),
    };
    format!("{}/{} {state}, kept to {}", name(fence.attempt), fence.version, expires.0)
}
