//! Several gateways over one store under a seed, with every fault we can think of: requests with one key, or with two. Not
//! a test of stores or of HTTP.
//!
//! `ONCEGATE_SIM_SEEDS=n` runs more seeds; `ONCEGATE_SIM_SEED=n` replays one and prints its trace.

#[path = "support/alike.rs"]
mod alike;
#[path = "simulation/audit.rs"]
mod audit;
#[path = "simulation/dice.rs"]
mod dice;
#[path = "simulation/gateway.rs"]
mod gateway;
#[path = "simulation/pair.rs"]
mod pair;
#[path = "simulation/rules.rs"]
mod rules;
#[path = "simulation/settling.rs"]
mod settling;
#[path = "simulation/store.rs"]
mod store;
#[path = "simulation/task.rs"]
mod task;
#[path = "simulation/upstream.rs"]
mod upstream;
#[path = "simulation/words.rs"]
mod words;
#[path = "simulation/world.rs"]
mod world;

use audit::{Broken, Invariant};
use rules::Mutation;
use world::{Options, World};

/// Seeds in a plain test run.
const SEEDS: u64 = 10_000;
/// Every so many seeds run twice, once with clients that leave.
const LEAVERS_EVERY: u64 = 4;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a seed; where clients leave, it must come to the same as when they stay.
fn run(seed: u64, mutation: Option<Mutation>, leavers: bool) -> Result<(), Broken> {
    let sum = World::new(seed, Options { mutation, ..Options::default() }).run()?;
    if !leavers {
        return Ok(());
    }
    let other = World::new(seed, Options { mutation, leavers, trace: false }).run();
    match other {
        Ok(other) if other == sum => Ok(()),
        Ok(other) => {
            Err(Broken { invariant: Invariant::LeavingChangesNothing, what: format!("{sum:?} but {other:?}") })
        }
        Err(broken) => {
            let what = format!("clients left, and then {broken}");
            Err(Broken { invariant: Invariant::LeavingChangesNothing, what })
        }
    }
}

fn trace(seed: u64, mutation: Option<Mutation>) -> String {
    let mut world = World::new(seed, Options { mutation, leavers: false, trace: true });
    let end = match world.run() {
        Ok(sum) => format!("{sum:?}"),
        Err(broken) => broken.to_string(),
    };
    format!("{}\n{end}", world.trace.unwrap_or_default().join("\n"))
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("ONCEGATE_SIM_SEED") {
        println!("{}", trace(seed, None));
        run(seed, None, true).expect("the seed breaks no promise");
        return;
    }
    let seeds = number("ONCEGATE_SIM_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        if let Err(broken) = run(seed, None, seed % LEAVERS_EVERY == 0) {
            panic!("{}\nONCEGATE_SIM_SEED={seed} broke {broken}", trace(seed, None));
        }
    }
}

/// A simulation that no longer reaches what it is about would pass without a word.
#[test]
fn the_seeds_reach_what_they_are_about() {
    let mut unseen = vec![
        "recognises its own claim",
        "is withdrawn",
        "in doubt, LeaseLost",
        "in doubt, Broken",
        "in doubt, TimedOut",
        "in doubt, Status(502)",
        "in doubt, Abandoned",
        "in doubt, RetryNotSent",
        "(number 3) in flight",
        "settled: Kept",
        "settled: Released",
        "settled: NotSent",
        "settled: Doubted",
        "settled: Superseded",
        "duplicate: InFlight",
        "duplicate: InDoubt",
        "duplicate: Completed",
        "duplicate: Changed",
        "crashes",
        "expires",
        "it may still be executed",
        "is refused by its second",
        "dies between its claims",
        "is no longer in doubt by what was held beside it",
        "judgement: Keep, status: 200, answer: Told { by: Probe",
        "judgement: Keep, status: 200, answer: Told { by: Operator",
        "judgement: Release, status: 404",
        // The settling of a record that the store has forgotten.
        "if absent, a1/327680 (number 1) completed",
    ];
    for seed in 0..SEEDS {
        let trace = trace(seed, None);
        unseen.retain(|phrase| !trace.contains(phrase));
        if unseen.is_empty() {
            return;
        }
    }
    panic!("never seen: {unseen:?}");
}

/// A broken rule must be found, by the invariant that belongs to it.
fn finds(mutation: Mutation, invariant: Invariant, seeds: u64) {
    let mut others = Vec::new();
    for seed in 0..seeds {
        match run(seed, Some(mutation), mutation == Mutation::LeaverDropsPermit) {
            Err(broken) if broken.invariant == invariant => return,
            Err(broken) => others.push(broken.invariant),
            Ok(()) => {}
        }
    }
    panic!("{mutation:?} did not break {invariant:?} within {seeds} seeds, only {others:?}");
}

macro_rules! broken_rules {
    ($($name:ident: $mutation:ident breaks $invariant:ident within $seeds:literal;)*) => {$(
        #[test]
        fn $name() {
            finds(Mutation::$mutation, Invariant::$invariant, $seeds);
        }
    )*};
}

broken_rules! {
    a_lapsed_lease_is_not_an_absence: LapsedIsAbsent breaks DoubtIsAState within 200;
    a_running_attempt_is_not_free: InFlightIsFree breaks OneAtATime within 200;
    settling_respects_the_fence: SettleIgnoresFence breaks Fence within 1000;
    a_retry_that_was_not_sent_leaves_the_doubt: RetryNotSentReleases breaks OnlyProofReleases within 1000;
    a_dropped_permit_does_not_release: DroppedPermitReleases breaks OnlyProofReleases within 200;
    a_claim_outlives_its_lease: ClaimExpiresWithLease breaks DoubtIsAState within 200;
    a_withdrawal_respects_the_fence: WithdrawWithoutFence breaks Fence within 1000;
    a_withdrawal_leaves_the_doubt: WithdrawForgetsDoubt breaks OnlyProofReleases within 2000;
    an_outcome_is_kept_for_its_retention: CompletedExpiresEarly breaks OnceDoneDone within 1000;
    a_leaver_does_not_stop_its_attempt: LeaverDropsPermit breaks LeavingChangesNothing within 200;
    every_lease_lapses: NothingLapses breaks NothingHangs within 200;
    time_is_not_the_wall_clock: WallClock breaks OnceDoneDone within 1000;
    a_changed_request_is_not_a_retry: ChangedIsSame breaks ChangedIsNoRetry within 1000;
    both_are_claimed_before_anything_is_sent: SecondClaimedAfterSending breaks OneAtATime within 200;
    both_are_settled: SecondNotSettled breaks NothingIsLeft within 200;
    a_refused_second_frees_the_first: FirstNotFreed breaks NothingIsLeft within 200;
    all_claim_in_one_order: OrderDiffers breaks SecondHoldsAll within 200;
    a_doubt_is_tried_again_by_its_own_pair: AnothersDoubtIsTried breaks DoubtIsAState within 1000;
    an_outcome_beside_a_doubt_ends_it: NobodyLooksBeside breaks BothEndAlike within 1000;
    absence_beside_a_doubt_proves_nothing: AbsentBesideFrees breaks OnlyProofReleases within 1000;
    the_outcome_of_another_pair_ends_no_doubt: AnothersOutcomeCounts breaks OnceDoneDone within 2000;
    one_word_ends_both_halves: WordEndsOneHalf breaks OneWordForBoth within 1000;
}
