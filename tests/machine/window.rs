//! Windows: how long a completed operation keeps its like away, against a reference that knows one number, the end.

use std::time::Duration;

use oncegate::machine::{
    Answer, Cause, Duplicate, Ending, Expect, Fence, InDoubt, Judgement, Record, Settled, State, Time, Window, slide,
};
use proptest::prelude::*;

use super::system::{DOUBT_RETENTION, Look, PLAIN, RETENTION, START, System, Told, answer, policy};

/// Below this a move is left out.
const LEAST: u64 = RETENTION / 50;

fn system(window: Window) -> System {
    System::new(oncegate::machine::Policy { window, ..policy(InDoubt::Hold) })
}

/// A request as the arbiter treats it: told of an outcome, it moves the window's end.
fn ask(system: &mut System, look: Look, name: u8) -> Told {
    let told = system.admit(look, name);
    if let Told::Refused(Duplicate::Completed(found)) = &told
        && let Some(later) = slide(found, &system.policy, system.now)
    {
        assert!(system.write(Expect::Fence(found.fence), later), "nobody else writes here");
    }
    told
}

fn complete(system: &mut System, name: u8, retention: Option<Duration>) -> Time {
    let Told::Act(held) = ask(system, PLAIN, name) else { panic!("refused") };
    let ending = Ending::Answered { judgement: Judgement::Keep, status: 201, answer: answer(name), retention };
    match system.settle(&held, &ending) {
        Settled::Kept(end) => end,
        other => panic!("{other:?}"),
    }
}

fn end(system: &System) -> Option<u64> {
    system.stored.as_ref().map(|record| record.expires.0)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    /// With other credentials.
    Stranger,
    /// Another request under the same key.
    Changed,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ask),
        1 => Just(Step::Stranger),
        1 => Just(Step::Changed),
        2 => (0..LEAST * 2).prop_map(Step::Pass),
        2 => (0..RETENTION + LEAST).prop_map(Step::Pass),
        1 => (RETENTION - 2..RETENTION + 3).prop_map(Step::Pass),
    ]
}

/// What a window is, in one number.
struct Reference {
    sliding: bool,
    end: u64,
    last_told: u64,
}

