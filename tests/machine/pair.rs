//! Requests that name two operations, at random: after each step the system and the reference must agree.

use oncegate::machine::{Cause, Ending, Expect, InDoubt, Policy, Record, State, Time, ending_of_both, renew};
use proptest::prelude::*;

use super::model::{End, Memory, Stage};
use super::pair_model::{FIRSTS, KEYS, Reference};
use super::pair_system::{System, mark};
use super::system::{ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, Look, PLAIN, RETENTION, START, answered, policy};

#[derive(Debug, Clone, Copy)]
enum Finish {
    Kept,
    Released,
    NotSent,
    Broken,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// With this first key and this order; its gateway may die between the claims.
    Arrive {
        first: usize,
        order: usize,
        changed: bool,
        dies: bool,
    },
    /// The attempt is chosen among those that were let through.
    Renew(usize),
    /// Both halves are settled, or the gateway dies after one of them.
    Settle {
        which: usize,
        finish: Finish,
        halves: [bool; 2],
    },
    /// A sweep meets this key.
    Sweep(usize),
    /// Somebody knows whether it was executed.
    Word {
        key: usize,
        executed: bool,
    },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let spans = [LEASE, RETENTION, DOUBT_RETENTION, ATTEMPT_TIMEOUT + DOUBT_RETENTION];
    let edges = (proptest::sample::select(spans.to_vec()), 0_u64..3).prop_map(|(span, edge)| span - 1 + edge);
    let finish = prop_oneof![Just(Finish::Kept), Just(Finish::Released), Just(Finish::NotSent), Just(Finish::Broken)];
    let halves = prop_oneof![4 => Just([true, true]), 1 => Just([true, false]), 1 => Just([false, true])];
    let order = FIRSTS..KEYS;
    prop_oneof![
        8 => (0..FIRSTS, order, proptest::bool::weighted(0.1), proptest::bool::weighted(0.1))
            .prop_map(|(first, order, changed, dies)| Step::Arrive { first, order, changed, dies }),
        2 => (0_usize..4).prop_map(Step::Renew),
        5 => (0_usize..4, finish, halves).prop_map(|(which, finish, halves)| Step::Settle { which, finish, halves }),
        2 => (0..KEYS).prop_map(Step::Sweep),
        2 => (0..KEYS, any::<bool>()).prop_map(|(key, executed)| Step::Word { key, executed }),
        2 => edges.prop_map(Step::Pass),
        2 => (0_u64..5_000).prop_map(Step::Pass),
    ]
}

/// An attempt that was let through: what it holds, and what the reference remembers of it.
struct Held {
    keys: [usize; 2],
    records: Vec<Record>,
    memories: [Memory; 2],
}

struct Twins {
    reference: Reference,
    system: System,
    held: Vec<Held>,
    names: u8,
}

impl Twins {
    fn new(retry: bool) -> Self {
        let first = policy(if retry { InDoubt::Retry } else { InDoubt::Hold });
        let second = Policy { compare: false, ..first.clone() };
        let system = System { policies: [first, second], now: START, stored: vec![None; KEYS] };
        Self { reference: Reference::new(retry), system, held: Vec::new(), names: 0 }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.system.now.0;
        match step {
            Step::Arrive { first, order, changed, dies } => {
                self.names += 1;
                let look = look(order, changed);
                let keys = [first, order];
                let expected = self.reference.arrive(keys, look, self.names, now, dies);
                let (told, records) = self.system.arrive(keys, look, self.names, dies);
                prop_assert_eq!(told, expected);
                if !records.is_empty() {
                    let memories = keys.map(|key| self.reference.keys[key].memory.expect("it acts"));
                    self.held.push(Held { keys, records, memories });
                }
            }
            Step::Renew(which) => self.renew(which, now)?,
            Step::Settle { which, finish, halves } if !self.held.is_empty() => {
                let held = self.held.remove(which % self.held.len());
                self.settle(&held, finish, halves, now);
            }
            Step::Settle { .. } => {}
            Step::Sweep(key) => {
                self.reference.keys[key].lapse(now);
                self.reference.take_from_other_half(key, now);
                self.system.sweep(key);
            }
            Step::Word { key, executed } => {
                self.reference.word(key, executed, now);
                self.system.word(key, executed);
            }
            Step::Pass(span) => {
                self.system.now = Time(now + span);
                for key in 0..KEYS {
                    self.reference.keys[key].pass(now + span);
                    self.system.stored[key].take_if(|record| record.expires.0 <= now + span);
                }
            }
        }
        for key in 0..KEYS {
            let drawn = self.reference.keys[key].memory;
            let drawn = drawn.map(|memory| (memory.attempt, memory.number, memory.stage, memory.expires));
            prop_assert_eq!(self.system.stored[key].as_ref().map(seen), drawn, "key {}", key);
        }
        Ok(())
    }

