//! While the store is away: what was surely not seen begins once, under the journal; what may have been seen does not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncegate::arbiter::{Admitted, Permit, Sweep};
use oncegate::machine::{Cause, Duplicate, Ending, InDoubt, Settled, State};

use crate::ward::{LEASE, Ward, answered, arrival, id, namespaces};
use crate::watched::Fault;

const JOURNALLED: &str = "oncegate_journalled";

/// A gateway on its own whose filter knows all that the store holds.
async fn alone(in_doubt: InDoubt) -> (Ward, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal");
    let ward = Ward::alone(&file, in_doubt);
    rebuild(&ward).await;
    (ward, folder, file)
}

async fn rebuild(ward: &Ward) {
    assert!(Sweep::new(namespaces(ward)).step(ward.arbiter()).await.unwrap());
    assert_eq!(ward.metric("oncegate_filter_complete"), 1.0);
}

/// What a request of an `open_if_unseen` route is told.
async fn ask(ward: &Ward, key: u8) -> Option<Admitted> {
    let arrival = arrival(key, 0);
    match ward.arbiter().admit(&arrival, &ward.terms).await {
        Ok(told) => Some(told),
        Err(_) => ward.arbiter().admit_unseen(&arrival, &ward.terms).await.unwrap(),
    }
}

async fn begins(ward: &Ward, key: u8) -> Permit {
    match ask(ward, key).await {
        Some(Admitted::Proceed(permit)) => permit,
        Some(Admitted::Duplicate(duplicate) | Admitted::Also(duplicate)) => panic!("{duplicate:?}"),
        Some(Admitted::Untimely(_)) => panic!("untimely"),
        None => panic!("perhaps seen"),
    }
}

async fn told(ward: &Ward, key: u8) -> Duplicate {
    match ask(ward, key).await {
        Some(Admitted::Duplicate(duplicate) | Admitted::Also(duplicate)) => duplicate,
        Some(Admitted::Proceed(permit)) => panic!("attempt {} may run", permit.number()),
        Some(Admitted::Untimely(_)) => panic!("untimely"),
        None => panic!("perhaps seen"),
    }
}

async fn keep(ward: &Ward, permit: Permit) {
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
}

/// One step of what the gateway does in the background.
async fn hand_over(ward: &Ward) -> bool {
    ward.arbiter().shared().unconfirmed.withdraw(ward.arbiter()).await.is_ok()
        && ward.arbiter().hand_over().await.is_ok()
}

#[tokio::test]
async fn what_was_not_seen_runs_once_and_comes_into_the_store() {
    for stuck in [Fault::Refused, Fault::ReplyLost, Fault::Late] {
        let (ward, _folder, _) = alone(InDoubt::Hold).await;
        ward.store.fail([stuck]);
        ward.store.is_away(true);
        let permit = begins(&ward, 1).await;
        assert!(matches!(told(&ward, 1).await, Duplicate::InFlight { .. }));
        keep(&ward, permit).await;
        assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)));
        assert!(!hand_over(&ward).await, "the store is still away");
        assert_eq!(ward.metric(JOURNALLED), 1.0);
        ward.store.is_away(false);
        ward.store.arrive().await;
        assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)), "before it is handed over");
        assert!(hand_over(&ward).await);
        assert_eq!(ward.metric(JOURNALLED), 0.0, "{stuck:?}");
        assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
        assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)));
        assert_eq!(ward.metric("oncegate_store_amnesia_total"), 0.0);
    }
}

#[tokio::test]
async fn what_may_have_been_seen_does_not_run() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    let running = ward.permit(1).await;
    assert!(ward.permit(2).await.settle(answered(&ward.terms, 422, 9)).await.is_ok());
    ward.store.is_away(true);
    assert!(matches!(told(&ward, 1).await, Duplicate::InFlight { .. }), "it runs");
    assert!(ask(&ward, 2).await.is_none(), "it was released, which the filter does not know");
    drop(begins(&ward, 3).await);
    ward.store.is_away(false);
    keep(&ward, running).await;
    keep(&ward, begins(&ward, 2).await).await;
}

#[tokio::test]
async fn without_a_complete_filter_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let ward = Ward::alone(&folder.path().join("journal"), InDoubt::Hold);
    ward.store.is_away(true);
    assert!(ask(&ward, 1).await.is_none());
    ward.store.is_away(false);
    rebuild(&ward).await;
    ward.store.is_away(true);
    ward.arbiter().shared().filter.saturate();
    assert!(ask(&ward, 1).await.is_none());
    ward.arbiter().shared().filter.clear();
    assert!(ask(&ward, 1).await.is_none());
}

#[tokio::test]
async fn a_gateway_that_is_not_alone_has_no_journal_and_lets_nothing_through() {
    let ward = Ward::plain();
    ward.store.is_away(true);
    assert!(ask(&ward, 1).await.is_none());
}

#[tokio::test]
async fn of_many_equal_requests_one_runs() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    ward.store.is_away(true);
    let asked: Vec<_> = (0..20).map(|_| ask(&ward, 1)).collect();
    let answers = futures_util::future::join_all(asked).await;
    let permits: Vec<_> = answers
        .into_iter()
        .filter_map(|told| if let Some(Admitted::Proceed(permit)) = told { Some(permit) } else { None })
        .collect();
    assert_eq!(permits.len(), 1);
}

