//! The simulated upstream: it acts or refuses, answers, breaks, or stays silent. Honest: what it releases it did not do.

use oncegate::machine::{Answer, AttemptId, Cause, Ending, Judgement, Recorded};

use super::pair::Half;
use super::store::{Owner, short};
use super::task::{Phase, Task};
use super::world::{Run, World, answer};

/// How a request ends at the upstream.
#[derive(Debug, Clone, Copy)]
enum End {
    Status(u16),
    Broken,
}

impl World {
    pub(crate) fn goes_upstream(&mut self, ops: Vec<usize>, variant: u8, attempt: AttemptId, owner: Owner) {
        self.runs.push(Run { ops, attempt, owner, variant, acted: false, begun: self.now });
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
        let (ops, attempt, variant) = (run.ops.clone(), run.attempt, run.variant);
        run.acted = true;
        for op in &ops {
            self.executions[*op] += 1;
        }
        self.audit.acted(attempt);
        self.note(|| format!("the upstream acts on request {variant} of ops {ops:?}, {}", short(attempt)));
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
        self.note(|| format!("{} of ops {:?} ends at the upstream: {end:?}", short(run.attempt), run.ops));
        for op in &run.ops {
            self.audit.left_upstream(*op, run.attempt);
        }
        let at = run.owner.gateway;
        if self.gateways[at].life != run.owner.life {
            return;
        }
        let mut tasks = self.gateways[at].tasks.iter().enumerate();
        let Some((place, halves)) = tasks.find_map(|(place, task)| Some((place, runs(task, run.attempt)?))) else {
            return;
        };
        let ending = match end {
            End::Broken => Ending::Unknown(Cause::Broken),
            End::Status(status) => self.judged(&run, status),
        };
        self.attempt_over(at, place, halves, &ending);
    }

    fn judged(&mut self, run: &Run, status: u16) -> Ending {
        let judgement = self.policies[run.ops[0]].outcomes.judge(status, false);
        let body = answer(run.attempt, status);
        for op in &run.ops {
            self.audit.answered(*op, run.attempt, judgement == Judgement::Release, body.clone());
        }
        let recorded = Recorded::new(status, [("content-type", "text/plain")], &body);
        Ending::Answered { judgement, status, answer: Answer::Recorded(recorded), retention: None }
    }
}

/// What the task holds, if it waits for this attempt's answer.
fn runs(task: &Task, attempt: AttemptId) -> Option<Vec<Half>> {
    match &task.phase {
        Phase::Running { halves } if halves[0].record.fence.attempt == attempt => Some(halves.clone()),
        _ => None,
    }
}
