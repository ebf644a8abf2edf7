//! How doubts of two keys end otherwise than by their attempt: by what was held beside them, or by somebody's word.

use oncegate::machine::{Answer, Ending, Expect, Judgement, State as Stands, Time, are_a_pair, ended_beside};

use super::audit::Broken;
use super::gateway::doubtful;
use super::pair::{Phase, Step, Task, beside, id};
use super::rules::Mutation;
use super::state::{PROBE, name};
use super::store::{Call, Held};
use super::trace::Mark;

fn said(executed: bool) -> Ending {
    let judgement = if executed { Judgement::Keep } else { Judgement::Release };
    Ending::Answered { judgement, status: 200, answer: Answer::Unseen, retention: None }
}

/// Whether the other half of a doubt is in doubt too.
fn is_open_beside(doubt: &Held, found: &Held) -> bool {
    doubtful(found) && found.fence.attempt == doubt.fence.attempt
}

impl Step<'_> {
    /// Ends a doubt by the outcome that is beside it.
    pub(crate) fn heal(&mut self, key: usize) -> bool {
        if self.rules().broken(Mutation::NobodyLooksBeside) {
            return false;
        }
        let Some(doubt) = self.state.stored(key).cloned() else { return false };
        let Some(other) = beside(&doubt) else { return false };
        let partner = self.state.stored(other).cloned();
        let Some(known) = partner.and_then(|partner| ended_beside((&id(key), &doubt), (&id(other), &partner))) else {
            return false;
        };
        if let Some(call) = self.settling(&doubt, Some(&doubt), &known) {
            self.mark(Mark::Healed);
            self.execute(key, &call);
        }
        true
    }

    /// Somebody who knows ends a doubt: the other half at once, this one in a step of its own.
    pub(crate) fn word(&mut self, gateway: usize, key: usize, executed: bool) {
        self.state.left.probes -= 1;
        let Some(doubt) = self.state.stored(key).cloned() else { return };
        if !executed {
            for key in [Some(key), beside(&doubt)].into_iter().flatten() {
                self.state.audits[key].absent(name(doubt.fence.attempt));
            }
        }
        let mut ending = said(executed);
        let open = |other: usize| self.state.stored(other).is_some_and(|found| is_open_beside(&doubt, found));
        let both = beside(&doubt).is_some_and(open);
        if let Some(other) = beside(&doubt).filter(|_| !self.rules().broken(Mutation::WordEndsOneHalf)) {
            match self.other_half(key, &doubt, other, &ending) {
                None => return,
                Some(known) => ending = known,
            }
        }
        if let Some(call) = self.settling(&doubt, Some(&doubt), &ending) {
            self.mark(if executed { Mark::Found } else { Mark::Absent });
            let task = Task { name: PROBE, first: key, phase: Phase::Word { key, call, both } };
            self.state.gateways[gateway].tasks.push(task);
        }
    }

    /// Ends the other half of a doubt, and says how this half then ends; none where it goes on.
    fn other_half(&mut self, key: usize, doubt: &Held, other: usize, ending: &Ending) -> Option<Ending> {
        let pair = |found: &Held| are_a_pair((&id(key), doubt), (&id(other), found));
        let Some(mut found) = self.state.stored(other).cloned().filter(pair) else { return Some(ending.clone()) };
        if let Some(lapsed) = self.rules().lapse(&found, &self.plan.policy, Time(self.state.now)) {
            let lapsed = Held::from(lapsed);
            self.execute(other, &Call::Write { expect: Expect::Fence(found.fence), record: lapsed.clone() });
            found = lapsed;
        }
        if let Some(known) = ended_beside((&id(key), doubt), (&id(other), &found)) {
            return Some(known);
        }
        if let Stands::InFlight { .. } = found.state {
            return None;
        }
        if let Some(call) = self.settling(&found, Some(&found), ending) {
            self.execute(other, &call);
        }
        Some(ending.clone())
    }

    /// Whoever has ended one half of a doubt has ended the other.
    pub(crate) fn word_is_out(&mut self, key: usize, before: Option<&Held>) {
        let Some((doubt, other)) = before.and_then(|doubt| Some((doubt, beside(doubt)?))) else { return };
        if self.state.stored(other).is_some_and(|found| is_open_beside(doubt, found)) {
            self.state.audits[key].breaks(Broken::HalfAWord);
        }
    }
}
