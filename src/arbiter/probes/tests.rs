//! Tests of when doubts are asked about, and by how many.

use super::*;
use crate::arbiter::Settings;
use crate::clock::Clock;
use crate::store::filter::{self, Filter};
use crate::telemetry::Metrics;

const ORDERS: NamespaceTag = NamespaceTag(1);
const PAYMENTS: NamespaceTag = NamespaceTag(2);

fn shared() -> Arc<Shared> {
    let clock = Clock::manual(Time(1_000));
    let filter = filter::Settings { capacity: 1_000, false_positive_rate: 0.01, lifetime: Duration::from_hours(1) };
    let settings = Settings { replay_cache: 0, waiters: 1, dispatched: 0, outcomes_waiting: 0, alone: true };
    let filter = Filter::new(filter, clock.clone()).unwrap();
    Arc::new(Shared::new(settings, filter, None, Arc::new(Metrics::new().unwrap()), clock))
}

fn id(number: usize) -> OperationId {
    let mut id = OperationId([0; 32]);
    id.0[..8].copy_from_slice(&number.to_be_bytes());
    id
}

fn plan(shared: &Shared, number: usize, due: u64) -> bool {
    shared.probes.plan(id(number), ORDERS, Time(due), shared.clock.now())
}

fn due(shared: &Arc<Shared>) -> Vec<OperationId> {
    Probes::due(shared).iter().map(|(_, asking)| *asking.operation()).collect()
}

#[test]
fn each_is_asked_about_in_its_time_the_oldest_first() {
    let shared = shared();
    for (number, time) in [(1, 3_000), (2, 2_000), (3, 1_500), (3, 9_000)] {
        assert!(plan(&shared, number, time));
    }
    assert_eq!(due(&shared), []);
    shared.clock.advance(Duration::from_secs(1));
    assert_eq!(due(&shared), [id(3), id(2)], "a second plan does not put the first off");
    assert_eq!(due(&shared), [id(3), id(2)], "nobody asked, as both turns were dropped");
    for (_, asking) in Probes::due(&shared) {
        let next = (*asking.operation() == id(2)).then_some(Time(2_500));
        asking.end(next, Time(0));
    }
    assert_eq!(shared.probes.len(), 2, "what is over is forgotten");
    shared.clock.advance(Duration::from_secs(1));
    assert_eq!(due(&shared), [id(2), id(1)]);
}

#[test]
fn what_is_being_asked_about_is_nobody_elses_turn() {
    let shared = shared();
    assert!(plan(&shared, 1, 0));
    let held = Probes::due(&shared);
    assert_eq!((held.len(), due(&shared).len()), (1, 0));
    assert!(matches!(Probes::turn(&shared, id(1), ORDERS), Turn::Wait(_)));
    drop(held);
    let Turn::Ask(asking, _) = Probes::turn(&shared, id(1), ORDERS) else { panic!("it was free") };
    assert_eq!(due(&shared), []);
    asking.end(None, Time(1_500));
    assert!(matches!(Probes::turn(&shared, id(1), ORDERS), Turn::Leave), "asked just now");
    shared.clock.advance(Duration::from_millis(500));
    assert!(matches!(Probes::turn(&shared, id(1), ORDERS), Turn::Ask(..)));
    assert!(shared.probes.is_empty());
}

#[tokio::test]
async fn who_waits_is_woken_by_the_end_however_it_comes() {
    let shared = shared();
    for ended in [true, false] {
        let Turn::Ask(asking, first) = Probes::turn(&shared, id(1), ORDERS) else { panic!("not the first") };
        let Turn::Wait(second) = Probes::turn(&shared, id(1), ORDERS) else { panic!("nobody asks") };
        let both = tokio::spawn(async move { tokio::join!(first.over(), second.over()) });
        tokio::task::yield_now().await;
        assert!(!both.is_finished());
        if ended {
            asking.end(None, Time(0));
        } else {
            drop(asking);
        }
        tokio::time::timeout(Duration::from_secs(20), both).await.unwrap().unwrap();
    }
}

#[test]
fn one_upstream_does_not_take_the_turns_of_the_others() {
    let shared = shared();
    for number in 0..3 * AT_ONCE.0 {
        assert!(plan(&shared, number, 0));
    }
    assert!(shared.probes.plan(id(9_999), PAYMENTS, Time(500), Time(1_000)));
    let turns = Probes::due(&shared);
    assert_eq!(turns.iter().filter(|(namespace, _)| *namespace == ORDERS).count(), AT_ONCE.0);
    assert_eq!(turns.iter().filter(|(namespace, _)| *namespace == PAYMENTS).count(), 1);
    assert!(shared.probes.plan(id(9_998), PAYMENTS, Time(500), Time(1_000)));
    assert_eq!(due(&shared), [id(9_998)], "while the one is silent, its places are taken, and nobody else's");
    drop(turns);
    assert_eq!(due(&shared).len(), AT_ONCE.0 + 2);
}

#[test]
fn only_so_many_are_kept_in_mind_and_those_that_are_due_go_first() {
    let shared = shared();
    for number in 0..10 {
        let Turn::Ask(asking, _) = Probes::turn(&shared, id(number), ORDERS) else { panic!("no turn") };
        asking.end(None, Time(1_000_000));
    }
    for number in 10..10 + MOST {
        assert!(plan(&shared, number, 5_000), "{number}");
    }
    assert_eq!(shared.probes.len(), MOST);
    assert!(!plan(&shared, 0, 5_000));
    assert!(plan(&shared, 10, 4_000), "this one is there already");
    assert!(matches!(Probes::turn(&shared, id(0), ORDERS), Turn::Leave));
}
