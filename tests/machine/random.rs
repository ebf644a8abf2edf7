//! Random lives of one operation: after each step the system and the model must agree.

use std::collections::HashMap;

use oncegate::machine::{
    Answer, Cause, Duplicate, Ending, Finding, InDoubt, Judgement, Outcomes, Preset, Record, Settled, State,
};
use proptest::prelude::*;

use super::model::{Became, End, Memory, Model, PROBED, Said, Stage, Verdict};
use super::system::{
    ABSENT_AFTER, ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, Look, PLAIN, RETENTION, System, Told, answer, answered,
    asking, policy,
};

#[derive(Debug, Clone)]
enum Step {
    Arrive(Look),
    /// The attempt is chosen among those that were let through.
    Renew(usize),
    Settle(usize, Finish),
    Lapse,
    /// The upstream is asked about what is stored.
    Probe(Said),
    Pass(u64),
}

/// What duplicates of a doubt lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Hold,
    Retry,
    Probe,
}

#[derive(Debug, Clone, Copy)]
enum Finish {
    Status(u16),
    NotSent,
    Broken,
    Abandoned,
}

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![
        4 => Just(PLAIN),
        1 => Just(Look { raw: 2, ..PLAIN }),
        1 => Just(Look { raw: 3, canonical: 3, ..PLAIN }),
        1 => Just(Look { canonical: 3, ..PLAIN }),
        1 => Just(Look { settings: 2, ..PLAIN }),
        1 => Just(Look { raw: 2, settings: 2, ..PLAIN }),
        1 => Just(Look { caller: Some(2), ..PLAIN }),
        1 => Just(Look { caller: None, ..PLAIN }),
    ]
}

fn finish() -> impl Strategy<Value = Finish> {
    let statuses = [200, 302, 401, 422, 429, 500, 502, 503, 504];
    prop_oneof![
        4 => proptest::sample::select(statuses.to_vec()).prop_map(Finish::Status),
        1 => Just(Finish::NotSent),
        1 => Just(Finish::Broken),
        1 => Just(Finish::Abandoned),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![Just(Said::Executed), Just(Said::Absent), Just(Said::Nothing)]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::Hold), Just(Rule::Retry), Just(Rule::Probe)]
}

fn step() -> impl Strategy<Value = Step> {
    // The spans stop just before, at, or just after what they are about.
    let spans = [LEASE, ABSENT_AFTER, ATTEMPT_TIMEOUT, RETENTION, DOUBT_RETENTION, ATTEMPT_TIMEOUT + DOUBT_RETENTION];
    let edges = (proptest::sample::select(spans.to_vec()), 0_u64..3).prop_map(|(span, edge)| span - 1 + edge);
    prop_oneof![
        6 => look().prop_map(Step::Arrive),
        2 => (0_usize..4).prop_map(Step::Renew),
        5 => (0_usize..4, finish()).prop_map(|(which, finish)| Step::Settle(which, finish)),
        1 => Just(Step::Lapse),
        2 => said().prop_map(Step::Probe),
        2 => edges.prop_map(Step::Pass),
        2 => (0_u64..5_000).prop_map(Step::Pass),
    ]
}

/// The outcome table, written down a second time from DESIGN.md.
fn table(preset: Preset, status: u16) -> End {
    match (preset, status) {
        (Preset::Strict, 401 | 403 | 408 | 425 | 429) => End::Released,
        (Preset::Strict, _) | (_, 200..=399) => End::Kept,
        (Preset::SuccessOnly, 502 | 504) => End::Open,
        (Preset::Cautious, 500..=599) if status != 503 => End::Open,
        _ => End::Released,
    }
}

struct Pair {
    preset: Preset,
    system: System,
    model: Model,
    /// Attempts that were let through, as the gateway holds them and as the model does.
    held: Vec<(u8, Record, Memory)>,
    names: u8,
}

impl Pair {
    fn new(preset: Preset, rule: Rule, compare: bool) -> Self {
        let mut policy = policy(match rule {
            Rule::Hold => InDoubt::Hold,
            Rule::Retry => InDoubt::Retry,
            Rule::Probe => asking(),
        });
        policy.compare = compare;
        policy.outcomes = Outcomes::new(preset, std::collections::BTreeMap::new());
        let model = Model { retry: rule == Rule::Retry, probe: rule == Rule::Probe, compare, memory: None };
        Self { preset, system: System::new(policy), model, held: Vec::new(), names: 0 }
    }

