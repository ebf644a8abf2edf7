//! The cases that matter most, each by name.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncegate::machine::{
    Admission, Answer, Cause, Duplicate, Ending, Expect, HandOver, InDoubt, Judgement, Probe, Record, Settled,
    Settling, State, Time, admit, asked_by, hand_over, lapse, recall, renew, settle,
};

use super::system::{
    ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, Look, PLAIN, RETENTION, START, System, Told, answer, answered, arrival,
    attempt, policy,
};

const CHANGED: Look = Look { raw: 9, canonical: 9, ..PLAIN };
const BROKEN: Ending = Ending::Unknown(Cause::Broken);

fn hold() -> System {
    System::new(policy(InDoubt::Hold))
}

fn retry() -> System {
    System::new(policy(InDoubt::Retry))
}

/// Lets an attempt through; panics when the rules refuse it.
fn begin(system: &mut System, name: u8) -> Record {
    match system.admit(PLAIN, name) {
        Told::Act(record) => record,
        told => panic!("refused: {told:?}"),
    }
}

fn stored(system: &System) -> &Record {
    system.stored.as_ref().expect("there is a record")
}

fn kept(system: &System, name: u8) -> Ending {
    answered(&system.policy, 201, name)
}

/// A system whose first attempt, named 1, is in doubt.
fn doubtful(mut system: System) -> (System, Record) {
    let held = begin(&mut system, 1);
    assert_eq!(system.settle(&held, &BROKEN), Settled::Doubted);
    (system, held)
}

#[test]
fn a_claim_whose_reply_was_lost_is_recognised() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    assert_eq!(system.admit(PLAIN, 1), Told::Act(held), "the same name asks again");
    assert!(matches!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InFlight { since: START })));
}

#[test]
fn an_own_claim_that_has_lapsed_gives_no_right_to_act() {
    let mut system = hold();
    begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    assert_eq!(system.admit(PLAIN, 1), Told::Refused(Duplicate::InDoubt { since: system.now }));
}

#[test]
fn a_first_attempt_that_was_not_sent_frees_the_key() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    assert_eq!(system.settle(&held, &Ending::NotSent), Settled::NotSent);
    assert_eq!(system.stored, None);
}

#[test]
fn a_first_attempt_that_was_not_sent_frees_the_key_even_after_its_lease() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    assert_eq!(system.settle(&held, &Ending::NotSent), Settled::NotSent);
    assert_eq!(system.stored, None);
}

#[test]
fn a_second_attempt_that_was_not_sent_goes_back_to_doubt() {
    let (mut system, _) = doubtful(retry());
    let second = begin(&mut system, 2);
    assert_eq!(second.number, 2);
    assert_eq!(system.settle(&second, &Ending::NotSent), Settled::Doubted);
    assert_eq!(stored(&system).state, State::InDoubt { since: START, cause: Cause::RetryNotSent });
}

#[test]
fn a_released_second_attempt_speaks_for_the_operation() {
    let (mut system, _) = doubtful(retry());
    let second = begin(&mut system, 2);
    let refused = answered(&system.policy, 422, 2);
    assert_eq!(system.settle(&second, &refused), Settled::Released);
    assert_eq!(system.stored, None);
}

#[test]
fn a_late_answer_of_the_same_attempt_completes_a_doubt() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    let late = kept(&system, 1);
    let until = system.now.plus(system.policy.retention);
    assert_eq!(system.settle(&held, &late), Settled::Kept(until));
    let Told::Refused(Duplicate::Completed(record)) = system.admit(PLAIN, 2) else { panic!("not completed") };
    assert_eq!(record.state, State::Completed { at: system.now, answer: answer(1) });
}

#[test]
fn a_late_answer_that_releases_ends_a_doubt() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    let refused = answered(&system.policy, 422, 1);
    assert_eq!(system.settle(&held, &refused), Settled::Released);
    assert_eq!(system.stored, None);
}

