//! Several operations over a trivial conditional store, two for each request, driven by the machine's verbs the way the
//! arbiter drives them.

use std::sync::Arc;

use oncegate::machine::{
    Admission, Also, Answer, Arrival, Duplicate, Ending, Expect, NamespaceTag, OperationId, Policy, Record, Settled,
    Settling, State, Time, admit, are_a_pair, ended_beside, lapse, settle,
};

use super::model::Verdict;
use super::pair_model::{FIRSTS, Told, WORD};
use super::system::{Look, answered, attempt, salt};
use crate::alike::Alike;

fn id(key: usize) -> OperationId {
    OperationId([u8::try_from(key).expect("few keys"); 32])
}

/// A store of several operations, and the verbs over it.
pub(crate) struct System {
    pub(crate) policies: [Policy; 2],
    pub(crate) now: Time,
    pub(crate) stored: Vec<Option<Record>>,
}

impl System {
    pub(crate) fn policy(&self, key: usize) -> &Policy {
        &self.policies[usize::from(key >= FIRSTS)]
    }

    pub(crate) fn write(&mut self, key: usize, expect: Expect, record: Record) -> bool {
        let met = match (expect, &self.stored[key]) {
            (Expect::Absent, stored) => stored.is_none(),
            (Expect::Fence(fence), stored) => stored.as_ref().is_some_and(|stored| stored.fence == fence),
        };
        if met {
            self.stored[key] = Some(record);
        }
        met
    }

    pub(crate) fn settle(&mut self, key: usize, held: &Record, ending: &Ending) -> Settled {
        let mut found = Some(held.clone());
        loop {
            match settle(held, found.as_ref(), ending, self.policy(key), self.now) {
                Settling::Done(settled) => return settled,
                Settling::Write { expect, record, settled } => {
                    if self.write(key, expect, record) {
                        return settled;
                    }
                }
                Settling::Remove { fence, settled } => {
                    if self.stored[key].take_if(|stored| stored.fence == fence).is_some() {
                        return settled;
                    }
                }
            }
            found.clone_from(&self.stored[key]);
        }
    }

    /// Ends a doubt by what was held beside it.
    fn look_beside(&mut self, key: usize) {
        let Some(doubt) = self.stored[key].clone() else { return };
        let Some(other) = doubt.beside.as_ref().map(|other| usize::from(other.0[0])) else { return };
        let partner = self.stored[other].as_ref();
        if let Some(ending) = partner.and_then(|partner| ended_beside((&id(key), &doubt), (&id(other), partner))) {
            self.settle(key, &doubt, &ending);
        }
    }

    pub(crate) fn sweep(&mut self, key: usize) {
        if let Some(found) = self.stored[key].clone()
            && let Some(doubt) = lapse(&found, self.policy(key).doubt_retention, self.now)
        {
            self.write(key, Expect::Fence(found.fence), doubt);
        }
        self.look_beside(key);
    }

    fn one(&mut self, key: usize, arrival: &Arrival, name: u8) -> Result<Record, Verdict> {
        let mut found: Option<Record> = None;
        loop {
            if found.is_some() {
                self.look_beside(key);
                found.clone_from(&self.stored[key]);
            }
            match admit(found.clone().map(Arc::new).as_ref(), arrival, self.policy(key), attempt(name), self.now) {
                Admission::Claim { expect, record } => {
                    if self.write(key, expect, record.clone()) {
                        return Ok(record);
                    }
                }
                Admission::Lapse { expect, record } => {
                    self.write(key, expect, record);
                }
                Admission::Duplicate(duplicate) => return Err(verdict(&duplicate)),
                Admission::Own(record) => panic!("no reply is lost here: {record:?}"),
                Admission::Untimely(untimely) => panic!("no key here says when it was made: {untimely:?}"),
            }
            found.clone_from(&self.stored[key]);
        }
    }

    /// What is held afterwards: nothing where the request was refused.
    pub(crate) fn arrive(
        &mut self,
        [first, order]: [usize; 2],
        look: Look,
        name: u8,
        dies: bool,
    ) -> (Option<Told>, Vec<Record>) {
        let also = Also { operation: id(order), namespace: NamespaceTag(2), credentials: None };
        let arrival =
            Arrival::new(id(first), NamespaceTag(1), salt(), 1, None, Alike::to(look.raw)).with_also(Some(also));
        let held = match self.one(first, &arrival, name) {
            Ok(held) => held,
            Err(told) => return (Some(Told::ByFirst(told)), Vec::new()),
        };
        if dies {
            return (None, Vec::new());
        }
        match self.one(order, &arrival.second().expect("it names two"), name) {
            Ok(second) => (Some(Told::Acts([held.number, second.number])), vec![held, second]),
            Err(told) => {
                self.settle(first, &held, &Ending::NotSent);
                (Some(Told::BySecond(told)), Vec::new())
            }
        }
    }

    pub(crate) fn word(&mut self, key: usize, executed: bool) {
        let Some(doubt) = self.stored[key].clone() else { return };
        if !matches!(doubt.state, State::InDoubt { .. }) {
            return;
        }
        let mut ending = answered(self.policy(key), if executed { 201 } else { 422 }, WORD);
        if let Some(other) = doubt.beside.as_ref().map(|other| usize::from(other.0[0]))
            && let Some(found) = self.stored[other].clone()
            && are_a_pair((&id(key), &doubt), (&id(other), &found))
        {
            let found = match lapse(&found, self.policy(other).doubt_retention, self.now) {
                Some(lapsed) => {
                    self.write(other, Expect::Fence(found.fence), lapsed.clone());
                    lapsed
                }
                None => found,
            };
            match ended_beside((&id(key), &doubt), (&id(other), &found)) {
                Some(known) => ending = known,
                None if matches!(found.state, State::InFlight { .. }) => return,
                None => drop(self.settle(other, &found, &ending)),
            }
        }
        self.settle(key, &doubt, &ending);
    }
}

fn verdict(duplicate: &Duplicate) -> Verdict {
    match duplicate {
        Duplicate::InFlight { .. } => Verdict::InFlight,
        Duplicate::InDoubt { .. } => Verdict::InDoubt,
        Duplicate::Completed(record) => Verdict::Completed { mark: mark(record) },
        Duplicate::Changed => Verdict::Changed,
        Duplicate::Stranger(_) | Duplicate::Unsure => panic!("no request here is one: {duplicate:?}"),
    }
}

pub(crate) fn mark(record: &Record) -> u8 {
    match &record.state {
        State::Completed { answer: Answer::Recorded(answer), .. } => answer.body()[0],
        other => panic!("an outcome, recorded: {other:?}"),
    }
}
