//! What a gateway of the model knows exactly of what it dispatched, as the arbiter does: one operation, no bound.

use oncegate::machine::{Fence, Record, State as Stands, Time};

use super::rules::Mutation;
use super::state::Dispatched;
use super::store::{Call, Held};
use super::trace::Mark;
use super::world::Step;

impl Step<'_> {
    /// What the store has to hold of the operation.
    pub(crate) fn known(&self, gateway: usize) -> Option<Dispatched> {
        let now = Time(self.state.now);
        self.state.gateways[gateway].dispatched.clone().filter(|entry| now < entry.known.expires)
    }

    /// An attempt is about to be dispatched under this record.
    pub(crate) fn dispatches(&mut self, gateway: usize, held: &Held) {
        if self.plan.exact {
            let entry = Dispatched { known: held.clone(), running: true, outcome: None };
            self.state.gateways[gateway].dispatched = Some(entry);
        }
    }

    /// What is written again for a record that the store has lost, and whose attempt has ended.
    pub(crate) fn recalled(&self, lost: &Dispatched) -> Held {
        let outcome = lost.outcome.as_ref().filter(|kept| kept.expires.0 > self.state.now);
        let known = outcome.unwrap_or(&lost.known);
        self.rules().recall(known, false, &self.plan.policy, Time(self.state.now)).into()
    }

    /// A record that the store had lost stands in it again.
    pub(crate) fn written_again(&mut self, gateway: usize, record: &Held) {
        self.mark(Mark::Recalled);
        if let Some(entry) = &mut self.state.gateways[gateway].dispatched {
            entry.known = record.clone();
        }
    }

    /// What settling has made of the record.
    pub(crate) fn keep_in_mind(&mut self, gateway: usize, settling: &Call) {
        let record = match settling {
            Call::Write { record, .. } => record,
            Call::Remove { fence } => return self.forgets(gateway, *fence),
            Call::Load | Call::RemoveAny => return,
        };
        let Some(entry) = self.of(gateway, record.fence) else { return };
        entry.running = false;
        entry.known = Record { expires: record.expires, ..(*entry.known).clone() }.into();
        if matches!(record.state, Stands::Completed { .. }) {
            entry.outcome = Some(record.clone());
        }
    }

    /// Settling was through without a write.
    pub(crate) fn ends(&mut self, gateway: usize, held: &Held) {
        if let Some(entry) = self.of(gateway, held.fence) {
            entry.running = false;
        }
    }

    fn of(&mut self, gateway: usize, fence: Fence) -> Option<&mut Dispatched> {
        let entry = self.state.gateways[gateway].dispatched.as_mut();
        entry.filter(|entry| entry.known.fence.attempt == fence.attempt)
    }

    /// It is proven that nothing was done: the operation's record may go.
    pub(crate) fn forgets(&mut self, gateway: usize, fence: Fence) {
        if self.of(gateway, fence).is_some() || self.rules().broken(Mutation::ForgetsAnother) {
            self.state.gateways[gateway].dispatched = None;
        }
    }
}
