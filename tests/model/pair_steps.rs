//! A gateway of the model with requests that name two keys: the loops of the arbiter, cut where anything may come between.

use oncegate::machine::{
    Admission, Also, Answer, Arrival, Cause, Duplicate, Ending, Judgement, NamespaceTag, Record, Recorded, Salt,
    Settled, Settling, Time, ending_of_both,
};

use super::audit::Broken;
use super::gateway::doubtful;
use super::pair::{Action, KEYS, ORDER, Phase, Step, Task, id};
use super::rules::Mutation;
use super::state::{End, attempt, name};
use super::store::{Call, Held, Reply};
use super::trace::Mark;
use crate::alike::Alike;

/// The request, as it asks for a key.
fn arrival(first: usize, key: usize) -> Arrival<'static> {
    let also = Also { operation: id(ORDER), namespace: NamespaceTag(2), credentials: None };
    let arrival = Arrival::new(id(first), NamespaceTag(1), Salt([0; 8]), 1, None, Alike::to(0)).with_also(Some(also));
    if key == ORDER { arrival.second().expect("it names two") } else { arrival }
}

fn ending(end: End, mark: u8) -> Ending {
    let answered = |status, judgement| {
        let recorded = Recorded::bare(status, &[mark]);
        Ending::Answered { judgement, status, answer: Answer::Recorded(recorded), retention: None }
    };
    match end {
        End::NotSent => Ending::NotSent,
        End::Kept => answered(201, Judgement::Keep),
        End::Released => answered(422, Judgement::Release),
        End::Doubtful | End::Unknown => Ending::Unknown(Cause::Broken),
    }
}

