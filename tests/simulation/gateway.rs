//! A simulated gateway: the loops of the arbiter, cut into steps between which anything may happen.

use oncegate::machine::{Admission, AttemptId, Duplicate, Ending, Record, State, Time};

use super::audit::Broken;
use super::dice::Dice;
use super::pair::Half;
use super::rules::Mutation;
use super::store::{Call, Owner, Written, short};
use super::task::{Phase, Task};
use super::world::{ATTEMPT_TIMEOUT, Step, World, skewed};

/// How long a request asks the store for admission before it gives up.
const ADMISSION_TIMEOUT: u64 = 5_000;

pub(crate) struct Gateway {
    /// Counts its lives.
    pub(crate) life: u32,
    /// How far its calibrated clock is off.
    error: i64,
    /// How far its wall clock is off: jumps, and must not matter.
    wall_error: i64,
    pub(crate) tasks: Vec<Task>,
    /// Claims whose replies were lost.
    pub(crate) unconfirmed: Vec<(usize, Record)>,
}

impl Gateway {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let mut gateway = Self { life: 0, error: 0, wall_error: 0, tasks: Vec::new(), unconfirmed: Vec::new() };
        gateway.clocks_move(dice);
        gateway
    }

    pub(crate) fn clocks_move(&mut self, dice: &mut Dice) {
        self.error = i64::try_from(dice.between(0, 400)).unwrap_or(0) - 200;
        self.wall_error = i64::try_from(dice.between(0, 600_000)).unwrap_or(0) - 300_000;
    }
}

impl World {
    pub(crate) fn gateway_time(&self, at: usize) -> Time {
        let gateway = &self.gateways[at];
        let wall = self.rules.broken(Mutation::WallClock);
        skewed(self.now, if wall { gateway.wall_error } else { gateway.error })
    }

    pub(crate) fn name(&mut self, ops: &[usize], variant: u8) -> AttemptId {
        self.names += 1;
        let attempt = AttemptId(u128::from(self.names).to_be_bytes());
        self.audit.minted(ops, attempt, variant);
        attempt
    }

    pub(crate) fn start(&mut self, at: usize, ops: Vec<usize>, variant: u8, phase: Phase) -> u64 {
        self.names += 1;
        let id = self.names;
        let (held, begun) = (Vec::new(), self.now);
        let task =
            Task { id, ops, held, variant, phase, begun, unsure: None, keeps: None, then_admit: false, looked: false };
        self.gateways[at].tasks.push(task);
        id
    }

    pub(crate) fn owner(&self, at: usize, task: u64) -> Owner {
        Owner { gateway: at, life: self.gateways[at].life, task }
    }

    pub(crate) fn request_arrives(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        let (ops, variant) = self.what_is_asked(at);
        let attempt = self.name(&ops, variant);
        let looks = self.dice.chance(50);
        let begin = if looks { Phase::Look { attempt } } else { Phase::Admit { attempt, found: None } };
        let task = self.start(at, ops.clone(), variant, begin);
        self.note(|| {
            format!("gateway {at} task {task}: request {variant} for ops {ops:?}, would be {}", short(attempt))
        });
    }

    /// One task takes its next step, if it waits for nothing.
    pub(crate) fn local_step(&mut self) -> Step {
        let Some(at) = self.dice.place(self.gateways.len()) else { return Ok(()) };
        let Some(place) = self.dice.place(self.gateways[at].tasks.len()) else { return Ok(()) };
        let mut task = self.gateways[at].tasks.swap_remove(place);
        let phase = std::mem::replace(&mut task.phase, Phase::Over);
        task.phase = match phase {
            Phase::Look { attempt } => {
                Phase::Looking { message: self.send(self.owner(at, task.id), task.op(), Call::Load, None), attempt }
            }
            Phase::Admit { attempt, found } => self.admit(at, &mut task, attempt, found)?,
            Phase::Ready { halves } => self.forward(at, &task, halves)?,
            Phase::Running { halves } => self.heartbeat(at, &task, halves),
            Phase::Settle { held, found, ending } => self.settle(at, &task, held, found, ending),
            Phase::Withdraw { op, claim, found } => self.withdraw(at, &mut task, op, claim, found.as_ref()),
            waiting => waiting,
        };
        self.keep(at, task);
        Ok(())
    }

    fn keep(&mut self, at: usize, task: Task) {
        if !matches!(task.phase, Phase::Over) {
            self.gateways[at].tasks.push(task);
        }
    }