#[test]
fn an_old_attempt_never_changes_a_newer_record() {
    let (mut system, first) = doubtful(retry());
    begin(&mut system, 2);
    let before = system.stored.clone();
    let endings = [kept(&system, 1), answered(&system.policy, 422, 1), Ending::NotSent, BROKEN];
    for ending in endings {
        assert_eq!(system.settle(&first, &ending), Settled::Superseded, "{ending:?}");
        assert_eq!(system.stored, before, "{ending:?}");
    }
    assert_eq!(system.renew(&first), None, "nor does its heartbeat");
}

#[test]
fn a_recorded_outcome_stays_as_it_is() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    let before = system.stored.clone();
    let until = Time(START.0 + RETENTION);
    for again in [ending, answered(&system.policy, 422, 1), Ending::NotSent, BROKEN] {
        assert_eq!(system.settle(&held, &again), Settled::Kept(until), "{again:?}");
        assert_eq!(system.stored, before, "{again:?}");
    }
}

#[test]
fn a_claim_expires_after_timeout_and_doubt_and_never_with_its_lease() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let expires = Time(START.0 + ATTEMPT_TIMEOUT + DOUBT_RETENTION);
    assert_eq!(held.expires, expires);
    assert!(matches!(held.state, State::InFlight { lease, .. } if lease == Time(START.0 + LEASE)));
    system.pass(LEASE - 1);
    let renewed = system.renew(&held).expect("the attempt is running");
    assert_eq!(renewed.expires, expires, "renewing moves the lease alone");
    assert!(
        matches!(renewed.state, State::InFlight { since: START, lease } if lease == system.now.plus(system.policy.lease))
    );
    system.pass(LEASE);
    let late = system.renew(&renewed).expect("nobody has lapsed it");
    assert_eq!(late.expires, expires, "also when the lease had ended: an attempt begins in time or not at all");
}

#[test]
fn retention_counts_from_completion() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE - 1);
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    assert_eq!(stored(&system).expires, system.now.plus(system.policy.retention));
}

#[test]
fn a_changed_request_is_told_so_before_anything_else() {
    for in_doubt in [InDoubt::Hold, InDoubt::Retry] {
        let mut system = System::new(policy(in_doubt));
        let held = begin(&mut system, 1);
        assert_eq!(system.admit(CHANGED, 2), Told::Refused(Duplicate::Changed), "in flight");
        system.pass(LEASE);
        assert_eq!(system.admit(CHANGED, 2), Told::Refused(Duplicate::Changed), "lapsed");
        assert!(system.lapse());
        assert_eq!(system.admit(CHANGED, 2), Told::Refused(Duplicate::Changed), "in doubt");
        let ending = kept(&system, 1);
        system.settle(&held, &ending);
        assert_eq!(system.admit(CHANGED, 2), Told::Refused(Duplicate::Changed), "completed");
    }
}

#[test]
fn without_comparing_a_changed_request_is_a_duplicate() {
    let mut system = hold();
    system.policy.compare = false;
    begin(&mut system, 1);
    assert!(matches!(system.admit(CHANGED, 2), Told::Refused(Duplicate::InFlight { .. })));
}

#[test]
fn an_equal_request_in_other_bytes_is_a_retry() {
    let mut system = hold();
    begin(&mut system, 1);
    let told = system.admit(Look { raw: 9, ..PLAIN }, 2);
    assert!(matches!(told, Told::Refused(Duplicate::InFlight { .. })));
}

#[test]
fn after_a_change_of_settings_only_the_raw_print_tells() {
    let mut system = hold();
    begin(&mut system, 1);
    let told = system.admit(Look { settings: 2, ..PLAIN }, 2);
    assert!(matches!(told, Told::Refused(Duplicate::InFlight { .. })), "the same bytes");
    let told = system.admit(Look { raw: 9, settings: 2, ..PLAIN }, 2);
    assert_eq!(told, Told::Refused(Duplicate::Unsure), "an equal canonical digest means nothing now");
}

#[test]
fn a_stranger_sees_no_replay_and_a_proven_caller_does() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    let told = |system: &mut System, caller| system.admit(Look { caller, ..PLAIN }, 2);
    assert!(matches!(told(&mut system, PLAIN.caller), Told::Refused(Duplicate::Completed(_))), "the same caller");
    assert!(matches!(told(&mut system, Some(2)), Told::Refused(Duplicate::Stranger(_))), "other credentials");
    assert!(matches!(told(&mut system, None), Told::Refused(Duplicate::Completed(_))), "the scope is the proof");
}

