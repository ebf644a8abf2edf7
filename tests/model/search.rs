//! Searches that must find nothing, and searches that must find something.

use super::audit::Broken;
use super::explore::explore;
use super::plan::Plan;
use super::trace::{Mark, tell};
use super::world::World;

/// States looked at in a wide search, unless `ONCEGATE_MODEL_STATES` says otherwise.
const WIDE: usize = 20_000_000;

/// Whether nights are meant: `ONCEGATE_MODEL=wide`.
pub(crate) fn is_wide() -> bool {
    std::env::var("ONCEGATE_MODEL").is_ok_and(|text| text == "wide")
}

/// How many states a search may look at.
pub(crate) fn most() -> usize {
    std::env::var("ONCEGATE_MODEL_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDE)
}

/// No state within the plan's bounds breaks a promise, and each of these things happens in some.
pub(crate) fn holds(plan: Plan, marks: &[Mark]) {
    let most = most();
    let world = World::new(if is_wide() { plan.wider() } else { plan });
    let seen = explore(&world, most);
    println!("{:?}", world.plan.left);
    println!("{} states, {} steps, depth {}, whole: {}", seen.states, seen.steps, seen.depth, !seen.cut);
    if let Some((broken, way)) = seen.found {
        panic!("{broken:?} is broken after {} steps:\n{}", way.len(), tell(&world, &way));
    }
    assert!(is_wide() || !seen.cut, "the bounds are too wide for {most} states");
    let unseen: Vec<_> = marks.iter().filter(|mark| !world.marks.get().has(**mark)).collect();
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
}

/// The nearest broken promise within the plan's bounds is this one. Returns the way there, in words.
pub(crate) fn finds(plan: Plan, broken: Broken) -> String {
    let world = World::new(plan);
    let seen = explore(&world, WIDE);
    let Some((found, way)) = seen.found else {
        panic!("{:?} breaks nothing in {} states", world.plan.mutation, seen.states);
    };
    let told = tell(&world, &way);
    println!("{found:?} is broken after {} steps ({} states):\n{told}", way.len(), seen.states);
    assert_eq!(found, broken, "something else is broken:\n{told}");
    told
}
