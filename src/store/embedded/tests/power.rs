//! What was acknowledged is there after a power cut and after any fault of the disk; nothing else is made up.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::medium::{Fault, Medium};
use super::*;
use crate::machine::{Answer, Recorded};

/// Numbers that a seed determines.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// What may be stored under an operation.
#[derive(Default)]
struct Known {
    /// What the store has acknowledged last.
    acknowledged: Option<Record>,
    /// What calls without an answer may have left.
    perhaps: Vec<Option<Record>>,
}

/// A store over a medium, and what it has been told.
struct World {
    medium: Medium,
    folder: tempfile::TempDir,
    known: BTreeMap<u8, Known>,
    dice: Dice,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        disk::create(folder.path()).unwrap();
        let image = std::fs::read(folder.path().join(FILE)).unwrap();
        Self { medium: Medium::new(image), folder, known: BTreeMap::new(), dice: Dice(seed) }
    }

    fn open(&self) -> Result<EmbeddedStore, OpenError> {
        let medium = self.medium.clone();
        let reopen: Reopen = Box::new(move |builder| Ok(builder.create_with_backend(medium.clone())?));
        let settings = Settings::at(self.folder.path());
        EmbeddedStore::start(&settings, reopen, TIMEOUT, Clock::system(), Codec::default())
    }

    /// Some changes at once, as they come: reservations, settlements, removals.
    async fn change(&mut self, store: &EmbeddedStore) {
        let width = 1 + self.dice.below(4);
        let mut changes: BTreeMap<u8, (Expect, Option<Record>)> = BTreeMap::new();
        for _ in 0..width {
            let op = u8::try_from(self.dice.below(40)).unwrap();
            let known = self.known.entry(op).or_default();
            if !known.perhaps.is_empty() {
                // Nobody could say what to expect there.
                continue;
            }
            let size = self.dice.below(9_000);
            let change = match &known.acknowledged {
                None => (Expect::Absent, Some(lasting(op))),
                Some(held) if held.fence.version < 4 => (Expect::Fence(held.fence), Some(settled(held, size))),
                Some(held) => (Expect::Fence(held.fence), None),
            };
            changes.insert(op, change);
        }
        let calls =
            changes.iter().map(|(op, (expect, put))| store.change(&ID[usize::from(*op)], *expect, put.as_ref()));
        let answers = futures_util::future::join_all(calls).await;
        for ((op, (_, put)), answer) in changes.into_iter().zip(answers) {
            let known = self.known.get_mut(&op).unwrap();
            match answer {
                Ok(Written::Done) => known.acknowledged = put,
                Ok(Written::Lost(found)) => panic!("operation {op} lost to {found:?}, and nobody else writes"),
                Err(StoreError::Unavailable(_)) => known.perhaps.push(put),
                Err(error) => panic!("operation {op}: {error}"),
            }
        }
    }

    /// Everything that was acknowledged is there; what had no answer is there or not.
    async fn verify(&self, store: &EmbeddedStore, when: &str) {
        for (op, known) in &self.known {
            let found = store.load(&ID[usize::from(*op)]).await.unwrap_or_else(|error| panic!("{when}: {op}: {error}"));
            let true_one = found == known.acknowledged || known.perhaps.contains(&found);
            let version = |record: &Option<Record>| record.as_ref().map(|record| record.fence.version);
            let (last, found) = (version(&known.acknowledged), version(&found));
            assert!(true_one, "{when}: operation {op}: version {last:?} was acknowledged, {found:?} is there");
        }
    }

    /// The same world after its power has gone.
    fn cut(mut self) -> Self {
        self.medium = self.medium.after_power_cut(|end| self.dice.below(end));
        self
    }
}

static ID: std::sync::LazyLock<Vec<OperationId>> = std::sync::LazyLock::new(|| (0..40).map(id).collect());

fn settled(held: &Record, size: usize) -> Record {
    let fence = Fence { version: held.fence.version + 1, ..held.fence };
    let answer = Answer::Recorded(Recorded::bare(201, &vec![fence.attempt.0[0]; size]));
    Record { fence, state: State::Completed { at: Time(1), answer }, ..held.clone() }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs until the power goes after so many steps of the disk, and again on what that has left.
async fn through_a_power_cut(seed: u64, step: usize) {
    let mut world = World::new(seed);
    let store = world.open().unwrap();
    world.medium.plan([(step, Fault::PowerCut)]);
    for _ in 0..40 {
        world.change(&store).await;
    }
    drop(store);
    let mut world = world.cut();
    let store = world.open().unwrap_or_else(|error| panic!("after a cut at {step}: {error}"));
    world.verify(&store, &format!("after a cut at {step}")).await;
    // And what the repair has made of it holds, through a second one.
    for _ in 0..5 {
        world.change(&store).await;
    }
    world.medium.plan([(0, Fault::PowerCut)]);
    drop(store);
    let world = world.cut();
    world.verify(&world.open().unwrap(), "after a second cut").await;
}

/// Runs while the disk fails as planned, waits until the store has found it well again, and goes on.
async fn through_faults(seed: u64, faults: Vec<(usize, Fault)>) {
    let mut world = World::new(seed);
    let store = world.open().unwrap();
    world.medium.plan(faults);
    for _ in 0..30 {
        world.change(&store).await;
    }
    world.medium.plan([]);
    recovered(&store).await;
    world.verify(&store, "after the faults").await;
    for _ in 0..10 {
        world.change(&store).await;
    }
    world.verify(&store, "going on").await;
    world.medium.plan([(0, Fault::PowerCut)]);
    drop(store);
    let world = world.cut();
    world.verify(&world.open().unwrap(), "after faults and a power cut").await;
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![Just(Fault::Fails), Just(Fault::Full), (0..5_000_usize).prop_map(Fault::Torn)]
}

/// A cut at any of the steps below falls into the work.
#[test]
fn the_work_takes_more_steps_than_are_tried() {
    let mut world = World::new(7);
    block_on(async {
        let store = world.open().unwrap();
        for _ in 0..40 {
            world.change(&store).await;
        }
        let steps = world.medium.steps();
        assert!((STEPS..STEPS * 3).contains(&steps), "{steps} steps");
    });
}

/// Steps of the disk among which a cut is tried.
const STEPS: usize = 400;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_outlives_a_power_cut(seed: u64, step in 0..STEPS) {
        block_on(through_a_power_cut(seed, step));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_outlives_faults_of_the_disk(
        seed: u64,
        faults in prop::collection::vec((0..STEPS, 1..6_usize, fault()), 1..4),
    ) {
        let planned = faults.into_iter().flat_map(|(from, count, fault)| (from..from + count).map(move |step| (step, fault)));
        block_on(through_faults(seed, planned.collect()));
    }
}