    fn renew(&mut self, which: usize, now: u64) -> Result<(), TestCaseError> {
        let count = self.held.len();
        let Some(held) = self.held.get_mut(which % count.max(1)) else { return Ok(()) };
        for (half, key) in held.keys.into_iter().enumerate() {
            let record = &held.records[half];
            let renewed = renew(record, self.system.policy(key), self.system.now);
            let written =
                renewed.filter(|renewed| self.system.write(key, Expect::Fence(record.fence), renewed.clone()));
            let name = held.memories[half].attempt;
            prop_assert_eq!(written.is_some(), self.reference.keys[key].renew(name, now));
            if let (Some(written), Some(memory)) = (written, self.reference.keys[key].memory) {
                (held.records[half], held.memories[half]) = (written, memory);
            }
        }
        Ok(())
    }

    /// What was not sent frees both, or neither if it is a further attempt of one of them.
    fn settle(&mut self, held: &Held, finish: Finish, halves: [bool; 2], now: u64) {
        let further = held.memories.iter().any(|memory| memory.number > 1);
        let name = held.memories[0].attempt;
        let (ending, end) = match finish {
            Finish::Kept => (answered(self.system.policy(0), 201, name), End::Kept),
            Finish::Released => (answered(self.system.policy(0), 422, name), End::Released),
            Finish::NotSent if further => (Ending::NotSent, End::Open),
            Finish::NotSent => (Ending::NotSent, End::NotSent),
            Finish::Broken => (Ending::Unknown(Cause::Broken), End::Open),
        };
        let ending = ending_of_both(ending, [held.records[0].number, held.records[1].number]);
        for half in (0..2).filter(|half| halves[*half]) {
            let key = held.keys[half];
            if self.reference.keys[key].memory.is_none() && matches!(end, End::Kept | End::Open) {
                // Written anew, it says what it was held beside.
                self.reference.beside.insert(key, held.keys[1 - half]);
            }
            self.reference.keys[key].settle(held.memories[half], end, now);
            self.system.settle(key, &held.records[half], &ending);
        }
    }
}

/// An order's number is part of the request.
fn look(order: usize, changed: bool) -> Look {
    let raw = u8::try_from(order * 2).expect("few orders") + u8::from(changed);
    Look { raw, canonical: raw, caller: None, ..PLAIN }
}

fn seen(record: &Record) -> (u8, u32, Stage, u64) {
    let stage = match &record.state {
        State::InFlight { lease, .. } => Stage::InFlight { lease: lease.0 },
        State::InDoubt { .. } => Stage::InDoubt,
        State::Completed { .. } => Stage::Completed { mark: mark(record) },
    };
    (record.fence.attempt.0[0], record.number, stage, record.expires.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_for_two_keys_agree_with_the_design(retry: bool, steps in proptest::collection::vec(step(), 1..60)) {
        let mut twins = Twins::new(retry);
        for step in steps {
            twins.take(step)?;
        }
    }
}
