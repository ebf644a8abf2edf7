//! A gateway of the model that asks the upstream about a doubt, as its prober does: it looks, asks, and writes over just
//! the record that it looked at.

use oncegate::machine::{Answer, Ending, Finding, Judgement, Recorded, Settling, Time, Witness};

use super::rules::Mutation;
use super::state::{Name, PROBE, Phase, Task, name};
use super::store::{Call, Reply};
use super::trace::Mark;
use super::world::Step;

impl Step<'_> {
    pub(crate) fn look(&mut self, gateway: usize) {
        let Some(doubt) = self.state.store.primary.clone() else { return };
        self.state.left.probes -= 1;
        let phase = Phase::Probing { doubt, asked: self.state.now };
        self.state.gateways[gateway].tasks.push(Task { name: PROBE, changed: false, phase });
    }

    pub(crate) fn tell(&mut self, gateway: usize, task: usize) {
        let Phase::Probing { doubt, asked } = self.state.task(gateway, task).phase.clone() else { return };
        let executed = self.state.upstream.first;
        self.enter(gateway, task, Phase::Told { doubt, asked, executed });
    }

    /// The upstream's answer is heard, or there is none.
    pub(crate) fn hear(&mut self, gateway: usize, task: usize) {
        let (doubt, asked, finding) = match self.state.task(gateway, task).phase.clone() {
            Phase::Told { doubt, asked, executed: Some(name) } => (doubt, asked, Finding::Executed(told(name))),
            Phase::Told { doubt, asked, executed: None } => (doubt, asked, Finding::Absent),
            Phase::Probing { doubt, asked } if self.rules().broken(Mutation::UnheardIsAbsent) => {
                (doubt, asked, Finding::Absent)
            }
            Phase::Probing { doubt, asked } => (doubt, asked, Finding::Unknown),
            _ => return,
        };
        self.enter(gateway, task, Phase::Over);
        let (policy, now) = (&self.plan.policy, Time(self.state.now));
        let Some(ending) = self.rules().probed(&doubt, &finding, policy, Time(asked), now) else {
            return self.mark(if finding == Finding::Absent { Mark::Early } else { Mark::Unheard });
        };
        if matches!(ending, Ending::Answered { judgement: Judgement::Release, .. }) {
            self.state.audit.absent(name(doubt.fence.attempt));
        }
        let call = match self.rules().settle(&doubt, Some(&doubt), &ending, policy, now) {
            Settling::Remove { .. } if self.rules().broken(Mutation::FindingIgnoresFence) => Call::RemoveAny,
            Settling::Remove { fence, .. } => Call::Remove { fence },
            Settling::Write { expect, record, .. } => Call::Write { expect, record: record.into() },
            Settling::Done(_) => return,
        };
        self.enter(gateway, task, Phase::Resolving { call });
    }

    /// A finding is written, or somebody else was quicker.
    pub(crate) fn resolved(&mut self, gateway: usize, call: &Call, reply: &Reply) {
        if let Reply::Done = reply {
            self.keep_in_mind(gateway, call);
        }
        self.mark(match (call, reply) {
            (_, Reply::Lost(_)) => Mark::Outrun,
            (Call::Write { .. }, Reply::Done) => Mark::Found,
            _ => Mark::Absent,
        });
    }
}

/// What the upstream tells of an operation: the answer to its first execution.
fn told(executed: Name) -> Answer {
    let answer = Recorded::bare(200, &[executed]);
    Answer::Told { by: Witness::Probe, answer }
}
