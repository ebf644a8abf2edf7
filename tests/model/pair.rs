//! Requests with two keys: two first keys and one order behind them. What a state consists of, and what can happen in it.
//! What it leads to is told in `pair_steps`; each key has the audit of a single operation.

use std::cell::Cell;

use oncegate::machine::{Expect, OperationId, Record, Time, are_a_pair, ended_beside};

use super::audit::{Audit, Broken};
use super::explore::Model;
use super::gateway::{doubtful, lease};
use super::pair_essence::essence;
use super::plan::{DOUBT_RETENTION, Left, Plan};
use super::rules::{Mutation, Rules};
use super::state::{End, Name, name};
use super::store::{Call, Held, Reply, Store};
use super::trace::{Mark, Marks};

/// The order's place among the keys; the first keys stand before it.
pub(crate) const ORDER: usize = 2;
pub(crate) const KEYS: usize = 3;

pub(crate) fn id(key: usize) -> OperationId {
    OperationId([u8::try_from(key).expect("few keys"); 32])
}

/// The key that is held beside the one of this record.
pub(crate) fn beside(record: &Record) -> Option<usize> {
    record.beside.as_ref().map(|other| usize::from(other.0[0]))
}

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) stores: [Store; KEYS],
    pub(crate) gateways: Vec<Gateway>,
    /// Calls that nobody waits for, and that may still be executed.
    pub(crate) strays: Vec<(usize, Call)>,
    pub(crate) audits: [Audit; KEYS],
    pub(crate) left: Left,
    pub(crate) names: Name,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Gateway {
    pub(crate) tasks: Vec<Task>,
    /// Claims whose reply was lost.
    pub(crate) unconfirmed: Vec<(usize, Held)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) name: Name,
    /// Which first key its request has.
    pub(crate) first: usize,
    pub(crate) phase: Phase,
}

/// Where a task stands. Where there is a call, the task waits for its reply.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// It asks whether it may act: on the first, or, once it holds that, on the order.
    Asking {
        held: Option<Held>,
        call: Call,
    },
    /// It may, since then.
    Ready {
        halves: Vec<Held>,
        since: u64,
    },
    Running {
        halves: Vec<Held>,
    },
    /// One half of an attempt that has ended.
    Settling {
        key: usize,
        held: Held,
        end: End,
        call: Call,
    },
    /// Somebody's word on a doubt: the other half is dealt with, if there was one; this one comes now.
    Word {
        key: usize,
        call: Call,
        both: bool,
    },
    Over,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Arrive {
        gateway: usize,
        first: usize,
    },
    Answer {
        gateway: usize,
        task: usize,
    },
    /// The same, but the reply was lost and the call sent again: it loses the race to itself.
    Echo {
        gateway: usize,
        task: usize,
    },
    Lose {
        gateway: usize,
        task: usize,
    },
    Send {
        gateway: usize,
        task: usize,
    },
    End {
        gateway: usize,
        task: usize,
        end: End,
    },
    Withdraw {
        gateway: usize,
        claim: usize,
    },
    Crash {
        gateway: usize,
    },
    Stray {
        place: usize,
    },
    /// A sweep meets a lease that has ended,
    Lapse {
        key: usize,
    },
    /// or a doubt beside which there is an outcome.
    Heal {
        key: usize,
    },
    /// Somebody knows of a doubt.
    Word {
        gateway: usize,
        key: usize,
    },
    Tick,
    Leap,
}

impl Task {
    /// The key that its call is about.
    pub(crate) fn key(&self) -> usize {
        match &self.phase {
            Phase::Asking { held: Some(_), .. } => ORDER,
            Phase::Settling { key, .. } | Phase::Word { key, .. } => *key,
            _ => self.first,
        }
    }

    pub(crate) fn call(&self) -> Option<&Call> {
        match &self.phase {
            Phase::Asking { call, .. } | Phase::Settling { call, .. } | Phase::Word { call, .. } => Some(call),
            Phase::Ready { .. } | Phase::Running { .. } | Phase::Over => None,
        }
    }
}

impl State {
    pub(crate) fn stored(&self, key: usize) -> Option<&Held> {
        self.stores[key].primary.as_ref()
    }

    /// Whether the order must not run again for an attempt under another first key than this.
    pub(crate) fn is_of_another(&self, first: usize) -> bool {
        self.audits[ORDER].guard.is_some_and(|guard| !self.audits[first].has_sent(guard.attempt))
    }