#[test]
fn where_nothing_is_replayed_there_are_no_strangers() {
    let mut system = hold();
    system.policy.replays = false;
    let held = begin(&mut system, 1);
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    let told = system.admit(Look { caller: Some(2), ..PLAIN }, 2);
    assert!(matches!(told, Told::Refused(Duplicate::Completed(_))), "{told:?}");
}

#[test]
fn credentials_asked_for_only_now_cannot_match() {
    let mut system = hold();
    let Told::Act(held) = system.admit(Look { caller: None, ..PLAIN }, 1) else { panic!("refused") };
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    assert!(matches!(system.admit(PLAIN, 2), Told::Refused(Duplicate::Stranger(_))));
}

#[test]
fn a_doubt_never_shortens_what_was_promised() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.policy.doubt_retention /= 10;
    system.settle(&held, &BROKEN);
    assert_eq!(stored(&system).expires, held.expires);
}

#[test]
fn a_late_doubt_is_remembered_for_its_own_time() {
    let mut system = hold();
    begin(&mut system, 1);
    system.pass(ATTEMPT_TIMEOUT + 5_000);
    assert!(system.lapse());
    assert_eq!(stored(&system).expires, system.now.plus(system.policy.doubt_retention));
}

#[test]
fn a_further_attempt_never_shortens_what_was_promised() {
    let (mut system, _) = doubtful(retry());
    let promised = stored(&system).expires;
    system.policy.doubt_retention /= 10;
    let second = begin(&mut system, 2);
    assert!(second.expires >= promised, "{:?} is before {promised:?}", second.expires);
}

/// A failover loses a renewal; the attempt ends over the older record, with another renewal still on its way.
#[test]
fn a_renewal_that_still_travels_undoes_no_outcome() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let renewed = system.renew(&held).expect("it runs");
    let travels = renew(&renewed, &system.policy, system.now).expect("it runs");
    system.stored = Some(held);
    let ending = kept(&system, 1);
    assert!(matches!(system.settle(&renewed, &ending), Settled::Kept(_)));
    assert!(!system.write(Expect::Fence(renewed.fence), travels), "it fits the outcome: {:?}", system.stored);
}

/// The reply to a claim over a doubt is lost, the claim lapses, and the same name asks again.
#[test]
fn a_claim_over_a_doubt_of_its_own_name_gets_a_fence_of_its_own() {
    let (mut system, _) = doubtful(retry());
    let lost = begin(&mut system, 2);
    system.pass(LEASE);
    assert!(system.lapse());
    let again = begin(&mut system, 2);
    assert_ne!(again.fence, lost.fence, "a late write that names the lost claim would fit the new one");
}

/// The doubt that the attempt left was removed by an operator; its late answer is written anew.
#[test]
fn a_record_written_anew_gets_a_fence_of_its_own() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE);
    assert!(system.lapse());
    let removed = system.stored.take().expect("in doubt");
    let late = kept(&system, 1);
    system.settle(&held, &late);
    assert_ne!(stored(&system).fence, removed.fence, "a second removal of the doubt would remove the outcome");
}

#[test]
fn what_the_store_has_lost_is_written_again() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.stored = None;
    let ending = kept(&system, 1);
    assert!(matches!(system.settle(&held, &ending), Settled::Kept(_)));
    system.stored = None;
    assert_eq!(system.settle(&held, &BROKEN), Settled::Doubted);
    assert!(matches!(stored(&system).state, State::InDoubt { cause: Cause::Broken, .. }));
}

#[test]
fn what_frees_the_key_asks_nothing_of_a_store_that_has_lost_it() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let released = answered(&system.policy, 422, 1);
    let settling = |ending: &Ending| settle(&held, None, ending, &system.policy, START);
    assert_eq!(settling(&released), Settling::Done(Settled::Released));
    assert_eq!(settling(&Ending::NotSent), Settling::Done(Settled::NotSent));
}