#[tokio::test]
async fn a_crash_in_the_midst_leaves_a_doubt_and_what_was_answered_is_repeated() {
    let (mut ward, _folder, file) = alone(InDoubt::Hold).await;
    ward.store.is_away(true);
    keep(&ward, begins(&ward, 1).await).await;
    // As if the process had ended here.
    std::mem::forget(begins(&ward, 2).await);
    let copy = file.with_extension("copy");
    std::fs::copy(&file, &copy).unwrap();
    ward.start(&copy);
    assert_eq!(ward.arbiter().shared().journal.as_ref().unwrap().len(), 2);
    assert!(ask(&ward, 3).await.is_none(), "the filter is not rebuilt");
    assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)));
    assert!(matches!(told(&ward, 2).await, Duplicate::InFlight { .. }));
    ward.clock.advance(LEASE);
    assert!(matches!(told(&ward, 2).await, Duplicate::InDoubt { .. }));
    ward.store.is_away(false);
    assert!(hand_over(&ward).await);
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
    let State::InDoubt { cause, .. } = ward.store.look(&id(2)).await.unwrap().state else { panic!("no doubt") };
    assert_eq!(cause, Cause::LeaseLost);
    assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)));
    assert!(matches!(told(&ward, 2).await, Duplicate::InDoubt { .. }));
}

#[tokio::test]
async fn an_answer_ends_the_doubt_that_a_stuck_claim_became_after_a_crash() {
    let (mut ward, _folder, file) = alone(InDoubt::Hold).await;
    ward.store.fail([Fault::ReplyLost]);
    ward.store.is_away(true);
    keep(&ward, begins(&ward, 1).await).await;
    let copy = file.with_extension("copy");
    std::fs::copy(&file, &copy).unwrap();
    ward.start(&copy);
    ward.store.is_away(false);
    assert!(hand_over(&ward).await, "the stuck claim may be an attempt that runs");
    assert_eq!(ward.arbiter().shared().journal.as_ref().unwrap().len(), 1);
    ward.clock.advance(LEASE);
    assert!(hand_over(&ward).await);
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
    assert!(ward.arbiter().shared().journal.as_ref().unwrap().is_empty());
}

#[tokio::test]
async fn an_attempt_that_goes_on_over_the_stores_return_ends_as_any_other() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    ward.store.is_away(true);
    let (mut slow, doubtful, freed) = (begins(&ward, 1).await, begins(&ward, 2).await, begins(&ward, 3).await);
    ward.store.is_away(false);
    for _ in 0..3 {
        assert!(hand_over(&ward).await);
        ward.clock.advance(LEASE / 2);
        assert_eq!(slow.renew().await, oncegate::arbiter::Renewal::Held);
        assert!(matches!(told(&ward, 1).await, Duplicate::InFlight { .. }));
        assert_eq!(ward.store.look(&id(1)).await, None, "while it runs, it is the journal's");
    }
    keep(&ward, slow).await;
    assert!(doubtful.settle(Ending::Unknown(Cause::TimedOut)).await.is_ok());
    assert!(freed.settle(answered(&ward.terms, 422, 9)).await.is_ok());
    assert!(hand_over(&ward).await);
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
    assert!(matches!(ward.store.look(&id(2)).await.unwrap().state, State::InDoubt { .. }));
    assert_eq!(ward.store.look(&id(3)).await, None);
    keep(&ward, begins(&ward, 3).await).await;
}

#[tokio::test]
async fn a_request_that_the_store_took_and_an_equal_one_under_the_journal_do_not_both_run() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    // The first one's claim hangs in the store; the second meets a store that is away, and begins under the journal.
    ward.store.fail([Fault::Hangs]);
    let arbiter = Arc::clone(ward.arbiter());
    let request = arrival(1, 0);
    let first = arbiter.admit(&request, &ward.terms);
    assert!(tokio::time::timeout(Duration::from_millis(20), first).await.is_err());
    ward.store.is_away(true);
    let permit = begins(&ward, 1).await;
    ward.store.is_away(false);
    assert!(matches!(told(&ward, 1).await, Duplicate::InFlight { .. }));
    keep(&ward, permit).await;
    assert!(hand_over(&ward).await);
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }));
}

#[tokio::test]
async fn a_doubt_of_the_journal_is_not_given_up_for_a_claim_that_still_hangs() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    ward.store.fail([Fault::Hangs]);
    let (arbiter, request) = (Arc::clone(ward.arbiter()), arrival(1, 0));
    let mut first = Box::pin(arbiter.admit(&request, &ward.terms));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut first).await.is_err());
    ward.store.is_away(true);
    assert!(begins(&ward, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    ward.store.is_away(false);
    // Were it taken for handed over, the first one would find nothing against it when its reply comes.
    assert!(hand_over(&ward).await);
    assert_eq!(ward.metric(JOURNALLED), 1.0);
    drop(first);
    assert!(hand_over(&ward).await);
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::InDoubt { .. }));
    assert_eq!(ward.metric(JOURNALLED), 0.0);
}

#[tokio::test]
async fn a_doubt_of_the_journal_is_tried_again_where_the_route_says_so() {
    let (ward, _folder, _) = alone(InDoubt::Retry).await;
    ward.store.is_away(true);
    assert!(begins(&ward, 1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
    let second = begins(&ward, 1).await;
    assert_eq!(second.number(), 2);
    keep(&ward, second).await;
    ward.store.is_away(false);
    assert!(hand_over(&ward).await);
    assert_eq!(ward.store.look(&id(1)).await.unwrap().number, 2);
}

#[tokio::test]
async fn what_the_store_loses_of_it_later_is_noticed() {
    let (ward, _folder, _) = alone(InDoubt::Hold).await;
    ward.store.is_away(true);
    keep(&ward, begins(&ward, 1).await).await;
    ward.store.is_away(false);
    assert!(hand_over(&ward).await);
    ward.store.lose(&id(1)).await;
    ward.clock.advance(Duration::from_secs(61));
    assert!(matches!(told(&ward, 1).await, Duplicate::Completed(_)), "the answer is still at hand");
    assert_eq!(ward.metric("oncegate_store_amnesia_total"), 1.0);
}
