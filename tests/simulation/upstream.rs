//! The simulated upstream: it acts or refuses, answers, breaks, or stays silent. Honest: what it releases it did not do.

use bytes::Bytes;
use oncegate::machine::{Answer, AttemptId, Cause, Ending, Judgement, Recorded};

use super::gateway::Phase;
use super::store::{Owner, short};
use super::world::{Run, World, answer};

/// How a request ends at the upstream.
#[derive(Debug, Clone, Copy)]
enum End {
    Status(u16),
    Broken,
}

impl World {
    pub(crate) fn goes_upstream(&mut self, op: usize, variant: u8, attempt: AttemptId, owner: Owner) {
        self.runs.push(Run { op, attempt, owner, variant, acted: false, begun: self.now });
    }

    pub(crate) fn upstream_step(&mut self) {
        let Some(at) = self.dice.place(self.runs.len()) else { return };
        if !self.runs[at].acted && self.dice.chance(50) {
            self.act(at);
        } else if self.dice.chance(60) {
            let end = self.choose_end(at);
            self.end(at, end);
        }
    }

    fn act(&mut self, at: usize) {
        let run = &mut self.runs[at];
        let (op, attempt, variant) = (run.op, run.attempt, run.variant);
        run.acted = true;
        self.executions[op] += 1;
        self.note(|| format!("the upstream acts on request {variant} of op {op}, {}", short(attempt)));
    }

    fn choose_end(&mut self, at: usize) -> End {
        match (self.dice.between(0, 9), self.runs[at].acted) {
            (0, _) if self.faults => End::Broken,
            (1, _) if self.faults => End::Status(502),
            (2 | 3, false) => End::Status(422),
            (4, false) => End::Status(500),
            (_, acted) => {
                if !acted {
                    self.act(at);
                }
                End::Status(201)
            }
        }
    }

    fn end(&mut self, at: usize, end: End) {
        let run = self.runs.swap_remove(at);
        self.note(|| format!("{} of op {} ends at the upstream: {end:?}", short(run.attempt), run.op));
        self.audit.left_upstream(run.attempt);
        let gateway = &self.gateways[run.owner.gateway];
        let listening = gateway.life == run.owner.life
            && gateway
                .tasks
                .iter()
                .any(|task| matches!(&task.phase, Phase::Running { held, .. } if held.fence.attempt == run.attempt));
        if !listening {
            return;
        }
        let ending = match end {
            End::Broken => Ending::Unknown(Cause::Broken),
            End::Status(status) => self.judged(&run, status),
        };
        self.audit.ended(self.now, run.attempt);
        for task in &mut self.gateways[run.owner.gateway].tasks {
            if let Phase::Running { held, .. } = &task.phase
                && held.fence.attempt == run.attempt
            {
                task.phase = Phase::Settle { found: Some(held.clone()), held: held.clone(), ending: ending.clone() };
            }
        }
    }

    fn judged(&mut self, run: &Run, status: u16) -> Ending {
        let judgement = self.policies[run.op].outcomes.judge(status, false);
        let body = answer(run.attempt, status);
        self.audit.answered(run.attempt, judgement == Judgement::Release, body.clone());
        let headers = vec![(Bytes::from_static(b"content-type"), Bytes::from_static(b"text/plain"))];
        Ending::Answered {
            judgement,
            status,
            answer: Answer::Recorded(Recorded { status, headers, body }),
            retention: None,
        }
    }
}
