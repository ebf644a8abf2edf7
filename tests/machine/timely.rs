//! Keys that say when they were made: an old one runs nothing twice, however long ago its outcome was forgotten.

use std::sync::Arc;
use std::time::Duration;

use oncegate::machine::{
    Admission, Arrival, AttemptId, Cause, Duplicate, Ending, InDoubt, NamespaceTag, OperationId, Settled, Settling,
    Time, Untimely, Validity, admit, lapse, settle,
};
use proptest::prelude::*;

use super::system::{DOUBT_RETENTION, PLAIN, RETENTION, START, System, Told, answered, policy, salt};
use crate::alike::Alike;

const SKEW: u64 = 30_000;

/// A system whose key says that it was made so long after the start, or before it.
fn dated(made: i64) -> System {
    let mut policy = policy(InDoubt::Hold);
    policy.clock_skew = Some(Duration::from_millis(SKEW));
    policy.doubt_retention = policy.doubt_retention.max(policy.retention + policy.slack());
    let mut system = System::new(policy);
    system.made = START.0.checked_add_signed(made).map(Time);
    system
}

fn millis(span: u64) -> i64 {
    i64::try_from(span).expect("a short span")
}

#[test]
fn a_key_is_taken_while_it_is_neither_too_old_nor_ahead() {
    for (made, told) in [
        (0, None),
        (millis(SKEW), None),
        (millis(SKEW) + 1, Some(Untimely::Early)),
        (-millis(RETENTION + SKEW) + 1, None),
        // The moment in which the outcome of a key that was used as early as it can be is forgotten.
        (-millis(RETENTION + SKEW), Some(Untimely::Expired)),
    ] {
        match (dated(made).admit(PLAIN, 1), told) {
            (Told::Act(_), None) => {}
            (Told::Untimely(untimely), Some(expected)) if untimely == expected => {}
            (other, _) => panic!("{made}: {other:?}"),
        }
    }
    let mut undated = dated(-millis(RETENTION * 9));
    undated.policy.clock_skew = None;
    assert!(matches!(undated.admit(PLAIN, 1), Told::Act(_)), "where keys say nothing, their age is nothing");
}

#[test]
fn a_span_of_validity_counts_only_while_nothing_is_known() {
    let (policy, span) = (policy(InDoubt::Hold), (Time(START.0 + 10), Time(START.0 + 20)));
    let validity = Validity { from: span.0, until: span.1, otherwise: Untimely::Expired };
    let arrival = Arrival::new(OperationId([1; 32]), NamespaceTag(1), salt(), 0, None, Alike::to(1));
    let arrival = arrival.valid_within(validity);
    let at = |offset, found| admit(found, &arrival, &policy, AttemptId([3; 16]), Time(START.0 + offset));
    for outside in [9, 20] {
        assert_eq!(at(outside, None), Admission::Untimely(Untimely::Expired));
    }
    for inside in [10, 19] {
        let Admission::Claim { record, .. } = at(inside, None) else { panic!("refused at {inside}") };
        let later = admit(Some(&Arc::new(record)), &arrival, &policy, AttemptId([4; 16]), span.1);
        assert!(matches!(later, Admission::Duplicate(Duplicate::InFlight { .. })), "{later:?}");
    }
}

/// Routes change, and gateways of other configurations share the store: what was used is not forgotten before its key is
/// refused everywhere.
#[test]
fn a_record_outlives_its_key_whatever_the_route_says_by_then() {
    let mut policy = policy(InDoubt::Hold);
    let end = START.plus(3 * (policy.attempt_timeout + policy.doubt_retention + policy.retention));
    let arrival = Arrival::new(OperationId([1; 32]), NamespaceTag(1), salt(), 0, None, Alike::to(1));
    let arrival = arrival.remembered_until(end).remembered_until(START);
    let Admission::Claim { record: claim, .. } = admit(None, &arrival, &policy, AttemptId([3; 16]), START) else {
        panic!("refused")
    };
    assert_eq!((claim.expires, claim.good_until), (end, Some(end)));
    (policy.retention, policy.doubt_retention) = (Duration::from_secs(1), Duration::from_secs(1));
    let wish = |span: u64| Some(Duration::from_secs(span));
    let done = |retention| match answered(&policy, 201, 1) {
        Ending::Answered { judgement, status, answer, .. } => Ending::Answered { judgement, status, answer, retention },
        other => other,
    };
    let doubt = lapse(&claim, policy.doubt_retention, START.plus(policy.attempt_timeout)).expect("its lease is over");
    assert_eq!(doubt.expires, end);
    for found in [&claim, &doubt] {
        for retention in [None, wish(1)] {
            let settling = settle(&claim, Some(found), &done(retention), &policy, START.plus(policy.attempt_timeout));
            let Settling::Write { record, settled, .. } = settling else { panic!("{settling:?}") };
            assert_eq!((record.expires, settled), (end, Settled::Kept(end)));
        }
    }
    // Whatever is remembered for longer anyway stays so.
    let late = settle(&claim, Some(&claim), &done(None), &policy, end);
    assert!(matches!(late, Settling::Write { record, .. } if record.expires == end.plus(policy.retention)));
}

#[test]
fn what_is_known_of_an_old_key_goes_before_its_age() {
    let mut system = dated(0);
    let Told::Act(held) = system.admit(PLAIN, 1) else { panic!("refused") };
    system.settle(&held, &Ending::Unknown(Cause::Broken));
    system.pass(RETENTION + SKEW + 1);
    const { assert!(RETENTION + SKEW + 1 < DOUBT_RETENTION) };
    assert!(matches!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InDoubt { .. })), "a doubt is remembered longer");
    system.settle(&held, &answered(&system.policy.clone(), 201, 1));
    assert!(matches!(system.admit(PLAIN, 3), Told::Refused(Duplicate::Completed(_))));
    system.pass(RETENTION + 3 * SKEW);
    assert_eq!(system.admit(PLAIN, 4), Told::Untimely(Untimely::Expired));
}

proptest! {
    /// Whenever the key was made and first used, and however the attempt ended: once something may have been done under
    /// it, nothing is ever done under it again.
    #[test]
    fn no_key_runs_twice_at_any_age(
        made in prop_oneof![-millis(SKEW)..millis(2 * SKEW), -millis(RETENTION + 2 * SKEW)..0],
        took in prop_oneof![0..SKEW, 0..RETENTION],
        ending in 0..3,
        step in SKEW / 7..SKEW / 3,
    ) {
        let mut system = dated(made);
        let Told::Act(held) = system.admit(PLAIN, 1) else { return Ok(()) };
        system.pass(took);
        let ending = match ending {
            0 => answered(&system.policy, 201, 1),
            1 => Ending::Unknown(Cause::Broken),
            // Nobody hears of it again.
            _ => Ending::NotSent,
        };
        if !matches!(ending, Ending::NotSent) {
            let settled = system.settle(&held, &ending);
            prop_assert!(matches!(settled, Settled::Kept(_) | Settled::Doubted), "{settled:?}");
        }
        for _ in 0..(2 * DOUBT_RETENTION).div_ceil(step) {
            let told = system.admit(PLAIN, 2);
            prop_assert!(!matches!(told, Told::Act(_)), "{told:?} {} ms after it was made", system.now.0 - START.0);
            system.pass(step);
        }
    }
}
