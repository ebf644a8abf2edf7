//! Somebody's word on a doubt: an operator who has looked, or the upstream that was asked. Both tell the truth.

use oncegate::machine::{
    Answer, AttemptId, Ending, Expect, Finding, InDoubt, Judgement, Record, Recorded, Settling, State, Witness,
    are_a_pair, ended_beside, probed,
};

use super::pair::{beside, id, in_doubt};
use super::rules::Mutation;
use super::store::{Call, Written, short};
use super::task::{Phase, Task};
use super::world::World;

/// How far a word has come.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) message: u64,
    /// How many changes of the store there had been when the doubt was looked at.
    asked: u64,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    /// It looks at the doubt.
    Doubt,
    /// It deals with the other half; if the call is a write, this is what then stands there.
    Other { doubt: Record, ending: Ending, written: Option<Record> },
    /// It ends the other half.
    Ending { doubt: Record, ending: Ending },
}

impl World {
    pub(crate) fn asks_for_a_word(&mut self, at: usize, op: usize) {
        if !self.store.0[op].as_ref().is_some_and(in_doubt) {
            return;
        }
        let task = self.start(at, vec![op], 0, Phase::Over);
        let message = self.send(self.owner(at, task), op, Call::Load, None);
        if let Some(task) = self.gateways[at].tasks.last_mut() {
            task.phase = Phase::Word(Word { message, asked: 0, stage: Stage::Doubt });
        }
    }

    pub(crate) fn word_heard(&mut self, at: usize, task: &Task, word: Word, reply: Option<Written>) -> Phase {
        let asked = word.asked;
        match (word.stage, reply) {
            (Stage::Doubt, Some(Written::Lost(Some(doubt)))) if in_doubt(&doubt) => self.begins(at, task, doubt),
            (Stage::Other { doubt, ending, .. } | Stage::Ending { doubt, ending }, Some(Written::Lost(found))) => {
                self.other_half(at, task, asked, doubt, ending, found)
            }
            (Stage::Other { doubt, ending, written }, Some(Written::Done)) => {
                self.other_half(at, task, asked, doubt, ending, written)
            }
            (Stage::Ending { doubt, ending }, Some(Written::Done)) => self.own_half(at, task, asked, &doubt, &ending),
            _ => Phase::Over,
        }
    }

    fn begins(&mut self, at: usize, task: &Task, doubt: Record) -> Phase {
        let (op, asked) = (task.op(), self.audit.changes());
        let Some(ending) = self.truth(at, op, &doubt) else { return Phase::Over };
        self.note(|| format!("of {} of op {op} somebody knows: {ending:?}", short(doubt.fence.attempt)));
        match beside(&doubt) {
            Some(other) if !self.rules.broken(Mutation::WordEndsOneHalf) => {
                let message = self.send(self.owner(at, task.id), other, Call::Load, None);
                Phase::Word(Word { message, asked, stage: Stage::Other { doubt, ending, written: None } })
            }
            _ => self.own_half(at, task, asked, &doubt, &ending),
        }
    }

    fn other_half(
        &mut self,
        at: usize,
        task: &Task,
        asked: u64,
        doubt: Record,
        ending: Ending,
        found: Option<Record>,
    ) -> Phase {
        let (op, other) = (task.op(), beside(&doubt).unwrap_or(0));
        let pair = |found: &Record| are_a_pair((&id(op), &doubt), (&id(other), found));
        let Some(found) = found.filter(pair) else { return self.own_half(at, task, asked, &doubt, &ending) };
        let (owner, now) = (self.owner(at, task.id), self.gateway_time(at));
        if let Some(lapsed) = self.rules.lapse(&found, &self.policies[other], now) {
            let call = Call::Write { expect: Expect::Fence(found.fence), record: lapsed.clone() };
            let message = self.send(owner, other, call, None);
            return Phase::Word(Word { message, asked, stage: Stage::Other { doubt, ending, written: Some(lapsed) } });
        }
        if let Some(known) = ended_beside((&id(op), &doubt), (&id(other), &found)) {
            return self.own_half(at, task, asked, &doubt, &known);
        }
        if let State::InFlight { .. } = found.state {
            return Phase::Over;
        }
        let Some(call) = self.settled_by(at, other, &found, &ending) else { return Phase::Over };
        let message = self.send(owner, other, call, Some(found.fence.attempt));
        Phase::Word(Word { message, asked, stage: Stage::Ending { doubt, ending } })
    }

