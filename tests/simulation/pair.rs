//! Requests that name two operations: what a simulated gateway holds together, and what the one says of the other.

use oncegate::machine::{
    Also, Arrival, AttemptId, Ending, Expect, NamespaceTag, OperationId, Record, Salt, Settling, State, are_a_pair,
    ended_beside, ending_of_both,
};

use super::audit::{Broken, Invariant};
use super::rules::Mutation;
use super::store::{Call, Owner, Short, Written, short};
use super::task::{Phase, Task};
use super::world::{FIRSTS, ORDERS, Step, World};
use crate::alike::Alike;

/// One operation as an attempt holds it.
#[derive(Debug, Clone)]
pub(crate) struct Half {
    pub(crate) op: usize,
    pub(crate) record: Record,
    /// A renewal on its way: its message, and the record as it would stand.
    pub(crate) beat: Option<(u64, Record)>,
}

pub(crate) fn id(op: usize) -> OperationId {
    OperationId([u8::try_from(op).unwrap_or(u8::MAX); 32])
}

/// The operation that is held beside the one of this record.
pub(crate) fn beside(record: &Record) -> Option<usize> {
    record.beside.as_ref().map(|other| usize::from(other.0[0]))
}

pub(crate) fn in_doubt(record: &Record) -> bool {
    matches!(record.state, State::InDoubt { .. })
}

impl Task {
    /// The request, as it asks for what it does not hold yet; a variant is a changed request.
    pub(crate) fn arrival(&self) -> Arrival<'static> {
        let salt = Salt([self.variant; 8]);
        let arrival = Arrival::new(id(self.ops[0]), NamespaceTag(1), salt, 1, None, Alike::to(self.variant));
        let second = self.ops.get(1);
        let arrival = arrival.with_also(second.map(|second| Also {
            operation: id(*second),
            namespace: NamespaceTag(2),
            credentials: None,
        }));
        if self.held.is_empty() { arrival } else { arrival.second().unwrap_or(arrival) }
    }
}

impl World {
    /// The operations that a request names, and its look: an order's number is part of it.
    pub(crate) fn what_is_asked(&mut self, at: usize) -> (Vec<usize>, u8) {
        if !self.pairs {
            let op = self.dice.place(self.policies.len()).unwrap_or(0);
            return (vec![op], u8::from(self.dice.chance(5)));
        }
        // Clicks with keys of their own for one order, and now and then one key for another order.
        let first = self.dice.place(FIRSTS).unwrap_or(0);
        let order = if self.dice.chance(80) { first % ORDERS } else { self.dice.place(ORDERS).unwrap_or(0) };
        let variant = u8::try_from(order * 2).unwrap_or(0) + u8::from(self.dice.chance(5));
        let mut ops = vec![first, FIRSTS + order];
        if self.dice.chance(5) {
            ops.truncate(1);
        } else if at % 2 == 1 && self.rules.broken(Mutation::OrderDiffers) {
            ops.reverse();
        }
        (ops, variant)
    }

    /// What a request has met, as the rules are told of it.
    pub(crate) fn met(&self, task: &Task, mut found: Option<Record>) -> Option<Record> {
        if let (Some(found), [first, _]) = (&mut found, &task.ops[..])
            && self.rules.broken(Mutation::AnothersDoubtIsTried)
            && !task.held.is_empty()
        {
            found.beside = Some(Box::new(id(*first)));
        }
        found
    }

    pub(crate) fn looks_beside(&self, task: &Task, found: &Record) -> bool {
        found.beside.is_some() && in_doubt(found) && !task.looked && !self.rules.broken(Mutation::NobodyLooksBeside)
    }

    pub(crate) fn look_beside(&mut self, owner: Owner, doubt: &Record) -> u64 {
        self.send(owner, beside(doubt).unwrap_or(0), Call::Load, None)
    }

    pub(crate) fn beside_heard(
        &mut self,
        at: usize,
        task: &mut Task,
        attempt: AttemptId,
        found: Record,
        reply: Option<Written>,
    ) -> Phase {
        if let Some((message, record)) = self.ended_by(self.owner(at, task.id), task.op(), &found, reply) {
            return Phase::EndingBy { message, attempt, record };
        }
        task.looked = true;
        Phase::Admit { attempt, found: Some(found) }
    }