#[test]
fn a_lease_lapses_at_its_end_and_no_sooner() {
    let mut system = hold();
    begin(&mut system, 1);
    system.pass(LEASE - 1);
    assert!(matches!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InFlight { .. })));
    system.pass(1);
    assert_eq!(system.admit(PLAIN, 3), Told::Refused(Duplicate::InDoubt { since: system.now }));
    assert_eq!(stored(&system).state, State::InDoubt { since: system.now, cause: Cause::LeaseLost });
    assert_eq!(lapse(stored(&system), system.policy.doubt_retention, system.now), None, "once is enough");
}

#[test]
fn under_retry_a_lapse_is_written_before_the_next_attempt() {
    let mut system = retry();
    let first = begin(&mut system, 1);
    system.pass(LEASE);
    let admission = admit(Some(&Arc::new(first.clone())), &arrival(PLAIN), &system.policy, attempt(2), system.now);
    let Admission::Lapse { expect: Expect::Fence(fence), record } = admission else { panic!("{admission:?}") };
    assert_eq!((fence, record.fence.attempt), (first.fence, first.fence.attempt));
    assert_eq!(begin(&mut system, 2).number, 2);
}

#[test]
fn only_a_running_attempt_is_renewed() {
    let (system, _) = doubtful(hold());
    assert_eq!(renew(stored(&system), &system.policy, system.now), None);
    let mut system = hold();
    let held = begin(&mut system, 1);
    let ending = kept(&system, 1);
    system.settle(&held, &ending);
    assert_eq!(renew(stored(&system), &system.policy, system.now), None);
}

#[test]
fn an_answer_too_large_to_keep_is_an_outcome() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let Ending::Answered { judgement, status, .. } = kept(&system, 1) else { panic!("not answered") };
    let tombstone = Answer::TooLarge { status, location: None };
    let ending = Ending::Answered { judgement, status, answer: tombstone.clone(), retention: None };
    assert!(matches!(system.settle(&held, &ending), Settled::Kept(_)));
    assert!(matches!(&stored(&system).state, State::Completed { answer, .. } if *answer == tombstone));
}

#[test]
fn a_lost_record_of_a_running_attempt_runs_on_under_its_name() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(LEASE);
    let again = recall(&held, Some(system.policy.lease), system.policy.doubt_retention, system.now);
    assert_eq!(again.state, State::InFlight { since: START, lease: system.now.plus(system.policy.lease) });
    assert_eq!(again.fence.attempt, held.fence.attempt);
    assert!(again.fence.version > held.fence.version + 1_000, "no late write to the lost record fits");
    assert_eq!((again.expires, again.prints), (held.expires, held.prints));
    system.stored = Some(again);
    let ending = kept(&system, 7);
    assert!(matches!(system.settle(&held, &ending), Settled::Kept(_)), "its own answer does");
}

#[test]
fn a_lost_record_of_an_attempt_that_is_gone_is_a_doubt_that_its_late_answer_ends() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    system.pass(ATTEMPT_TIMEOUT);
    let doubt = recall(&held, None, system.policy.doubt_retention, system.now);
    assert_eq!(doubt.state, State::InDoubt { since: system.now, cause: Cause::Forgotten });
    assert!(doubt.expires >= system.now.plus(system.policy.doubt_retention) && doubt.expires >= held.expires);
    system.stored = Some(doubt);
    assert_eq!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InDoubt { since: system.now }));
    assert_eq!(system.admit(CHANGED, 3), Told::Refused(Duplicate::Changed));
    let ending = kept(&system, 7);
    assert!(matches!(system.settle(&held, &ending), Settled::Kept(_)));
}

#[test]
fn a_lost_outcome_that_is_still_known_is_that_outcome() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let ending = kept(&system, 7);
    system.settle(&held, &ending);
    let completed = stored(&system).clone();
    let again = recall(&completed, None, system.policy.doubt_retention, system.now);
    assert_eq!((&again.state, again.expires), (&completed.state, completed.expires));
    assert!(again.fence.version > completed.fence.version);
}

