//! Which states with two keys are one: see `essence`.

use super::essence::{Met, Naming, in_order};
use super::explore::{digest, mix};
use super::pair::{Gateway, KEYS, ORDER, Phase, State, Task};
use super::store::Held;

/// A state without what makes no difference: which gateway is which, what attempts are called, in which order things stand.
pub(crate) fn essence(state: &State) -> u64 {
    let met = Met::default();
    let naming = Naming::Places(&met);
    let stored = mix((0..KEYS).map(|key| naming.held(state.stored(key))));
    let gateways = in_order(&state.gateways, of_gateway, naming);
    let strays = in_order(&state.strays, |naming, (key, call)| mix([*key as u64, naming.call(call)]), naming);
    let mut parts = vec![state.now, digest(&state.left), stored, gateways, strays, u64::from(state.names > 0)];
    for audit in &state.audits {
        audit.digest(&met.names(), &mut |part| parts.push(part));
    }
    parts.extend((0..ORDER).map(|first| u64::from(state.is_of_another(first))));
    mix(parts)
}

fn of_gateway(naming: Naming<'_>, gateway: &Gateway) -> u64 {
    let tasks = in_order(&gateway.tasks, of_task, naming);
    let claim = |naming: Naming<'_>, (key, claim): &(usize, Held)| mix([*key as u64, naming.held(Some(claim))]);
    mix([tasks, in_order(&gateway.unconfirmed, claim, naming)])
}

fn of_task(naming: Naming<'_>, task: &Task) -> u64 {
    let both = |halves: &[Held]| mix(halves.iter().map(|held| naming.held(Some(held))));
    let phase = match &task.phase {
        Phase::Over => [0; 4],
        Phase::Asking { held, call } => [1, naming.held(held.as_ref()), naming.call(call), 0],
        Phase::Ready { halves, since } => [2, both(halves), *since, 0],
        Phase::Running { halves } => [3, both(halves), 0, 0],
        Phase::Settling { key, held, end, call } => {
            [4 + *end as u64, *key as u64, naming.held(Some(held)), naming.call(call)]
        }
        Phase::Word { key, call, both } => [10, *key as u64, naming.call(call), u64::from(*both)],
    };
    mix([naming.of(task.name), task.first as u64, mix(phase)])
}
