//! What can happen in a state of the model.

use oncegate::machine::{Expect, Time};

use super::gateway::{doubtful, lease};
use super::plan::{ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, Plan};
use super::rules::{Mutation, Rules};
use super::state::{Action, Beat, End, PROBE, Phase, State};
use super::store::Call;

pub(crate) fn possible(plan: &Plan, state: &State, into: &mut Vec<Action>) {
    for gateway in 0..state.gateways.len() {
        of_gateway(plan, state, gateway, into);
    }
    into.extend((0..state.strays.len()).map(|place| Action::Stray { place }));
    into.extend((0..state.upstream.runs.len()).map(|run| Action::Execute { run }));
    if lapsed(plan, state).is_some() {
        into.push(Action::Sweep);
    }
    let left = state.left;
    if left.failovers > 0 {
        into.extend((0..=state.store.behind()).map(|lost| Action::FailOver { lost }));
    }
    if left.flushes > 0 && state.store.primary.is_some() {
        into.push(Action::Flush);
    }
    if left.ticks > 0 && state.names > 0 {
        into.push(Action::Tick);
    }
    if left.leaps > 0 && next_end(state).is_some() {
        into.push(Action::Leap);
    }
}

fn of_gateway(plan: &Plan, state: &State, gateway: usize, into: &mut Vec<Action>) {
    let State { left, names, .. } = *state;
    // Gateways are alike: the first request comes to the first of them.
    if left.requests > 0 && (names > 0 || gateway == 0) {
        for looks in [false, true].into_iter().filter(|looks| !looks || plan.looks && names > 0) {
            into.push(Action::Arrive { gateway, changed: false, looks });
            if left.changed > 0 && names > 0 {
                into.push(Action::Arrive { gateway, changed: true, looks });
            }
        }
    }
    for (task, at) in state.gateways[gateway].tasks.iter().enumerate() {
        own_steps(plan, state, gateway, task, into);
        let Some(call) = at.phase.call() else { continue };
        into.push(Action::Answer { gateway, task });
        if left.losses > 0 {
            into.push(Action::Lose { gateway, task });
            if matches!(call, Call::Write { .. }) && !matches!(at.phase, Phase::Settling { .. }) {
                into.push(Action::Echo { gateway, task });
            }
        }
    }
    if left.probes > 0 && may_look(plan, state, gateway) {
        into.push(Action::Look { gateway });
    }
    let claims = 0..state.gateways[gateway].unconfirmed.len();
    into.extend(claims.map(|claim| Action::Withdraw { gateway, claim }));
    if left.crashes > 0 && !state.gateways[gateway].is_idle() {
        into.push(Action::Crash { gateway });
    }
}

/// What a task can do of its own accord, beside waiting.
fn own_steps(plan: &Plan, state: &State, gateway: usize, task: usize, into: &mut Vec<Action>) {
    let now = state.now;
    match &state.task(gateway, task).phase {
        Phase::Ready { held, since } => {
            // When it may have looked last. Nothing helps against a gateway that stands still between its look and its
            // first byte for longer than a doubt is remembered.
            let looked = now.min(lease(held) - 1).max(*since);
            let holds = looked < lease(held) && now < looked + DOUBT_RETENTION;
            if holds || plan.mutation == Some(Mutation::BeginsWithoutLease) {
                into.push(Action::Send { gateway, task });
            }
            into.push(Action::End { gateway, task, end: End::NotSent });
        }
        Phase::Running { held, sent, beat } => {
            if matches!(beat, Beat::Resting) && now < sent + ATTEMPT_TIMEOUT && lease(held) < now + LEASE {
                into.push(Action::Beat { gateway, task });
            }
            let name = state.task(gateway, task).name;
            let ends = [End::Kept, End::Released, End::Doubtful, End::Unknown];
            let said = ends.into_iter().filter(|end| !plan.probes() || state.can_end(name, *end));
            into.extend(said.map(|end| Action::End { gateway, task, end }));
        }
        Phase::Probing { .. } => {
            into.extend([Action::Tell { gateway, task }, Action::Unheard { gateway, task }]);
        }
        Phase::Told { .. } => into.push(Action::Hear { gateway, task }),
        _ => {}
    }
}

/// Whether a gateway may ask about what the store holds: it asks once at a time.
fn may_look(plan: &Plan, state: &State, gateway: usize) -> bool {
    let asks = state.gateways[gateway].tasks.iter().any(|task| task.name == PROBE);
    plan.probes() && !asks && state.store.primary.as_ref().is_some_and(|record| doubtful(record))
}

/// What a sweep would write.
pub(crate) fn lapsed(plan: &Plan, state: &State) -> Option<Call> {
    let found = state.store.primary.as_ref()?;
    let record = Rules(plan.mutation).lapse(found, &plan.policy, Time(state.now))?.into();
    Some(Call::Write { expect: Expect::Fence(found.fence), record })
}

/// When something is forgotten next, or need not be remembered any longer, or cannot be executed any more.
pub(crate) fn next_end(state: &State) -> Option<u64> {
    let guard = state.audit.guard.map(|guard| guard.until);
    let stored = state.store.primary.as_ref().map(|record| record.expires.0);
    guard.into_iter().chain(stored).chain(state.upstream.next_end()).filter(|end| *end > state.now).min()
}
