//! A primary killed under load: how long the service is away, what clients are told meanwhile, and that nothing of what
//! was answered is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::drill::{Plan, Report};
use crate::gateway::wait_until;
use crate::history::{Ailment, Moment, News};
use crate::redis::until;
use crate::scene::{Backing, COMMAND_TIMEOUT};
use crate::short::seed;
use crate::world::World;

/// How long the service may be away on a machine that does nothing else, in milliseconds; and on a busy one.
const SOON: u64 = 5_000;
const BUSY: u64 = 15_000;

/// What an answer may take over the command timeout on a busy machine, in milliseconds.
const MARGIN: u64 = 2_000;

#[test]
fn a_primary_under_sentinels_is_killed() {
    kill_a_primary("a primary under sentinels, killed", Backing::Sentinels);
}

#[test]
fn a_primary_of_a_cluster_is_killed() {
    // With one replica a primary, claims that wait for it would wait for the one that was killed.
    kill_a_primary("a primary of a cluster, killed", Backing::HastyCluster);
}

/// The one that was killed comes back, empty, as soon as all know its successor: while that takes the first requests.
#[test]
fn a_primary_under_sentinels_comes_back_at_once() {
    kill("a primary under sentinels, killed and back at once", Backing::Sentinels, |_| {});
}

fn kill_a_primary(title: &str, backing: Backing) {
    let (away, longest) = kill(title, backing, |world| {
        // Everybody asks for fresh keys all the time: it is over when so many have begun since the last refusal.
        let mut last = (world.refused_by_store(), world.count());
        until("the service is back", || {
            if world.refused_by_store() != last.0 {
                last = (world.refused_by_store(), world.count());
            }
            last.0 > 0 && world.count() > last.1 + 300
        });
    });
    println!("{title}: service back after {away} ms; the longest answer meanwhile took {longest} ms");
    assert!(away < BUSY, "away for {away} ms, and {SOON} are promised where nothing else runs");
    assert!(longest < COMMAND_TIMEOUT + MARGIN, "an answer took {longest} ms");
}

/// Kills a primary under load, and starts it again after `meanwhile`. How long the service was away, and the longest that
/// somebody waited for a refusal, in milliseconds.
fn kill(title: &str, backing: Backing, meanwhile: impl FnOnce(&World)) -> (u64, u64) {
    let mut plan = Plan::short(backing, 2, seed());
    (plan.manner.failures, plan.manner.very_slow) = (0, 0);
    let mut killed = Moment::default();
    let report = plan.run_under(|scene, world| {
        let group = scene.store.group().unwrap();
        wait_until("the load has begun", || world.count() > 100);
        let primary = group.primaries()[0];
        let trouble = world.begin(Ailment::Store, "primary killed");
        killed = world.now();
        group.nodes()[primary].kill();
        meanwhile(world);
        group.restart(primary);
        until("the one that was killed follows", || group.is_whole());
        world.end(trouble);
        std::thread::sleep(Duration::from_millis(500));
        BTreeMap::from([("primary killed".to_owned(), 1)])
    });
    println!("{}", report.table(title));
    report.assert_true();
    let (away, longest) = outage(&report, killed);
    assert!(away > 0, "nobody was refused: the kill hit nothing");
    assert!(report.figures.kept > 200, "{:?}", report.figures);
    (away, longest)
}

/// From the kill to the last refusal, and the longest that a refused request waited, in milliseconds.
fn outage(report: &Report, killed: Moment) -> (u64, u64) {
    let exchanges = report.stories.values().flat_map(|story| &story.exchanges);
    let meanwhile = exchanges.filter(|exchange| exchange.heard.tick > killed.tick);
    let is_refused = |news: &News| matches!(news, News::Refused { code, .. } if code == "store-unavailable");
    let refused: Vec<_> = meanwhile.filter(|exchange| is_refused(&exchange.news)).collect();
    let last = refused.iter().map(|exchange| exchange.heard.millis - killed.millis).max();
    let longest = refused.iter().map(|exchange| exchange.heard.millis - exchange.asked.millis).max();
    (last.unwrap_or(0), longest.unwrap_or(0))
}
