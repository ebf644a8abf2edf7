//! The upstream is asked about a doubt: when, and what its answers do; against late answers, operators and retries.

use std::time::Duration;

use bytes::Bytes;
use oncegate::machine::{
    Answer, Cause, Duplicate, Ending, Finding, InDoubt, Judgement, Probe, Record, Settled, State, Time, Witness,
    next_probe, probed,
};

use super::system::{
    ABSENT_AFTER, ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, PLAIN, RETENTION, System, Told, answer, answered, asking,
    policy,
};

const BROKEN: Ending = Ending::Unknown(Cause::Broken);

fn question() -> Probe {
    Probe { target: Bytes::from_static(b"/orders?ref=k"), headers: Vec::new() }
}

/// An attempt begins; its record holds the question.
fn begin(system: &mut System, name: u8) -> Record {
    let Told::Act(record) = system.admit(PLAIN, name) else { panic!("refused") };
    let record = Record { probe: Some(Box::new(question())), ..record };
    system.stored = Some(record.clone());
    record
}

/// An operation in doubt, and the attempt's own record.
fn doubtful() -> (System, Record) {
    let mut system = System::new(policy(asking()));
    let held = begin(&mut system, 1);
    assert_eq!(system.settle(&held, &BROKEN), Settled::Doubted);
    (system, held)
}

fn told(mark: u8) -> Answer {
    let Answer::Recorded(answer) = answer(mark) else { panic!("no answer") };
    Answer::Told { by: Witness::Probe, answer }
}

fn executed() -> Finding {
    Finding::Executed(told(9))
}

fn stored(system: &System) -> &Record {
    system.stored.as_ref().expect("a record")
}

#[test]
fn duplicates_of_a_doubt_are_refused_as_under_hold() {
    let (mut system, _) = doubtful();
    let since = system.now;
    assert_eq!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InDoubt { since }));
}

#[test]
fn an_executed_operation_is_completed_for_its_retention_and_asked_about_no_more() {
    let (mut system, _) = doubtful();
    system.pass(500);
    let (seen, now) = (stored(&system).clone(), system.now);
    let until = now.plus(system.policy.retention);
    assert_eq!(system.probe(&seen, &executed(), now), Some(Settled::Kept(until)));
    assert_eq!(stored(&system).state, State::Completed { at: now, answer: told(9) });
    assert_eq!(stored(&system).probe, None, "what is known is not asked");
    let Told::Refused(Duplicate::Completed(record)) = system.admit(PLAIN, 2) else { panic!("not completed") };
    assert_eq!(record.expires, Time(now.0 + RETENTION));
    let stranger = super::system::Look { caller: Some(2), ..PLAIN };
    assert!(matches!(system.admit(stranger, 2), Told::Refused(Duplicate::Stranger(_))), "as with any answer");
}

#[test]
fn absence_counts_by_the_moment_of_asking_and_then_the_key_is_new() {
    let (mut system, _) = doubtful();
    let seen = stored(&system).clone();
    let since = system.now;
    system.pass(ABSENT_AFTER + 5_000);
    let last_early = Time(since.0 + ABSENT_AFTER - 1);
    assert_eq!(system.probe(&seen, &Finding::Absent, last_early), None, "asked too early, however late it came");
    assert_eq!(system.probe(&seen, &Finding::Absent, Time(since.0 + ABSENT_AFTER)), Some(Settled::Released));
    assert_eq!(begin(&mut system, 2).number, 1);
}

#[test]
fn after_a_lost_lease_absence_does_not_count_while_the_attempt_may_still_run() {
    let mut system = System::new(policy(asking()));
    begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    let (seen, since) = (stored(&system).clone(), system.now);
    assert_eq!(seen.probe, Some(Box::new(question())), "whoever lets it lapse can ask");
    let over = ATTEMPT_TIMEOUT + ABSENT_AFTER;
    system.pass(over);
    let at = |after: u64| Time(since.0 + after);
    for early in [ABSENT_AFTER, ATTEMPT_TIMEOUT, over - 1] {
        assert_eq!(system.probe(&seen, &Finding::Absent, at(early)), None);
    }
    assert_eq!(system.probe(&seen, &Finding::Absent, at(over)), Some(Settled::Released));
}

#[test]
fn an_unclear_answer_ends_nothing() {
    let (mut system, _) = doubtful();
    system.pass(DOUBT_RETENTION - 1);
    let (seen, now) = (stored(&system).clone(), system.now);
    assert_eq!(system.probe(&seen, &Finding::Unknown, now), None);
    assert_eq!(stored(&system), &seen);
}

#[test]
fn only_doubts_are_judged_and_only_where_the_route_asks() {
    let now = Time(10_000_000);
    let mut system = System::new(policy(asking()));
    let held = begin(&mut system, 1);
    assert_eq!(probed(&held, &executed(), &system.policy, now), None, "in flight");
    let ending = answered(&system.policy, 201, 1);
    system.settle(&held, &ending);
    assert_eq!(probed(stored(&system), &Finding::Absent, &system.policy, now), None, "completed");
    let (system, _) = doubtful();
    for in_doubt in [InDoubt::Hold, InDoubt::Retry] {
        assert_eq!(probed(stored(&system), &executed(), &policy(in_doubt), now), None, "{in_doubt:?}");
        assert_eq!(next_probe(stored(&system), &[Duration::ZERO], &policy(in_doubt), Time(0)), None);
    }
}

