//! A store that loses records: nothing runs again that this gateway has dispatched, and nothing is held that is free.

use std::sync::Arc;
use std::time::Duration;

use oncegate::arbiter::{Admitted, Renewal, Resolved};
use oncegate::machine::{Cause, Duplicate, Ending, InDoubt, Record, Settled, State};

use crate::ward::{CACHE, LEASE, RETENTION, Ward, answered, arrival, id};
use crate::watched::Fault;

/// So long the gateway takes for granted that the store has what it was heard to have.
const FRESH: Duration = Duration::from_secs(1);
const AMNESIA: &str = "oncegate_store_amnesia_total";

async fn stored(ward: &Ward) -> Record {
    ward.store.look(&id(1)).await.expect("a record")
}

async fn is_forgotten(ward: &Ward) -> bool {
    matches!(stored(ward).await.state, State::InDoubt { cause: Cause::Forgotten, .. })
}

/// What the second gateway says to a request.
async fn elsewhere(ward: &Ward) -> Admitted {
    ward.gateways[1].admit(&arrival(1, 0), &ward.terms).await.unwrap()
}

async fn complete(ward: &Ward) {
    assert!(matches!(ward.permit(1).await.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
}

async fn doubt(ward: &Ward) {
    assert!(ward.permit(1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
}

#[tokio::test]
async fn a_lost_outcome_is_in_doubt_and_so_it_stays() {
    let ward = Ward::new(1, InDoubt::Hold, 0);
    complete(&ward).await;
    ward.store.lose(&id(1)).await;
    for _ in 0..3 {
        assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }));
        assert!(is_forgotten(&ward).await);
    }
    assert_eq!(ward.metric(AMNESIA), 1.0);
    let changed = ward.arbiter().admit(&arrival(1, 5), &ward.terms).await.unwrap();
    assert!(matches!(changed, Admitted::Duplicate(Duplicate::Changed)), "the first request's prints are still known");
    ward.store.lose(&id(1)).await;
    let changed = ward.arbiter().admit(&arrival(1, 5), &ward.terms).await.unwrap();
    assert!(matches!(changed, Admitted::Duplicate(Duplicate::Changed)), "also when it is the first to come");
    assert_eq!(ward.metric(AMNESIA), 2.0);
}

#[tokio::test]
async fn a_lost_outcome_that_is_still_at_hand_is_written_again() {
    let ward = Ward::new(2, InDoubt::Hold, CACHE);
    complete(&ward).await;
    let before = stored(&ward).await;
    ward.store.lose(&id(1)).await;
    // Longer than the cache is believed by itself.
    ward.clock.advance(Duration::from_secs(61));
    let Duplicate::Completed(record) = ward.duplicate(1).await else { panic!("no answer") };
    assert_eq!((&record.state, record.expires), (&before.state, before.expires));
    assert!(matches!(elsewhere(&ward).await, Admitted::Duplicate(Duplicate::Completed(_))));
    assert_eq!(ward.metric(AMNESIA), 1.0);
    ward.clock.advance(RETENTION);
    drop(ward.permit(1).await);
}

#[tokio::test]
async fn a_lost_reservation_of_a_running_attempt_stands_again_and_its_answer_counts() {
    for heartbeat in [false, true] {
        let ward = Ward::new(2, InDoubt::Hold, CACHE);
        let mut permit = ward.permit(1).await;
        ward.store.lose(&id(1)).await;
        if heartbeat {
            assert_eq!(permit.renew().await, Renewal::Held);
        } else {
            ward.clock.advance(FRESH);
            ward.store.calls();
            assert!(matches!(ward.duplicate(1).await, Duplicate::InFlight { .. }));
            assert!(ward.store.calls() > 0, "it has missed the record");
            assert_eq!(permit.renew().await, Renewal::Held, "it recognises its own attempt");
        }
        assert!(matches!(elsewhere(&ward).await, Admitted::Duplicate(Duplicate::InFlight { .. })));
        assert_eq!(ward.metric(AMNESIA), 1.0);
        assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
        assert!(matches!(elsewhere(&ward).await, Admitted::Duplicate(Duplicate::Completed(_))));
    }
}

/// A record written for it could arrive when the attempt has ended, and hold a key that is free.
#[tokio::test]
async fn nothing_is_written_for_an_attempt_that_still_runs_here_but_by_itself() {
    let ward = Ward::plain();
    for ending in [Ending::NotSent, answered(&ward.terms, 422, 9)] {
        let permit = ward.permit(1).await;
        ward.store.lose(&id(1)).await;
        ward.clock.advance(FRESH);
        ward.store.calls();
        assert!(matches!(ward.duplicate(1).await, Duplicate::InFlight { .. }));
        assert!(ward.store.calls() > 0, "it has missed the record");
        assert_eq!(ward.store.look(&id(1)).await, None);
        assert!(permit.settle(ending).await.is_ok());
        assert_eq!(ward.metric(AMNESIA), 0.0);
    }
    assert_eq!(ward.permit(1).await.number(), 1);
}

#[tokio::test]
async fn a_heartbeat_after_the_lease_writes_nothing_again() {
    let ward = Ward::plain();
    let mut permit = ward.permit(1).await;
    ward.clock.advance(LEASE);
    ward.store.lose(&id(1)).await;
    assert_eq!(permit.renew().await, Renewal::Lost);
    assert_eq!(ward.store.look(&id(1)).await, None);
    assert!(permit.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    assert_eq!(ward.metric(AMNESIA), 1.0, "the answer finds that it is not there");
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
}

#[tokio::test]
async fn a_lost_doubt_is_what_the_route_makes_of_doubts() {
    let ward = Ward::plain();
    doubt(&ward).await;
    ward.store.lose(&id(1)).await;
    assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }));
    let ward = Ward::new(1, InDoubt::Retry, CACHE);
    doubt(&ward).await;
    ward.store.lose(&id(1)).await;
    assert_eq!(ward.permit(1).await.number(), 2);
    assert_eq!(ward.metric(AMNESIA), 1.0);
}

