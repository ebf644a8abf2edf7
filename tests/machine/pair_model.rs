//! What the design says of a request with two keys: the life of a single operation twice, and what the one says of the
//! other. Written from the page: uses nothing of the machine's rules.

use std::collections::HashMap;

use super::model::{End, Model, Stage, Verdict};
use super::system::{Look, RETENTION};

/// First keys, and orders behind them: a key is a place among both.
pub(crate) const FIRSTS: usize = 3;
pub(crate) const KEYS: usize = FIRSTS + 2;
/// The mark of what somebody knows of an operation.
pub(crate) const WORD: u8 = 254;

/// What a request is told, and by which of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Acts([u32; 2]),
    ByFirst(Verdict),
    BySecond(Verdict),
}

/// What the design says: a model for each key, and which key was held beside which.
pub(crate) struct Reference {
    retry: bool,
    pub(crate) keys: Vec<Model>,
    pub(crate) beside: HashMap<usize, usize>,
}

impl Reference {
    pub(crate) fn new(retry: bool) -> Self {
        let model = |key| Model { retry: false, probe: false, compare: key < FIRSTS, memory: None };
        Self { retry, keys: (0..KEYS).map(model).collect(), beside: HashMap::new() }
    }

    fn are_held_together(&self, one: usize, other: usize) -> bool {
        let names = |key: usize, other: usize| self.keys[key].memory.is_some() && self.beside.get(&key) == Some(&other);
        names(one, other) && names(other, one)
    }

    /// A half that was left behind in doubt takes the outcome of a completed other half.
    pub(crate) fn take_from_other_half(&mut self, key: usize, now: u64) {
        let Some(other) = self.beside.get(&key).copied().filter(|other| self.are_held_together(key, *other)) else {
            return;
        };
        let known = self.keys[other].memory.map(|other| other.stage);
        if let (Some(memory), Some(Stage::Completed { mark })) = (&mut self.keys[key].memory, known)
            && memory.stage == Stage::InDoubt
        {
            (memory.stage, memory.expires) = (Stage::Completed { mark }, now + RETENTION);
        }
    }

    fn one(&mut self, key: usize, beside: usize, look: Look, name: u8, now: u64) -> Verdict {
        // A changed request is told so whatever became of the first. Its look at the other half comes before, all the same.
        self.take_from_other_half(key, now);
        if !self.keys[key].compare || self.keys[key].memory.is_none_or(|memory| memory.look.raw == look.raw) {
            self.keys[key].lapse(now);
            self.take_from_other_half(key, now);
        }
        // A doubt is tried again only by the pair that it belongs to.
        self.keys[key].retry = self.retry && self.beside.get(&key) == Some(&beside);
        let verdict = self.keys[key].admit(look, name, now);
        if let Verdict::Act { .. } = verdict {
            self.beside.insert(key, beside);
        }
        verdict
    }

    /// Told first by the first key; else by the second, and then the first is released.
    pub(crate) fn arrive(
        &mut self,
        [first, order]: [usize; 2],
        look: Look,
        name: u8,
        now: u64,
        dies: bool,
    ) -> Option<Told> {
        let number = match self.one(first, order, look, name, now) {
            Verdict::Act { number } => number,
            refused => return Some(Told::ByFirst(refused)),
        };
        if dies {
            return None;
        }
        match self.one(order, first, look, name, now) {
            Verdict::Act { number: second } => Some(Told::Acts([number, second])),
            refused => {
                let held = self.keys[first].memory.expect("it is claimed");
                self.keys[first].settle(held, End::NotSent, now);
                Some(Told::BySecond(refused))
            }
        }
    }

    /// A doubt that is ended by somebody's word ends both, unless something is known of the other half.
    pub(crate) fn word(&mut self, key: usize, executed: bool, now: u64) {
        let in_doubt = |model: &Model| model.memory.is_some_and(|memory| memory.stage == Stage::InDoubt);
        if !in_doubt(&self.keys[key]) {
            return;
        }
        if let Some(other) = self.beside.get(&key).copied().filter(|other| self.are_held_together(key, *other)) {
            self.keys[other].lapse(now);
            match self.keys[other].memory.map(|memory| memory.stage) {
                Some(Stage::InFlight { .. }) => return,
                Some(Stage::Completed { .. }) => return self.take_from_other_half(key, now),
                Some(Stage::InDoubt) => self.end(other, executed, now),
                None => {}
            }
        }
        self.end(key, executed, now);
    }

    fn end(&mut self, key: usize, executed: bool, now: u64) {
        let memory = &mut self.keys[key].memory;
        if !executed {
            *memory = None;
        } else if let Some(memory) = memory {
            (memory.stage, memory.expires) = (Stage::Completed { mark: WORD }, now + RETENTION);
        }
    }
}