    fn is_quiet(&self) -> bool {
        let idle = |gateway: &Gateway| gateway.tasks.is_empty() && gateway.unconfirmed.is_empty();
        self.strays.is_empty() && self.gateways.iter().all(idle)
    }

    /// When something is forgotten next, or need not be remembered any longer.
    fn next_end(&self) -> Option<u64> {
        let guards = self.audits.iter().filter_map(|audit| audit.guard.map(|guard| guard.until));
        let stored = (0..KEYS).filter_map(|key| self.stored(key).map(|record| record.expires.0));
        guards.chain(stored).filter(|end| *end > self.now).min()
    }
}

pub(crate) struct Pairs {
    pub(crate) plan: Plan,
    pub(crate) marks: Cell<Marks>,
}

/// One step, half done.
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) marks: &'a Cell<Marks>,
    pub(crate) state: State,
}

impl Pairs {
    /// What a sweep would write over a lease that has ended.
    fn lapsed(&self, state: &State, key: usize) -> Option<Call> {
        let found = state.stored(key)?;
        let record = Rules(self.plan.mutation).lapse(found, &self.plan.policy, Time(state.now))?.into();
        Some(Call::Write { expect: Expect::Fence(found.fence), record })
    }

    /// Whether there is an outcome beside a doubt.
    fn heals(&self, state: &State, key: usize) -> bool {
        let partner = |doubt: &Held| Some((beside(doubt)?, state.stored(beside(doubt)?)?.clone()));
        let known = |doubt: &Held| {
            let (other, partner) = partner(doubt)?;
            ended_beside((&id(key), doubt), (&id(other), &partner))
        };
        self.plan.mutation != Some(Mutation::NobodyLooksBeside) && state.stored(key).and_then(known).is_some()
    }

    fn of_gateway(state: &State, gateway: usize, into: &mut Vec<Action>) {
        let State { left, names, .. } = *state;
        // Gateways and first keys are alike: the first request comes with the first of them to the first of them.
        if left.requests > 0 && (names > 0 || gateway == 0) {
            let firsts = if names > 0 { ORDER } else { 1 };
            into.extend((0..firsts).map(|first| Action::Arrive { gateway, first }));
        }
        for (task, at) in state.gateways[gateway].tasks.iter().enumerate() {
            match &at.phase {
                Phase::Ready { halves, since } => {
                    // When it may have looked last.
                    let end = halves.iter().map(|held| lease(held)).min().unwrap_or_default();
                    let looked = state.now.min(end.saturating_sub(1)).max(*since);
                    if looked < end && state.now < looked + DOUBT_RETENTION {
                        into.push(Action::Send { gateway, task });
                    }
                    into.push(Action::End { gateway, task, end: End::NotSent });
                }
                Phase::Running { .. } => {
                    let ends = [End::Kept, End::Released, End::Unknown];
                    into.extend(ends.into_iter().map(|end| Action::End { gateway, task, end }));
                }
                _ => {}
            }
            let Some(call) = at.call() else { continue };
            into.push(Action::Answer { gateway, task });
            if left.losses > 0 {
                into.push(Action::Lose { gateway, task });
                if matches!((&at.phase, call), (Phase::Asking { .. }, Call::Write { .. })) {
                    into.push(Action::Echo { gateway, task });
                }
            }
        }
        let claims = 0..state.gateways[gateway].unconfirmed.len();
        into.extend(claims.map(|claim| Action::Withdraw { gateway, claim }));
        let idle = state.gateways[gateway].tasks.is_empty() && state.gateways[gateway].unconfirmed.is_empty();
        if left.crashes > 0 && !idle {
            into.push(Action::Crash { gateway });
        }
        if left.probes > 0 {
            let known = (0..KEYS).filter(|key| Self::knows(state, *key).is_some());
            into.extend(known.map(|key| Action::Word { gateway, key }));
        }
    }

    /// Whether the operation of a doubt was executed, where somebody can say so truly: nobody has it in hand any more.
    fn knows(state: &State, key: usize) -> Option<bool> {
        let doubt = state.stored(key).filter(|record| doubtful(record))?;
        let of = name(doubt.fence.attempt);
        let mut tasks = state.gateways.iter().flat_map(|gateway| &gateway.tasks).filter(|task| task.name == of);
        let guarded = |key: usize| state.audits[key].guard.is_some();
        let pair = |other: &usize| {
            state.stored(*other).is_some_and(|partner| are_a_pair((&id(key), doubt), (&id(*other), partner)))
        };
        if guarded(key) || beside(doubt).filter(pair).is_some_and(guarded) {
            return tasks.all(|task| matches!(task.phase, Phase::Settling { .. })).then_some(true);
        }
        tasks.next().is_none().then_some(false)
    }
}

