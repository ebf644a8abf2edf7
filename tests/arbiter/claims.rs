//! Claims whose reply was lost: nothing was sent for them, so they must not stand in anybody's way.

use std::time::Duration;

use oncegate::machine::{Cause, Duplicate, Ending, InDoubt, State};

use crate::ward::{CACHE, Ward, answered, id};
use crate::watched::Fault;

/// One step of what the gateway does in the background.
async fn withdraw(ward: &Ward) {
    ward.arbiter().shared().unconfirmed.withdraw(ward.arbiter()).await.unwrap();
}

fn remembered(ward: &Ward) -> usize {
    ward.arbiter().shared().unconfirmed.len()
}

#[tokio::test]
async fn a_claim_without_a_reply_is_withdrawn_in_the_background() {
    let ward = Ward::plain();
    ward.store.fail([Fault::ReplyLost]);
    assert!(ward.admit(1).await.is_err());
    assert!(ward.store.look(&id(1)).await.is_some(), "it was carried out");
    assert_eq!(remembered(&ward), 1);
    withdraw(&ward).await;
    assert_eq!((ward.store.look(&id(1)).await, remembered(&ward)), (None, 0));
    assert_eq!(ward.permit(1).await.number(), 1);
}

#[tokio::test]
async fn a_request_that_meets_such_a_claim_withdraws_it_and_runs() {
    let ward = Ward::plain();
    ward.store.fail([Fault::ReplyLost]);
    assert!(ward.admit(1).await.is_err());
    let permit = ward.permit(1).await;
    assert!(permit.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    withdraw(&ward).await;
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)), "the newer attempt's record stays");
}

#[tokio::test]
async fn a_client_that_leaves_during_its_claim_leaves_the_key_free() {
    let ward = Ward::plain();
    ward.store.fail([Fault::Hangs]);
    assert!(tokio::time::timeout(Duration::from_millis(20), ward.admit(1)).await.is_err());
    assert!(ward.store.look(&id(1)).await.is_some(), "it was carried out");
    withdraw(&ward).await;
    assert_eq!(ward.store.look(&id(1)).await, None);
}

#[tokio::test]
async fn a_claim_that_arrives_after_its_withdrawal_is_withdrawn_again() {
    let ward = Ward::plain();
    ward.store.fail([Fault::Late]);
    assert!(ward.admit(1).await.is_err());
    withdraw(&ward).await;
    assert_eq!(remembered(&ward), 1, "not there may mean not there yet");
    ward.store.arrive().await;
    assert!(ward.store.look(&id(1)).await.is_some());
    withdraw(&ward).await;
    assert_eq!((ward.store.look(&id(1)).await, remembered(&ward)), (None, 0));
}

#[tokio::test]
async fn a_claim_that_never_arrives_is_forgotten_in_the_end() {
    let ward = Ward::plain();
    ward.store.fail([Fault::Refused]);
    assert!(ward.admit(1).await.is_err());
    withdraw(&ward).await;
    assert_eq!(remembered(&ward), 1);
    ward.clock.advance(Duration::from_secs(61));
    withdraw(&ward).await;
    assert_eq!(remembered(&ward), 0);
}

#[tokio::test]
async fn a_withdrawn_second_attempt_leaves_the_doubt_that_it_claimed() {
    let ward = Ward::new(1, InDoubt::Retry, CACHE);
    assert!(ward.permit(1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    // The first write finds the doubt, the second one claims it.
    ward.store.fail([Fault::None, Fault::ReplyLost]);
    assert!(ward.admit(1).await.is_err());
    let claimed = ward.store.look(&id(1)).await.unwrap();
    assert!(claimed.number == 2 && matches!(claimed.state, State::InFlight { .. }));
    withdraw(&ward).await;
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::InDoubt { .. }));
    assert_eq!(ward.permit(1).await.number(), 3);
}

#[tokio::test]
async fn claims_that_never_arrived_do_not_hold_up_those_that_did() {
    let ward = Ward::plain();
    // The store is away for a while: requests by the thousand, of which hardly one reaches it.
    for turn in 0..3_000_usize {
        let arrived = turn % 1_000 == 500;
        ward.store.fail([if arrived { Fault::ReplyLost } else { Fault::Refused }]);
        let key = if arrived { u8::try_from(turn / 1_000).unwrap() } else { 200 };
        assert!(ward.admit(key).await.is_err());
    }
    assert_eq!(remembered(&ward), 3_000);
    let mut steps = 0;
    for key in 0..3 {
        while ward.store.look(&id(key)).await.is_some() {
            withdraw(&ward).await;
            steps += 1;
            assert!(steps < 20, "still claimed after {steps} steps");
        }
    }
}
