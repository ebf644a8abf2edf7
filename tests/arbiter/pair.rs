//! A request that names two operations: reserved in order, held and settled together, and what the one says of the other.

use std::sync::Arc;
use std::time::Duration;

use oncegate::arbiter::{Admitted, Arbiter, Permit, Renewal, Resolved, Sweep, Watched};
use oncegate::machine::{
    Also, Arrival, Cause, Duplicate, Ending, InDoubt, NamespaceTag, OperationId, Policy, Print, Record, Settled, State,
    renew,
};

use crate::ward::{CACHE, LEASE, NAMESPACE, RETENTION, Ward, answered, arrival, id, namespaces};
use crate::watched::Fault;

/// The namespace of order numbers.
pub(crate) const ORDERS: NamespaceTag = NamespaceTag(77);

/// The operation of an order number.
pub(crate) fn order(number: u8) -> OperationId {
    OperationId([number | 0x80; 32])
}

/// A request under a key of its own, for an order.
pub(crate) fn both(key: u8, number: u8) -> Arrival<'static> {
    let also = Also { operation: order(number), namespace: ORDERS, credentials: None };
    arrival(key, number).with_also(Some(also))
}

/// Gateways whose route has two keys. Of orders a changed request is a duplicate.
pub(crate) fn ward(gateways: usize, in_doubt: InDoubt) -> Ward {
    let mut ward = Ward::new(gateways, in_doubt, CACHE);
    Arc::make_mut(&mut ward.terms).beside = Some(Arc::new(Policy { compare: false, ..(*ward.terms.policy).clone() }));
    ward
}

/// The sweep of both namespaces.
pub(crate) fn sweep(ward: &Ward) -> Sweep {
    let mut watched = namespaces(ward);
    let second = ward.terms.of_second();
    watched.insert(
        ORDERS,
        Watched { route: second.route, policy: second.policy, probed: None, second_to: [NAMESPACE].into() },
    );
    Sweep::new(watched)
}

pub(crate) async fn ask(ward: &Ward, arbiter: &Arc<Arbiter>, key: u8, number: u8) -> Admitted {
    arbiter.admit(&both(key, number), &ward.terms).await.unwrap()
}

pub(crate) async fn acts(ward: &Ward, key: u8, number: u8) -> Permit {
    match ask(ward, ward.arbiter(), key, number).await {
        Admitted::Proceed(permit) => permit,
        Admitted::Duplicate(told) => panic!("{told:?}"),
        Admitted::Also(told) => panic!("by the order: {told:?}"),
        Admitted::Untimely(told) => panic!("{told:?}"),
    }
}

async fn stored(ward: &Ward, id: OperationId) -> Record {
    ward.store.look(&id).await.expect("there is a record")
}

async fn state(ward: &Ward, id: OperationId) -> &'static str {
    match ward.store.look(&id).await.map(|record| record.state) {
        None => "absent",
        Some(State::InFlight { .. }) => "in flight",
        Some(State::InDoubt { .. }) => "in doubt",
        Some(State::Completed { .. }) => "completed",
    }
}

/// What the store holds of a request's key and of its order.
pub(crate) async fn states(ward: &Ward, key: u8, number: u8) -> (&'static str, &'static str) {
    (state(ward, id(key)).await, state(ward, order(number)).await)
}

fn is_completed(told: &Admitted) -> bool {
    matches!(told, Admitted::Duplicate(Duplicate::Completed(_)))
}

#[tokio::test]
async fn both_are_reserved_held_and_settled_and_each_says_what_it_is_beside() {
    let ward = ward(2, InDoubt::Hold);
    let mut permit = acts(&ward, 1, 1).await;
    assert_eq!(ward.store.calls(), 2, "one more than for one key");
    let (first, second) = (stored(&ward, id(1)).await, stored(&ward, order(1)).await);
    assert_eq!((first.beside.as_deref(), second.beside.as_deref()), (Some(&order(1)), Some(&id(1))));
    assert_eq!(first.fence.attempt, second.fence.attempt);
    assert_eq!(permit.operation(), &id(1));
    ward.clock.advance(LEASE / 2);
    assert_eq!(permit.renew().await, Renewal::Held);
    ward.clock.advance(LEASE * 3 / 4);
    assert!(!permit.is_lost(), "both leases are extended");
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    assert_eq!(states(&ward, 1, 1).await, ("completed", "completed"));
    assert_eq!(ward.metric("oncegate_outcomes_total{outcome=\"kept\",route=\"orders\"}"), 1.0, "one attempt");
    assert_eq!(ward.metric("oncegate_in_flight{route=\"orders\"}"), 0.0);
    for gateway in &ward.gateways {
        assert!(is_completed(&ask(&ward, gateway, 1, 1).await), "an honest retry is told by its own key");
        assert!(matches!(ask(&ward, gateway, 2, 1).await, Admitted::Also(Duplicate::Completed(_))));
        assert_eq!(state(&ward, id(2)).await, "absent", "nothing is left over");
    }
    assert!(matches!(ask(&ward, ward.arbiter(), 1, 2).await, Admitted::Duplicate(Duplicate::Changed)));
}

