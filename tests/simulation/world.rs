//! The simulated world: several gateways, one store, one upstream, one virtual clock, and the faults between them.

use std::time::Duration;

use bytes::Bytes;
use oncegate::machine::{AttemptId, InDoubt, Outcomes, Policy, Preset, Record, State, Time, Window};

use super::audit::{Audit, Broken, Invariant};
use super::dice::Dice;
use super::gateway::Gateway;
use super::rules::{Mutation, Rules};
use super::store::{Call, Message, Owner, Store, Written};
use super::task::Phase;

/// When a seed begins.
pub(crate) const START: u64 = 1_000_000_000;
pub(crate) const LEASE: u64 = 15_000;
pub(crate) const ATTEMPT_TIMEOUT: u64 = 60_000;
pub(crate) const RETENTION: u64 = 600_000;
pub(crate) const DOUBT_RETENTION: u64 = 1_200_000;
/// How long a gateway waits for the store.
const COMMAND_TIMEOUT: u64 = 500;
/// How long the upstream may be at a request that nobody listens to any more.
const UPSTREAM_LONGEST: u64 = 300_000;
/// Where requests name one operation: so many are there.
const SINGLES: usize = 3;
/// Where they name two: first keys, and orders behind them.
pub(crate) const FIRSTS: usize = 4;
pub(crate) const ORDERS: usize = 2;
/// By what time an upstream has executed what it was sent, or never does.
const ABSENT_AFTER: u64 = UPSTREAM_LONGEST + 1_000;
const STEPS: usize = 400;

/// A request at the upstream.
pub(crate) struct Run {
    pub(crate) ops: Vec<usize>,
    pub(crate) attempt: AttemptId,
    pub(crate) owner: Owner,
    pub(crate) variant: u8,
    pub(crate) acted: bool,
    pub(crate) begun: u64,
}

/// What a seed came to: the same whether clients stay or leave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) executions: Vec<u32>,
    pub(crate) records: Vec<Option<Record>>,
}

/// What else a run is asked to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) mutation: Option<Mutation>,
    /// Clients leave while they wait.
    pub(crate) leavers: bool,
    /// Keep the trace.
    pub(crate) trace: bool,
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    leavers: Option<Dice>,
    /// Requests name two operations.
    pub(crate) pairs: bool,
    pub(crate) rules: Rules,
    pub(crate) now: u64,
    pub(crate) store: Store,
    pub(crate) messages: Vec<Message>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) runs: Vec<Run>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) audit: Audit,
    pub(crate) executions: Vec<u32>,
    pub(crate) names: u64,
    /// Faults happen; off while a seed comes to its end.
    pub(crate) faults: bool,
    pub(crate) trace: Option<Vec<String>>,
}

