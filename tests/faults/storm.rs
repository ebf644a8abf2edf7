//! What befalls the machines: at every beat, a blow to a part that is well, and its end after a while. Which, and for how
//! long, follows from a seed; what the machine makes of their timing is its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use oncegate::clock::Clock;

use crate::clocks::FakeClock;
use crate::dice::Dice;
use crate::history::Ailment;
use crate::proxy::{Proxy, Weather};
use crate::scene::{LEASE, Scene};
use crate::world::World;

/// How far a clock jumps, in seconds.
pub(crate) const JUMP: i64 = 300;

/// How long a node may be silent so that no sentinel takes it for dead, in milliseconds.
const UNNOTICED: u64 = 500;

/// What can be struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Gateway(usize),
    Upstream,
    Store(usize),
    ClientPath(usize),
    UpstreamPath(usize),
    StorePath(usize),
    /// The way of everybody to a node of the store.
    NodePath(usize),
    Clock(usize),
    StoreClock,
}

/// How.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// SIGSTOP, and SIGCONT later.
    Stop,
    /// SIGKILL, and a new start later.
    Kill,
    Weather(Weather),
    /// Every connection is reset; there is nothing to mend.
    Reset,
    /// The clock jumps by so many seconds, and back later.
    Jump(i64),
}

/// A part that is ill.
struct Ill {
    blow: Blow,
    until: Instant,
    trouble: usize,
}

/// The storm over a scene.
pub(crate) struct Storm<'a> {
    scene: &'a mut Scene,
    world: &'a World,
    dice: Dice,
    clocks_alone: bool,
    ill: BTreeMap<Part, Ill>,
    /// How many blows of each kind have fallen.
    pub(crate) blows: BTreeMap<String, usize>,
}

impl<'a> Storm<'a> {
    pub(crate) fn over(scene: &'a mut Scene, world: &'a World, seed: u64, clocks_alone: bool) -> Self {
        Self {
            scene,
            world,
            dice: Dice::new(seed ^ 0x5702),
            clocks_alone,
            ill: BTreeMap::new(),
            blows: BTreeMap::new(),
        }
    }