/// A late write names the kind of state that it was meant for: however often an outcome is written again, it never gets
/// a fence that a running attempt or a doubt may have had.
#[test]
fn what_is_written_again_stays_among_its_own_kind() {
    const SERIES: u32 = 1 << 16;
    let mut system = hold();
    let held = begin(&mut system, 1);
    let ending = kept(&system, 7);
    system.settle(&held, &ending);
    let mut record = stored(&system).clone();
    for _ in 0..5 {
        assert_eq!(record.fence.version / SERIES % 3, 2);
        record = recall(&record, None, system.policy.doubt_retention, system.now);
    }
    let again = recall(&held, Some(system.policy.lease), system.policy.doubt_retention, system.now);
    assert_eq!(again.fence.version / SERIES % 3, 0);
}

/// What is kept is not known; what the store holds is a claim of another name, which may yet be withdrawn.
#[test]
fn a_kept_doubt_outlives_a_claim_that_nobody_acts_on() {
    let (system, _) = doubtful(hold());
    let kept = stored(&system).clone();
    let mut other = hold();
    let claim = begin(&mut other, 2);
    let later = system.now.plus(Duration::from_millis(1));
    assert_eq!(hand_over(&kept, Some(&claim), later), HandOver::Wait);
    assert_eq!(hand_over(&kept, Some(&Record { fence: kept.fence, ..claim }), later), HandOver::Done, "its own");
    assert_eq!(hand_over(&kept, Some(&kept), later), HandOver::Done);
    let HandOver::Write { expect: Expect::Absent, record } = hand_over(&kept, None, later) else { panic!("lost") };
    assert_eq!(record, kept);
}

#[test]
fn a_kept_attempt_is_not_handed_over_before_its_lease_has_ended() {
    let mut system = hold();
    let kept = begin(&mut system, 1);
    assert_eq!(hand_over(&kept, None, system.now), HandOver::Wait);
    system.pass(LEASE);
    assert!(matches!(hand_over(&kept, None, system.now), HandOver::Write { expect: Expect::Absent, .. }));
}

#[test]
fn an_outcome_may_say_how_long_it_is_remembered_within_bounds() {
    for (wish, millis) in [(0, 1_000), (90, 90_000), (DOUBT_RETENTION, DOUBT_RETENTION)] {
        let mut system = hold();
        let held = begin(&mut system, 1);
        let Ending::Answered { judgement, status, answer, .. } = kept(&system, 1) else { panic!("not answered") };
        let ending = Ending::Answered { judgement, status, answer, retention: Some(Duration::from_secs(wish)) };
        let kept_until = Time(system.now.0 + millis);
        assert_eq!(system.settle(&held, &ending), Settled::Kept(kept_until), "{wish}");
        assert_eq!(stored(&system).expires, kept_until);
    }
}

#[test]
fn a_doubt_is_remembered_as_long_as_any_whatever_the_answer_says() {
    let mut system = hold();
    let held = begin(&mut system, 1);
    let judgement = Judgement::Doubt;
    let ending =
        Ending::Answered { judgement, status: 200, answer: answer(1), retention: Some(Duration::from_secs(1)) };
    assert_eq!(system.settle(&held, &ending), Settled::Doubted);
    assert!(stored(&system).expires >= Time(system.now.0 + DOUBT_RETENTION));
}

#[test]
fn an_equal_requests_question_stands_in_for_the_one_that_was_lost_with_the_record() {
    let question = || Some(Box::new(Probe { target: Bytes::from_static(b"/orders?ref=k"), headers: Vec::new() }));
    let lost = begin(&mut hold(), 1);
    let other_settings = Look { settings: 2, ..PLAIN };
    for (look, expected) in [
        (PLAIN, question()),
        (Look { raw: 9, ..PLAIN }, question()),
        (CHANGED, None),
        // Who can read the store may find bytes that have the same keyed hash.
        (Look { canonical: 9, ..PLAIN }, None),
        // The bytes tell, whatever the settings; where they differ, nobody can tell.
        (other_settings, question()),
        (Look { raw: 9, ..other_settings }, None),
    ] {
        let later = arrival(look).with_probe(question().map(|question| *question));
        assert_eq!(asked_by(lost.clone(), &later).probe, expected, "{look:?}");
    }
}
