//! Windows that slide, joined with a store: no duplicate's move is lost to the local cache, a race or a store that is away.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oncegate::arbiter::Admitted;
use oncegate::machine::{Duplicate, InDoubt, Record, Time, Window};

use crate::ward::{CACHE, RETENTION, Ward, answered, arrival, id};
use crate::watched::Fault;

/// Short enough that the local cache still trusts what it has, long enough to be worth a write.
const STEP: Duration = Duration::from_secs(50);

async fn done(gateways: usize, cache: usize) -> Ward {
    let mut ward = Ward::new(gateways, InDoubt::Hold, cache);
    Arc::make_mut(&mut Arc::make_mut(&mut ward.terms).policy).window = Window::Sliding;
    let permit = ward.permit(1).await;
    assert!(permit.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    ward
}

async fn ask(ward: &Ward, gateway: usize) -> Record {
    match ward.gateways[gateway].admit(&arrival(1, 0), &ward.terms).await.unwrap() {
        Admitted::Duplicate(Duplicate::Completed(record)) => Arc::unwrap_or_clone(record),
        Admitted::Duplicate(other) | Admitted::Also(other) => panic!("{other:?}"),
        Admitted::Untimely(untimely) => panic!("{untimely:?}"),
        Admitted::Proceed(permit) => panic!("attempt {} may run", permit.number()),
    }
}

fn end(ward: &Ward) -> Time {
    ward.clock.now().plus(RETENTION)
}

#[tokio::test]
async fn duplicates_prolong_a_window_with_the_cache_and_without() {
    for cache in [CACHE, 0] {
        let ward = done(1, cache).await;
        for _ in 0..5 {
            ward.clock.advance(STEP);
            let told = ask(&ward, 0).await;
            assert_eq!(told.expires, end(&ward), "what it is told is what holds");
            assert_eq!(ward.store.look(&id(1)).await, Some(told));
        }
        ward.clock.advance(RETENTION);
        assert_eq!(ward.permit(1).await.number(), 1, "after a quiet time it is taken again");
    }
}

#[tokio::test]
async fn a_move_that_is_not_worth_it_costs_nothing() {
    let ward = done(1, CACHE).await;
    ward.store.calls();
    for _ in 0..10 {
        ward.clock.advance(RETENTION / 600);
        ask(&ward, 0).await;
    }
    assert_eq!(ward.store.calls(), 0);
    ward.clock.advance(RETENTION / 50);
    ask(&ward, 0).await;
    assert_eq!(ward.store.calls(), 1, "one write");
}

#[tokio::test]
async fn gateways_move_one_end() {
    let ward = done(2, CACHE).await;
    for turn in 0..8 {
        ward.clock.advance(STEP);
        assert_eq!(ask(&ward, turn % 2).await.expires, end(&ward));
    }
    // The second one's cache knows an older end than the store.
    ward.clock.advance(STEP / 2);
    ask(&ward, 0).await;
    ward.clock.advance(RETENTION / 10 * 8);
    ask(&ward, 1).await;
}

#[tokio::test]
async fn thirty_at_once_are_all_told_and_write_little() {
    let ward = done(2, CACHE).await;
    ward.clock.advance(STEP);
    ward.store.calls();
    let ward = &ward;
    let told = join_all((0..30).map(|turn| ask(ward, turn % 2))).await;
    assert!(told.iter().all(|record| record.expires == end(ward)));
    assert!(ward.store.calls() <= 90, "each asks, tries, and sees that another was quicker");
}

#[tokio::test]
async fn a_store_that_is_away_changes_no_answer_and_the_next_move_catches_up() {
    let ward = done(1, CACHE).await;
    let before = ask(&ward, 0).await.expires;
    ward.clock.advance(STEP);
    ward.store.is_away(true);
    assert_eq!(ask(&ward, 0).await.expires, before, "it is told of the end that holds");
    ward.store.is_away(false);
    assert_eq!(ask(&ward, 0).await.expires, end(&ward));
    for fault in [Fault::ReplyLost, Fault::Refused, Fault::Twice] {
        ward.clock.advance(STEP);
        ward.store.fail([fault]);
        ask(&ward, 0).await;
        assert_eq!(ask(&ward, 0).await.expires, end(&ward), "{fault:?}");
    }
}

#[tokio::test]
async fn an_outcome_that_is_gone_is_not_prolonged_by_a_cache_that_still_has_it() {
    let ward = done(2, CACHE).await;
    ask(&ward, 1).await;
    ward.clock.advance(STEP);
    ward.store.lose(&id(1)).await;
    // The first one dispatched it, and knows that it was lost before its time.
    assert_eq!(ask(&ward, 0).await.expires, end(&ward));
    ward.store.lose(&id(1)).await;
    ward.clock.advance(Duration::from_secs(5));
    let told = ward.gateways[1].admit(&arrival(1, 0), &ward.terms).await.unwrap();
    assert!(matches!(told, Admitted::Proceed(_)), "the second one has only its cache's word");
}

#[tokio::test]
async fn the_filter_goes_on_knowing_what_slides() {
    let ward = done(1, 0).await;
    let filter = &ward.arbiter().shared().filter;
    for _ in 0..600 {
        ward.clock.advance(RETENTION / 10 * 9);
        filter.rotate_if_due();
        assert!(filter.check(&id(1)));
        ask(&ward, 0).await;
    }
}

#[tokio::test]
async fn the_first_gateway_knows_that_the_record_has_to_be_there_until_the_new_end() {
    let ward = done(1, CACHE).await;
    ward.clock.advance(STEP);
    ask(&ward, 0).await;
    ward.clock.advance(STEP);
    ward.store.lose(&id(1)).await;
    ward.arbiter().shared().cache.clear();
    assert!(
        matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }),
        "lost after the first end, before the new one"
    );
}
