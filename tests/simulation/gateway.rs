//! A simulated gateway: the loops of the arbiter, cut into steps between which anything may happen.

use oncegate::machine::{Admission, AttemptId, Duplicate, Ending, Record, Settled, State, Time};
use oncegate::store::Written;

use super::audit::Broken;
use super::dice::Dice;
use super::rules::Mutation;
use super::store::{Call, Owner, short};
use super::world::{ATTEMPT_TIMEOUT, Step, World, arrival, skewed};

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

pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) op: usize,
    pub(crate) variant: u8,
    pub(crate) phase: Phase,
    /// When the attempt got its name; its timeout counts from here.
    pub(crate) begun: u64,
    /// A claim of this request whose reply was lost, while the request still asks.
    unsure: Option<Record>,
    /// The request goes on to ask for admission once the withdrawal is through.
    pub(crate) then_admit: bool,
}

/// Where a task stands. The number is the message that it waits for.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Admit {
        attempt: AttemptId,
        found: Option<Record>,
    },
    Claiming {
        message: u64,
        attempt: AttemptId,
        found: Option<Record>,
        record: Record,
    },
    Lapsing {
        message: u64,
        attempt: AttemptId,
        record: Record,
    },
    /// Holds the permit, and has not sent anything.
    Ready {
        held: Record,
    },
    Running {
        held: Record,
        beat: Option<(u64, Record)>,
    },
    Settle {
        held: Record,
        found: Option<Record>,
        ending: Ending,
    },
    Settling {
        message: u64,
        held: Record,
        found: Option<Record>,
        ending: Ending,
        settled: Settled,
    },
    /// An unconfirmed claim, taken back as an attempt that was not sent.
    Withdraw {
        claim: Record,
        found: Option<Record>,
    },
    Withdrawing {
        message: u64,
        claim: Record,
    },
    Sweeping {
        message: u64,
    },
    Swept {
        message: u64,
    },
    Over,
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

    pub(crate) fn name(&mut self, op: usize, variant: u8) -> AttemptId {
        self.names += 1;
        let attempt = AttemptId(u128::from(self.names).to_be_bytes());
        self.audit.minted(op, attempt, variant);
        attempt
    }

    pub(crate) fn start(&mut self, at: usize, op: usize, variant: u8, phase: Phase) -> u64 {
        self.names += 1;
        let id = self.names;
        let task = Task { id, op, variant, phase, begun: self.now, unsure: None, then_admit: false };
        self.gateways[at].tasks.push(task);
        id
    }

    pub(crate) fn owner(&self, at: usize, task: u64) -> Owner {
        Owner { gateway: at, life: self.gateways[at].life, task }
    }

    pub(crate) fn request_arrives(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        let Some(op) = self.dice.place(self.policies.len()) else { return };
        let variant = u8::from(self.dice.chance(5));
        let attempt = self.name(op, variant);
        let task = self.start(at, op, variant, Phase::Admit { attempt, found: None });
        self.note(|| format!("gateway {at} task {task}: request {variant} for op {op}, would be {}", short(attempt)));
    }

    /// One task takes its next step, if it waits for nothing.
    pub(crate) fn local_step(&mut self) -> Step {
        let Some(at) = self.dice.place(self.gateways.len()) else { return Ok(()) };
        let Some(place) = self.dice.place(self.gateways[at].tasks.len()) else { return Ok(()) };
        let mut task = self.gateways[at].tasks.swap_remove(place);
        let phase = std::mem::replace(&mut task.phase, Phase::Over);
        task.phase = match phase {
            Phase::Admit { attempt, found } => self.admit(at, &mut task, attempt, found)?,
            Phase::Ready { held } => self.forward(at, &task, held)?,
            Phase::Running { held, beat } => self.heartbeat(at, &task, held, beat),
            Phase::Settle { held, found, ending } => self.settle(at, &task, held, found, ending),
            Phase::Withdraw { claim, found } => self.withdraw(at, &mut task, claim, found.as_ref()),
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
        if let Some(claim) = self.own_unconfirmed(at, task.op, found.as_ref(), attempt) {
            self.gives_up(at, task, attempt);
            task.then_admit = true;
            return Ok(Phase::Withdraw { claim, found });
        }
        let (op, owner) = (task.op, self.owner(at, task.id));
        let now = self.gateway_time(at);
        match self.rules.admit(found.as_ref(), &arrival(op, task.variant), &self.policies[op], attempt, now) {
            Admission::Claim { expect, record } => {
                let message = self.send(owner, op, Call::Write { expect, record: record.clone() }, None);
                Ok(Phase::Claiming { message, attempt, found, record })
            }
            Admission::Own(held) => {
                self.note(|| format!("task {} recognises its own claim", owner.task));
                Ok(self.confirmed(at, op, held))
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
                Ok(self.gives_up(at, task, attempt))
            }
            // No key here says when it was made.
            Admission::Untimely(_) => Ok(self.gives_up(at, task, attempt)),
        }
    }

    /// The request will not act under this name. A claim that may be stored is left to be withdrawn.
    fn gives_up(&mut self, at: usize, task: &mut Task, attempt: AttemptId) -> Phase {
        self.audit.ended(self.now, attempt);
        self.gateways[at].unconfirmed.extend(task.unsure.take().map(|claim| (task.op, claim)));
        Phase::Over
    }

    /// The unconfirmed claim that stands in the way, if it is this gateway's and not the request's own.
    fn own_unconfirmed(&self, at: usize, op: usize, found: Option<&Record>, attempt: AttemptId) -> Option<Record> {
        let found = found.filter(|found| found.fence.attempt != attempt)?;
        let mut claims = self.gateways[at].unconfirmed.iter().filter(|(of, _)| *of == op);
        claims.find(|(_, claim)| claim.fence.attempt == found.fence.attempt).map(|(_, claim)| claim.clone())
    }

    fn confirmed(&mut self, at: usize, op: usize, held: Record) -> Phase {
        let own = |(of, claim): &(usize, Record)| *of == op && claim.fence.attempt == held.fence.attempt;
        self.gateways[at].unconfirmed.retain(|entry| !own(entry));
        Phase::Ready { held }
    }

    fn forward(&mut self, at: usize, task: &Task, held: Record) -> Result<Phase, Broken> {
        let attempt = held.fence.attempt;
        // One that stood still after its look at the lease does not know that it is late.
        let ended = !matches!(held.state, State::InFlight { lease, .. } if self.gateway_time(at) < lease);
        let late = ended && !(self.faults && self.dice.chance(20));
        if late || self.now >= task.begun + ATTEMPT_TIMEOUT || (self.faults && self.dice.chance(15)) {
            self.note(|| format!("{} is not sent", short(attempt)));
            self.audit.ended(self.now, attempt);
            return Ok(Phase::Settle { found: Some(held.clone()), held, ending: Ending::NotSent });
        }
        self.note(|| format!("{} of op {} goes to the upstream", short(attempt), task.op));
        self.audit.forwarded(self.now, task.op, attempt)?;
        let owner = self.owner(at, task.id);
        self.goes_upstream(task.op, task.variant, attempt, owner);
        Ok(Phase::Running { held, beat: None })
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
            Phase::Lapsing { message: of, attempt, record } if of == message => match reply {
                Some(Written::Done) => Phase::Admit { attempt, found: Some(record) },
                Some(Written::Lost(found)) => Phase::Admit { attempt, found },
                None => Phase::Admit { attempt, found: None },
            },
            Phase::Running { held, beat: Some((of, renewed)) } if of == message => match reply {
                Some(Written::Done) => Phase::Running { held: renewed, beat: None },
                Some(Written::Lost(Some(found))) if found.fence.attempt == held.fence.attempt => {
                    Phase::Running { held: found, beat: None }
                }
                _ => Phase::Running { held, beat: None },
            },
            Phase::Settling { message: of, held, found, ending, settled } if of == message => match reply {
                Some(Written::Done) => {
                    self.note(|| format!("{} is settled: {settled:?}", short(held.fence.attempt)));
                    Phase::Over
                }
                Some(Written::Lost(found)) => Phase::Settle { held, found, ending },
                None => Phase::Settle { held, found, ending },
            },
            Phase::Withdrawing { message: of, claim } if of == message => match reply {
                Some(Written::Done) => self.withdrawn(at, &mut task, claim.fence.attempt),
                Some(Written::Lost(found)) => Phase::Withdraw { claim, found },
                None => Phase::Over,
            },
            Phase::Sweeping { message: of } if of == message => self.sweep_heard(at, &task, reply),
            Phase::Swept { message: of } if of == message => Phase::Over,
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
            Some(Written::Done) => self.confirmed(at, task.op, record),
            Some(Written::Lost(found)) => Phase::Admit { attempt, found },
            // The request asks once more under the same name, or gives up and leaves the claim to be withdrawn.
            None => {
                task.unsure = Some(record);
                if self.dice.chance(50) { Phase::Admit { attempt, found } } else { self.gives_up(at, task, attempt) }
            }
        }
    }
}