impl Model for Pairs {
    type State = State;
    type Action = Action;
    type Fault = Broken;

    fn first(&self) -> State {
        State {
            now: 0,
            stores: std::array::from_fn(|_| Store::default()),
            gateways: vec![Gateway::default(); self.plan.gateways],
            strays: Vec::new(),
            audits: std::array::from_fn(|_| Audit::default()),
            left: self.plan.left,
            names: 0,
        }
    }

    fn actions(&self, state: &State, into: &mut Vec<Action>) {
        for gateway in 0..state.gateways.len() {
            Self::of_gateway(state, gateway, into);
        }
        into.extend((0..state.strays.len()).map(|place| Action::Stray { place }));
        into.extend((0..KEYS).filter(|key| self.lapsed(state, *key).is_some()).map(|key| Action::Lapse { key }));
        into.extend((0..KEYS).filter(|key| self.heals(state, *key)).map(|key| Action::Heal { key }));
        if state.left.ticks > 0 && state.names > 0 {
            into.push(Action::Tick);
        }
        if state.left.leaps > 0 && state.next_end().is_some() {
            into.push(Action::Leap);
        }
    }

    fn next(&self, state: &State, action: Action) -> State {
        let mut step = Step { plan: &self.plan, marks: &self.marks, state: state.clone() };
        match action {
            Action::Lapse { key } => {
                if let Some(call) = self.lapsed(state, key) {
                    step.mark(Mark::Lapsed);
                    step.execute(key, &call);
                }
            }
            Action::Word { gateway, key } => {
                if let Some(executed) = Self::knows(state, key) {
                    step.word(gateway, key, executed);
                }
            }
            Action::Leap => {
                step.state.left.leaps -= 1;
                step.state.now = state.next_end().unwrap_or(state.now);
            }
            other => step.take(other),
        }
        step.tidy();
        let differ = |key: &usize| step.differs(*key);
        if step.state.is_quiet() && (0..KEYS).find(differ).is_some_and(|key| !self.heals(&step.state, key)) {
            step.state.audits[ORDER].breaks(Broken::HalvesDiffer);
        }
        step.state
    }

    fn digest(&self, state: &State) -> u64 {
        essence(state)
    }

    fn fault(&self, state: &State) -> Option<Broken> {
        state.audits.iter().find_map(|audit| audit.broken)
    }
}

impl Step<'_> {
    pub(crate) fn rules(&self) -> Rules {
        Rules(self.plan.mutation)
    }

    pub(crate) fn mark(&self, mark: Mark) {
        self.marks.set(self.marks.get().with(mark));
    }

    /// What holds after every step: what has expired is forgotten, who is done is gone, and the promises are kept.
    fn tidy(&mut self) {
        for gateway in &mut self.state.gateways {
            gateway.tasks.retain(|task| !matches!(task.phase, Phase::Over));
        }
        let (quiet, now) = (self.state.is_quiet(), self.state.now);
        for key in 0..KEYS {
            self.state.stores[key].pass(now);
            let stored = self.state.stored(key).cloned();
            self.state.audits[key].stands(self.plan, stored.as_deref(), quiet, now);
        }
    }

    /// Whether one half of a pair is in doubt, and the other is not any more.
    fn differs(&self, key: usize) -> bool {
        let partner = |doubt: &Held| Some((beside(doubt)?, self.state.stored(beside(doubt)?)?.clone()));
        self.state.stored(key).filter(|doubt| doubtful(doubt)).is_some_and(|doubt| {
            partner(doubt).is_some_and(|(other, partner)| {
                are_a_pair((&id(key), doubt), (&id(other), &partner)) && !doubtful(&partner) && lease(&partner) == 0
            })
        })
    }

    pub(crate) fn execute(&mut self, key: usize, call: &Call) -> Reply {
        let State { stores, audits, now, .. } = &mut self.state;
        let before = stores[key].primary.clone();
        let reply = stores[key].execute(call, 0);
        if matches!(reply, Reply::Done) {
            stores[key].pass(*now);
            let after = match call {
                Call::Write { record, .. } => Some(&**record),
                _ => None,
            };
            audits[key].written(self.plan, before.as_deref(), after, *now);
        }
        reply
    }
}
