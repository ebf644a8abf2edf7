//! What the loops of a simulated gateway do after admission: heartbeats, settling, withdrawal, sweeps.

use oncegate::machine::{AttemptId, Cause, Ending, Expect, Record, Settled, Settling};

use super::pair::Half;
use super::rules::Mutation;
use super::store::{Call, Written, short};
use super::task::{Phase, Task};
use super::world::{ATTEMPT_TIMEOUT, World};

impl World {
    /// One of the leases is renewed; of two, either may come first.
    pub(crate) fn heartbeat(&mut self, at: usize, task: &Task, mut halves: Vec<Half>) -> Phase {
        let resting = |half: &&mut Half| half.beat.is_none();
        if let Some(place) = self.dice.place(halves.len())
            && self.dice.chance(30)
            && let Some(half) = halves.get_mut(place).filter(resting)
        {
            let renewed = self.rules.renew(&half.record, &self.policies[half.op], self.gateway_time(at));
            half.beat = renewed.map(|record| {
                let call = Call::Write { expect: Expect::Fence(half.record.fence), record: record.clone() };
                let speaks_for = Some(half.record.fence.attempt);
                (self.send(self.owner(at, task.id), half.op, call, speaks_for), record)
            });
        }
        Phase::Running { halves }
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
        let settling = self.rules.settle(&held, found.as_ref(), &ending, &self.policies[task.op()], now);
        let (call, settled) = match settling {
            Settling::Done(settled) => {
                self.note(|| format!("{} is settled: {settled:?}", short(held.fence.attempt)));
                return Phase::Over;
            }
            Settling::Write { expect, record, settled } => (Call::Write { expect, record }, settled),
            Settling::Remove { fence, settled } => (Call::Remove { fence }, settled),
        };
        let message = self.send(self.owner(at, task.id), task.op(), call, Some(held.fence.attempt));
        Phase::Settling { message, held, found, ending, settled }
    }

    /// A withdrawal is a settling of an attempt that was not sent; but an absent record has nothing to take back.
    pub(crate) fn withdraw(
        &mut self,
        at: usize,
        task: &mut Task,
        op: usize,
        claim: Record,
        found: Option<&Record>,
    ) -> Phase {
        let now = self.gateway_time(at);
        let attempt = claim.fence.attempt;
        let settling = match found {
            None => Settling::Done(Settled::NotSent),
            found => self.rules.settle(&claim, found, &Ending::NotSent, &self.policies[op], now),
        };
        let call = match settling {
            Settling::Done(_) => return self.withdrawn(at, task, op, attempt),
            _ if self.rules.broken(Mutation::WithdrawWithoutFence) => Call::RemoveAny,
            Settling::Write { expect: Expect::Fence(fence), .. }
                if self.rules.broken(Mutation::WithdrawForgetsDoubt) =>
            {
                Call::Remove { fence }
            }
            Settling::Write { expect, record, .. } => Call::Write { expect, record },
            Settling::Remove { fence, .. } => Call::Remove { fence },
        };
        let message = self.send(self.owner(at, task.id), op, call, Some(attempt));
        Phase::Withdrawing { message, op, claim }
    }

    pub(crate) fn withdrawn(&mut self, at: usize, task: &mut Task, op: usize, attempt: AttemptId) -> Phase {
        self.note(|| format!("the claim of {} is withdrawn", short(attempt)));
        self.gateways[at].unconfirmed.retain(|(of, claim)| (*of, claim.fence.attempt) != (op, attempt));
        if !std::mem::take(&mut task.then_admit) {
            return Phase::Over;
        }
        let attempt = task.keeps.take().unwrap_or_else(|| {
            task.begun = self.now;
            self.name(&task.ops, task.variant)
        });
        Phase::Admit { attempt, found: None }
    }

    /// The store does not say whether a claim is withdrawn. A request that waits for that gives up.
    pub(crate) fn not_withdrawn(&mut self, at: usize, task: &mut Task) -> Phase {
        match task.keeps.take() {
            Some(attempt) => self.gives_up(at, task, attempt),
            None => Phase::Over,
        }
    }

    pub(crate) fn sweep_heard(&mut self, at: usize, task: &Task, reply: Option<Written>) -> Phase {
        let Some(Written::Lost(Some(found))) = reply else { return Phase::Over };
        let now = self.gateway_time(at);
        let Some(doubt) = self.rules.lapse(&found, &self.policies[task.op()], now) else {
            return self.swept(at, task, found, Some(&Written::Done));
        };
        let call = Call::Write { expect: Expect::Fence(found.fence), record: doubt.clone() };
        Phase::Swept { message: self.send(self.owner(at, task.id), task.op(), call, None), doubt }
    }

    /// What a gateway does beside requests: sweep, withdraw, calibrate.
    pub(crate) fn upkeep(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        let Some(op) = self.dice.place(self.policies.len()) else { return };
        match self.dice.between(0, 3) {
            0 => self.sweep(at, op),
            3 => self.asks_for_a_word(at, op),
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
        self.start(at, vec![op], 0, Phase::Withdraw { op, found: Some(claim.clone()), claim });
    }

    pub(crate) fn withdraw_all(&mut self) {
        for at in 0..self.gateways.len() {
            for place in 0..self.gateways[at].unconfirmed.len() {
                self.start_withdrawal(at, place);
            }
        }
    }

    pub(crate) fn sweep(&mut self, at: usize, op: usize) {
        let task = self.start(at, vec![op], 0, Phase::Over);
        let message = self.send(self.owner(at, task), op, Call::Load, None);
        if let Some(task) = self.gateways[at].tasks.last_mut() {
            task.phase = Phase::Sweeping { message };
        }
    }

    /// The permit of a task is dropped unsettled: the task died, and its gateway lives.
    pub(crate) fn drop_permit(&mut self, at: usize, place: usize) {
        if let Phase::Ready { halves } | Phase::Running { halves } = &self.gateways[at].tasks[place].phase {
            let halves = halves.clone();
            self.note(|| format!("the permit of {} is dropped", short(halves[0].record.fence.attempt)));
            self.attempt_over(at, place, halves, &Ending::Unknown(Cause::Abandoned));
        }
    }

    /// The attempt of this task has ended so.
    pub(crate) fn attempt_over(&mut self, at: usize, place: usize, halves: Vec<Half>, ending: &Ending) {
        let task = self.gateways[at].tasks.remove(place);
        for op in task.ops {
            self.audit.ended(self.now, op, halves[0].record.fence.attempt);
        }
        self.ends(at, halves, ending);
    }

    pub(crate) fn task_dies(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        if let Some(place) = self.dice.place(self.gateways[at].tasks.len()) {
            self.drop_permit(at, place);
        }
    }

    pub(crate) fn attempts_time_out(&mut self) {
        for at in 0..self.gateways.len() {
            while let Some((place, halves)) = self.timed_out(at) {
                self.attempt_over(at, place, halves, &Ending::Unknown(Cause::TimedOut));
            }
        }
    }

    fn timed_out(&self, at: usize) -> Option<(usize, Vec<Half>)> {
        self.gateways[at].tasks.iter().enumerate().find_map(|(place, task)| match &task.phase {
            Phase::Running { halves } if self.now >= task.begun + ATTEMPT_TIMEOUT => Some((place, halves.clone())),
            _ => None,
        })
    }
}
