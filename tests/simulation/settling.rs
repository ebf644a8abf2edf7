//! What the loops of a simulated gateway do after admission: heartbeats, settling, withdrawal, sweeps.

use oncegate::machine::{AttemptId, Cause, Ending, Expect, Record, Settled, Settling};
use oncegate::store::Written;

use super::gateway::{Phase, Task};
use super::rules::Mutation;
use super::store::{Call, short};
use super::world::{ATTEMPT_TIMEOUT, World};

impl World {
    pub(crate) fn heartbeat(&mut self, at: usize, task: &Task, held: Record, beat: Option<(u64, Record)>) -> Phase {
        if beat.is_some() || !self.dice.chance(30) {
            return Phase::Running { held, beat };
        }
        let renewed = self.rules.renew(&held, &self.policies[task.op], self.gateway_time(at));
        let beat = renewed.map(|record| {
            let call = Call::Write { expect: Expect::Fence(held.fence), record: record.clone() };
            (self.send(self.owner(at, task.id), task.op, call, Some(held.fence.attempt)), record)
        });
        Phase::Running { held, beat }
    }

    pub(crate) fn settle(
        &mut self,
        at: usize,
        task: &Task,
        held: Record,
        found: Option<Record>,
        ending: Ending,
    ) -> Phase {
        let now = self.gateway_time(at);
        let settling = self.rules.settle(&held, found.as_ref(), &ending, &self.policies[task.op], now);
        let (call, settled) = match settling {
            Settling::Done(settled) => {
                self.note(|| format!("{} is settled: {settled:?}", short(held.fence.attempt)));
                return Phase::Over;
            }
            Settling::Write { expect, record, settled } => (Call::Write { expect, record }, settled),
            Settling::Remove { fence, settled } => (Call::Remove { fence }, settled),
        };
        let message = self.send(self.owner(at, task.id), task.op, call, Some(held.fence.attempt));
        Phase::Settling { message, held, found, ending, settled }
    }

    /// A withdrawal is a settling of an attempt that was not sent; but an absent record has nothing to take back.
    pub(crate) fn withdraw(&mut self, at: usize, task: &mut Task, claim: Record, found: Option<&Record>) -> Phase {
        let now = self.gateway_time(at);
        let attempt = claim.fence.attempt;
        let settling = match found {
            None => Settling::Done(Settled::NotSent),
            found => self.rules.settle(&claim, found, &Ending::NotSent, &self.policies[task.op], now),
        };
        let call = match settling {
            Settling::Done(_) => return self.withdrawn(at, task, attempt),
            _ if self.rules.broken(Mutation::WithdrawWithoutFence) => Call::RemoveAny,
            Settling::Write { expect: Expect::Fence(fence), .. }
                if self.rules.broken(Mutation::WithdrawForgetsDoubt) =>
            {
                Call::Remove { fence }
            }
            Settling::Write { expect, record, .. } => Call::Write { expect, record },
            Settling::Remove { fence, .. } => Call::Remove { fence },
        };
        let message = self.send(self.owner(at, task.id), task.op, call, Some(attempt));
        Phase::Withdrawing { message, claim }
    }

    pub(crate) fn withdrawn(&mut self, at: usize, task: &mut Task, attempt: AttemptId) -> Phase {
        self.note(|| format!("the claim of {} is withdrawn", short(attempt)));
        self.gateways[at].unconfirmed.retain(|(_, claim)| claim.fence.attempt != attempt);
        if !std::mem::take(&mut task.then_admit) {
            return Phase::Over;
        }
        let attempt = self.name(task.op, task.variant);
        task.begun = self.now;
        Phase::Admit { attempt, found: None }
    }

    pub(crate) fn sweep_heard(&mut self, at: usize, task: &Task, reply: Option<Written>) -> Phase {
        let Some(Written::Lost(Some(found))) = reply else { return Phase::Over };
        let now = self.gateway_time(at);
        let Some(record) = self.rules.lapse(&found, &self.policies[task.op], now) else { return Phase::Over };
        let call = Call::Write { expect: Expect::Fence(found.fence), record };
        Phase::Swept { message: self.send(self.owner(at, task.id), task.op, call, None) }
    }

    /// What a gateway does beside requests: sweep, withdraw, calibrate.
    pub(crate) fn upkeep(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        let Some(op) = self.dice.place(self.policies.len()) else { return };
        match self.dice.between(0, 2) {
            0 => self.sweep(at, op),
            1 => {
                let Self { dice, gateways, .. } = self;
                gateways[at].clocks_move(dice);
            }
            _ => {
                if let Some(place) = self.dice.place(self.gateways[at].unconfirmed.len()) {
                    self.start_withdrawal(at, place);
                }
            }
        }
    }

    fn start_withdrawal(&mut self, at: usize, place: usize) {
        let (op, claim) = self.gateways[at].unconfirmed[place].clone();
        self.start(at, op, 0, Phase::Withdraw { found: Some(claim.clone()), claim });
    }

    pub(crate) fn withdraw_all(&mut self) {
        for at in 0..self.gateways.len() {
            for place in 0..self.gateways[at].unconfirmed.len() {
                self.start_withdrawal(at, place);
            }
        }
    }

    pub(crate) fn sweep(&mut self, at: usize, op: usize) {
        let task = self.start(at, op, 0, Phase::Over);
        let message = self.send(self.owner(at, task), op, Call::Load, None);
        if let Some(task) = self.gateways[at].tasks.last_mut() {
            task.phase = Phase::Sweeping { message };
        }
    }

    /// The permit of a task is dropped unsettled: the task died, and its gateway lives.
    pub(crate) fn drop_permit(&mut self, at: usize, place: usize) {
        let phase = &mut self.gateways[at].tasks[place].phase;
        if let Phase::Ready { held } | Phase::Running { held, .. } = phase {
            let held = held.clone();
            let ending = Ending::Unknown(Cause::Abandoned);
            *phase = Phase::Settle { found: Some(held.clone()), held: held.clone(), ending };
            self.note(|| format!("the permit of {} is dropped", short(held.fence.attempt)));
            self.audit.ended(self.now, held.fence.attempt);
        }
    }

    pub(crate) fn task_dies(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        if let Some(place) = self.dice.place(self.gateways[at].tasks.len()) {
            self.drop_permit(at, place);
        }
    }

    pub(crate) fn attempts_time_out(&mut self) {
        for task in self.gateways.iter_mut().flat_map(|gateway| &mut gateway.tasks) {
            if let Phase::Running { held, .. } = &task.phase
                && self.now >= task.begun + ATTEMPT_TIMEOUT
            {
                self.audit.ended(self.now, held.fence.attempt);
                let ending = Ending::Unknown(Cause::TimedOut);
                task.phase = Phase::Settle { found: Some(held.clone()), held: held.clone(), ending };
            }
        }
    }
}