#[test]
fn of_a_late_answer_and_a_probe_the_first_wins_and_the_outcome_never_flips() {
    let endings = |system: &System| [answered(&system.policy, 201, 1), answered(&system.policy, 422, 1), BROKEN];
    // The probe was first.
    for place in 0..3 {
        let (mut system, held) = doubtful();
        let (seen, now) = (stored(&system).clone(), system.now);
        system.probe(&seen, &executed(), now);
        let before = stored(&system).clone();
        let late = endings(&system)[place].clone();
        assert_eq!(system.settle(&held, &late), Settled::Kept(before.expires), "{late:?}");
        assert_eq!(stored(&system), &before, "{late:?}");
    }
    // The late answer was first, between the probe's question and its answer.
    let (mut system, held) = doubtful();
    let seen = stored(&system).clone();
    system.pass(ABSENT_AFTER);
    let late = answered(&system.policy, 201, 1);
    system.settle(&held, &late);
    let (before, now) = (stored(&system).clone(), system.now);
    for finding in [executed(), Finding::Absent] {
        assert_eq!(system.probe(&seen, &finding, now), None, "{finding:?}");
        assert_eq!(stored(&system), &before, "{finding:?}");
    }
}

#[test]
fn an_answer_that_comes_after_its_operation_was_found_absent_is_still_recorded() {
    let (mut system, held) = doubtful();
    system.pass(ABSENT_AFTER);
    let (seen, now) = (stored(&system).clone(), system.now);
    assert_eq!(system.probe(&seen, &Finding::Absent, now), Some(Settled::Released));
    let late = answered(&system.policy, 201, 1);
    assert!(matches!(system.settle(&held, &late), Settled::Kept(_)));
    // Unless somebody else runs by then.
    let (mut system, held) = doubtful();
    system.pass(ABSENT_AFTER);
    let (seen, now) = (stored(&system).clone(), system.now);
    system.probe(&seen, &Finding::Absent, now);
    let second = begin(&mut system, 2);
    assert_eq!(system.settle(&held, &late), Settled::Superseded);
    assert_eq!(system.probe(&seen, &executed(), now), None, "nor has a second prober anything to say");
    assert_eq!(stored(&system), &second);
}

#[test]
fn a_doubt_of_a_further_attempt_is_ended_as_one_of_the_first() {
    for (finding, ends) in [(executed(), true), (Finding::Absent, true), (Finding::Unknown, false)] {
        let (mut system, _) = doubtful();
        // The route repeated doubts for a while.
        system.policy = policy(InDoubt::Retry);
        let second = begin(&mut system, 2);
        assert_eq!(second.number, 2);
        assert_eq!(system.settle(&second, &Ending::NotSent), Settled::Doubted);
        system.policy = policy(asking());
        system.pass(ABSENT_AFTER);
        let (seen, now) = (stored(&system).clone(), system.now);
        assert_eq!(system.probe(&seen, &finding, now).is_some(), ends, "{finding:?}");
    }
}

#[test]
fn it_is_asked_by_schedule_and_once_more_when_absence_counts() {
    let (mut system, _) = doubtful();
    let (doubt, since) = (stored(&system).clone(), system.now);
    let after = |millis: u64| Time(since.0 + millis);
    let schedule = [1_000, 5_000].map(Duration::from_millis);
    let next = |now| next_probe(&doubt, &schedule, &system.policy, now);
    assert_eq!(next(since), Some(after(1_000)));
    assert_eq!(next(after(999)), Some(after(1_000)));
    assert_eq!(next(after(1_000)), Some(after(5_000)));
    assert_eq!(next(after(5_000)), Some(after(ABSENT_AFTER)));
    assert_eq!(next(after(ABSENT_AFTER)), None);
    let long = [1_000, ABSENT_AFTER + 1].map(Duration::from_millis);
    assert_eq!(next_probe(&doubt, &long, &system.policy, after(1_000)), Some(after(ABSENT_AFTER + 1)));
    assert_eq!(next_probe(&doubt, &long, &system.policy, after(ABSENT_AFTER + 1)), None, "the last one tells absence");
    assert_eq!(next_probe(&doubt, &[], &system.policy, since), Some(after(ABSENT_AFTER)));
    system.stored = Some(Record { probe: None, ..doubt });
    assert_eq!(next_probe(stored(&system), &schedule, &system.policy, since), None, "with what question?");
}

#[test]
fn what_a_probe_says_is_a_verdict_on_the_operation() {
    let (system, _) = doubtful();
    let judgement = |finding: &Finding| match probed(stored(&system), finding, &system.policy, Time(u64::MAX)) {
        Some(Ending::Answered { judgement, .. }) => Some(judgement),
        _ => None,
    };
    assert_eq!(judgement(&executed()), Some(Judgement::Keep));
    assert_eq!(judgement(&Finding::Absent), Some(Judgement::Release));
}
