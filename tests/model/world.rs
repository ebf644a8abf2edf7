//! The model itself: what can happen in a state, and what it leads to.

use std::cell::Cell;

use oncegate::machine::State as Stands;

use super::audit::{Audit, Broken};
use super::essence::essence;
use super::explore::Model;
use super::moves::{lapsed, next_end, possible};
use super::plan::Plan;
use super::rules::{Mutation, Rules};
use super::state::{Action, Gateway, Phase, State};
use super::store::{Call, Held, Reply, Store};
use super::trace::{Mark, Marks};
use super::upstream::Upstream;

pub(crate) struct World {
    pub(crate) plan: Plan,
    /// What happened on the ways that were looked at.
    pub(crate) marks: Cell<Marks>,
}

/// One step, half done.
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    marks: &'a Cell<Marks>,
    pub(crate) state: State,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, marks: Cell::default() }
    }

    fn step(&self, state: State) -> Step<'_> {
        Step { plan: &self.plan, marks: &self.marks, state }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;
    type Fault = Broken;

    fn first(&self) -> State {
        State {
            now: 0,
            store: Store::default(),
            gateways: vec![Gateway::default(); self.plan.gateways],
            strays: Vec::new(),
            upstream: Upstream::default(),
            audit: Audit::default(),
            left: self.plan.left,
            names: 0,
        }
    }

    fn actions(&self, state: &State, into: &mut Vec<Action>) {
        possible(&self.plan, state, into);
    }

    fn next(&self, state: &State, action: Action) -> State {
        let mut step = self.step(state.clone());
        step.take(action);
        step.tidy();
        step.state
    }

    fn digest(&self, state: &State) -> u64 {
        essence(state)
    }

    fn fault(&self, state: &State) -> Option<Broken> {
        state.audit.broken
    }
}

impl Step<'_> {
    pub(crate) fn rules(&self) -> Rules {
        Rules(self.plan.mutation)
    }

    pub(crate) fn mark(&self, mark: Mark) {
        self.marks.set(self.marks.get().with(mark));
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Arrive { gateway, changed, looks } => self.arrive(gateway, changed, looks),
            Action::Answer { gateway, task } => self.answer(gateway, task, false),
            Action::Echo { gateway, task } => {
                self.state.left.losses -= 1;
                self.answer(gateway, task, true);
            }
            Action::Lose { gateway, task } => self.lose(gateway, task),
            Action::Send { gateway, task } => self.send(gateway, task),
            Action::Beat { gateway, task } => self.beat(gateway, task),
            Action::End { gateway, task, end } => self.end(gateway, task, end),
            Action::Withdraw { gateway, claim } => self.withdraw(gateway, claim),
            Action::Crash { gateway } => self.crash(gateway),
            Action::Look { gateway } => self.look(gateway),
            Action::Tell { gateway, task } => self.tell(gateway, task),
            Action::Hear { gateway, task } | Action::Unheard { gateway, task } => self.hear(gateway, task),
            Action::Execute { run } => self.executes(run),
            Action::Stray { place } => {
                let call = self.state.strays.remove(place);
                self.execute(&call);
            }
            Action::Sweep => {
                if let Some(call) = lapsed(self.plan, &self.state) {
                    self.mark(Mark::Lapsed);
                    self.execute(&call);
                }
            }
            Action::FailOver { lost } => {
                self.state.left.failovers -= 1;
                self.state.audit.lossy |= lost > 0;
                self.state.store.fail_over(lost);
            }
            Action::Flush => {
                self.state.left.flushes -= 1;
                self.state.store.flush();
                self.state.audit.lossy = true;
            }
            Action::Tick => {
                self.state.left.ticks -= 1;
                self.state.now += 1;
            }
            Action::Leap => {
                self.state.left.leaps -= 1;
                self.state.now = next_end(&self.state).unwrap_or(self.state.now);
            }
        }
    }

    /// What holds after every step: what has expired is forgotten, who is done is gone, and the promises are kept.
    fn tidy(&mut self) {
        let State { now, store, gateways, upstream, .. } = &mut self.state;
        store.pass(*now);
        upstream.pass(*now);
        for gateway in gateways {
            gateway.tasks.retain(|task| !matches!(task.phase, Phase::Over));
        }
        let quiet = self.state.is_quiet();
        let stored = self.state.store.primary.clone();
        self.state.audit.stands(self.plan, stored.as_deref(), quiet, self.state.now);
        if self.rules().broken(Mutation::NothingLapses) && self.hangs() {
            self.state.audit.breaks(Broken::Hangs);
        }
    }

    /// A lease has ended, and nothing would lapse it.
    fn hangs(&self) -> bool {
        let in_flight = |record: &Held| match record.state {
            Stands::InFlight { lease, .. } => lease.0 <= self.state.now,
            _ => false,
        };
        self.state.store.primary.as_ref().is_some_and(in_flight) && lapsed(self.plan, &self.state).is_none()
    }

    pub(crate) fn execute(&mut self, call: &Call) -> Reply {
        let before = self.state.store.primary.clone();
        let now = self.state.now;
        let lag = self.plan.lag;
        let reply = self.state.store.execute(call, lag);
        if matches!(reply, Reply::Done) {
            self.state.store.pass(now);
            let after = match call {
                Call::Write { record, .. } => Some(&**record),
                _ => None,
            };
            self.state.audit.written(self.plan, before.as_deref(), after, now);
            if let Some(after) = after {
                self.state.upstream.written(self.plan, after);
            }
        }
        reply
    }
}