#[tokio::test]
async fn a_refused_second_key_leaves_nothing_of_the_first() {
    let ward = ward(2, InDoubt::Hold);
    let permit = acts(&ward, 1, 1).await;
    for gateway in &ward.gateways {
        assert!(matches!(ask(&ward, gateway, 2, 1).await, Admitted::Also(Duplicate::InFlight { .. })));
        assert_eq!(states(&ward, 2, 1).await, ("absent", "in flight"));
    }
    assert!(matches!(ask(&ward, ward.arbiter(), 1, 1).await, Admitted::Duplicate(Duplicate::InFlight { .. })));
    assert_eq!(ward.metric("oncegate_outcomes_total{outcome=\"not_sent\",route=\"orders\"}"), 0.0, "no attempt");
    // Another order under the refused key runs.
    assert!(acts(&ward, 2, 2).await.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    assert!(matches!(permit.settle(answered(&ward.terms, 422, 0)).await, Ok(Settled::Released)));
    assert_eq!(states(&ward, 1, 1).await, ("absent", "absent"));
    assert!(acts(&ward, 3, 1).await.settle(Ending::NotSent).await.is_ok());
    assert_eq!(states(&ward, 3, 1).await, ("absent", "absent"));
}

#[tokio::test]
async fn the_lease_of_either_makes_an_answer_late_and_a_dropped_permit_doubts_both() {
    let ward = ward(1, InDoubt::Hold);
    let mut permit = acts(&ward, 1, 1).await;
    let mut record = stored(&ward, order(1)).await;
    record.state = State::InDoubt { since: ward.clock.now(), cause: Cause::LeaseLost };
    ward.store.overwrite(&order(1), &record).await;
    assert_eq!(permit.renew().await, Renewal::Lost, "somebody let the second one lapse");
    assert!(permit.is_lost());
    drop(permit);
    ward.settled().await;
    assert_eq!(states(&ward, 1, 1).await, ("in doubt", "in doubt"));
}

#[tokio::test]
async fn a_client_that_leaves_between_the_two_claims_leaves_both_free() {
    for fault in [Fault::Hangs, Fault::ReplyLost, Fault::Refused, Fault::Late] {
        let ward = ward(1, InDoubt::Hold);
        ward.store.fail([Fault::None, fault]);
        let arrival = both(1, 1);
        let asked = ward.arbiter().admit(&arrival, &ward.terms);
        assert!(!matches!(tokio::time::timeout(Duration::from_millis(20), asked).await, Ok(Ok(_))), "{fault:?}");
        ward.settled().await;
        ward.store.arrive().await;
        ward.arbiter().shared().unconfirmed.withdraw(ward.arbiter()).await.unwrap();
        assert_eq!(states(&ward, 1, 1).await, ("absent", "absent"), "{fault:?}");
        drop(acts(&ward, 1, 1).await);
        ward.settled().await;
    }
}

/// A doubt of the order belongs to the key that was forwarded with it: under another, no upstream would know it again.
#[tokio::test]
async fn a_doubt_is_tried_again_by_its_own_pair_only() {
    let ward = ward(2, InDoubt::Retry);
    assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    assert!(matches!(ask(&ward, ward.arbiter(), 2, 1).await, Admitted::Also(Duplicate::InDoubt { .. })));
    assert_eq!(states(&ward, 2, 1).await, ("absent", "in doubt"));
    let single = ward.arbiter().admit(&arrival(1, 1), &ward.terms).await.unwrap();
    assert!(matches!(single, Admitted::Duplicate(Duplicate::InDoubt { .. })), "without its order it is another pair");
    let again = acts(&ward, 1, 1).await;
    assert_eq!(again.number(), 2);
    assert_eq!(stored(&ward, order(1)).await.number, 2);
    // Not sent, it says nothing of the first attempt, for either.
    assert_eq!(again.settle(Ending::NotSent).await.ok(), Some(Settled::Doubted));
    assert_eq!(states(&ward, 1, 1).await, ("in doubt", "in doubt"));
    assert!(matches!(acts(&ward, 1, 1).await.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    assert!(matches!(ask(&ward, ward.arbiter(), 2, 1).await, Admitted::Also(Duplicate::Completed(_))));
}

/// The first key's doubt is gone, the order's is not: what is not sent then frees neither.
#[tokio::test]
async fn what_was_not_sent_frees_both_or_neither() {
    let ward = ward(2, InDoubt::Retry);
    assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    ward.store.lose(&id(1)).await;
    // The other gateway does not know that there was one.
    let Admitted::Proceed(fresh) = ask(&ward, &ward.gateways[1], 1, 1).await else { panic!("it may be tried again") };
    assert_eq!((fresh.number(), stored(&ward, order(1)).await.number), (1, 2));
    assert_eq!(fresh.settle(Ending::NotSent).await.ok(), Some(Settled::Doubted));
    assert_eq!(states(&ward, 1, 1).await, ("in doubt", "in doubt"));
}

#[tokio::test]
async fn somebodys_word_on_one_doubt_ends_both() {
    for (asked, other) in [(id(1), order(1)), (order(1), id(1))] {
        for (ending, left) in [(true, "completed"), (false, "absent")] {
            let ward = ward(2, InDoubt::Hold);
            assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
            let terms = if asked == id(1) { (*ward.terms).clone() } else { ward.terms.of_second() };
            let ending = if ending { answered(&ward.terms, 201, 9) } else { answered(&ward.terms, 404, 0) };
            let doubt = stored(&ward, asked).await;
            // The store fails over the other half: the word is not taken, and may be given again.
            ward.store.fail([Fault::None, Fault::Refused]);
            assert!(ward.gateways[1].resolve(&asked, &doubt, &ending, &terms).await.is_err());
            assert_eq!(state(&ward, asked).await, "in doubt");
            assert_eq!(state(&ward, other).await, "in doubt");
            let resolved = ward.gateways[1].resolve(&asked, &doubt, &ending, &terms).await.unwrap();
            assert!(matches!(resolved, Resolved::Done(_)), "{resolved:?}");
            assert_eq!(states(&ward, 1, 1).await, (left, left));
        }
    }
}

#[tokio::test]
async fn a_word_that_comes_after_the_others_outcome_is_too_late() {
    let ward = ward(2, InDoubt::Hold);
    assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    let second = stored(&ward, order(1)).await;
    ward.store.fail([Fault::None, Fault::None, Fault::None, Fault::Refused]);
    let executed = answered(&ward.terms, 201, 9);
    assert!(ward.gateways[1].resolve(&order(1), &second, &executed, &ward.terms.of_second()).await.is_err());
    assert_eq!(states(&ward, 1, 1).await, ("completed", "in doubt"), "one write came through");
    let second = stored(&ward, order(1)).await;
    let (terms, denial) = (ward.terms.of_second(), answered(&ward.terms, 404, 0));
    let denied = ward.gateways[0].resolve(&order(1), &second, &denial, &terms).await.unwrap();
    let Resolved::NotInDoubt(Some(known)) = denied else { panic!("it was executed") };
    assert!(matches!(known.state, State::Completed { .. }));
    assert_eq!(states(&ward, 1, 1).await, ("completed", "completed"));
}

/// A doubt whose other half has an outcome is over: for whoever meets it, and for the sweep.
#[tokio::test]
async fn one_write_that_did_not_come_through_is_made_up() {
    for by_sweep in [true, false] {
        for lost in 0..2 {
            let ward = ward(2, InDoubt::Hold);
            let permit = acts(&ward, 1, 1).await;
            ward.store.fail([Fault::None, Fault::None].into_iter().take(lost).chain([Fault::Refused]));
            let Err(unsettled) = permit.settle(answered(&ward.terms, 201, 9)).await else { panic!("both are taken") };
            // The gateway dies.
            std::mem::forget(unsettled);
            ward.clock.advance(LEASE);
            let (open, expected) =
                if lost == 0 { (id(1), ("in flight", "completed")) } else { (order(1), ("completed", "in flight")) };
            assert_eq!(states(&ward, 1, 1).await, expected);
            if by_sweep {
                let mut sweep = sweep(&ward);
                assert!(sweep.step(&ward.gateways[1]).await.unwrap());
                assert_eq!(ward.metric("oncegate_doubts{route=\"orders\"}"), 0.0);
            } else {
                let told = ask(&ward, &ward.gateways[1], if lost == 0 { 1 } else { 2 }, 1).await;
                assert!(
                    matches!(
                        told,
                        Admitted::Duplicate(Duplicate::Completed(_)) | Admitted::Also(Duplicate::Completed(_))
                    ),
                    "told {open}"
                );
            }
            assert_eq!(states(&ward, 1, 1).await, ("completed", "completed"), "{by_sweep} {lost}");
        }
    }
}

/// A pair is one trouble: the sweep counts it once. What died between the two claims is one too.
#[tokio::test]
async fn the_sweep_counts_a_pair_once_and_finds_what_died_between_the_claims() {
    let ward = ward(1, InDoubt::Hold);
    assert!(acts(&ward, 1, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    assert!(acts(&ward, 2, 2).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    ward.store.lose(&id(2)).await;
    ward.store.fail([Fault::None, Fault::Hangs]);
    let arrival = both(3, 3);
    let mut dying = Box::pin(ward.arbiter().admit(&arrival, &ward.terms));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut dying).await.is_err());
    std::mem::forget(dying);
    ward.store.lose(&order(3)).await;
    ward.clock.advance(LEASE);
    let mut sweep = sweep(&ward);
    assert!(sweep.step(ward.arbiter()).await.unwrap());
    assert_eq!(states(&ward, 3, 3).await, ("in doubt", "absent"));
    assert_eq!(ward.metric("oncegate_doubts{route=\"orders\"}"), 3.0, "a pair, an order alone, and a key alone");
    // The order was never claimed: under a fresh key it runs.
    assert!(acts(&ward, 4, 3).await.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    ward.clock.advance(RETENTION / 2);
    assert!(matches!(ask(&ward, ward.arbiter(), 3, 3).await, Admitted::Duplicate(Duplicate::InDoubt { .. })));
}

/// A lost pair is found by a sweep: whichever half it meets first, and whether both leases have ended by then.
#[tokio::test]
async fn the_sweep_counts_a_lost_pair_once_whichever_half_it_meets_first() {
    // The store lists by the digest: of the first pair the key comes first, of the other one the order.
    for key in [1, 200] {
        for half in [None, Some(id(key)), Some(order(1))] {
            let ward = ward(1, InDoubt::Hold);
            let permit = acts(&ward, key, 1).await;
            ward.clock.advance(LEASE / 2);
            if let Some(half) = half {
                // One of two renewals came through before the gateway died.
                let held = stored(&ward, half).await;
                let renewed = renew(&held, &ward.terms.policy, ward.clock.now()).unwrap();
                ward.store.overwrite(&half, &renewed).await;
            }
            std::mem::forget(permit);
            let mut sweep = sweep(&ward);
            let mut counts = Vec::new();
            for _ in 0..3 {
                ward.clock.advance(LEASE / 2);
                assert!(sweep.step(ward.arbiter()).await.unwrap());
                counts.push(ward.metric("oncegate_doubts{route=\"orders\"}"));
            }
            // By the first key, from the end of its own lease on.
            let expected = if half == Some(id(key)) { [0.0, 1.0, 1.0] } else { [1.0, 1.0, 1.0] };
            assert_eq!(counts, expected, "{key} {half:?}");
            assert_eq!(states(&ward, key, 1).await, ("in doubt", "in doubt"));
        }
    }
}

#[tokio::test]
async fn replays_by_the_order_are_for_who_shows_the_same() {
    let ward = ward(1, InDoubt::Hold);
    let by = |key, credentials| {
        let also = Also { operation: order(1), namespace: ORDERS, credentials: Some(Print([credentials; 16])) };
        arrival(key, 1).with_also(Some(also))
    };
    let Admitted::Proceed(permit) = ward.arbiter().admit(&by(1, 1), &ward.terms).await.unwrap() else { panic!() };
    assert!(permit.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    let told = ward.arbiter().admit(&by(2, 1), &ward.terms).await.unwrap();
    assert!(matches!(told, Admitted::Also(Duplicate::Completed(_))));
    let told = ward.arbiter().admit(&by(3, 2), &ward.terms).await.unwrap();
    assert!(matches!(told, Admitted::Also(Duplicate::Stranger(_))));
}
