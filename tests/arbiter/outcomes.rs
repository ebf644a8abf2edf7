//! Outcomes that the store did not take: they wait, are written once it is back, and are known to duplicates before.

use oncegate::arbiter::Unsettled;
use oncegate::machine::{Cause, Duplicate, Ending, InDoubt, Settled, State};
use tokio::task::JoinHandle;

use crate::ward::{LEASE, Ward, answered, id};
use crate::watched::Fault;

const WAITING: &str = "oncegate_outcomes_waiting";
const GIVEN_UP: &str = "oncegate_outcomes_given_up_total";

/// An attempt that has ended while the store was away.
async fn unsettled(ward: &Ward, key: u8, ending: Ending, fault: Fault) -> Unsettled {
    let permit = ward.permit(key).await;
    ward.store.fail([fault]);
    let Err(unsettled) = permit.settle(ending).await else { panic!("the store failed") };
    unsettled
}

/// The same, waiting in a task of its own.
async fn waiting(ward: &Ward, fault: Fault) -> JoinHandle<Settled> {
    let unsettled = unsettled(ward, 1, answered(&ward.terms, 201, 9), fault).await;
    let task = tokio::spawn(unsettled.persist());
    while ward.metric(WAITING) < 1.0 {
        tokio::task::yield_now().await;
    }
    task
}

/// One step of what the gateway does in the background.
async fn write(ward: &Ward) -> bool {
    ward.arbiter().shared().outcomes.write(ward.arbiter()).await.is_ok()
}

#[tokio::test]
async fn an_outcome_is_written_when_the_store_is_back() {
    for fault in [Fault::Refused, Fault::ReplyLost] {
        let ward = Ward::plain();
        let task = waiting(&ward, fault).await;
        ward.store.fail([fault]);
        assert!(!write(&ward).await || fault == Fault::ReplyLost, "the store is still away");
        assert!(write(&ward).await);
        assert!(matches!(task.await.unwrap(), Settled::Kept(_)));
        assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
        assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
        assert_eq!((ward.metric(WAITING), ward.metric(GIVEN_UP)), (0.0, 0.0));
    }
}

#[tokio::test]
async fn a_duplicate_that_comes_first_has_the_outcome_written_and_gets_it() {
    for lapsed in [false, true] {
        let ward = Ward::new(1, InDoubt::Hold, 0);
        let task = waiting(&ward, Fault::Refused).await;
        if lapsed {
            ward.clock.advance(LEASE);
        }
        assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)), "not in flight, not in doubt");
        assert!(matches!(task.await.unwrap(), Settled::Kept(_)));
        assert_eq!(ward.metric("oncegate_lease_lost_total"), 0.0);
    }
}

#[tokio::test]
async fn an_outcome_whose_record_the_store_has_lost_meanwhile_is_written_all_the_same() {
    let ward = Ward::new(1, InDoubt::Hold, 0);
    let task = waiting(&ward, Fault::Refused).await;
    ward.store.lose(&id(1)).await;
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
    assert!(matches!(task.await.unwrap(), Settled::Kept(_)));
    assert_eq!(ward.metric("oncegate_store_amnesia_total"), 1.0);
}

#[tokio::test]
async fn a_doubt_that_was_made_of_it_meanwhile_is_ended_by_it() {
    let ward = Ward::new(2, InDoubt::Hold, 0);
    let task = waiting(&ward, Fault::Refused).await;
    ward.clock.advance(LEASE);
    let other = ward.gateways[1].admit(&crate::ward::arrival(1, 0), &ward.terms).await;
    assert!(matches!(other, Ok(oncegate::arbiter::Admitted::Duplicate(Duplicate::InDoubt { .. }))));
    assert!(write(&ward).await);
    assert!(matches!(task.await.unwrap(), Settled::Kept(_)));
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
}

#[tokio::test]
async fn beyond_its_bound_an_outcome_is_given_up_and_its_lease_ends_in_doubt() {
    let ward = Ward::plain();
    let mut tasks = Vec::new();
    for key in 1..=10 {
        let ending = Ending::Unknown(Cause::Broken);
        tasks.push(tokio::spawn(unsettled(&ward, key, ending, Fault::Refused).await.persist()));
    }
    while ward.metric(WAITING) < 10.0 {
        tokio::task::yield_now().await;
    }
    let late = unsettled(&ward, 11, answered(&ward.terms, 201, 9), Fault::Refused).await;
    assert_eq!(late.persist().await, Settled::Doubted);
    assert_eq!(ward.metric(GIVEN_UP), 1.0);
    ward.clock.advance(LEASE);
    assert!(matches!(ward.duplicate(11).await, Duplicate::InDoubt { .. }));
    assert!(write(&ward).await);
    for task in tasks {
        assert_eq!(task.await.unwrap(), Settled::Doubted);
    }
    assert_eq!(ward.metric(WAITING), 0.0);
}

#[tokio::test]
async fn a_gateway_that_has_no_time_left_gives_it_up() {
    let ward = Ward::plain();
    let task = waiting(&ward, Fault::Refused).await;
    ward.arbiter().shared().give_up();
    assert_eq!(task.await.unwrap(), Settled::Doubted);
    assert_eq!((ward.metric(WAITING), ward.metric(GIVEN_UP)), (0.0, 1.0));
}
