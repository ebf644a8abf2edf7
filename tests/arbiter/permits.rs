//! The right to act: what it costs, who gets it, and what its loss means.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::arbiter::{Admitted, Arbiter, Renewal, Sweep, Terms};
use oncegate::clock::Clock;
use oncegate::machine::{Arrival, Cause, Comparable, Duplicate, Ending, InDoubt, Print, Record, Salt, Settled, State};
use tokio::task::JoinHandle;

use crate::alike::Alike;
use crate::ward::{CACHE, LEASE, NAMESPACE, RETENTION, Ward, answered, arrival, id, namespaces};
use crate::watched::Fault;

/// What is waited for at most. Reaching it is a failed test.
const SOON: Duration = Duration::from_secs(10);

/// Longer than any test: nobody here waits for time to pass.
const LONG: Duration = Duration::from_mins(1);

/// A request that nobody brings into its canonical form.
struct RawOnly;

impl Comparable for RawOnly {
    fn raw(&self, salt: Salt) -> [u8; 8] {
        Alike::to(0).raw(salt)
    }

    fn canonical(&self) -> Print {
        panic!("the request was brought into its canonical form")
    }
}

/// What the gateway knows to be there is asked for, not written over: only a claim needs the canonical digest.
#[tokio::test]
async fn an_exact_retry_is_told_by_its_raw_print_alone() {
    let ward = Ward::new(1, InDoubt::Hold, 0);
    let told = async || {
        let retry = Arrival::new(id(1), NAMESPACE, Salt(rand::random()), 1, None, RawOnly);
        match ward.arbiter().admit(&retry, &ward.terms).await {
            Ok(Admitted::Duplicate(duplicate)) => duplicate,
            _ => panic!("it may act"),
        }
    };
    let permit = ward.permit(1).await;
    assert!(matches!(told().await, Duplicate::InFlight { .. }));
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    ward.store.calls();
    assert!(matches!(told().await, Duplicate::Completed(_)));
    assert_eq!(ward.store.calls(), 1);
}

#[tokio::test]
async fn a_first_request_costs_two_calls_and_what_is_known_here_none() {
    let ward = Ward::new(2, InDoubt::Hold, CACHE);
    let permit = ward.permit(1).await;
    assert_eq!(ward.store.calls(), 1, "one call before the request is forwarded");
    assert!(matches!(ward.duplicate(1).await, Duplicate::InFlight { .. }));
    assert_eq!(ward.store.calls(), 0, "what has just begun here this gateway knows");
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    assert_eq!(ward.store.calls(), 1, "and one after it");
    for _ in 0..10 {
        assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
    }
    assert_eq!(ward.store.calls(), 0, "what this gateway has recorded it knows");
    let elsewhere = |ward: &Ward| {
        let (other, terms) = (Arc::clone(&ward.gateways[1]), ward.terms.clone());
        async move { matches!(other.admit(&arrival(1, 0), &terms).await, Ok(Admitted::Duplicate(_))) }
    };
    assert!(elsewhere(&ward).await);
    assert_eq!(ward.store.calls(), 1, "another one has to ask");
    assert!(elsewhere(&ward).await);
    assert_eq!(ward.store.calls(), 0, "once");
    ward.clock.advance(Duration::from_secs(61));
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
    assert_eq!(ward.store.calls(), 1, "and again after a minute");
}

#[tokio::test]
async fn what_runs_here_is_known_for_a_second_and_while_its_lease_holds() {
    let ward = Ward::new(2, InDoubt::Hold, 0);
    let mut permit = ward.permit(1).await;
    ward.store.calls();
    let costs = async |calls, why| {
        assert!(matches!(ward.duplicate(1).await, Duplicate::InFlight { .. }), "{why}");
        assert_eq!(ward.store.calls(), calls, "{why}");
    };
    costs(0, "it has just been written").await;
    ward.clock.advance(Duration::from_secs(1));
    costs(1, "the store may have lost it since").await;
    costs(0, "it has not").await;
    ward.clock.advance(LEASE / 2);
    assert_eq!(permit.renew().await, Renewal::Held);
    ward.store.calls();
    costs(0, "it is renewed").await;
    ward.clock.advance(LEASE * 29 / 30);
    costs(1, "that was long ago").await;
    ward.clock.advance(LEASE / 30);
    assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }), "less than a second, but its lease is over");
    assert_eq!(permit.renew().await, Renewal::Lost);
    assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }));
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))), "late");
}

#[tokio::test]
async fn what_runs_here_is_not_known_of_a_lease_that_was_lost() {
    let ward = Ward::plain();
    let mut permit = ward.permit(1).await;
    let found = ward.store.look(&id(1)).await.unwrap();
    let ended = Record { state: State::InDoubt { since: ward.clock.now(), cause: Cause::Abandoned }, ..found };
    ward.store.overwrite(&id(1), &ended).await;
    assert!(matches!(ward.duplicate(1).await, Duplicate::InFlight { .. }), "nobody may do that");
    assert_eq!(permit.renew().await, Renewal::Lost);
    assert!(matches!(ward.duplicate(1).await, Duplicate::InDoubt { .. }));
    drop(permit);
}