    fn own_half(&mut self, at: usize, task: &Task, asked: u64, doubt: &Record, ending: &Ending) -> Phase {
        let Some(call) = self.settled_by(at, task.op(), doubt, ending) else { return Phase::Over };
        let message = self.send(self.owner(at, task.id), task.op(), call, Some(doubt.fence.attempt));
        if let Some(sent) = self.messages.last_mut() {
            sent.word = Some(asked);
        }
        Phase::Last { message }
    }

    fn settled_by(&self, at: usize, op: usize, doubt: &Record, ending: &Ending) -> Option<Call> {
        let now = self.gateway_time(at);
        match self.rules.settle(doubt, Some(doubt), ending, &self.policies[op], now) {
            Settling::Write { expect, record, .. } => Some(Call::Write { expect, record }),
            Settling::Remove { fence, .. } => Some(Call::Remove { fence }),
            Settling::Done(_) => None,
        }
    }

    /// What is true of a doubt; none where nobody can say yet.
    fn truth(&mut self, at: usize, op: usize, doubt: &Record) -> Option<Ending> {
        let mut chain = self.audit.chain(op).to_vec();
        let other = beside(doubt).filter(|other| {
            let partner = self.store.0[*other].as_ref();
            partner.is_some_and(|partner| are_a_pair((&id(op), doubt), (&id(*other), partner)))
        });
        chain.extend(other.iter().flat_map(|other| self.audit.chain(*other)));
        let executed = chain.iter().any(|attempt| self.audit.has_acted(*attempt));
        let ending = match self.policies[op].in_doubt {
            InDoubt::Probe { .. } if op < super::world::FIRSTS && self.dice.chance(70) => {
                let finding = if executed { Finding::Executed(told(op, Witness::Probe)) } else { Finding::Absent };
                probed(doubt, &finding, &self.policies[op], self.gateway_time(at))
            }
            // An operator waits until nothing of it is under way any more.
            _ if chain.iter().any(|attempt| self.may_still_act(*attempt)) => None,
            _ if executed => Some(Ending::Answered {
                judgement: Judgement::Keep,
                status: 200,
                answer: told(op, Witness::Operator),
                retention: None,
            }),
            _ => {
                let (judgement, answer) = (Judgement::Release, Answer::Unseen);
                Some(Ending::Answered { judgement, status: 404, answer, retention: None })
            }
        };
        if matches!(ending, Some(Ending::Answered { judgement: Judgement::Release, .. })) {
            for op in other.into_iter().chain([op]) {
                self.audit.absent(op, &chain);
            }
        }
        ending
    }

    /// Whether the upstream has it, or a gateway may send it.
    fn may_still_act(&self, attempt: AttemptId) -> bool {
        let holds = |task: &Task| match &task.phase {
            Phase::Ready { halves } | Phase::Running { halves } => halves[0].record.fence.attempt == attempt,
            Phase::Look { attempt: of }
            | Phase::Looking { attempt: of, .. }
            | Phase::Admit { attempt: of, .. }
            | Phase::Claiming { attempt: of, .. }
            | Phase::Beside { attempt: of, .. }
            | Phase::EndingBy { attempt: of, .. }
            | Phase::Lapsing { attempt: of, .. } => *of == attempt,
            _ => task.keeps == Some(attempt),
        };
        self.runs.iter().any(|run| run.attempt == attempt)
            || self.gateways.iter().flat_map(|gateway| &gateway.tasks).any(holds)
    }
}

fn told(op: usize, by: Witness) -> Answer {
    let body = format!("somebody knows of op {op}");
    Answer::Told { by, answer: Recorded::bare(200, body.as_bytes()) }
}
