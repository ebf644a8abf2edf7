//! An upstream that knows what it has executed, for routes that ask it. On others nothing is assumed of it, and this is
//! empty.

use oncegate::machine::{Cause, Record, State as Stands};

use super::explore::digest;
use super::plan::{ABSENT_AFTER, ATTEMPT_TIMEOUT, Plan};
use super::state::{End, Name, State, name};
use super::world::Step;

#[derive(Debug, Clone, Default)]
pub(crate) struct Upstream {
    /// Requests that it was sent and has not executed yet.
    pub(crate) runs: Vec<Run>,
    /// What it executed first: this is what it tells who asks.
    pub(crate) first: Option<Name>,
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) name: Name,
    sent: u64,
    /// From when on it is not executed any more; set by its doubt.
    until: Option<u64>,
}

impl Run {
    pub(crate) fn digest(&self) -> u64 {
        digest(&(self.sent, self.until))
    }
}

impl Upstream {
    /// The upstream has said that it did nothing, which is true.
    pub(crate) fn never_executes(&mut self, name: Name) {
        self.runs.retain(|run| run.name != name);
    }

    /// The assumption of `absent_after`: an execution begins before that has passed since the doubt began; or, where the
    /// attempt is not known to be over, since one that was sent before has to be.
    pub(crate) fn written(&mut self, plan: &Plan, after: &Record) {
        let Stands::InDoubt { since, cause } = after.state else { return };
        let is_over = !matches!(cause, Cause::LeaseLost | Cause::Forgotten);
        let of = name(after.fence.attempt);
        for run in self.runs.iter_mut().filter(|run| run.name == of && !plan.unruly) {
            let under_way = if is_over || run.sent > since.0 { 0 } else { run.sent + ATTEMPT_TIMEOUT };
            let until = under_way.max(since.0) + ABSENT_AFTER;
            // Where the store has lost a doubt, and another one was written, the earlier of the two began it.
            run.until = Some(run.until.map_or(until, |before| before.min(until)));
        }
    }

    /// What is too late to be executed never is.
    pub(crate) fn pass(&mut self, now: u64) {
        self.runs.retain(|run| run.until.is_none_or(|until| now < until));
    }

    /// When something cannot be executed any more.
    pub(crate) fn next_end(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().filter_map(|run| run.until)
    }
}

impl State {
    /// Whether the upstream can have said this of an attempt, or nothing: what it says is true.
    pub(crate) fn can_end(&self, name: Name, end: End) -> bool {
        match end {
            End::Kept => self.audit.has_executed(name),
            End::Released => !self.audit.has_executed(name),
            End::NotSent | End::Doubtful | End::Unknown => true,
        }
    }
}

impl Step<'_> {
    pub(crate) fn reaches_upstream(&mut self, name: Name) {
        if !self.plan.probes() {
            return;
        }
        self.state.upstream.runs.push(Run { name, sent: self.state.now, until: None });
        // A gateway that stood still before it sent may find that the doubt has begun.
        if let Some(stored) = self.state.store.primary.clone() {
            self.state.upstream.written(self.plan, &stored);
        }
    }

    pub(crate) fn executes(&mut self, run: usize) {
        let run = self.state.upstream.runs.remove(run);
        self.state.upstream.first.get_or_insert(run.name);
        self.state.audit.executed(run.name);
    }
}