pub(crate) type Step = Result<(), Broken>;

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut dice = Dice::new(seed);
        let count = dice.between(2, 4);
        let pairs = dice.chance(50);
        let policies = if pairs { two_keys(&mut dice) } else { one_key(&mut dice) };
        let operations = policies.len();
        Self {
            pairs,
            leavers: options.leavers.then(|| Dice::new(!seed)),
            rules: Rules(options.mutation),
            now: START,
            store: Store(vec![None; operations]),
            messages: Vec::new(),
            gateways: (0..count).map(|_| Gateway::new(&mut dice)).collect(),
            runs: Vec::new(),
            audit: Audit::new(&policies),
            policies,
            executions: vec![0; operations],
            names: 0,
            faults: true,
            trace: options.trace.then(Vec::new),
            dice,
        }
    }

    /// Runs the seed to its end.
    pub(crate) fn run(&mut self) -> Result<Sum, Broken> {
        for _ in 0..STEPS {
            self.step()?;
            self.client_leaves();
        }
        self.faults = false;
        self.come_to_rest()?;
        Ok(Sum { executions: self.executions.clone(), records: self.store.0.clone() })
    }

    fn step(&mut self) -> Step {
        match self.dice.between(0, 99) {
            0..=5 => self.request_arrives(),
            6..=36 => self.local_step()?,
            37..=58 => self.store_executes()?,
            59..=77 => self.reply_arrives(),
            78..=80 => self.reply_fails(),
            81..=87 => self.upstream_step(),
            88..=95 => self.time_passes()?,
            96 => self.gateway_crashes(),
            97 | 98 => self.upkeep(),
            _ => self.task_dies(),
        }
        Ok(())
    }

    /// Mostly a little; now and then past a lease; seldom past a retention.
    fn time_passes(&mut self) -> Step {
        let span = match self.dice.between(0, 99) {
            0..=82 => self.dice.between(1, 300),
            83..=95 => self.dice.between(3_000, 40_000),
            _ => self.dice.between(60_000, 1_500_000),
        };
        self.pass(span)
    }

    fn sweep_all(&mut self) {
        for op in 0..self.policies.len() {
            let due = self.store.0[op].as_ref().is_some_and(|record| match record.state {
                State::InFlight { lease, .. } => lease.0 + 500 < self.now,
                State::InDoubt { .. } => record.beside.is_some(),
                State::Completed { .. } => false,
            });
            if due {
                self.sweep(0, op);
            }
        }
    }

    /// Without faults, with time passing: every task ends, every lease lapses.
    fn come_to_rest(&mut self) -> Step {
        for _ in 0..30 {
            self.sweep_all();
            self.withdraw_all();
            for _ in 0..300 {
                if self.messages.is_empty() && self.runs.is_empty() && self.idle() {
                    break;
                }
                self.quiet_step()?;
            }
            self.pass(LEASE / 2)?;
        }
        let in_flight = |record: &&Record| matches!(record.state, State::InFlight { .. });
        let hanging = self.store.0.iter().flatten().find(in_flight);
        let unconfirmed = self.gateways.iter().any(|gateway| !gateway.unconfirmed.is_empty());
        if hanging.is_none() && self.idle() && !unconfirmed {
            self.pairs_end_alike()?;
            return self.audit.at_rest(&self.store);
        }
        let what = format!("still in flight: {hanging:?}, all idle: {}, unconfirmed: {unconfirmed}", self.idle());
        Err(Broken { invariant: Invariant::NothingHangs, what })
    }

    fn idle(&self) -> bool {
        self.gateways.iter().all(|gateway| gateway.tasks.is_empty())
    }

    fn quiet_step(&mut self) -> Step {
        self.local_step()?;
        self.store_executes()?;
        self.reply_arrives();
        self.upstream_step();
        Ok(())
    }

    /// Time passes, no further than the next attempt's end; then what has run out of time ends.
    pub(crate) fn pass(&mut self, span: u64) -> Step {
        let ends = self.gateways.iter().flat_map(|gateway| &gateway.tasks).filter_map(|task| {
            matches!(task.phase, Phase::Ready { .. } | Phase::Running { .. }).then_some(task.begun + ATTEMPT_TIMEOUT)
        });
        let until = ends.chain([self.now + span]).min().unwrap_or(self.now).max(self.now);
        self.now = until;
        self.note(|| "time passes".to_owned());
        for op in 0..self.policies.len() {
            if self.store.0[op].as_ref().is_some_and(|record| record.expires.0 <= until) {
                let before = self.store.0[op].take();
                self.note(|| format!("op {op} expires"));
                if let Some(before) = before {
                    self.audit.expired(until, op, &before)?;
                }
            }
        }
        let late = until.saturating_sub(COMMAND_TIMEOUT);
        for id in self.messages.iter().filter(|m| !m.stray && m.sent < late).map(|m| m.id).collect::<Vec<_>>() {
            self.give_up_on(id);
        }
        self.runs_end(until.saturating_sub(UPSTREAM_LONGEST));
        self.attempts_time_out();
        Ok(())
    }

    fn runs_end(&mut self, begun_before: u64) {
        for run in self.runs.extract_if(.., |run| run.begun < begun_before) {
            for op in &run.ops {
                self.audit.left_upstream(*op, run.attempt);
            }
        }
    }

    pub(crate) fn send(&mut self, owner: Owner, op: usize, call: Call, speaks_for: Option<AttemptId>) -> u64 {
        self.names += 1;
        let id = self.names;
        self.note(|| format!("gateway {} task {} sends {id} for op {op}: {call}", owner.gateway, owner.task));
        let sent = self.now;
        self.messages.push(Message { id, owner, op, call, speaks_for, sent, reply: None, stray: false, word: None });
        id
    }

    fn store_executes(&mut self) -> Step {
        let open: Vec<usize> = (0..self.messages.len()).filter(|at| self.messages[*at].reply.is_none()).collect();
        let Some(at) = self.dice.place(open.len()).map(|place| open[place]) else { return Ok(()) };
        let message = self.messages[at].clone();
        let before = self.store.0[message.op].clone();
        let reply = self.store.execute(message.op, &message.call);
        self.note(|| {
            format!("store executes {}: {}", message.id, if reply == Written::Done { "done" } else { "lost" })
        });
        if message.stray {
            self.messages.swap_remove(at);
        } else {
            self.messages[at].reply = Some(reply.clone());
        }
        // A record that comes too late to live is never seen.
        if self.store.0[message.op].as_ref().is_some_and(|record| record.expires.0 <= self.now) {
            self.store.0[message.op] = None;
        }
        match (&reply, &message.call, &before) {
            (Written::Done, Call::Write { record, .. }, before) => {
                self.audit.written(before.as_ref(), record, &message)?;
            }
            (Written::Done, _, Some(before)) => self.audit.removed(before, &message)?,
            _ => return Ok(()),
        }
        match (before, message.word) {
            (Some(before), Some(asked)) => self.one_word_for_both(message.op, &before, asked),
            _ => Ok(()),
        }
    }

    fn reply_arrives(&mut self) {
        let there: Vec<usize> = (0..self.messages.len()).filter(|at| self.messages[*at].reply.is_some()).collect();
        let Some(at) = self.dice.place(there.len()).map(|place| there[place]) else { return };
        let message = self.messages.swap_remove(at);
        self.note(|| format!("reply to {} arrives", message.id));
        self.heard(message.owner, message.id, message.reply);
    }

    /// A request to the store, or its reply, is lost or late.
    fn reply_fails(&mut self) {
        let waiting: Vec<usize> = (0..self.messages.len()).filter(|at| !self.messages[*at].stray).collect();
        if let Some(place) = self.dice.place(waiting.len()) {
            self.give_up_on(self.messages[waiting[place]].id);
        }
    }

    fn give_up_on(&mut self, id: u64) {
        let Some(at) = self.messages.iter().position(|message| message.id == id) else { return };
        let message = &mut self.messages[at];
        let owner = message.owner;
        message.stray = true;
        let lost = message.reply.is_some() || self.dice.chance(50);
        self.note(|| {
            format!("no reply to {id}; {}", if lost { "it will not be executed" } else { "it may still be executed" })
        });
        if lost {
            self.messages.swap_remove(at);
        }
        self.heard(owner, id, None);
    }

    fn gateway_crashes(&mut self) {
        let Some(at) = self.dice.place(self.gateways.len()) else { return };
        if self.dice.chance(60) {
            return;
        }
        self.note(|| format!("gateway {at} crashes"));
        let gateway = &mut self.gateways[at];
        gateway.life += 1;
        for (op, claim) in std::mem::take(&mut gateway.unconfirmed) {
            self.audit.died(op, claim.fence.attempt);
        }
        for task in std::mem::take(&mut gateway.tasks) {
            // An attempt that never went out proves nothing any more: nobody knows.
            if let Phase::Running { halves } = &task.phase {
                for op in &task.ops {
                    self.audit.ended(self.now, *op, halves[0].record.fence.attempt);
                }
            }
            if !task.held.is_empty() {
                self.note(|| format!("task {} dies between its claims", task.id));
            }
            if let Phase::Settle { held, .. } | Phase::Settling { held, .. } = &task.phase {
                self.audit.died(task.op(), held.fence.attempt);
            }
        }
        // Requests on the wire outlive their sender; replies do not.
        for message in self.messages.iter_mut().filter(|message| message.owner.gateway == at) {
            message.stray = true;
        }
        self.messages.retain(|message| !(message.stray && message.reply.is_some()));
    }

    fn client_leaves(&mut self) {
        let Some(leavers) = &mut self.leavers else { return };
        if !leavers.chance(3) {
            return;
        }
        let Some(at) = leavers.place(self.gateways.len()) else { return };
        let Some(task) = leavers.place(self.gateways[at].tasks.len()) else { return };
        self.note(|| format!("the client of gateway {at}'s task leaves"));
        if self.rules.broken(Mutation::LeaverDropsPermit) {
            self.drop_permit(at, task);
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now - START;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now:>9} {}", line()));
        }
    }
}