/// Its reply may be on its way for long, and another gateway may have told of the outcome.
#[tokio::test]
async fn what_ends_here_is_asked_for_before_that_is_heard() {
    let ward = Ward::new(2, InDoubt::Hold, 0);
    let permit = ward.permit(1).await;
    ward.store.fail([Fault::Hangs]);
    let settling = tokio::spawn(permit.settle(answered(&ward.terms, 201, 9)));
    while !matches!(ward.store.look(&id(1)).await.unwrap().state, State::Completed { .. }) {
        tokio::task::yield_now().await;
    }
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
    settling.abort();
}

#[tokio::test]
async fn what_runs_here_is_compared_like_what_is_stored() {
    let ward = Ward::plain();
    let permit = ward.permit(1).await;
    ward.store.calls();
    let told = ward.arbiter().admit(&arrival(1, 1), &ward.terms).await;
    assert!(matches!(told, Ok(Admitted::Duplicate(Duplicate::Changed))));
    assert_eq!(ward.store.calls(), 0);
    drop(permit);
}

#[tokio::test]
async fn a_permit_that_is_dropped_leaves_a_doubt() {
    let ward = Ward::plain();
    drop(ward.permit(1).await);
    ward.settled().await;
    let State::InDoubt { cause, since } = ward.store.look(&id(1)).await.unwrap().state else { panic!("no doubt") };
    assert_eq!(cause, Cause::Abandoned);
    assert_eq!(ward.duplicate(1).await, Duplicate::InDoubt { since });
}

#[tokio::test]
async fn a_lease_that_nobody_looks_at_lapses_by_the_sweep() {
    let ward = Ward::new(2, InDoubt::Hold, CACHE);
    let permit = ward.permit(1).await;
    let mut sweep = Sweep::new(namespaces(&ward));
    assert!(sweep.step(&ward.gateways[1]).await.unwrap());
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::InFlight { .. }));
    assert!(!permit.is_lost());
    ward.clock.advance(LEASE);
    assert!(permit.is_lost(), "by the clock, before anybody has said so");
    assert!(sweep.step(&ward.gateways[1]).await.unwrap());
    let State::InDoubt { cause, .. } = ward.store.look(&id(1)).await.unwrap().state else { panic!("no doubt") };
    assert_eq!(cause, Cause::LeaseLost);
    assert!(!permit.may_begin(), "an attempt that has not begun does not begin any more");
    assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))), "a late answer counts");
    assert!(matches!(ward.duplicate(1).await, Duplicate::Completed(_)));
}

/// Its gateway stood still between the claim and the first byte, and nobody has noticed: it is settled as never sent.
#[tokio::test]
async fn an_attempt_whose_lease_has_ended_does_not_begin_and_leaves_what_was_there_before() {
    for (in_doubt, before) in [(InDoubt::Hold, false), (InDoubt::Retry, true)] {
        let ward = Ward::new(1, in_doubt, CACHE);
        if before {
            assert!(ward.permit(1).await.settle(Ending::Unknown(Cause::Broken)).await.is_ok());
        }
        let permit = ward.permit(1).await;
        assert!(permit.may_begin());
        ward.clock.advance(LEASE);
        ward.store.calls();
        assert!(!permit.may_begin());
        assert_eq!(ward.store.calls(), 0, "the clock is enough");
        let settled = if before { Settled::Doubted } else { Settled::NotSent };
        assert_eq!(permit.settle(Ending::NotSent).await.ok(), Some(settled));
        let left = ward.store.look(&id(1)).await.map(|record| record.state);
        assert!(if before { matches!(left, Some(State::InDoubt { .. })) } else { left.is_none() }, "{left:?}");
    }
}