    /// Blows at every beat, if there is one, until it is enough; then everything is well again.
    pub(crate) fn rage(&mut self, beat: Option<Duration>, mut enough: impl FnMut() -> bool) {
        let mut last = Clock::instant();
        while !enough() {
            self.mend(|ill, now| ill.until <= now);
            if beat.is_some_and(|beat| last.elapsed() >= beat) {
                last = Clock::instant();
                self.strike();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.mend(|_, _| true);
    }

    fn strike(&mut self) {
        let well: Vec<_> = self.parts().into_iter().filter(|part| !self.ill.contains_key(part)).collect();
        let Some(place) = self.dice.place(well.len()) else { return };
        let part = well[place];
        let blow = self.blow(part);
        let until = Clock::instant() + Duration::from_millis(self.lasts(part, blow));
        *self.blows.entry(name(part, blow)).or_default() += 1;
        let trouble = self.world.begin(ailment(part, blow, self.scene.members.len()), &format!("{part:?}: {blow:?}"));
        self.fall(part, blow);
        if matches!(blow, Blow::Reset) {
            self.world.end(trouble);
        } else {
            self.ill.insert(part, Ill { blow, until, trouble });
        }
    }

    /// All parts; of the store's processes none while one of them is ill.
    fn parts(&mut self) -> Vec<Part> {
        let clocks = self.scene.members.iter().enumerate().filter(|(_, member)| member.clock.is_some());
        let mut parts: Vec<_> = clocks.map(|(number, _)| Part::Clock(number)).collect();
        parts.extend(self.scene.store_clock.as_ref().map(|_| Part::StoreClock));
        if self.clocks_alone {
            return parts;
        }
        parts.push(Part::Upstream);
        for (number, member) in self.scene.members.iter().enumerate() {
            parts.extend([Part::Gateway(number), Part::ClientPath(number), Part::UpstreamPath(number)]);
            parts.extend(member.store.as_ref().map(|_| Part::StorePath(number)));
        }
        parts.extend(self.nodes());
        parts
    }

    /// What can be struck of the store, while it has got over the last blow.
    fn nodes(&mut self) -> Vec<Part> {
        let store = &mut self.scene.store;
        let Some(group) = store.group() else { return (0..store.nodes().len()).map(Part::Store).collect() };
        if self.ill.keys().any(|part| matches!(part, Part::Store(_) | Part::NodePath(_))) || !group.is_whole() {
            return Vec::new();
        }
        // Half of all blows to a primary.
        let primaries = group.primaries();
        let all = (0..group.proxies.len()).collect();
        let nodes: Vec<usize> = if self.dice.chance(50) { primaries } else { all };
        let node = self.dice.place(nodes.len()).map(|place| nodes[place]);
        node.map_or_else(Vec::new, |node| vec![Part::Store(node), Part::NodePath(node)])
    }

    fn blow(&mut self, part: Part) -> Blow {
        let dice = &mut self.dice;
        if matches!(part, Part::Clock(_) | Part::StoreClock) {
            return Blow::Jump(if dice.chance(50) { JUMP } else { -JUMP });
        }
        if matches!(part, Part::Gateway(_) | Part::Upstream | Part::Store(_)) {
            return if dice.chance(50) { Blow::Stop } else { Blow::Kill };
        }
        let bytes = usize::try_from(dice.between(0, 900)).unwrap();
        let weathers = [
            Weather::Slow(Duration::from_millis(dice.between(1, 120))),
            Weather::Held,
            Weather::CutRequests(bytes),
            Weather::CutReplies(bytes),
            Weather::CutNextReply,
            Weather::SwallowReplies,
            Weather::BlackHole,
            Weather::Refuse,
        ];
        let place = dice.place(weathers.len() + 1).unwrap();
        weathers.get(place).map_or(Blow::Reset, |weather| Blow::Weather(*weather))
    }

    /// In milliseconds.
    fn lasts(&mut self, part: Part, blow: Blow) -> u64 {
        if matches!((part, blow), (Part::Store(_), Blow::Kill)) && self.scene.store.group().is_some() {
            // Long enough to be missed.
            return self.dice.between(3_500, 6_000);
        }
        let fragile = self.scene.store.group().is_some_and(|group| group.is_fragile());
        let most = match (part, blow) {
            (Part::Store(_) | Part::NodePath(_), _) if fragile => UNNOTICED,
            (Part::Gateway(_), Blow::Stop) => LEASE + LEASE / 3,
            (Part::Store(_), Blow::Stop) => 3_000,
            (_, Blow::Stop) => 2_000,
            (_, Blow::Kill) => 400,
            (Part::NodePath(_), _) => 2_500,
            (_, Blow::Weather(_) | Blow::Reset | Blow::Jump(_)) => 1_300,
        };
        self.dice.between(50, most)
    }

    fn fall(&mut self, part: Part, blow: Blow) {
        match (part, blow) {
            (Part::Gateway(number), Blow::Stop) => self.scene.members[number].gateway.signal("STOP"),
            (Part::Gateway(number), _) => self.scene.members[number].gateway.kill(),
            (Part::Upstream, Blow::Stop) => self.scene.upstream.signal("STOP"),
            (Part::Upstream, _) => self.scene.upstream.kill(),
            (Part::Store(number), Blow::Stop) => self.scene.store.nodes()[number].pause(),
            (Part::Store(number), _) => self.scene.store.nodes()[number].kill(),
            (clock @ (Part::Clock(_) | Part::StoreClock), Blow::Jump(seconds)) => self.clock(clock).set(seconds),
            (path, Blow::Weather(weather)) => self.proxy(path).set(weather),
            (path, _) => self.proxy(path).reset(),
        }
    }

    fn mend(&mut self, is_over: impl Fn(&Ill, Instant) -> bool) {
        let now = Clock::instant();
        let over: Vec<Part> = self.ill.iter().filter(|(_, ill)| is_over(ill, now)).map(|(part, _)| *part).collect();
        for part in over {
            let Some(ill) = self.ill.remove(&part) else { continue };
            match (part, ill.blow) {
                (Part::Gateway(number), Blow::Stop) => self.scene.members[number].gateway.signal("CONT"),
                (Part::Gateway(number), _) => self.scene.members[number].restart(),
                (Part::Upstream, Blow::Stop) => self.scene.upstream.signal("CONT"),
                (Part::Upstream, _) => self.scene.upstream.restart(),
                (Part::Store(number), Blow::Stop) => self.scene.store.nodes()[number].resume(),
                (Part::Store(number), _) => self.scene.store.restart(number),
                (clock @ (Part::Clock(_) | Part::StoreClock), _) => self.clock(clock).set(0),
                (path, _) => self.proxy(path).set(Weather::Fair),
            }
            self.world.end(ill.trouble);
        }
    }

    fn clock(&self, clock: Part) -> &FakeClock {
        let found = match clock {
            Part::Clock(number) => &self.scene.members[number].clock,
            _ => &self.scene.store_clock,
        };
        found.as_ref().expect("a clock that can be set")
    }

    fn proxy(&mut self, path: Part) -> &Proxy {
        if let (Part::NodePath(number), Some(group)) = (path, self.scene.store.group()) {
            return &group.proxies[number];
        }
        let member = |number: usize| &self.scene.members[number];
        match path {
            Part::ClientPath(number) => &member(number).clients,
            Part::UpstreamPath(number) => &member(number).upstream,
            Part::StorePath(number) => member(number).store.as_ref().expect("a way to the store"),
            _ => unreachable!("{path:?} is no way"),
        }
    }
}

fn ailment(part: Part, blow: Blow, gateways: usize) -> Ailment {
    match (part, blow) {
        (Part::Gateway(_), Blow::Stop) => Ailment::GatewayStopped,
        (Part::Gateway(_), _) => Ailment::GatewayDied,
        (Part::Upstream | Part::UpstreamPath(_), _) => Ailment::Upstream,
        (Part::Store(_) | Part::NodePath(_), _) => Ailment::Store,
        (Part::StorePath(_), _) => Ailment::StorePath,
        (Part::ClientPath(_), _) => Ailment::ClientPath,
        (Part::StoreClock, _) => Ailment::StoreClock,
        // Alone, it keeps the store itself.
        (Part::Clock(_), _) if gateways == 1 => Ailment::StoreClock,
        (Part::Clock(_), _) => Ailment::GatewayClock,
    }
}

/// What a report calls it.
fn name(part: Part, blow: Blow) -> String {
    let part = match part {
        Part::Gateway(_) => "gateway",
        Part::Upstream => "upstream",
        Part::Store(_) => "store",
        Part::ClientPath(_) => "client–gateway",
        Part::UpstreamPath(_) => "gateway–upstream",
        Part::StorePath(_) => "gateway–store",
        Part::NodePath(_) => "way to a node",
        Part::Clock(_) => "gateway's clock",
        Part::StoreClock => "store's clock",
    };
    let blow = match blow {
        Blow::Stop => "stopped",
        Blow::Kill => "killed",
        Blow::Reset => "reset",
        Blow::Jump(..0) => "5 minutes back",
        Blow::Jump(_) => "5 minutes on",
        Blow::Weather(Weather::Slow(_)) => "slow",
        Blow::Weather(Weather::Held) => "held",
        Blow::Weather(Weather::CutRequests(_)) => "requests cut",
        Blow::Weather(Weather::CutReplies(_) | Weather::CutNextReply) => "replies cut",
        Blow::Weather(Weather::SwallowReplies | Weather::SwallowRepliesUpTo(_)) => "replies lost",
        Blow::Weather(Weather::BlackHole) => "black hole",
        Blow::Weather(Weather::Refuse) => "refused",
        Blow::Weather(Weather::Fair) => "fair",
    };
    format!("{part} {blow}")
}