impl Step<'_> {
    pub(crate) fn take(&mut self, action: Action) {
        match action {
            Action::Arrive { gateway, first } => self.arrive(gateway, first),
            Action::Answer { gateway, task } => self.answer(gateway, task, false),
            Action::Echo { gateway, task } => {
                self.state.left.losses -= 1;
                self.answer(gateway, task, true);
            }
            Action::Lose { gateway, task } => self.lose(gateway, task),
            Action::Send { gateway, task } => self.send(gateway, task),
            Action::End { gateway, task, end } => self.end(gateway, task, end),
            Action::Withdraw { gateway, claim } => self.withdraw(gateway, claim),
            Action::Crash { gateway } => self.crash(gateway),
            Action::Stray { place } => {
                let (key, call) = self.state.strays.remove(place);
                self.execute(key, &call);
            }
            Action::Heal { key } => {
                self.heal(key);
            }
            Action::Tick => {
                self.state.left.ticks -= 1;
                self.state.now += 1;
            }
            Action::Lapse { .. } | Action::Word { .. } | Action::Leap => {}
        }
    }

    fn arrive(&mut self, gateway: usize, first: usize) {
        self.state.names += 1;
        self.state.left.requests -= 1;
        let name = self.state.names;
        self.state.gateways[gateway].tasks.push(Task { name, first, phase: Phase::Over });
        let task = self.state.gateways[gateway].tasks.len() - 1;
        self.ask(gateway, task, None, None);
    }

    fn task(&self, gateway: usize, task: usize) -> &Task {
        &self.state.gateways[gateway].tasks[task]
    }

    fn enter(&mut self, gateway: usize, task: usize, phase: Phase) {
        self.state.gateways[gateway].tasks[task].phase = phase;
    }

    /// The rules' word on a request that has met `found`, and holds its first key already or not.
    fn ask(&mut self, gateway: usize, task: usize, held: Option<Held>, found: Option<&Held>) {
        let Task { name: own, first, .. } = *self.task(gateway, task);
        let key = if held.is_some() { ORDER } else { first };
        let mut found = found.cloned();
        if let Some(met) = found.clone().filter(|met| met.fence.attempt != attempt(own)) {
            let claims = &self.state.gateways[gateway].unconfirmed;
            if let Some((_, claim)) = claims.iter().find(|(of, it)| (*of, it.fence.attempt) == (key, met.fence.attempt))
            {
                self.withdraw_now(key, &claim.clone());
                return self.enter(gateway, task, Phase::Asking { held, call: Call::Load });
            }
            if self.heal(key) {
                found = self.state.stored(key).cloned();
            }
        }
        if let (Some(met), true) = (&mut found, self.rules().broken(Mutation::AnothersDoubtIsTried) && key == ORDER) {
            let beside = Some(Box::new(id(first)));
            *met = oncegate::machine::Record { beside, ..(**met).clone() }.into();
        }
        let now = Time(self.state.now);
        let met = found.as_deref();
        match self.rules().admit(met, &arrival(first, key), &self.plan.policy, attempt(own), now) {
            Admission::Claim { expect, record } | Admission::Lapse { expect, record } => {
                let call = Call::Write { expect, record: record.into() };
                self.enter(gateway, task, Phase::Asking { held, call });
            }
            Admission::Own(record) => {
                self.mark(Mark::Own);
                self.claimed(gateway, task, held, record.into());
            }
            Admission::Duplicate(duplicate) => self.refused(gateway, task, held, key, &duplicate),
            Admission::Untimely(_) => self.enter(gateway, task, Phase::Over),
        }
    }

    /// A claim stands: then the order is asked for, or the request may act.
    fn claimed(&mut self, gateway: usize, task: usize, held: Option<Held>, claim: Held) {
        let since = self.state.now;
        match held {
            Some(first) => self.enter(gateway, task, Phase::Ready { halves: vec![first, claim], since }),
            None if self.rules().broken(Mutation::SecondClaimedAfterSending) => {
                self.enter(gateway, task, Phase::Ready { halves: vec![claim], since });
            }
            None => self.ask(gateway, task, Some(claim), None),
        }
    }

    /// It may not act, and holds nothing of its first key any more.
    fn refused(&mut self, gateway: usize, task: usize, held: Option<Held>, key: usize, why: &Duplicate) {
        let mark = match why {
            Duplicate::InFlight { .. } => Mark::InFlight,
            Duplicate::InDoubt { .. } => Mark::InDoubt,
            Duplicate::Completed(record) => {
                let shown = Held::from(Record::clone(record)).answer_of();
                if shown.is_some_and(|name| !self.state.audits[key].has_answered(name)) {
                    self.state.audits[key].breaks(Broken::OnceDoneDone);
                }
                Mark::Replayed
            }
            Duplicate::Changed | Duplicate::Stranger(_) | Duplicate::Unsure => Mark::Changed,
        };
        self.mark(mark);
        self.give_up(gateway, task, held);
    }

    fn give_up(&mut self, gateway: usize, task: usize, held: Option<Held>) {
        let Task { name, first, .. } = *self.task(gateway, task);
        self.enter(gateway, task, Phase::Over);
        if let Some(held) = held.filter(|_| !self.rules().broken(Mutation::FirstNotFreed)) {
            self.mark(Mark::BySecond);
            self.settle_anew(gateway, name, first, &held, End::NotSent);
        }
    }

    pub(crate) fn settling(&self, held: &Held, found: Option<&Held>, ending: &Ending) -> Option<Call> {
        match self.rules().settle(held, found.map(|found| &**found), ending, &self.plan.policy, Time(self.state.now)) {
            Settling::Write { expect, record, .. } => Some(Call::Write { expect, record: record.into() }),
            Settling::Remove { fence, .. } => Some(Call::Remove { fence }),
            Settling::Done(_) => None,
        }
    }

    /// A call of a task is executed and answered.
    fn answer(&mut self, gateway: usize, task: usize, echo: bool) {
        let at = self.task(gateway, task).clone();
        let (key, Some(call)) = (at.key(), at.call().cloned()) else { return };
        self.enter(gateway, task, Phase::Over);
        let before = self.state.stored(key).cloned();
        let mut reply = self.execute(key, &call);
        if echo && matches!(reply, Reply::Done) {
            reply = Reply::Lost(self.state.stored(key).cloned());
        }
        match (at.phase, reply) {
            (Phase::Asking { held, .. }, Reply::Lost(found)) => self.ask(gateway, task, held, found.as_ref()),
            (Phase::Asking { held, .. }, Reply::Done) => {
                if let Call::Write { record, .. } = call {
                    if record.fence.attempt == attempt(at.name) && !doubtful(&record) {
                        self.claimed(gateway, task, held, record);
                    } else {
                        self.mark(Mark::Lapsed);
                        self.ask(gateway, task, held, Some(&record));
                    }
                }
            }
            (Phase::Settling { held, end, .. }, Reply::Lost(newer)) => {
                self.settle(gateway, task, key, &held, newer.as_ref(), end);
            }
            (Phase::Word { both: true, .. }, Reply::Done) => self.word_is_out(key, before.as_ref()),
            _ => {}
        }
    }

    /// A call stays without an answer. It may still be executed.
    fn lose(&mut self, gateway: usize, task: usize) {
        self.state.left.losses -= 1;
        let at = self.task(gateway, task).clone();
        let (key, Some(call)) = (at.key(), at.call().cloned()) else { return };
        self.enter(gateway, task, Phase::Over);
        self.strays(key, call.clone());
        match at.phase {
            Phase::Asking { held, .. } => {
                if let Call::Write { record, .. } = call
                    && record.fence.attempt == attempt(at.name)
                    && !doubtful(&record)
                {
                    self.state.gateways[gateway].unconfirmed.push((key, record));
                }
                self.give_up(gateway, task, held);
            }
            // The store was away until the record was forgotten.
            Phase::Settling { held, .. } if held.expires.0 <= self.state.now => self.state.audits[key].gave_up = true,
            Phase::Settling { held, end, .. } => self.settle(gateway, task, key, &held, Some(&held), end),
            _ => {}
        }
    }

    fn strays(&mut self, key: usize, call: Call) {
        if !matches!(call, Call::Load) {
            self.state.strays.push((key, call));
        }
    }

    fn send(&mut self, gateway: usize, task: usize) {
        let Task { name, first, phase: Phase::Ready { halves, .. } } = self.task(gateway, task).clone() else { return };
        let now = self.state.now;
        if self.state.is_of_another(first) {
            // Under another first key no upstream would know it for the same.
            self.state.audits[ORDER].breaks(Broken::DoubtIsAState);
        }
        for (key, held) in [first, ORDER].into_iter().zip(halves.iter().chain(&halves)) {
            self.state.audits[key].forwarded(self.plan, name, held, now);
        }
        if halves.len() == 1
            && let Admission::Claim { expect, record } =
                self.rules().admit(None, &arrival(first, ORDER), &self.plan.policy, attempt(name), Time(now))
        {
            self.strays(ORDER, Call::Write { expect, record: record.into() });
        }
        if halves.iter().any(|held| held.number > 1) {
            self.mark(Mark::Further);
        }
        self.enter(gateway, task, Phase::Running { halves });
    }

    /// An attempt ends: each half is settled by itself, with one ending.
    fn end(&mut self, gateway: usize, task: usize, end: End) {
        let Task { name, first, phase } = self.task(gateway, task).clone();
        let (Phase::Ready { halves, .. } | Phase::Running { halves }) = phase else { return };
        let now = self.state.now;
        self.enter(gateway, task, Phase::Over);
        for key in [first, ORDER] {
            self.state.audits[key].ended(name, end, now);
        }
        let further = match &halves[..] {
            [one, other] => ending_of_both(ending(end, name), [one.number, other.number]) != ending(end, name),
            _ => false,
        };
        let end = if further { End::Unknown } else { end };
        let settled = if self.rules().broken(Mutation::SecondNotSettled) { 1 } else { 2 };
        for (key, held) in [first, ORDER].into_iter().zip(&halves).take(settled) {
            self.settle_anew(gateway, name, key, held, end);
        }
    }

    fn settle_anew(&mut self, gateway: usize, name: u8, key: usize, held: &Held, end: End) {
        self.state.gateways[gateway].tasks.push(Task { name, first: key.min(ORDER), phase: Phase::Over });
        let task = self.state.gateways[gateway].tasks.len() - 1;
        self.settle(gateway, task, key, held, Some(held), end);
    }

    /// The rules' word on a half of an attempt that has ended.
    fn settle(&mut self, gateway: usize, task: usize, key: usize, held: &Held, found: Option<&Held>, end: End) {
        let ending = ending(end, name(held.fence.attempt));
        let phase = match self.settling(held, found, &ending) {
            None => Phase::Over,
            Some(call) => {
                self.mark(match (&call, found) {
                    (Call::Remove { .. }, _) => Mark::Freed,
                    (_, None) => Mark::Anew,
                    (_, Some(found)) if end == End::Kept && doubtful(found) => Mark::Late,
                    _ if end == End::Kept => Mark::Kept,
                    _ => Mark::Doubted,
                });
                Phase::Settling { key, held: held.clone(), end, call }
            }
        };
        self.enter(gateway, task, phase);
    }

    /// One look at a claim whose reply was lost.
    fn withdraw(&mut self, gateway: usize, claim: usize) {
        let (key, claim) = self.state.gateways[gateway].unconfirmed[claim].clone();
        let settled = self.withdraw_now(key, &claim);
        let of = claim.fence.attempt;
        let travels =
            self.state.strays.iter().any(|(at, call)| {
                *at == key && matches!(call, Call::Write { record, .. } if record.fence.attempt == of)
            });
        // Not there may mean not there yet; after a while it means that the call has not arrived.
        if settled || !travels {
            self.mark(if settled { Mark::Withdrawn } else { Mark::NeverArrived });
            self.state.gateways[gateway].unconfirmed.retain(|(at, it)| (*at, it.fence.attempt) != (key, of));
        }
    }

    /// Settles a claim as never sent. True when it was there.
    fn withdraw_now(&mut self, key: usize, claim: &Held) -> bool {
        let mut found = Some(claim.clone());
        loop {
            let now = Time(self.state.now);
            let met = found.as_deref();
            let call = match self.rules().settle(claim, met, &Ending::NotSent, &self.plan.policy, now) {
                Settling::Done(settled) => return matches!(settled, Settled::NotSent | Settled::Doubted),
                Settling::Write { expect, record, .. } => Call::Write { expect, record: record.into() },
                Settling::Remove { fence, .. } => Call::Remove { fence },
            };
            match self.execute(key, &call) {
                Reply::Done => return true,
                Reply::Lost(newer) => match newer.filter(|newer| newer.fence.attempt == claim.fence.attempt) {
                    Some(newer) => found = Some(newer),
                    None => return false,
                },
            }
        }
    }

    fn crash(&mut self, gateway: usize) {
        self.state.left.crashes -= 1;
        let now = self.state.now;
        for audit in &mut self.state.audits {
            audit.crashed = true;
        }
        for task in std::mem::take(&mut self.state.gateways[gateway]).tasks {
            for key in 0..KEYS {
                self.state.audits[key].crashed(task.name, now);
            }
            if let Some(call) = task.call() {
                self.strays(task.key(), call.clone());
            }
        }
    }
}
