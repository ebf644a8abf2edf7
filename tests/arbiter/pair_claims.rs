//! What can become of the two claims of a pair: the first one's answer is lost or late, or the store goes away before,
//! between or after them. Whatever it is, nothing was sent, and both keys are free as soon as the store is back.

use std::sync::Arc;
use std::time::Duration;

use oncegate::arbiter::Admitted;
use oncegate::machine::{Cause, Duplicate, Ending, InDoubt, Settled};

use crate::pair::{acts, ask, both, states, sweep, ward};
use crate::ward::{LEASE, Ward, answered};
use crate::watched::Fault;

const FREE: (&str, &str) = ("absent", "absent");
const HUNG: Duration = Duration::from_millis(20);

/// One step of what the gateway does in the background.
async fn upkeep(ward: &Ward) {
    let shared = ward.arbiter().shared();
    shared.unconfirmed.withdraw(ward.arbiter()).await.unwrap();
    shared.outcomes.write(ward.arbiter()).await.unwrap();
    // Whoever has freed one is told in a task of its own.
    ward.settled().await;
}

async fn runs_and_is_kept(ward: &Ward, key: u8, number: u8) {
    let permit = acts(ward, key, number).await;
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    assert_eq!(states(ward, key, number).await, ("completed", "completed"));
}

#[tokio::test]
async fn a_first_claim_without_an_answer_claims_no_second_and_is_withdrawn() {
    for fault in [Fault::Hangs, Fault::ReplyLost, Fault::Refused, Fault::Late] {
        let ward = ward(2, InDoubt::Hold);
        ward.store.fail([fault]);
        let arrival = both(1, 1);
        let asked = ward.arbiter().admit(&arrival, &ward.terms);
        assert!(!matches!(tokio::time::timeout(HUNG, asked).await, Ok(Ok(_))), "{fault:?}");
        assert_eq!(ward.store.calls(), 1, "{fault:?}: the second is not even asked for");
        ward.store.arrive().await;
        let first = if fault == Fault::Refused { "absent" } else { "in flight" };
        assert_eq!(states(&ward, 1, 1).await, (first, "absent"), "{fault:?}");
        let elsewhere = ask(&ward, &ward.gateways[1], 2, 1).await;
        let Admitted::Proceed(other) = elsewhere else { panic!("{fault:?}: the order is free for another key") };
        assert!(other.settle(Ending::NotSent).await.is_ok());
        upkeep(&ward).await;
        assert_eq!(states(&ward, 1, 1).await, FREE, "{fault:?}");
        runs_and_is_kept(&ward, 1, 1).await;
    }
}

#[tokio::test]
async fn a_retry_that_meets_the_first_claim_of_its_own_gateway_withdraws_it_and_runs() {
    for faults in [&[Fault::ReplyLost][..], &[Fault::None, Fault::ReplyLost]] {
        let ward = ward(1, InDoubt::Hold);
        ward.store.fail(faults.iter().copied());
        assert!(ward.arbiter().admit(&both(1, 1), &ward.terms).await.is_err());
        ward.settled().await;
        // Another key of the same order, and then the retry.
        let other = acts(&ward, 2, 1).await;
        assert!(other.settle(Ending::NotSent).await.is_ok());
        runs_and_is_kept(&ward, 1, 1).await;
        upkeep(&ward).await;
        assert_eq!(states(&ward, 1, 1).await, ("completed", "completed"), "the newer attempt's records stay");
    }
}

#[tokio::test]
async fn a_claim_that_was_sent_twice_is_recognised() {
    for faults in [[Fault::Twice, Fault::None], [Fault::None, Fault::Twice], [Fault::Twice, Fault::Twice]] {
        let ward = ward(1, InDoubt::Hold);
        ward.store.fail(faults);
        runs_and_is_kept(&ward, 1, 1).await;
    }
}

