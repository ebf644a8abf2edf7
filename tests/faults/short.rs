//! The drills in their short form. `ONCEGATE_FAULTS_SEED` repeats the choices of a run.

use std::time::Duration;

use crate::drill::{Plan, Report};
use crate::scene::Backing;

const SEED: &str = "ONCEGATE_FAULTS_SEED";

pub(crate) fn seed() -> u64 {
    let given = std::env::var(SEED).ok().map(|text| text.parse().expect("a number"));
    let seed = given.unwrap_or_else(rand::random);
    println!("{SEED}={seed}");
    seed
}

pub(crate) fn drill(title: &str, plan: &Plan) -> Report {
    let report = plan.run();
    println!("{}", report.table(title));
    report.assert_true();
    report
}

#[test]
fn gateways_over_one_redis() {
    let report = drill("three gateways over one Redis", &Plan::short(Backing::Redis, 3, seed()));
    let seen = &report.figures;
    // Otherwise nothing was hit, and nothing was shown.
    assert!(seen.unheard > 0 && seen.kept > 100 && seen.replays > 100 && seen.doubts > 0, "{seen:?}");
}

#[test]
fn a_gateway_with_the_embedded_store() {
    let report = drill("a gateway with the embedded store", &Plan::short(Backing::Embedded, 1, seed()));
    let seen = &report.figures;
    assert!(seen.unheard > 0 && seen.kept > 100 && seen.replays > 100 && seen.doubts > 0, "{seen:?}");
}

/// Nodes that die, and others that are silent for a moment; claims and outcomes wait for one replica.
#[test]
fn gateways_over_sentinels() {
    let mut plan = Plan::short(Backing::Sentinels, 2, seed());
    plan.most = Duration::from_secs(10);
    let seen = drill("two gateways over Redis under sentinels", &plan).figures;
    assert!(seen.kept > 50 && seen.replays > 50, "{seen:?}");
}

/// Nodes that die or are cut off and come back; every primary has one replica, and claims and outcomes wait for it.
#[test]
fn gateways_over_a_cluster() {
    let mut plan = Plan::short(Backing::Cluster, 2, seed());
    plan.most = Duration::from_secs(10);
    let seen = drill("two gateways over a cluster", &plan).figures;
    assert!(seen.kept > 50 && seen.replays > 50, "{seen:?}");
}

/// P5: clients that leave, and nothing else: every operation that was sent ends, and none in doubt.
#[test]
fn clients_that_leave_change_nothing() {
    let mut plan = Plan::short(Backing::Redis, 2, seed());
    (plan.beat, plan.most) = (None, Duration::from_secs(4));
    (plan.manner.failures, plan.manner.very_slow) = (0, 0);
    let report = drill("clients that leave", &plan);
    let seen = &report.figures;
    // What was no more than a claim may be in doubt when its gateway is killed in the end.
    assert!(seen.unheard > 10 && seen.doubts == seen.doubts_in_vain, "{seen:?}");
    assert_eq!(seen.kept + seen.doubts, seen.operations, "{seen:?}");
}
