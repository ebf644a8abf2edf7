//! What holds of two keys, in every state within the bounds; and rules that are broken on purpose, each found.

use std::cell::Cell;
use std::fmt::Write as _;

use oncegate::machine::InDoubt;

use super::audit::Broken;
use super::explore::{Model as _, explore};
use super::pair::{Action, KEYS, Pairs};
use super::plan::{Left, Plan};
use super::rules::Mutation;
use super::search::{is_wide, most};
use super::trace::{Mark, Marks, stored};

const LEFT: Left =
    Left { requests: 2, changed: 0, ticks: 2, leaps: 0, losses: 0, crashes: 0, failovers: 0, flushes: 0, probes: 0 };

fn hold(left: Left) -> Plan {
    Plan::new(2, InDoubt::Hold, left)
}

fn retry(left: Left) -> Plan {
    Plan::new(2, InDoubt::Retry, left)
}

fn pairs(plan: Plan) -> Pairs {
    Pairs { plan, marks: Cell::new(Marks::default()) }
}

/// The way in words: what happens, and what the store then holds of each key.
fn tell(pairs: &Pairs, way: &[Action]) -> String {
    let mut state = pairs.first();
    let mut text = String::new();
    for action in way {
        state = pairs.next(&state, *action);
        let held: Vec<_> = (0..KEYS).map(|key| stored(state.stored(key))).collect();
        writeln!(text, "  {:>2}  {:<44}  {}", state.now, format!("{action:?}"), held.join(" | ")).expect("it fits");
    }
    text
}

fn holds(plan: Plan, marks: &[Mark]) {
    let pairs = pairs(if is_wide() { plan.wider() } else { plan });
    let seen = explore(&pairs, most());
    println!("{:?}", pairs.plan.left);
    println!("{} states, {} steps, depth {}, whole: {}", seen.states, seen.steps, seen.depth, !seen.cut);
    if let Some((broken, way)) = seen.found {
        panic!("{broken:?} is broken after {} steps:\n{}", way.len(), tell(&pairs, &way));
    }
    assert!(is_wide() || !seen.cut, "the bounds are too wide");
    let unseen: Vec<_> = marks.iter().filter(|mark| !pairs.marks.get().has(**mark)).collect();
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
}

fn finds(plan: Plan, broken: Broken) {
    let pairs = pairs(plan);
    let seen = explore(&pairs, most());
    let Some((found, way)) = seen.found else {
        panic!("{:?} breaks nothing in {} states", pairs.plan.mutation, seen.states);
    };
    let told = tell(&pairs, &way);
    println!("{found:?} is broken after {} steps ({} states):\n{told}", way.len(), seen.states);
    assert_eq!(found, broken, "something else is broken:\n{told}");
}

#[test]
fn with_requests_alone() {
    holds(hold(Left { requests: 3, ticks: 0, ..LEFT }), &[Mark::BySecond, Mark::InDoubt, Mark::Replayed, Mark::Freed]);
}

#[test]
fn with_gateways_that_stand_still() {
    holds(hold(LEFT), &[Mark::InFlight, Mark::InDoubt, Mark::Replayed, Mark::BySecond, Mark::Lapsed, Mark::Late]);
    holds(hold(Left { ticks: 1, leaps: 1, ..LEFT }), &[Mark::Lapsed, Mark::Anew]);
}

#[test]
fn with_calls_that_are_not_answered() {
    holds(hold(Left { losses: 1, ticks: 1, ..LEFT }), &[Mark::Own, Mark::Withdrawn, Mark::NeverArrived]);
}

#[test]
fn with_crashes_between_claims_and_between_settles() {
    holds(hold(Left { crashes: 1, ..LEFT }), &[Mark::Healed, Mark::BySecond, Mark::InDoubt]);
}

#[test]
fn with_words_on_doubts() {
    holds(hold(Left { probes: 1, ..LEFT }), &[Mark::Found, Mark::Replayed]);
    // With two gateways it is more than twice as much (377,215 states), which is for nights.
    let one = Plan::new(1, InDoubt::Hold, Left { probes: 1, crashes: 1, ..LEFT });
    holds(one, &[Mark::Found, Mark::Absent, Mark::Healed]);
}

#[test]
fn with_further_attempts_over_doubts() {
    holds(retry(LEFT), &[Mark::Further, Mark::InDoubt, Mark::BySecond]);
    holds(retry(Left { crashes: 1, ..LEFT }), &[Mark::Further, Mark::Healed]);
}

macro_rules! broken_rules {
    ($($name:ident: $mutation:ident breaks $broken:ident in $plan:expr;)*) => {$(
        #[test]
        fn $name() {
            finds($plan.broken(Mutation::$mutation), Broken::$broken);
        }
    )*};
}

broken_rules! {
    both_are_claimed_before_anything_is_sent: SecondClaimedAfterSending breaks Forgotten in hold(LEFT);
    both_are_settled: SecondNotSettled breaks NotFreed in hold(LEFT);
    a_refused_second_frees_the_first: FirstNotFreed breaks NotFreed in hold(LEFT);
    a_doubt_is_tried_again_by_its_own_pair: AnothersDoubtIsTried breaks DoubtIsAState in retry(LEFT);
    an_outcome_beside_a_doubt_ends_it: NobodyLooksBeside breaks HalvesDiffer in hold(Left { crashes: 1, ..LEFT });
    one_word_ends_both_halves: WordEndsOneHalf breaks HalfAWord in hold(Left { probes: 1, ..LEFT });
}
