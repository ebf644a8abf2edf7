//! A state without what makes no difference: which gateway is which, what attempts are called, in which order tasks and
//! stray calls are kept. States of one essence lead to the same; only one of them is looked at.

use std::cell::RefCell;

use oncegate::machine::{Expect, Fence};

use super::explore::{digest, mix};
use super::state::{Beat, Gateway, Name, Phase, State, Task, name};
use super::store::{Call, Held};

/// The names that a state uses, in the order in which they are met.
#[derive(Default)]
pub(crate) struct Met(RefCell<Vec<Name>>);

impl Met {
    pub(crate) fn names(&self) -> Vec<Name> {
        self.0.borrow().clone()
    }
}

/// How names are written down: by the place at which they were met, or not at all.
#[derive(Clone, Copy)]
pub(crate) enum Naming<'a> {
    Places(&'a Met),
    Blank,
}

impl Naming<'_> {
    pub(crate) fn of(self, name: Name) -> u64 {
        let Naming::Places(met) = self else { return 0 };
        let mut met = met.0.borrow_mut();
        let place = met.iter().position(|other| *other == name).unwrap_or_else(|| {
            met.push(name);
            met.len() - 1
        });
        place as u64 + 1
    }

    pub(crate) fn held(self, held: Option<&Held>) -> u64 {
        let Some(held) = held else { return 0 };
        let answer = held.answer_of().map_or(0, |name| self.of(name));
        mix([self.of(name(held.fence.attempt)), answer, held.shape()])
    }

    pub(crate) fn call(self, call: &Call) -> u64 {
        let at = |fence: &Fence| [self.of(name(fence.attempt)), u64::from(fence.version)];
        let [kind, attempt, version, record] = match call {
            Call::Load => [1, 0, 0, 0],
            Call::RemoveAny => [2, 0, 0, 0],
            Call::Remove { fence } => {
                let [attempt, version] = at(fence);
                [3, attempt, version, 0]
            }
            Call::Write { expect: Expect::Absent, record } => [4, 0, 0, self.held(Some(record))],
            Call::Write { expect: Expect::Fence(fence), record } => {
                let [attempt, version] = at(fence);
                [5, attempt, version, self.held(Some(record))]
            }
        };
        mix([kind, attempt, version, record])
    }

    fn task(self, task: &Task) -> u64 {
        let phase = match &task.phase {
            Phase::Over => [0, 0, 0, 0],
            Phase::Asking { call } => [1, self.call(call), 0, 0],
            Phase::Ready { held, since } => [2, self.held(Some(held)), *since, 0],
            Phase::Resolving { call } => [3, self.call(call), 0, 0],
            Phase::Running { held, sent, beat } => {
                let beat = match beat {
                    Beat::Resting => 1,
                    Beat::Lost => 2,
                    Beat::Out(call) => self.call(call),
                };
                [4, self.held(Some(held)), *sent, beat]
            }
            Phase::Undoing { claim, call } => [5, self.held(Some(claim)), self.call(call), 0],
            Phase::Settling { held, end, call } => [6 + *end as u64, self.held(Some(held)), self.call(call), 0],
            Phase::Sliding { found, call } => [22, self.held(Some(found)), self.call(call), 0],
            Phase::Probing { doubt, asked } => [20, self.held(Some(doubt)), *asked, 0],
            Phase::Told { doubt, asked, executed } => {
                [21, self.held(Some(doubt)), *asked, executed.map_or(0, |name| self.of(name))]
            }
        };
        mix([self.of(task.name), u64::from(task.changed), mix(phase)])
    }

    fn gateway(self, gateway: &Gateway) -> u64 {
        let tasks = in_order(&gateway.tasks, Naming::task, self);
        let claims = in_order(&gateway.unconfirmed, |naming, claim| naming.held(Some(claim)), self);
        let known = gateway.dispatched.as_ref();
        let outcome = self.held(known.and_then(|entry| entry.outcome.as_ref()));
        let running = known.is_some_and(|entry| entry.running);
        mix([tasks, claims, self.held(known.map(|entry| &entry.known)), outcome, u64::from(running)])
    }
}

/// A digest of things whose order does not matter: they are put in order by what they are without their names.
pub(crate) fn in_order<'a, T>(things: &'a [T], of: impl Fn(Naming<'a>, &'a T) -> u64, naming: Naming<'a>) -> u64 {
    match things {
        [] => 0,
        [thing] => mix([1, of(naming, thing)]),
        _ => {
            let mut order: Vec<_> = things.iter().map(|thing| (of(Naming::Blank, thing), thing)).collect();
            order.sort_by_key(|(blank, _)| *blank);
            mix(order.into_iter().map(|(_, thing)| of(naming, thing)))
        }
    }
}

pub(crate) fn essence(state: &State) -> u64 {
    let met = Met::default();
    let naming = Naming::Places(&met);
    let contents = mix(state.store.contents().map(|held| naming.held(held)));
    let gateways = in_order(&state.gateways, Naming::gateway, naming);
    let strays = in_order(&state.strays, Naming::call, naming);
    let runs = in_order(&state.upstream.runs, |naming, run| mix([naming.of(run.name), run.digest()]), naming);
    let first = state.upstream.first.map_or(0, |name| naming.of(name));
    let upstream = mix([runs, first]);
    let begun = u64::from(state.names > 0);
    let mut parts = vec![state.now, digest(&state.left), contents, gateways, strays, upstream, begun];
    state.audit.digest(&met.0.borrow(), &mut |part| parts.push(part));
    mix(parts)
}
