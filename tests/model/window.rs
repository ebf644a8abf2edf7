//! Windows that slide: a duplicate of the model has the outcome remembered for longer before it is told of it.

use std::sync::Arc;

use oncegate::machine::{Duplicate, Expect, Record, Time, Window, slide};

use super::audit::Broken;
use super::plan::{Plan, RETENTION};
use super::rules::Mutation;
use super::state::Phase;
use super::store::{Call, Held, Reply};
use super::trace::Mark;
use super::world::Step;

impl Plan {
    pub(crate) fn sliding(mut self) -> Self {
        self.policy.window = Window::Sliding;
        self
    }
}

impl Step<'_> {
    /// What a duplicate leads to.
    pub(crate) fn slides(&mut self, changed: bool, duplicate: &Duplicate) -> Phase {
        let later = match duplicate {
            Duplicate::Completed(found) => {
                let later = slide(found, &self.plan.policy, Time(self.state.now));
                later.map(|later| (Record::clone(found), later))
            }
            _ => None,
        };
        let end = match (&later, duplicate) {
            (Some((_, later)), _) => later.expires.0,
            (None, Duplicate::Completed(found)) => found.expires.0,
            (None, _) => u64::MAX,
        };
        if self.plan.policy.window == Window::Sliding && end < self.state.now + RETENTION {
            self.state.audit.breaks(Broken::Forgotten);
        }
        let Some((found, later)) = later else {
            self.told(changed, duplicate);
            return Phase::Over;
        };
        if self.rules().broken(Mutation::TellsAnEndThatIsNotWritten) {
            self.told_of_an_end(changed, &later.into());
            return Phase::Over;
        }
        let expect = Expect::Fence(found.fence);
        Phase::Sliding { found: found.into(), call: Call::Write { expect, record: later.into() } }
    }

    /// The end has moved, or the outcome is not there any more as it was found.
    pub(crate) fn slid(&mut self, gateway: usize, task: usize, call: &Call, reply: Reply) {
        let changed = self.state.task(gateway, task).changed;
        match (call, reply) {
            (Call::Write { record, .. }, Reply::Done) => self.told_of_an_end(changed, record),
            (_, Reply::Lost(newer)) => self.ask(gateway, task, newer.as_ref()),
            (_, Reply::Done) => {}
        }
    }

    fn told_of_an_end(&mut self, changed: bool, record: &Held) {
        self.mark(Mark::Slid);
        self.told(changed, &Duplicate::Completed(Arc::new((**record).clone())));
        let until = record.expires.0;
        if let Some(guard) = &mut self.state.audit.guard {
            guard.until = guard.until.max(until);
        }
    }
}
