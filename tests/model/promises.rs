//! What holds, and how far: P1 to P5 and P7 in every state within the bounds.

use oncegate::machine::InDoubt;

use super::plan::{Left, PROBES, Plan};
use super::search::holds;
use super::trace::Mark;

const LEFT: Left =
    Left { requests: 2, changed: 0, ticks: 1, leaps: 1, losses: 0, crashes: 0, failovers: 0, flushes: 0, probes: 0 };

fn hold(gateways: usize, left: Left) -> Plan {
    Plan::new(gateways, InDoubt::Hold, left)
}

#[test]
fn with_requests_alone() {
    let plan = hold(2, Left { requests: 3, changed: 1, leaps: 0, ..LEFT });
    holds(
        plan,
        &[Mark::InFlight, Mark::InDoubt, Mark::Changed, Mark::Replayed, Mark::Kept, Mark::Doubted, Mark::Freed],
    );
}

/// What a look brings may be old when it is judged: whatever is written over it is conditional on it.
#[test]
fn with_requests_that_look_before_they_claim() {
    let looking = |left| hold(2, left).looking();
    let marks = [Mark::InFlight, Mark::InDoubt, Mark::Changed, Mark::Replayed, Mark::Freed];
    holds(looking(Left { requests: 3, changed: 1, ticks: 0, leaps: 0, ..LEFT }), &marks);
    holds(looking(Left { ticks: 2, ..LEFT }), &[Mark::TooLate, Mark::Lapsed, Mark::Late, Mark::Anew]);
    holds(looking(Left { losses: 1, ..LEFT }), &[Mark::Own, Mark::Withdrawn]);
    holds(looking(Left { crashes: 1, ..LEFT }), &[Mark::Lapsed, Mark::InDoubt]);
    holds(looking(Left { failovers: 1, ticks: 0, ..LEFT }).replica(2).wait(), &[Mark::Kept]);
    holds(hold(1, Left { flushes: 1, ..LEFT }).exact().looking(), &[Mark::Recalled, Mark::Anew]);
    holds(Plan::new(2, InDoubt::Retry, LEFT).looking(), &[Mark::Further]);
    holds(hold(2, LEFT).sliding().looking(), &[Mark::Slid, Mark::Replayed]);
}

#[test]
fn with_gateways_that_stand_still() {
    holds(hold(2, Left { ticks: 2, ..LEFT }), &[Mark::TooLate, Mark::Lapsed, Mark::Late, Mark::Anew]);
}

#[test]
fn with_calls_that_are_not_answered() {
    holds(hold(2, Left { losses: 2, leaps: 0, ..LEFT }), &[Mark::Own, Mark::Withdrawn, Mark::NeverArrived]);
    holds(hold(2, Left { losses: 1, ..LEFT }), &[Mark::Late]);
}

#[test]
fn with_crashes() {
    holds(hold(2, Left { crashes: 1, ..LEFT }), &[Mark::Lapsed, Mark::InDoubt]);
    holds(hold(2, Left { crashes: 1, losses: 1, ticks: 0, ..LEFT }), &[Mark::Withdrawn]);
}

#[test]
fn with_failovers_where_the_replica_is_waited_for() {
    holds(hold(2, Left { failovers: 1, ..LEFT }).replica(2).wait(), &[Mark::Late, Mark::Kept]);
    holds(hold(2, Left { failovers: 1, losses: 1, ticks: 0, ..LEFT }).replica(2).wait(), &[Mark::Withdrawn]);
    holds(hold(2, Left { failovers: 1, crashes: 1, ticks: 0, ..LEFT }).replica(2).wait(), &[Mark::InDoubt]);
}

#[test]
fn with_a_store_that_loses_writes_where_the_only_gateway_knows_what_it_dispatched() {
    let one = |left| hold(1, left).exact();
    holds(one(Left { flushes: 1, ..LEFT }), &[Mark::Recalled, Mark::Anew]);
    holds(one(Left { failovers: 1, ..LEFT }).replica(2), &[Mark::Recalled]);
    holds(one(Left { flushes: 1, losses: 1, ticks: 0, leaps: 0, requests: 3, ..LEFT }), &[Mark::Recalled, Mark::Own]);
}

/// Knowing what was dispatched blocks no key while the store loses nothing.
#[test]
fn with_exact_knowledge_and_a_store_that_loses_nothing() {
    let marks = [Mark::Freed, Mark::InFlight, Mark::Withdrawn];
    holds(hold(2, Left { losses: 1, ..LEFT }).exact(), &marks);
}

/// Whatever the upstream executes, and whenever within `absent_after`: findings get lost, come early, and race late
/// answers and each other.
#[test]
fn with_an_upstream_that_is_asked() {
    let one = |left| Plan::new(1, PROBES, Left { probes: 1, ..left });
    let marks = [Mark::Found, Mark::Absent, Mark::Early, Mark::Unheard];
    let raced = [Mark::Outrun, Mark::Late, Mark::Lapsed];
    holds(one(Left { ticks: 2, ..LEFT }), &[&marks[..], &raced].concat());
    holds(one(Left { losses: 1, ..LEFT }), &marks);
    holds(one(Left { crashes: 1, ..LEFT }), &marks);
    holds(one(Left { failovers: 1, ..LEFT }).replica(2).wait(), &marks);
    holds(one(Left { flushes: 1, ..LEFT }).exact(), &[&marks[..], &[Mark::Recalled]].concat());
}

#[test]
fn with_two_gateways_that_ask() {
    let two = |left| Plan::new(2, PROBES, Left { probes: 2, ..left });
    let marks = [Mark::Found, Mark::Absent, Mark::Early, Mark::Outrun, Mark::Replayed];
    holds(two(Left { leaps: 0, ..LEFT }), &marks);
    holds(two(LEFT), &marks);
}

/// An outcome is remembered for a retention from the last duplicate on that was told so.
#[test]
fn with_windows_that_slide() {
    let sliding = |left| hold(2, left).sliding();
    holds(sliding(Left { requests: 3, ..LEFT }), &[Mark::Slid, Mark::Replayed, Mark::Anew]);
    holds(sliding(Left { losses: 1, ..LEFT }), &[Mark::Slid, Mark::Withdrawn]);
}

#[test]
fn with_further_attempts_over_doubts() {
    let retry = |left| Plan::new(2, InDoubt::Retry, left);
    holds(retry(Left { ticks: 2, ..LEFT }), &[Mark::Further, Mark::Superseded]);
    holds(retry(Left { changed: 1, losses: 1, ticks: 0, ..LEFT }), &[Mark::Further, Mark::Withdrawn, Mark::Changed]);
    holds(retry(Left { crashes: 1, ..LEFT }), &[Mark::Further]);
}