    /// Ends a doubt by what was found beside it, if that says something.
    fn ended_by(&mut self, owner: Owner, op: usize, doubt: &Record, reply: Option<Written>) -> Option<(u64, Record)> {
        if reply == Some(Written::Lost(None)) && self.rules.broken(Mutation::AbsentBesideFrees) {
            let message = self.send(owner, op, Call::Remove { fence: doubt.fence }, Some(doubt.fence.attempt));
            return Some((message, doubt.clone()));
        }
        let Some(Written::Lost(Some(mut partner))) = reply else { return None };
        if self.rules.broken(Mutation::AnothersOutcomeCounts) {
            partner.beside = Some(Box::new(id(op)));
        }
        let ending = ended_beside((&id(op), doubt), (&id(beside(doubt)?), &partner))?;
        let now = self.gateway_time(owner.gateway);
        match self.rules.settle(doubt, Some(doubt), &ending, &self.policies[op], now) {
            Settling::Write { expect, record, .. } => {
                self.note(|| format!("op {op} is no longer in doubt by what was held beside it"));
                let call = Call::Write { expect, record: record.clone() };
                Some((self.send(owner, op, call, Some(doubt.fence.attempt)), record))
            }
            Settling::Remove { .. } | Settling::Done(_) => None,
        }
    }

    /// Each half is settled by itself, with one ending.
    pub(crate) fn ends(&mut self, at: usize, halves: Vec<Half>, ending: &Ending) {
        let ending = match &halves[..] {
            [one, other] => ending_of_both(ending.clone(), [one.record.number, other.record.number]),
            _ => ending.clone(),
        };
        let settled = if self.rules.broken(Mutation::SecondNotSettled) { 1 } else { halves.len() };
        for Half { op, record: held, .. } in halves.into_iter().take(settled) {
            self.start(at, vec![op], 0, Phase::Settle { found: Some(held.clone()), held, ending: ending.clone() });
        }
    }

    /// A broken rule: the second is claimed when the request is at the upstream, and nobody minds what comes of it.
    pub(crate) fn claims_too_late(&mut self, at: usize, task: &Task, second: usize, attempt: AttemptId) {
        let Some(arrival) = task.arrival().second() else { return };
        let now = self.gateway_time(at);
        let admission = self.rules.admit(None, &arrival, &self.policies[second], attempt, now);
        if let oncegate::machine::Admission::Claim { record, .. } = admission {
            let call = Call::Write { expect: Expect::Absent, record };
            self.send(self.owner(at, task.id), second, call, None);
        }
    }

    /// The sweep has met a doubt, or made one.
    pub(crate) fn swept(&mut self, at: usize, task: &Task, doubt: Record, reply: Option<&Written>) -> Phase {
        if reply != Some(&Written::Done) || !self.looks_beside(task, &doubt) {
            return Phase::Over;
        }
        Phase::SweptBeside { message: self.look_beside(self.owner(at, task.id), &doubt), doubt }
    }

    pub(crate) fn swept_beside(&mut self, at: usize, task: &Task, doubt: &Record, reply: Option<Written>) -> Phase {
        let ended = self.ended_by(self.owner(at, task.id), task.op(), doubt, reply);
        ended.map_or(Phase::Over, |(message, _)| Phase::Last { message })
    }

    /// Where everything has come to rest, two halves say the same.
    pub(crate) fn pairs_end_alike(&self) -> Step {
        for (op, one) in self.store.0.iter().enumerate() {
            let Some(one) = one else { continue };
            let Some(other) = beside(one) else { continue };
            let Some(partner) = &self.store.0[other] else { continue };
            let alike = std::mem::discriminant(&one.state) == std::mem::discriminant(&partner.state);
            if are_a_pair((&id(op), one), (&id(other), partner)) && !alike {
                let what = format!("op {op} is {}, op {other} is {}", Short(one), Short(partner));
                return Err(Broken { invariant: Invariant::BothEndAlike, what });
            }
        }
        Ok(())
    }

    /// Whoever has ended a doubt by somebody's word has ended both halves of it.
    pub(crate) fn one_word_for_both(&self, op: usize, before: &Record, asked: u64) -> Step {
        let Some(other) = beside(before) else { return Ok(()) };
        let Some(partner) = &self.store.0[other] else { return Ok(()) };
        let same = partner.fence.attempt == before.fence.attempt && in_doubt(partner);
        if same && self.audit.unchanged_since(other, asked) {
            let what =
                format!("{} of op {op} has ended, op {other} is {}", short(before.fence.attempt), Short(partner));
            return Err(Broken { invariant: Invariant::OneWordForBoth, what });
        }
        Ok(())
    }
}
