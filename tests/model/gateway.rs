//! A gateway of the model: the loops of the arbiter, cut where anything may come between.

use std::sync::Arc;

use oncegate::machine::{
    Admission, Answer, Cause, Duplicate, Ending, Expect, Policy, Record, Recorded, Settled, Settling, State as Stands,
    Time,
};

use super::rules::Mutation;
use super::state::{Beat, End, Name, Phase, Task, arrival, attempt, name};
use super::store::{Call, Held, Reply};
use super::trace::Mark;
use super::world::Step;

impl Step<'_> {
    pub(crate) fn arrive(&mut self, gateway: usize, changed: bool, looks: bool) {
        self.state.names += 1;
        self.state.left.requests -= 1;
        self.state.left.changed -= u8::from(changed);
        let name = self.state.names;
        self.state.audit.arrived(name, changed);
        self.state.gateways[gateway].tasks.push(Task { name, changed, phase: Phase::Over });
        let task = self.state.gateways[gateway].tasks.len() - 1;
        if looks {
            return self.enter(gateway, task, Phase::Asking { call: Call::Load });
        }
        // The filter knows nothing: the claim goes out before anybody has looked.
        self.ask(gateway, task, None);
    }

    /// The rules' word on a request that has met `found`.
    pub(crate) fn ask(&mut self, gateway: usize, task: usize, found: Option<&Held>) {
        let Task { name, changed, .. } = *self.state.task(gateway, task);
        if let Some(met) = found.filter(|met| met.fence.attempt != attempt(name))
            && let Some(claim) = self.claim_of(gateway, met)
        {
            self.withdraw_now(gateway, &claim);
            return self.enter(gateway, task, Phase::Asking { call: Call::Load });
        }
        let (rules, policy, now) = (self.rules(), &self.plan.policy, Time(self.state.now));
        let admission = rules.admit(found.map(|found| &**found), &arrival(changed), policy, attempt(name), now);
        let phase = match admission {
            Admission::Claim { expect, record } => {
                match self.known(gateway).filter(|_| expect == Expect::Absent) {
                    None => Phase::Asking { call: Call::Write { expect, record: record.into() } },
                    // It is in the store, or its heartbeat or its outcome writes it again.
                    Some(lost) if lost.running && !rules.broken(Mutation::RecallsTheRunning) => {
                        Phase::Asking { call: Call::Load }
                    }
                    // What the store has lost is written in the place of the claim.
                    Some(lost) => Phase::Asking { call: Call::Write { expect, record: self.recalled(&lost) } },
                }
            }
            Admission::Lapse { expect, record } => {
                Phase::Asking { call: Call::Write { expect, record: record.into() } }
            }
            Admission::Own(record) => {
                let held = Held::from(record);
                self.mark(Mark::Own);
                return self.claimed(gateway, task, Expect::Absent, held);
            }
            // No key here has an age.
            Admission::Untimely(_) => Phase::Over,
            Admission::Duplicate(duplicate) => self.slides(changed, &duplicate),
        };
        self.enter(gateway, task, phase);
    }

    pub(crate) fn told(&mut self, changed: bool, duplicate: &Duplicate) {
        let mark = match duplicate {
            Duplicate::InFlight { .. } => Mark::InFlight,
            Duplicate::InDoubt { .. } => Mark::InDoubt,
            Duplicate::Changed => Mark::Changed,
            Duplicate::Completed(record) => {
                self.state.audit.shown(changed, record);
                Mark::Replayed
            }
            Duplicate::Stranger(_) | Duplicate::Unsure => return,
        };
        self.mark(mark);
    }

    fn claim_of(&self, gateway: usize, met: &Held) -> Option<Held> {
        let mut claims = self.state.gateways[gateway].unconfirmed.iter();
        claims.find(|claim| claim.fence.attempt == met.fence.attempt).cloned()
    }

    /// A call of a task is executed and answered.
    pub(crate) fn answer(&mut self, gateway: usize, task: usize, echo: bool) {
        let phase = std::mem::replace(&mut self.state.task_mut(gateway, task).phase, Phase::Over);
        let Some(call) = phase.call().cloned() else { return };
        let mut reply = self.execute(&call);
        if echo && matches!(reply, Reply::Done) {
            reply = Reply::Lost(self.state.store.primary.clone());
        }
        match phase {
            Phase::Asking { .. } => self.admission_heard(gateway, task, call, reply),
            Phase::Undoing { .. } => match (call, reply) {
                (_, Reply::Lost(found)) => self.ask(gateway, task, found.as_ref()),
                (Call::Write { record, .. }, Reply::Done) => {
                    self.written_again(gateway, &record);
                    self.ask(gateway, task, Some(&record));
                }
                (_, Reply::Done) => {}
            },
            Phase::Running { held, sent, .. } => {
                let (held, beat) = match (call, reply) {
                    (Call::Write { record, expect }, Reply::Done) => {
                        if expect == Expect::Absent {
                            self.dispatches(gateway, &record);
                        }
                        (record, Beat::Resting)
                    }
                    // Nobody can have ended an attempt whose lease has not: the store has lost its record.
                    (Call::Write { expect: Expect::Fence(_), .. }, Reply::Lost(None))
                        if lease(&held) > self.state.now =>
                    {
                        let again = self.rules().recall(&held, true, &self.plan.policy, Time(self.state.now));
                        let call = Call::Write { expect: Expect::Absent, record: again.into() };
                        (held, Beat::Out(call))
                    }
                    (_, Reply::Lost(Some(newer))) if runs(&held, &newer) => (newer, Beat::Resting),
                    _ => (held, Beat::Lost),
                };
                self.enter(gateway, task, Phase::Running { held, sent, beat });
            }
            Phase::Settling { held, end, .. } => match reply {
                Reply::Lost(newer) => self.settle(gateway, task, &held, newer.as_ref(), end),
                Reply::Done => self.keep_in_mind(gateway, &call),
            },
            Phase::Resolving { .. } => self.resolved(gateway, &call, &reply),
            Phase::Sliding { .. } => self.slid(gateway, task, &call, reply),
            Phase::Ready { .. } | Phase::Probing { .. } | Phase::Told { .. } | Phase::Over => {}
        }
    }

    fn admission_heard(&mut self, gateway: usize, task: usize, call: Call, reply: Reply) {
        let own = attempt(self.state.task(gateway, task).name);
        let known = self.known(gateway);
        match (call, reply) {
            (Call::Write { expect, record }, Reply::Done) if record.fence.attempt == own => {
                self.claimed(gateway, task, expect, record);
            }
            (Call::Write { expect, record }, Reply::Done) => {
                if expect == Expect::Absent {
                    self.written_again(gateway, &record);
                }
                self.ask(gateway, task, Some(&record));
            }
            // Known to run here: the request is a duplicate of it, whatever the store says.
            (Call::Load, Reply::Lost(None)) if known.is_some_and(|known| known.running) => self.mark(Mark::InFlight),
            (_, Reply::Lost(found)) => self.ask(gateway, task, found.as_ref()),
            (_, Reply::Done) => {}
        }
    }

    /// A claim stands. It gives no right to act where the gateway knows of another attempt, dispatched between the two looks
    /// and lost or freed since.
    fn claimed(&mut self, gateway: usize, task: usize, expect: Expect, claim: Held) {
        let known = self.known(gateway).filter(|known| known.known.fence.attempt != claim.fence.attempt);
        match known.filter(|_| expect == Expect::Absent && !self.rules().broken(Mutation::ActsOnEveryClaim)) {
            None => {
                self.allowed();
                self.dispatches(gateway, &claim);
                self.enter(gateway, task, Phase::Ready { held: claim, since: self.state.now });
            }
            Some(lost) if lost.running => {
                self.mark(Mark::InFlight);
                self.state.gateways[gateway].unconfirmed.push(claim);
            }
            Some(lost) => {
                let call = Call::Write { expect: Expect::Fence(claim.fence), record: self.recalled(&lost) };
                self.enter(gateway, task, Phase::Undoing { claim, call });
            }
        }
    }

    /// What lets an attempt act is on record: with `wait`, on the replica's too.
    fn allowed(&mut self) {
        if self.plan.wait {
            self.state.store.confirm();
        }
    }

    /// A call of a task stays without an answer. It may still be executed.
    pub(crate) fn lose(&mut self, gateway: usize, task: usize) {
        self.state.left.losses -= 1;
        let own = attempt(self.state.task(gateway, task).name);
        let phase = std::mem::replace(&mut self.state.task_mut(gateway, task).phase, Phase::Over);
        let Some(call) = phase.call().cloned() else { return };
        self.strays(call.clone());
        match phase {
            Phase::Asking { .. } => {
                if let Call::Write { record, .. } = call
                    && record.fence.attempt == own
                    && !self.rules().broken(Mutation::ClaimsForgotten)
                {
                    self.state.gateways[gateway].unconfirmed.push(record);
                }
            }
            Phase::Undoing { claim, .. } => self.state.gateways[gateway].unconfirmed.push(claim),
            Phase::Running { held, sent, .. } => {
                self.enter(gateway, task, Phase::Running { held, sent, beat: Beat::Resting });
            }
            // That it is told honours the window all the same.
            Phase::Sliding { found, .. } => {
                let changed = self.state.task(gateway, task).changed;
                self.told(changed, &Duplicate::Completed(Arc::new((*found).clone())));
            }
            Phase::Settling { .. } if self.rules().broken(Mutation::OutcomeNotKept) => {}
            // The store was away until the record was forgotten.
            Phase::Settling { held, .. } if held.expires.0 <= self.state.now => self.state.audit.gave_up = true,
            Phase::Settling { held, end, .. } => self.settle(gateway, task, &held, Some(&held), end),
            // What a probe found is asked for again, or not.
            Phase::Resolving { .. }
            | Phase::Ready { .. }
            | Phase::Probing { .. }
            | Phase::Told { .. }
            | Phase::Over => {}
        }
    }

    fn renewal(&self, held: &Held) -> Option<Call> {
        let renewed = self.rules().renew(held, &self.plan.policy, Time(self.state.now))?;
        Some(Call::Write { expect: Expect::Fence(held.fence), record: renewed.into() })
    }

    pub(crate) fn send(&mut self, gateway: usize, task: usize) {
        let Task { name, phase: Phase::Ready { held, .. }, .. } = self.state.task(gateway, task).clone() else {
            return;
        };
        let now = self.state.now;
        self.state.audit.forwarded(self.plan, name, &held, now);
        self.reaches_upstream(name);
        if held.number > 1 {
            self.mark(Mark::Further);
        }
        self.enter(gateway, task, Phase::Running { held, sent: now, beat: Beat::Resting });
    }

    pub(crate) fn beat(&mut self, gateway: usize, task: usize) {
        let Phase::Running { held, sent, .. } = self.state.task(gateway, task).phase.clone() else { return };
        let beat = self.renewal(&held).map_or(Beat::Lost, Beat::Out);
        self.enter(gateway, task, Phase::Running { held, sent, beat });
    }

    /// An attempt ends. A renewal that is on its way is not waited for.
    pub(crate) fn end(&mut self, gateway: usize, task: usize, end: End) {
        let task_now = self.state.task(gateway, task).clone();
        let held = match task_now.phase {
            Phase::Running { held, beat, .. } => {
                if let Beat::Out(call) = beat {
                    self.strays(call);
                }
                held
            }
            Phase::Ready { held, .. } => {
                if lease(&held) <= self.state.now {
                    self.mark(Mark::TooLate);
                }
                held
            }
            _ => return,
        };
        if end == End::Released {
            self.state.upstream.never_executes(task_now.name);
        }
        let now = self.state.now;
        self.state.audit.ended(task_now.name, end, now);
        self.settle(gateway, task, &held, Some(&held), end);
    }

    /// The rules' word on an attempt that has ended.
    fn settle(&mut self, gateway: usize, task: usize, held: &Held, found: Option<&Held>, end: End) {
        let phase = match self.settling(gateway, held, found, end) {
            Settling::Done(settled) => {
                if settled == Settled::Superseded {
                    self.mark(Mark::Superseded);
                }
                self.ends(gateway, held);
                Phase::Over
            }
            Settling::Write { expect, record, settled } => {
                self.mark(match (expect, settled) {
                    (Expect::Absent, _) => Mark::Anew,
                    (_, Settled::Kept(_)) if found.is_some_and(|found| doubtful(found)) => Mark::Late,
                    (_, Settled::Kept(_)) => Mark::Kept,
                    _ => Mark::Doubted,
                });
                Phase::Settling { held: held.clone(), end, call: Call::Write { expect, record: record.into() } }
            }
            Settling::Remove { fence, .. } => {
                self.mark(Mark::Freed);
                Phase::Settling { held: held.clone(), end, call: Call::Remove { fence } }
            }
        };
        self.enter(gateway, task, phase);
    }

    fn settling(&mut self, gateway: usize, held: &Held, found: Option<&Held>, end: End) -> Settling {
        if end == End::Released || (end == End::NotSent && held.number == 1) {
            self.forgets(gateway, held.fence);
        }
        let policy = &self.plan.policy;
        let ending = ending(policy, end, name(held.fence.attempt));
        self.rules().settle(held, found.map(|found| &**found), &ending, policy, Time(self.state.now))
    }

    /// One look at a claim whose reply was lost.
    pub(crate) fn withdraw(&mut self, gateway: usize, claim: usize) {
        let claim = self.state.gateways[gateway].unconfirmed[claim].clone();
        let settled = self.withdraw_now(gateway, &claim);
        // Not there may mean not there yet; after a while it means that the call has not arrived.
        if settled || !self.state.travels(claim.fence.attempt) {
            self.mark(if settled { Mark::Withdrawn } else { Mark::NeverArrived });
            let same = |other: &Held| other.fence.attempt == claim.fence.attempt;
            self.state.gateways[gateway].unconfirmed.retain(|other| !same(other));
        }
    }

    /// Settles a claim as never sent. True when it was there.
    fn withdraw_now(&mut self, gateway: usize, claim: &Held) -> bool {
        let mut found = Some(claim.clone());
        loop {
            let call = match self.settling(gateway, claim, found.as_ref(), End::NotSent) {
                Settling::Done(settled) => return matches!(settled, Settled::NotSent | Settled::Doubted),
                _ if self.rules().broken(Mutation::WithdrawsAnything) => Call::RemoveAny,
                Settling::Write { expect, record, .. } => Call::Write { expect, record: record.into() },
                Settling::Remove { fence, .. } => Call::Remove { fence },
            };
            match self.execute(&call) {
                Reply::Done => {
                    self.keep_in_mind(gateway, &call);
                    return true;
                }
                Reply::Lost(newer) => match newer {
                    Some(newer) if newer.fence.attempt == claim.fence.attempt => found = Some(newer),
                    _ => return false,
                },
            }
        }
    }

    pub(crate) fn crash(&mut self, gateway: usize) {
        self.state.left.crashes -= 1;
        self.state.audit.crashed = true;
        let now = self.state.now;
        for task in std::mem::take(&mut self.state.gateways[gateway]).tasks {
            self.state.audit.crashed(task.name, now);
            if let Some(call) = task.phase.call() {
                self.strays(call.clone());
            }
        }
    }

    fn strays(&mut self, call: Call) {
        if !matches!(call, Call::Load) {
            self.state.strays.push(call);
        }
    }

    pub(crate) fn enter(&mut self, gateway: usize, task: usize, phase: Phase) {
        self.state.task_mut(gateway, task).phase = phase;
    }
}

fn ending(policy: &Policy, end: End, mark: Name) -> Ending {
    let answered = |status| {
        let recorded = Recorded::bare(status, &[mark]);
        let judgement = policy.outcomes.judge(status, false);
        Ending::Answered { judgement, status, answer: Answer::Recorded(recorded), retention: None }
    };
    match end {
        End::NotSent => Ending::NotSent,
        End::Kept => answered(201),
        End::Released => answered(422),
        End::Doubtful => answered(502),
        End::Unknown => Ending::Unknown(Cause::Broken),
    }
}

pub(crate) fn lease(record: &Record) -> u64 {
    if let Stands::InFlight { lease, .. } = record.state { lease.0 } else { 0 }
}

pub(crate) fn doubtful(record: &Record) -> bool {
    matches!(record.state, Stands::InDoubt { .. })
}

/// Whether what was found is the attempt that `held` speaks of, running.
fn runs(held: &Record, found: &Record) -> bool {
    found.fence.attempt == held.fence.attempt && matches!(found.state, Stands::InFlight { .. })
}