#[tokio::test]
async fn a_store_that_goes_away_before_or_between_the_claims_leaves_both_free() {
    for taken in 0..2 {
        let ward = ward(1, InDoubt::Hold);
        ward.store.fail([Fault::None, Fault::None].into_iter().take(taken));
        ward.store.is_away(true);
        assert!(ward.arbiter().admit(&both(1, 1), &ward.terms).await.is_err());
        let first = if taken == 0 { "absent" } else { "in flight" };
        assert_eq!(states(&ward, 1, 1).await, (first, "absent"));
        // The permit of the first is given back in a task of its own.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ward.arbiter().shared().outcomes.len(), taken, "to be freed when the store is back");
        ward.store.is_away(false);
        upkeep(&ward).await;
        assert_eq!(states(&ward, 1, 1).await, FREE, "{taken} claims were taken");
        runs_and_is_kept(&ward, 1, 1).await;
    }
}

/// The request is told while the first still waits to be freed: it holds nothing any more that it would act on.
#[tokio::test]
async fn a_store_that_goes_away_when_the_second_is_refused_frees_the_first_when_it_is_back() {
    let ward = ward(2, InDoubt::Hold);
    let running = acts(&ward, 1, 1).await;
    // That the order runs is known here; so the second is no claim, but a look.
    ward.store.fail([Fault::None, Fault::Refused]);
    assert!(matches!(ask(&ward, ward.arbiter(), 2, 1).await, Admitted::Also(Duplicate::InFlight { .. })));
    assert_eq!(states(&ward, 2, 1).await, ("in flight", "in flight"));
    // The same key at the same gateway does not wait for the background.
    assert!(matches!(ask(&ward, ward.arbiter(), 2, 1).await, Admitted::Also(Duplicate::InFlight { .. })));
    upkeep(&ward).await;
    assert_eq!(states(&ward, 2, 1).await, ("absent", "in flight"));
    assert!(running.settle(answered(&ward.terms, 422, 0)).await.is_ok());
    runs_and_is_kept(&ward, 2, 1).await;
}

/// What is slow with its claims has no lease any more when it may act: it does not begin, and both are free.
#[tokio::test]
async fn claims_that_take_longer_than_the_lease_give_no_right_to_begin() {
    for slow in 0..2 {
        let ward = ward(2, InDoubt::Hold);
        ward.store.fail([Fault::None, Fault::None].into_iter().take(slow).chain([Fault::Slow]));
        let (arbiter, terms) = (Arc::clone(ward.arbiter()), ward.terms.clone());
        let asked = tokio::spawn(async move { arbiter.admit(&both(1, 1), &terms).await.unwrap() });
        tokio::task::yield_now().await;
        ward.clock.advance(LEASE);
        if slow == 1 {
            // The other gateway has seen the first one's lease end.
            sweep(&ward).step(&ward.gateways[1]).await.unwrap();
            assert_eq!(states(&ward, 1, 1).await, ("in doubt", "absent"));
        }
        ward.store.go_on();
        let Admitted::Proceed(permit) = asked.await.unwrap() else { panic!("both claims stand") };
        assert!(!permit.may_begin(), "{slow}");
        assert!(matches!(permit.settle(Ending::NotSent).await, Ok(Settled::NotSent)));
        assert_eq!(states(&ward, 1, 1).await, FREE, "{slow}");
    }
}

/// A further attempt whose claims stay without an answer leaves both as they were: in doubt.
#[tokio::test]
async fn a_further_attempts_claims_without_an_answer_lead_back_to_doubt() {
    for lost in 0..2 {
        let ward = ward(1, InDoubt::Retry);
        assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
        // Each first finds the doubt, and then claims it.
        let before = std::iter::repeat_n(Fault::None, 1 + 2 * lost);
        ward.store.fail(before.chain([Fault::ReplyLost]));
        assert!(ward.arbiter().admit(&both(1, 1), &ward.terms).await.is_err());
        ward.settled().await;
        upkeep(&ward).await;
        assert_eq!(states(&ward, 1, 1).await, ("in doubt", "in doubt"), "{lost}");
        assert!(matches!(ask(&ward, ward.arbiter(), 2, 1).await, Admitted::Also(Duplicate::InDoubt { .. })));
        runs_and_is_kept(&ward, 1, 1).await;
    }
}