    fn now(&self) -> u64 {
        self.system.now.0
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Arrive(look) => self.arrive(look)?,
            Step::Renew(which) => self.renew(which)?,
            Step::Settle(which, finish) => self.settle(which, finish)?,
            Step::Lapse => {
                let now = self.now();
                prop_assert_eq!(self.system.lapse(), self.model.lapse(now));
            }
            Step::Probe(said) => {
                let now = self.now();
                prop_assert_eq!(self.probe(said), self.model.probe(said, now));
            }
            Step::Pass(span) => {
                self.system.pass(span);
                self.model.pass(self.system.now.0);
            }
        }
        prop_assert_eq!(self.system.stored.as_ref().map(seen), self.model.memory.map(drawn));
        Ok(())
    }

    fn arrive(&mut self, look: Look) -> Result<(), TestCaseError> {
        self.names += 1;
        let (name, now) = (self.names, self.now());
        let expected = self.model.admit(look, name, now);
        let told = self.system.admit(look, name);
        prop_assert_eq!(verdict(&told), expected);
        if let (Told::Act(record), Some(memory)) = (told, self.model.memory) {
            self.held.push((name, record, memory));
        }
        Ok(())
    }

    fn probe(&mut self, said: Said) -> bool {
        let Some(seen) = self.system.stored.clone() else { return false };
        let finding = match said {
            Said::Executed => Finding::Executed(answer(PROBED)),
            Said::Absent => Finding::Absent,
            Said::Nothing => Finding::Unknown,
        };
        self.system.probe(&seen, &finding, self.system.now).is_some()
    }

    fn renew(&mut self, which: usize) -> Result<(), TestCaseError> {
        let (now, count) = (self.now(), self.held.len());
        let Some((name, held, memory)) = self.held.get_mut(which % count.max(1)) else { return Ok(()) };
        let renewed = self.system.renew(held);
        prop_assert_eq!(renewed.is_some(), self.model.renew(*name, now));
        if let (Some(renewed), Some(now_held)) = (renewed, self.model.memory) {
            (*held, *memory) = (renewed, now_held);
        }
        Ok(())
    }

    fn settle(&mut self, which: usize, finish: Finish) -> Result<(), TestCaseError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (name, held, memory) = self.held.remove(which % self.held.len());
        let (ending, end) = match finish {
            Finish::Status(status) => (answered(&self.system.policy, status, name), table(self.preset, status)),
            Finish::NotSent => (Ending::NotSent, End::NotSent),
            Finish::Broken => (Ending::Unknown(Cause::Broken), End::Open),
            Finish::Abandoned => (Ending::Unknown(Cause::Abandoned), End::Open),
        };
        let expected = self.model.settle(memory, end, self.now());
        prop_assert_eq!(became(self.system.settle(&held, &ending)), expected);
        Ok(())
    }
}

/// A record as the model would draw it: attempt, number, stage, expiry.
fn seen(record: &Record) -> (u8, u32, Stage, u64) {
    let stage = match &record.state {
        State::InFlight { lease, .. } => Stage::InFlight { lease: lease.0 },
        State::InDoubt { .. } => Stage::InDoubt,
        State::Completed { answer, .. } => Stage::Completed { mark: mark(answer) },
    };
    (record.fence.attempt.0[0], record.number, stage, record.expires.0)
}

fn drawn(memory: Memory) -> (u8, u32, Stage, u64) {
    (memory.attempt, memory.number, memory.stage, memory.expires)
}

fn mark(answer: &Answer) -> u8 {
    match answer {
        Answer::Recorded(recorded) => recorded.body()[0],
        other => panic!("nobody records {other:?} here"),
    }
}

fn completed_mark(record: &Record) -> u8 {
    match &record.state {
        State::Completed { answer, .. } => mark(answer),
        other => panic!("shown as completed: {other:?}"),
    }
}

fn verdict(told: &Told) -> Verdict {
    match told {
        Told::Act(record) => Verdict::Act { number: record.number },
        Told::Refused(Duplicate::InFlight { .. }) => Verdict::InFlight,
        Told::Refused(Duplicate::InDoubt { .. }) => Verdict::InDoubt,
        Told::Refused(Duplicate::Completed(record)) => Verdict::Completed { mark: completed_mark(record) },
        Told::Refused(Duplicate::Stranger(record)) => Verdict::Stranger { mark: completed_mark(record) },
        Told::Refused(Duplicate::Changed) => Verdict::Changed,
        Told::Refused(Duplicate::Unsure) => Verdict::Unsure,
        Told::Untimely(untimely) => panic!("no key here says when it was made: {untimely:?}"),
    }
}

fn became(settled: Settled) -> Became {
    match settled {
        Settled::Kept(expires) => Became::Kept { expires: expires.0 },
        Settled::Released => Became::Released,
        Settled::NotSent => Became::NotSent,
        Settled::Doubted => Became::Doubted,
        Settled::Superseded => Became::Superseded,
    }
}

fn preset() -> impl Strategy<Value = Preset> {
    proptest::sample::select(vec![Preset::SuccessOnly, Preset::Cautious, Preset::Strict])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_agree_with_the_diagram(
        preset in preset(),
        rule in rule(),
        compare: bool,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut pair = Pair::new(preset, rule, compare);
        for step in &steps {
            pair.take(step)?;
        }
    }

    /// A fence names one content: no two records of a life share one.
    #[test]
    fn no_fence_is_used_twice(rule in rule(), steps in proptest::collection::vec(step(), 1..40)) {
        let mut pair = Pair::new(Preset::SuccessOnly, rule, true);
        let mut fences = HashMap::new();
        for step in &steps {
            pair.take(step)?;
            if let Some(record) = &pair.system.stored {
                let known = fences.entry(record.fence).or_insert_with(|| record.clone());
                prop_assert_eq!(&*known, record);
            }
        }
    }
}

#[test]
fn the_two_tables_agree() {
    for preset in [Preset::SuccessOnly, Preset::Cautious, Preset::Strict] {
        let outcomes = Outcomes::new(preset, std::collections::BTreeMap::new());
        for status in 200..=599 {
            let judged = match outcomes.judge(status, false) {
                Judgement::Keep => End::Kept,
                Judgement::Release => End::Released,
                Judgement::Doubt => End::Open,
            };
            assert_eq!(judged, table(preset, status), "{preset:?} {status}");
        }
    }
}