    fn admit(
        &mut self,
        at: usize,
        task: &mut Task,
        attempt: AttemptId,
        found: Option<Record>,
    ) -> Result<Phase, Broken> {
        if self.now - task.begun > ADMISSION_TIMEOUT {
            return Ok(self.gives_up(at, task, attempt));
        }
        if let Some(claim) = self.own_unconfirmed(at, task.op(), found.as_ref(), attempt) {
            let op = task.op();
            task.then_admit = true;
            // Where a claim of its own may be stored too, it goes on under another name.
            if task.unsure.is_some() {
                self.gives_up(at, task, attempt);
            } else {
                task.keeps = Some(attempt);
            }
            return Ok(Phase::Withdraw { op, claim, found });
        }
        let (op, owner) = (task.op(), self.owner(at, task.id));
        let now = self.gateway_time(at);
        if let Some(doubt) = found.as_ref().filter(|found| self.looks_beside(task, found)) {
            let message = self.look_beside(owner, doubt);
            return Ok(Phase::Beside { message, attempt, found: doubt.clone() });
        }
        task.looked = false;
        let (arrival, found) = (task.arrival(), self.met(task, found));
        match self.rules.admit(found.as_ref(), &arrival, &self.policies[op], attempt, now) {
            Admission::Claim { expect, record } => {
                let message = self.send(owner, op, Call::Write { expect, record: record.clone() }, None);
                Ok(Phase::Claiming { message, attempt, found, record })
            }
            Admission::Own(held) => {
                self.note(|| format!("task {} recognises its own claim", owner.task));
                Ok(self.confirmed(at, task, held))
            }
            Admission::Lapse { expect, record } => {
                let message = self.send(owner, op, Call::Write { expect, record: record.clone() }, None);
                Ok(Phase::Lapsing { message, attempt, record })
            }
            Admission::Duplicate(duplicate) => {
                self.note(|| format!("task {} is a duplicate: {duplicate:?}", owner.task));
                if let Duplicate::Completed(record) = &duplicate {
                    self.audit.shown(self.now, op, task.variant, record)?;
                }
                Ok(self.refused(at, task, attempt))
            }
            // No key here says when it was made.
            Admission::Untimely(_) => Ok(self.gives_up(at, task, attempt)),
        }
    }

    /// The request will not act under this name. A claim that may be stored is left to be withdrawn; what it holds is freed.
    pub(crate) fn gives_up(&mut self, at: usize, task: &mut Task, attempt: AttemptId) -> Phase {
        let op = task.op();
        for op in &task.ops {
            self.audit.given_up(self.now, *op, attempt);
        }
        self.gateways[at].unconfirmed.extend(task.unsure.take().map(|claim| (op, claim)));
        let held = std::mem::take(&mut task.held);
        self.ends(at, held, &Ending::NotSent);
        Phase::Over
    }

    /// The request is told that it may not act.
    fn refused(&mut self, at: usize, task: &mut Task, attempt: AttemptId) -> Phase {
        if !task.held.is_empty() {
            self.note(|| format!("{} is refused by its second", short(attempt)));
            if self.rules.broken(Mutation::FirstNotFreed) {
                task.held.clear();
            }
        }
        self.gives_up(at, task, attempt)
    }

    /// The unconfirmed claim that stands in the way, if it is this gateway's and not the request's own.
    fn own_unconfirmed(&self, at: usize, op: usize, found: Option<&Record>, attempt: AttemptId) -> Option<Record> {
        let found = found.filter(|found| found.fence.attempt != attempt)?;
        let mut claims = self.gateways[at].unconfirmed.iter().filter(|(of, _)| *of == op);
        claims.find(|(_, claim)| claim.fence.attempt == found.fence.attempt).map(|(_, claim)| claim.clone())
    }

    fn confirmed(&mut self, at: usize, task: &mut Task, held: Record) -> Phase {
        let (op, attempt) = (task.op(), held.fence.attempt);
        let own = |(of, claim): &(usize, Record)| *of == op && claim.fence.attempt == attempt;
        self.gateways[at].unconfirmed.retain(|entry| !own(entry));
        task.unsure = None;
        task.held.push(Half { op, record: held, beat: None });
        if task.held.len() < task.ops.len() && !self.rules.broken(Mutation::SecondClaimedAfterSending) {
            return Phase::Admit { attempt, found: None };
        }
        Phase::Ready { halves: std::mem::take(&mut task.held) }
    }

