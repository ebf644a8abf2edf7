//! Where the promises end, as the design says: writes that a store had acknowledged and lost. Each exception is found by
//! the search, which shows the shortest way to it; that it is gone where it should be is shown among the promises.

use oncegate::machine::InDoubt;

use super::audit::Broken;
use super::plan::{Left, PROBES, Plan};
use super::search::finds;

const LEFT: Left =
    Left { requests: 2, changed: 0, ticks: 0, leaps: 0, losses: 0, crashes: 0, failovers: 0, flushes: 0, probes: 0 };

fn hold(gateways: usize, left: Left) -> Plan {
    Plan::new(gateways, InDoubt::Hold, left)
}

#[test]
fn an_asynchronous_failover_can_run_an_operation_twice() {
    let way = finds(hold(2, Left { failovers: 1, ..LEFT }).replica(2), Broken::OneAtATime);
    assert_eq!(way.matches("FORWARDED").count(), 2, "{way}");
    assert!(way.contains("without the last 1 writes"), "{way}");
}

#[test]
fn so_can_a_flush() {
    finds(hold(2, Left { flushes: 1, ..LEFT }), Broken::OneAtATime);
    // What the replica had is gone with it.
    finds(hold(2, Left { flushes: 1, ..LEFT }).replica(2).wait(), Broken::OneAtATime);
}

#[test]
fn what_another_gateway_dispatched_is_not_known_here() {
    let way = finds(hold(2, Left { failovers: 1, ..LEFT }).replica(2).exact(), Broken::OneAtATime);
    assert!(
        way.contains("gateway 0: attempt 1 is FORWARDED") && way.contains("gateway 1: attempt 2 is FORWARDED"),
        "{way}"
    );
}

#[test]
fn what_was_dispatched_before_a_crash_is_not_known_after() {
    let way = finds(hold(1, Left { flushes: 1, crashes: 1, ..LEFT }).exact(), Broken::DoubtIsAState);
    assert!(way.contains("CRASHES"), "{way}");
}

/// The assumption that `absent_after` stands for is needed.
#[test]
fn an_upstream_that_executes_later_than_it_should_runs_an_operation_twice() {
    let way = finds(Plan::new(1, PROBES, Left { ticks: 1, probes: 1, ..LEFT }).unruly(), Broken::ExecutedTwice);
    assert_eq!(way.matches("EXECUTES").count(), 2, "{way}");
}