/// It was lapsed meanwhile, and never sent: the doubt goes, but not a newer attempt's record.
#[tokio::test]
async fn an_attempt_that_is_refused_takes_nothing_but_its_own() {
    let ward = Ward::new(2, InDoubt::Retry, CACHE);
    let late = ward.permit(1).await;
    ward.clock.advance(LEASE);
    let Admitted::Proceed(newer) = ward.gateways[1].admit(&arrival(1, 0), &ward.terms).await.unwrap() else {
        panic!("refused")
    };
    assert!(!late.may_begin());
    assert_eq!(late.settle(Ending::NotSent).await.ok(), Some(Settled::Superseded));
    assert!(matches!(ward.store.look(&id(1)).await.unwrap().state, State::InFlight { .. }));
    assert!(matches!(newer.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
}

#[tokio::test]
async fn doubts_near_their_end_are_counted_and_those_that_are_gone_are_not() {
    let ward = Ward::plain();
    // A day before the end; of a doubt that lasts no two days, the second half.
    for (early, late) in [(Duration::from_hours(48), Duration::from_hours(24)), (RETENTION, RETENTION)] {
        let lasts = early + late;
        let (mut watched, mut terms) = (namespaces(&ward), (*ward.terms).clone());
        for watched in watched.values_mut() {
            Arc::make_mut(&mut watched.policy).doubt_retention = lasts;
        }
        Arc::make_mut(&mut terms.policy).doubt_retention = lasts;
        Arc::make_mut(&mut terms.policy).attempt_timeout = Duration::ZERO;
        let mut sweep = Sweep::new(watched);
        let Admitted::Proceed(permit) = ward.arbiter().admit(&arrival(1, 0), &Arc::new(terms)).await.unwrap() else {
            panic!("refused")
        };
        assert!(matches!(permit.settle(Ending::Unknown(Cause::Broken)).await, Ok(Settled::Doubted)));
        let mut counts = Vec::new();
        let millisecond = Duration::from_millis(1);
        for pause in [Duration::ZERO, early.saturating_sub(millisecond), millisecond, late] {
            ward.clock.advance(pause);
            assert!(sweep.step(ward.arbiter()).await.unwrap());
            let series = |name: &str| ward.metric(&format!("oncegate_{name}{{route=\"orders\"}}"));
            counts.push((series("doubts"), series("doubts_expiring")));
        }
        assert_eq!(counts, [(1.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)], "{lasts:?}");
    }
}

/// Duplicates that wait as the gateway has them wait.
struct Line {
    waiters: Vec<JoinHandle<(usize, Admitted)>>,
    /// How often one of them was told to wait.
    sent: Arc<AtomicUsize>,
}

impl Line {
    fn of(ward: &Ward, waiters: usize) -> Self {
        let sent = Arc::<AtomicUsize>::default();
        let waiter = || tokio::spawn(wait_in_line(Arc::clone(ward.arbiter()), ward.terms.clone(), Arc::clone(&sent)));
        Self { waiters: std::iter::repeat_with(waiter).take(waiters).collect(), sent }
    }

    /// Lets every waiter come to its place, so many in all: all run on this one thread.
    async fn all_wait(&self, times: usize) {
        let start = Clock::instant();
        while self.sent.load(Ordering::Relaxed) < times {
            assert!(start.elapsed() < SOON, "{:?} of {times}", self.sent);
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    }
}

/// How often it asked, and what it was told in the end.
async fn wait_in_line(arbiter: Arc<Arbiter>, terms: Arc<Terms>, sent: Arc<AtomicUsize>) -> (usize, Admitted) {
    let mut asked = 0;
    loop {
        let admitted = arbiter.admit(&arrival(1, 0), &terms).await.unwrap();
        asked += 1;
        if !matches!(admitted, Admitted::Duplicate(Duplicate::InFlight { .. })) {
            return (asked, admitted);
        }
        sent.fetch_add(1, Ordering::Relaxed);
        let place = arbiter.shared().lines.join(id(1)).unwrap();
        place.wait(LONG, LONG).await;
    }
}

async fn soon<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, task).await.expect("it is woken").unwrap()
}

#[tokio::test]
async fn a_completion_wakes_everyone_in_line_once_and_costs_no_further_call() {
    let ward = Ward::plain();
    let permit = ward.permit(1).await;
    ward.store.calls();
    let line = Line::of(&ward, 50);
    line.all_wait(50).await;
    assert_eq!(ward.store.calls(), 0, "this gateway knows what has just begun here");
    assert!(permit.settle(answered(&ward.terms, 201, 9)).await.is_ok());
    for waiter in line.waiters {
        let (asked, admitted) = soon(waiter).await;
        assert!(matches!(admitted, Admitted::Duplicate(Duplicate::Completed(_))));
        assert_eq!(asked, 2, "before the wait and after it");
    }
    assert_eq!(ward.store.calls(), 1, "the outcome's own; the waiters found it in the cache");
}

#[tokio::test]
async fn a_release_wakes_the_line_and_exactly_one_goes_on() {
    let ward = Ward::plain();
    let permit = ward.permit(1).await;
    ward.store.calls();
    let line = Line::of(&ward, 50);
    line.all_wait(50).await;
    assert!(matches!(permit.settle(answered(&ward.terms, 500, 0)).await, Ok(Settled::Released)));
    line.all_wait(99).await;
    let (gone_on, waiting): (Vec<_>, Vec<_>) = line.waiters.into_iter().partition(JoinHandle::is_finished);
    assert_eq!((gone_on.len(), waiting.len()), (1, 49));
    for waiter in gone_on {
        let (_, Admitted::Proceed(permit)) = soon(waiter).await else { panic!("told without an outcome") };
        assert_eq!(permit.number(), 1);
        assert!(matches!(permit.settle(answered(&ward.terms, 201, 9)).await, Ok(Settled::Kept(_))));
    }
    for waiter in waiting {
        assert!(matches!(soon(waiter).await, (3, Admitted::Duplicate(Duplicate::Completed(_)))));
    }
}
