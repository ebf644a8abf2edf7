//! A drill: clients ask while a storm rages over the machines; then everything is asked for once more, of gateways that
//! remember nothing by themselves, and the verdict is spoken.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncegate::clock::Clock;

use crate::clients::Client;
use crate::gateway::wait_until;
use crate::history::{Ailment, Moment, Name, News, Story, Trouble};
use crate::redis::until;
use crate::scene::{Backing, Clocks, LEASE, Member, RESPONSE_TIMEOUT, Scene};
use crate::storm::Storm;
use crate::upstream::Manner;
use crate::verdict::{Fault, Terms};
use crate::world::{World, Wrong, judge};

/// How many ask at once when everything is asked for once more.
const ASKERS: usize = 16;

/// Which troubles may have to do with a run, in milliseconds.
const NEAR: u64 = 6_000;

/// What is drilled.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) backing: Backing,
    pub(crate) gateways: usize,
    pub(crate) clocks: Clocks,
    /// Nothing else befalls the machines than jumps of clocks.
    pub(crate) clocks_alone: bool,
    pub(crate) clients: u64,
    pub(crate) seed: u64,
    /// It ends with so many operations,
    pub(crate) operations: usize,
    /// or with this time.
    pub(crate) most: Duration,
    /// None: no storm.
    pub(crate) beat: Option<Duration>,
    pub(crate) manner: Manner,
}

/// What was seen.
pub(crate) struct Report {
    pub(crate) wrong: Vec<Wrong>,
    pub(crate) stories: HashMap<Name, Story>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) figures: Figures,
    pub(crate) blows: BTreeMap<String, usize>,
    pub(crate) lasted: Duration,
}

/// The same in numbers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Figures {
    pub(crate) operations: usize,
    pub(crate) runs: usize,
    pub(crate) requests: usize,
    pub(crate) answers: usize,
    pub(crate) replays: usize,
    /// Requests whose client never learnt what came of them.
    pub(crate) unheard: usize,
    pub(crate) refused_by_store: usize,
    pub(crate) changed: usize,
    /// Operations with an answer that must be repeated.
    pub(crate) kept: usize,
    /// Operations that are in doubt in the end.
    pub(crate) doubts: usize,
    /// Those of them that the upstream had never seen.
    pub(crate) doubts_in_vain: usize,
    /// The longest that a client waited, in milliseconds.
    pub(crate) longest: u64,
}

impl Plan {
    pub(crate) fn short(backing: Backing, gateways: usize, seed: u64) -> Self {
        let manner = Manner { seed, slowest: 25, failures: 15, very_slow: 8 };
        Self {
            backing,
            gateways,
            clocks: Clocks::Nobodys,
            clocks_alone: false,
            clients: 16,
            seed,
            operations: usize::MAX,
            most: Duration::from_secs(12),
            beat: Some(Duration::from_millis(350)),
            manner,
        }
    }

    pub(crate) fn run(&self) -> Report {
        self.run_under(|scene, world| {
            let end = Clock::instant() + self.most;
            let mut storm = Storm::over(scene, world, self.seed, self.clocks_alone);
            storm.rage(self.beat, || Clock::instant() >= end || world.count() >= self.operations);
            storm.blows
        })
    }

    /// The same under what `storm` does to the machines while clients ask. It counts its blows.
    pub(crate) fn run_under(&self, storm: impl FnOnce(&mut Scene, &World) -> BTreeMap<String, usize>) -> Report {
        let mut scene = self.scene();
        let world = World::beside(scene.upstream.ledger());
        let started = Clock::instant();
        let blows = self.load(&mut scene, &world, storm);
        let lasted = started.elapsed();
        start_afresh(&mut scene, &world);
        let closing = world.now();
        ask_for_everything(&world, &scene.doors());
        let stories = world.stories(scene.upstream.ledger());
        let terms = terms(&world, closing);
        let mut wrong = judge(&stories, &terms);
        wrong.extend(unaccounted(&scene, &world, &stories));
        Report { wrong, figures: Figures::of(&stories), stories, troubles: terms.troubles, blows, lasted }
    }

    pub(crate) fn scene(&self) -> Scene {
        Scene::set(self.backing, self.gateways, self.clocks, self.manner)
    }