/// Of single operations each has rules of its own.
fn one_key(dice: &mut Dice) -> Vec<Policy> {
    let kind = |dice: &mut Dice| if dice.chance(40) { InDoubt::Retry } else { InDoubt::Hold };
    (0..SINGLES).map(|_| policy(kind(dice))).collect()
}

/// The two keys of a route have one rule for doubts. Of orders a changed request is a duplicate.
fn two_keys(dice: &mut Dice) -> Vec<Policy> {
    let asked = InDoubt::Probe { absent_after: Duration::from_millis(ABSENT_AFTER) };
    let policy = policy([InDoubt::Hold, InDoubt::Retry, asked][dice.place(3).unwrap_or(0)]);
    let firsts = std::iter::repeat_n(policy.clone(), FIRSTS);
    firsts.chain(std::iter::repeat_n(Policy { compare: false, ..policy }, ORDERS)).collect()
}

fn policy(in_doubt: InDoubt) -> Policy {
    Policy {
        lease: Duration::from_millis(LEASE),
        attempt_timeout: Duration::from_millis(ATTEMPT_TIMEOUT),
        retention: Duration::from_millis(RETENTION),
        doubt_retention: Duration::from_millis(DOUBT_RETENTION),
        clock_skew: None,
        window: Window::Fixed,
        in_doubt,
        compare: true,
        replays: true,
        outcomes: Outcomes::new(Preset::SuccessOnly, std::collections::BTreeMap::new()),
    }
}

/// The answer that one attempt gets: no other looks like it.
pub(crate) fn answer(attempt: AttemptId, status: u16) -> Bytes {
    Bytes::from(format!("{status} to {attempt}"))
}

/// The store's time with a gateway's error.
pub(crate) fn skewed(now: u64, error: i64) -> Time {
    Time(now.saturating_add_signed(error))
}