impl Reference {
    fn told(&mut self, now: u64) {
        self.last_told = now;
        if self.sliding && now + RETENTION >= self.end + LEAST {
            self.end = now + RETENTION;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_end_when_the_reference_says(sliding: bool, steps in proptest::collection::vec(step(), 1..60)) {
        let mut system = system(if sliding { Window::Sliding } else { Window::Fixed });
        let first = complete(&mut system, 1, None).0;
        let mut reference = Reference { sliding, end: first, last_told: START.0 };
        let (mut last, mut name) = (None::<(Fence, Time)>, 1);
        for step in steps {
            let (now, before) = (system.now.0, end(&system));
            match step {
                Step::Pass(span) => system.pass(span),
                Step::Stranger => drop(ask(&mut system, Look { caller: Some(2), ..PLAIN }, 100)),
                Step::Changed => drop(ask(&mut system, Look { raw: 3, canonical: 3, ..PLAIN }, 100)),
                Step::Ask if before.is_some() => {
                    let told = ask(&mut system, PLAIN, 100);
                    prop_assert!(matches!(told, Told::Refused(Duplicate::Completed(_))), "{:?}", told);
                    reference.told(now);
                    prop_assert!(end(&system) >= before, "an end moves on only");
                    prop_assert!(!sliding || end(&system) > Some(now + RETENTION - LEAST), "a quiet time has to pass");
                }
                Step::Ask => {
                    name += 1;
                    prop_assert!(now >= reference.end);
                    prop_assert!(!sliding || now > reference.last_told + RETENTION - LEAST);
                    let kept = complete(&mut system, name, None).0;
                    reference = Reference { sliding, end: kept, last_told: now };
                }
            }
            if system.stored.as_ref().is_some_and(|record| matches!(record.state, State::InFlight { .. })) {
                // A stranger or a changed request began after the end: it is none of this reference's.
                return Ok(());
            }
            prop_assert_eq!(end(&system), Some(reference.end).filter(|end| *end > system.now.0));
            let (was, is) = (last, system.stored.as_ref().map(|record| (record.fence, record.expires)));
            if let (Some((was, then)), Some((is, now))) = (was, is)
                && was.attempt == is.attempt
            {
                prop_assert_eq!(was.version < is.version, then < now, "a move is a version, and a version is a move");
            }
            last = is;
        }
    }
}

#[test]
fn doubts_and_running_attempts_do_not_slide() {
    let mut system = system(Window::Sliding);
    let Told::Act(held) = ask(&mut system, PLAIN, 1) else { panic!("refused") };
    system.pass(1_000);
    for expected in [held.expires.0, held.expires.0.max(system.now.0 + DOUBT_RETENTION)] {
        assert!(matches!(ask(&mut system, PLAIN, 2), Told::Refused(_)));
        assert_eq!(slide(system.stored.as_ref().expect("a record"), &system.policy, system.now), None);
        assert_eq!(end(&system), Some(expected));
        system.settle(&held, &Ending::Unknown(Cause::Broken));
    }
}

#[test]
fn the_upstreams_own_word_is_not_prolonged_when_it_is_shorter_and_not_cut_when_it_is_longer() {
    let mut short = system(Window::Sliding);
    let kept = complete(&mut short, 1, Some(Duration::from_millis(RETENTION / 2)));
    short.pass(RETENTION / 4);
    ask(&mut short, PLAIN, 2);
    assert_eq!(end(&short), Some(kept.0));
    let mut long = system(Window::Sliding);
    let kept = complete(&mut long, 1, Some(Duration::from_millis(DOUBT_RETENTION)));
    ask(&mut long, PLAIN, 2);
    assert_eq!(end(&long), Some(kept.0));
    long.pass(RETENTION);
    ask(&mut long, PLAIN, 2);
    assert_eq!(end(&long), Some(long.now.0 + RETENTION));
}

#[test]
fn keys_that_say_their_age_slide_with_their_allowance() {
    let mut system = system(Window::Sliding);
    system.policy.clock_skew = Some(Duration::from_secs(30));
    system.policy.doubt_retention += Duration::from_mins(1);
    system.made = Some(START);
    complete(&mut system, 1, None);
    system.pass(RETENTION / 2);
    ask(&mut system, PLAIN, 2);
    assert_eq!(end(&system), Some(system.now.0 + RETENTION + 60_000));
}

/// However long a window slides, its versions stay in series that no renewal, lapse or claim ever counts.
#[test]
fn versions_stay_in_the_series_of_outcomes() {
    let mut system = system(Window::Sliding);
    complete(&mut system, 1, None);
    let mut record: Record = system.stored.take().expect("a record");
    let series = |record: &Record| record.fence.version >> 16;
    let first = series(&record);
    for _ in 0..200_000 {
        let now = Time(record.expires.0 - RETENTION + LEAST);
        let later = slide(&record, &system.policy, now).expect("a later end");
        assert!(later.fence.version > record.fence.version && later.expires > record.expires);
        assert_eq!((series(&later) - first) % 3, 0, "{:?}", later.fence);
        record = later;
    }
    assert!(series(&record) > first);
    record.fence.version = u32::MAX;
    assert_eq!(slide(&record, &system.policy, Time(record.expires.0 - 1)), None, "no version is left");
}

#[test]
fn what_an_operator_or_a_probe_knows_slides_too() {
    let mut system = system(Window::Sliding);
    let Told::Act(held) = ask(&mut system, PLAIN, 1) else { panic!("refused") };
    let ending = Ending::Answered { judgement: Judgement::Keep, status: 200, answer: Answer::Unseen, retention: None };
    system.settle(&held, &ending);
    system.pass(RETENTION - 1);
    assert!(matches!(ask(&mut system, PLAIN, 2), Told::Refused(Duplicate::Completed(_))));
    assert_eq!(end(&system), Some(system.now.0 + RETENTION));
}