    fn load(
        &self,
        scene: &mut Scene,
        world: &World,
        storm: impl FnOnce(&mut Scene, &World) -> BTreeMap<String, usize>,
    ) -> BTreeMap<String, usize> {
        let (stop, doors) = (AtomicBool::new(false), scene.doors());
        std::thread::scope(|scope| {
            for number in 0..self.clients {
                let client = Client::new(world, self.seed, number, doors.clone());
                let stop = &stop;
                scope.spawn(move || client.run(stop));
            }
            let _stops = Raised(&stop);
            storm(scene, world)
        })
    }
}

/// What stories are judged by, when everything was asked for once more from here on.
pub(crate) fn terms(world: &World, closing: Moment) -> Terms {
    let patience = RESPONSE_TIMEOUT + 5_000;
    Terms { closing: closing.tick, troubles: world.troubles(), lease: LEASE, patience, margin: 4_000 }
}

/// Stops the clients, also when the storm fails.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Whatever is under way ends; then gateways begin anew that know nothing but what is in the store.
fn start_afresh(scene: &mut Scene, world: &World) {
    if let Some(group) = scene.store.group() {
        until("the store is whole again", || group.is_whole());
    }
    for member in &scene.members {
        wait_until("attempts end and are written down", || {
            member.gateway.metric(r#"oncegate_in_flight{route="create-order"}"#) == 0.0
        });
    }
    // Claims whose clients have left are withdrawn within a quarter of a second. Those that the kill takes by surprise all
    // the same are in doubt.
    std::thread::sleep(Duration::from_millis(600));
    let trouble = world.begin(Ailment::GatewayDied, "all gateways killed");
    scene.members.iter_mut().for_each(|member| member.gateway.kill());
    scene.members.iter_mut().for_each(Member::restart);
    world.end(trouble);
}

/// Asks for every operation until it is known what became of it.
fn ask_for_everything(world: &World, doors: &[SocketAddr]) {
    let names = world.names();
    let most = Duration::from_millis(LEASE) + Duration::from_secs(15);
    std::thread::scope(|scope| {
        for (number, share) in names.chunks(names.len().div_ceil(ASKERS).max(1)).enumerate() {
            let door = doors[number % doors.len()];
            scope.spawn(move || share.iter().for_each(|name| drop(world.ask_until_conclusive(door, name, most))));
        }
    });
}

/// Doubts that an operator does not find where doubts are looked for: by name, and in the count of all.
fn unaccounted(scene: &Scene, world: &World, stories: &HashMap<Name, Story>) -> Vec<Wrong> {
    let doubts = stories.iter().filter(|(_, story)| story.last_news() == Some(&News::InDoubt));
    let doubts: Vec<_> = doubts.collect();
    let gateway = &scene.members[0].gateway;
    let shown = |name: &Name| {
        let digest = world.digest(name).unwrap_or_default();
        let answer = gateway.get_admin(&format!("/api/v1/keys/{digest}"));
        answer.text().contains(r#""state":"in-doubt""#)
    };
    let hidden = doubts.iter().filter(|(name, _)| !shown(name));
    let mut wrong: Vec<Wrong> =
        hidden.map(|(name, story)| ((*name).clone(), vec![Fault::DoubtHidden], (*story).clone())).collect();
    let expected = u32::try_from(doubts.len()).unwrap();
    let counted = || gateway.metric(r#"oncegate_doubts{route="create-order"}"#);
    let deadline = Clock::instant() + Duration::from_mins(1);
    while counted() != f64::from(expected) && Clock::instant() < deadline {
        std::thread::sleep(Duration::from_millis(200));
    }
    if counted() != f64::from(expected) {
        let fault = Fault::DoubtsMiscounted { told: expected, counted: counted().to_string() };
        wrong.push((Name { scope: 0, key: 0 }, vec![fault], Story::default()));
    }
    wrong
}

impl Figures {
    fn of(stories: &HashMap<Name, Story>) -> Self {
        let mut figures = Self::default();
        for story in stories.values() {
            figures.add(story);
        }
        figures
    }

    fn add(&mut self, story: &Story) {
        self.operations += 1;
        self.runs += story.runs.len();
        self.requests += story.exchanges.len();
        for exchange in &story.exchanges {
            self.longest = self.longest.max(exchange.heard.millis - exchange.asked.millis);
            match &exchange.news {
                News::Answer(heard) if heard.replayed => self.replays += 1,
                News::Answer(_) => self.answers += 1,
                News::Broken | News::Left | News::Unreached => self.unheard += 1,
                News::Refused { code, .. } if code == "store-unavailable" => self.refused_by_store += 1,
                News::Changed => self.changed += 1,
                News::Refused { .. } | News::InDoubt | News::InFlight => {}
            }
        }
        let doubt = story.last_news() == Some(&News::InDoubt);
        self.kept += usize::from(story.exchanges.iter().any(|exchange| exchange.news.is_kept()));
        self.doubts += usize::from(doubt);
        self.doubts_in_vain += usize::from(doubt && story.runs.is_empty());
    }
}

impl Report {
    /// How many operations show a fault of one of these kinds.
    fn count(&self, is_it: fn(&Fault) -> bool) -> usize {
        self.wrong.iter().filter(|(_, faults, _)| faults.iter().any(is_it)).count()
    }

    /// Operations that ran twice or side by side, whose answer was lost, and whose doubt is not accounted for.
    fn verdict(&self) -> [usize; 3] {
        use Fault::{Altered, DoubtForgotten, DoubtHidden, DoubtLeft, DoubtsMiscounted, Forgotten, Unsettled};
        [
            self.count(|fault| matches!(fault, Fault::RanTwice | Fault::Overlapped)),
            self.count(|fault| matches!(fault, Forgotten(_) | Altered(_))),
            self.count(|fault| {
                matches!(fault, DoubtForgotten(_) | DoubtHidden | DoubtLeft(_) | DoubtsMiscounted { .. } | Unsettled)
            }),
        ]
    }

    /// A row of the table in docs/reliability.md.
    pub(crate) fn row(&self, scenario: &str, seed: u64) -> String {
        let Figures { operations, requests, runs, replays, doubts, longest, .. } = self.figures;
        let (seconds, blows) = (self.lasted.as_secs(), self.blows.values().sum::<usize>());
        let ([twice, lost, unaccounted], any) = (self.verdict(), self.wrong.len());
        format!(
            "| {scenario} | {operations} | {seconds} s | {blows} | {requests} | {runs} | {replays} | {longest} ms | \
             {doubts} | **{twice}** | **{lost}** | **{unaccounted}** | {any} | {seed} |"
        )
    }

    /// In Markdown.
    pub(crate) fn table(&self, title: &str) -> String {
        let Self { figures, blows, .. } = self;
        let [twice, lost, unaccounted] = self.verdict();
        let rows = [
            ("seconds", self.lasted.as_secs().to_string()),
            ("faults injected", blows.values().sum::<usize>().to_string()),
            ("operations", figures.operations.to_string()),
            ("requests", figures.requests.to_string()),
            ("runs at the upstream", figures.runs.to_string()),
            ("answers at first hand", figures.answers.to_string()),
            ("replays, compared byte for byte", figures.replays.to_string()),
            ("requests without any answer", figures.unheard.to_string()),
            ("refused because of the store", figures.refused_by_store.to_string()),
            ("refused as changed", figures.changed.to_string()),
            ("longest wait of a client", format!("{} ms", figures.longest)),
            ("in doubt in the end", format!("{} ({} never ran)", figures.doubts, figures.doubts_in_vain)),
            ("**double executions**", twice.to_string()),
            ("**lost answers**", lost.to_string()),
            ("**doubts not accounted for**", unaccounted.to_string()),
            ("**operations with any fault**", self.wrong.len().to_string()),
        ];
        let mut text = format!("\n| {title} | |\n|---|---|\n");
        for (name, value) in rows {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        let blows: Vec<_> = blows.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let _ = writeln!(text, "\nFaults: {}.", blows.join(", "));
        text
    }

    /// Fails when anything was wrong.
    pub(crate) fn assert_true(&self) {
        let mut first = String::new();
        for (name, faults, story) in self.wrong.iter().take(4) {
            let _ = writeln!(first, "{name:?}: {faults:?}\n{}", story.text());
            let begun =
                story.exchanges.iter().filter(|exchange| story.runs.iter().any(|run| run.request == exchange.request));
            for at in begun.map(|exchange| exchange.asked.millis) {
                let near = |trouble: &&Trouble| trouble.from.millis.abs_diff(at) < NEAR;
                for Trouble { what, from, to, .. } in self.troubles.iter().filter(near) {
                    let _ = writeln!(first, "  {}..{:?} ms: {what}", from.millis, to.map(|to| to.millis));
                }
            }
        }
        assert!(self.wrong.is_empty(), "{} of {} went wrong:\n{first}", self.wrong.len(), self.figures.operations);
    }
}