/// A key that is good until then may not be forgotten before: also when its record was lost in between.
#[tokio::test]
async fn what_is_written_again_is_remembered_as_long_as_its_key_is_good() {
    let ward = Ward::new(1, InDoubt::Hold, 0);
    let good_until = ward.clock.now().plus(RETENTION * 20);
    let token = || arrival(1, 0).remembered_until(good_until);
    let Admitted::Proceed(permit) = ward.arbiter().admit(&token(), &ward.terms).await.unwrap() else { panic!("free") };
    assert!(permit.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    ward.store.lose(&id(1)).await;
    let told = ward.arbiter().admit(&token(), &ward.terms).await.unwrap();
    assert!(matches!(told, Admitted::Duplicate(Duplicate::InDoubt { .. })) && is_forgotten(&ward).await);
    let (id, found, executed) = (id(1), stored(&ward).await, answered(&ward.terms, 201, 9));
    assert_eq!(found.good_until, Some(good_until));
    let resolved = ward.arbiter().resolve(&id, &found, &executed, &ward.terms).await.unwrap();
    assert_eq!(resolved, Resolved::Done(Settled::Kept(good_until)));
}

#[tokio::test]
async fn what_ended_here_is_free() {
    let ward = Ward::new(2, InDoubt::Hold, CACHE);
    assert!(ward.permit(1).await.settle(answered(&ward.terms, 422, 9)).await.is_ok());
    assert!(ward.permit(1).await.settle(Ending::NotSent).await.is_ok());
    complete(&ward).await;
    ward.clock.advance(RETENTION);
    assert!(ward.permit(1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok(), "its retention is over");
    ward.clock.advance(RETENTION * 6);
    drop(ward.permit(1).await);
    assert_eq!(ward.metric(AMNESIA), 0.0);
}

#[tokio::test]
async fn what_an_operator_frees_elsewhere_is_free() {
    let ward = Ward::new(2, InDoubt::Hold, CACHE);
    for _ in 0..2 {
        doubt(&ward).await;
        let (found, other) = (stored(&ward).await, &ward.gateways[1]);
        let resolved = other.resolve(&id(1), &found, &Ending::NotSent, &ward.terms).await.unwrap();
        assert_eq!(resolved, Resolved::Done(Settled::NotSent));
        // Or it would be one of the same moment.
        ward.clock.advance(Duration::from_millis(1));
    }
    let permit = ward.permit(1).await;
    assert_eq!((permit.number(), ward.metric(AMNESIA)), (1, 0.0));
    // An older word excuses no later loss.
    ward.clock.advance(Duration::from_millis(1));
    assert!(permit.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    ward.store.lose(&id(1)).await;
    assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }));
    assert_eq!(ward.metric(AMNESIA), 1.0);
}