    fn forward(&mut self, at: usize, task: &Task, halves: Vec<Half>) -> Result<Phase, Broken> {
        let attempt = halves[0].record.fence.attempt;
        // One that stood still after its look at the lease does not know that it is late.
        let now = self.gateway_time(at);
        let holds = |half: &Half| matches!(half.record.state, State::InFlight { lease, .. } if now < lease);
        let ended = !halves.iter().all(holds);
        let late = ended && !(self.faults && self.dice.chance(20));
        if late || self.now >= task.begun + ATTEMPT_TIMEOUT || (self.faults && self.dice.chance(15)) {
            self.note(|| format!("{} is not sent", short(attempt)));
            let first = halves.iter().all(|half| half.record.number == 1);
            for op in &task.ops {
                self.audit.ended(self.now, *op, attempt);
                if first {
                    self.audit.given_up(self.now, *op, attempt);
                }
            }
            self.ends(at, halves, &Ending::NotSent);
            return Ok(Phase::Over);
        }
        self.note(|| format!("{} of ops {:?} goes to the upstream", short(attempt), task.ops));
        let owner = self.owner(at, task.id);
        for op in &task.ops {
            self.audit.forwarded(self.now, *op, attempt)?;
        }
        if let [_, second] = task.ops[..]
            && halves.len() == 1
        {
            self.claims_too_late(at, task, second, attempt);
        }
        self.goes_upstream(task.ops.clone(), task.variant, attempt, owner);
        Ok(Phase::Running { halves })
    }

    /// The reply to a task's message, or its absence.
    pub(crate) fn heard(&mut self, owner: Owner, message: u64, reply: Option<Written>) {
        let at = owner.gateway;
        let place = self.gateways[at].tasks.iter().position(|task| task.id == owner.task);
        let Some(place) = place.filter(|_| self.gateways[at].life == owner.life) else { return };
        let mut task = self.gateways[at].tasks.swap_remove(place);
        let phase = std::mem::replace(&mut task.phase, Phase::Over);
        task.phase = match phase {
            Phase::Claiming { message: of, attempt, found, record } if of == message => {
                self.claim_heard(at, &mut task, attempt, found, record, reply)
            }
            Phase::Looking { message: of, attempt } if of == message => match reply {
                Some(Written::Lost(found)) => Phase::Admit { attempt, found },
                Some(Written::Done) | None => Phase::Admit { attempt, found: None },
            },
            Phase::Lapsing { message: of, attempt, record } | Phase::EndingBy { message: of, attempt, record }
                if of == message =>
            {
                match reply {
                    Some(Written::Done) => Phase::Admit { attempt, found: Some(record) },
                    Some(Written::Lost(found)) => Phase::Admit { attempt, found },
                    None => Phase::Admit { attempt, found: None },
                }
            }
            Phase::Beside { message: of, attempt, found } if of == message => {
                self.beside_heard(at, &mut task, attempt, found, reply)
            }
            Phase::Running { halves } => Phase::Running { halves: beats_heard(halves, message, reply) },
            Phase::Settling { message: of, held, found, ending, settled } if of == message => match reply {
                Some(Written::Done) => {
                    self.note(|| format!("{} is settled: {settled:?}", short(held.fence.attempt)));
                    Phase::Over
                }
                Some(Written::Lost(found)) => Phase::Settle { held, found, ending },
                None => Phase::Settle { held, found, ending },
            },
            Phase::Withdrawing { message: of, op, claim } if of == message => match reply {
                Some(Written::Done) => self.withdrawn(at, &mut task, op, claim.fence.attempt),
                Some(Written::Lost(found)) => Phase::Withdraw { op, claim, found },
                None => self.not_withdrawn(at, &mut task),
            },
            Phase::Sweeping { message: of } if of == message => self.sweep_heard(at, &task, reply),
            Phase::Swept { message: of, doubt } if of == message => self.swept(at, &task, doubt, reply.as_ref()),
            Phase::SweptBeside { message: of, doubt } if of == message => self.swept_beside(at, &task, &doubt, reply),
            Phase::Word(word) if word.message == message => self.word_heard(at, &task, word, reply),
            Phase::Last { message: of } if of == message => Phase::Over,
            other => other,
        };
        self.keep(at, task);
    }

    fn claim_heard(
        &mut self,
        at: usize,
        task: &mut Task,
        attempt: AttemptId,
        found: Option<Record>,
        record: Record,
        reply: Option<Written>,
    ) -> Phase {
        match reply {
            Some(Written::Done) => self.confirmed(at, task, record),
            Some(Written::Lost(found)) => Phase::Admit { attempt, found },
            // The request asks once more under the same name, or gives up and leaves the claim to be withdrawn.
            None => {
                task.unsure = Some(record);
                if self.dice.chance(50) { Phase::Admit { attempt, found } } else { self.gives_up(at, task, attempt) }
            }
        }
    }
}

fn beats_heard(mut halves: Vec<Half>, message: u64, reply: Option<Written>) -> Vec<Half> {
    let Some(half) = halves.iter_mut().find(|half| half.beat.as_ref().is_some_and(|(of, _)| *of == message)) else {
        return halves;
    };
    let beat = half.beat.take();
    match (reply, beat) {
        (Some(Written::Done), Some((_, renewed))) => half.record = renewed,
        (Some(Written::Lost(Some(found))), _) if found.fence.attempt == half.record.fence.attempt => {
            half.record = found;
        }
        _ => {}
    }
    halves
}