#[tokio::test]
async fn what_a_further_attempt_elsewhere_ends_is_free() {
    for status in [201, 422] {
        let ward = Ward::new(2, InDoubt::Retry, CACHE);
        doubt(&ward).await;
        let Admitted::Proceed(second) = elsewhere(&ward).await else { panic!("it may run") };
        assert!(second.settle(answered(&ward.terms, status, 9)).await.is_ok());
        // Its outcome expires before the first attempt's doubt would have.
        ward.clock.advance(RETENTION);
        assert_eq!(ward.permit(1).await.number(), 1);
        assert_eq!(ward.metric(AMNESIA), 0.0);
    }
}

#[tokio::test]
async fn a_loss_in_the_midst_of_two_equal_claims_lets_one_run() {
    let ward = Ward::plain();
    let first = ward.permit(1).await;
    ward.store.lose(&id(1)).await;
    ward.clock.advance(FRESH);
    ward.store.calls();
    let (arbiter, terms) = (Arc::clone(ward.arbiter()), ward.terms.clone());
    let both = tokio::join!(async { arbiter.admit(&arrival(1, 0), &terms).await.unwrap() }, async {
        arbiter.admit(&arrival(1, 0), &terms).await.unwrap()
    });
    assert!(ward.store.calls() >= 4, "each has looked, and then claimed");
    for told in [both.0, both.1] {
        assert!(matches!(told, Admitted::Duplicate(Duplicate::InFlight { .. })));
    }
    assert!(first.settle(answered(&ward.terms, 201, 9)).await.is_ok());
}

/// A doubt that is freed here, by a gateway that is alone and so leaves no note.
#[tokio::test]
async fn a_doubt_that_is_just_being_freed_is_not_taken_for_lost() {
    let folder = tempfile::tempdir().unwrap();
    for fault in [Fault::Hangs, Fault::Slow] {
        let ward = Ward::alone(&folder.path().join(format!("{fault:?}")), InDoubt::Hold);
        doubt(&ward).await;
        let (found, id) = (stored(&ward).await, id(1));
        let (arbiter, terms) = (Arc::clone(ward.arbiter()), ward.terms.clone());
        ward.store.fail([fault]);
        let request = async move { arbiter.admit(&arrival(1, 0), &terms).await.unwrap() };
        let mut freed = Box::pin(ward.arbiter().resolve(&id, &found, &Ending::NotSent, &ward.terms));
        let told = if fault == Fault::Hangs {
            // The removal is carried out, and its reply is on its way.
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut freed).await.is_err());
            request.await
        } else {
            // The request's write is on its way, and comes when the key is free. It has not looked before.
            ward.arbiter().shared().filter.clear();
            let request = tokio::spawn(request);
            tokio::task::yield_now().await;
            assert_eq!(freed.await.unwrap(), Resolved::Done(Settled::NotSent));
            ward.store.go_on();
            request.await.unwrap()
        };
        assert!(matches!(told, Admitted::Proceed(_)), "{fault:?}");
        assert_eq!(ward.metric(AMNESIA), 0.0);
    }
}

#[tokio::test]
async fn a_further_attempts_claim_that_was_sent_twice_is_no_loss() {
    let ward = Ward::new(1, InDoubt::Retry, CACHE);
    doubt(&ward).await;
    ward.store.fail([Fault::Twice]);
    assert_eq!(ward.permit(1).await.number(), 2);
    assert_eq!(ward.metric(AMNESIA), 0.0);
}
