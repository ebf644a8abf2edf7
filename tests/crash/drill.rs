//! The drill: clients keep asking while the gateway is killed and started again, at random moments under a seed.
//! `ONCEGATE_CRASH_SEED` repeats the choices of a run; what the machine makes of their timing is its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::dice::Dice;
use crate::gateway::{Gateway, wait_until};
use crate::history::{News, Tick};
use crate::redis::RedisServer;
use crate::world::{Manner, OwnPort, World, yaml};

const SEED: &str = "ONCEGATE_CRASH_SEED";
const CLIENTS: u64 = 10;
const KILLS: usize = 12;
/// Answers that must be heard between two kills, so that each kill falls into load.
const BETWEEN: usize = 20;

#[test]
fn kills_under_load_on_the_embedded_store() {
    drill("embedded", "{ kind: embedded, path: '{dir}/store', command_timeout: 5s }");
}

#[test]
fn kills_under_load_on_redis() {
    let redis = RedisServer::start();
    drill("redis", &format!("{{ kind: redis, url: '{}', command_timeout: 5s }}", redis.url()));
}

fn drill(name: &str, store: &str) {
    let given = std::env::var(SEED).ok().map(|text| text.parse().expect("a number"));
    let seed: u64 = given.unwrap_or_else(rand::random);
    println!("{name}: {SEED}={seed}");
    let (world, upstream) = World::new(seed, Manner { slowest: 30, failures: 20 });
    let port = OwnPort::new();
    let mut gateway = Gateway::start(&yaml(port.address(), store, &upstream));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let client = Client::new(&world, seed, number, port.address());
            let stop = &stop;
            scope.spawn(move || client.run(stop));
        }
        let killer = Raised(&stop);
        let mut dice = Dice::new(seed);
        for _ in 0..KILLS {
            kill(&mut gateway, &world, &mut dice);
        }
        drop(killer);
    });
    // Nothing of it is in a gateway's memory when everything is asked for once more.
    gateway.kill();
    gateway.restart();
    let last_start = world.tick();
    ask_for_everything(&world, port.address());
    verdict(name, &world, last_start);
}

/// Stops the clients, also when the killer fails.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn kill(gateway: &mut Gateway, world: &World, dice: &mut Dice) {
    let before = world.heard();
    wait_until("clients hear answers", || world.heard() >= before + BETWEEN);
    std::thread::sleep(Duration::from_millis(dice.between(0, 900)));
    gateway.kill();
    std::thread::sleep(Duration::from_millis(dice.between(0, 60)));
    gateway.restart();
}

/// Asks for every key until it is known what became of it.
fn ask_for_everything(world: &Arc<World>, address: SocketAddr) {
    let keys = world.keys();
    std::thread::scope(|scope| {
        for share in keys.chunks(keys.len().div_ceil(8).max(1)) {
            scope.spawn(move || share.iter().for_each(|key| drop(world.ask_until_conclusive(address, key))));
        }
    });
}

fn verdict(name: &str, world: &World, last_start: Tick) {
    let faults = world.faults(last_start);
    let mut figures = Figures::default();
    for key in world.keys() {
        figures.add(&world.story(&key));
    }
    println!("{name}: {KILLS} kills, {figures:?}");
    assert!(
        faults.is_empty(),
        "{} of {} keys went wrong: {:#?}",
        faults.len(),
        figures.keys,
        &faults[..faults.len().min(3)]
    );
    // Otherwise the kills hit nothing, and nothing was shown.
    assert!(figures.broken >= KILLS && figures.kept >= KILLS * BETWEEN / 4 && figures.doubts > 0, "{figures:?}");
}

/// What was seen, in numbers.
#[derive(Debug, Default)]
struct Figures {
    keys: usize,
    executions: usize,
    exchanges: usize,
    broken: usize,
    /// Keys with an answer that must be repeated.
    kept: usize,
    replays: usize,
    /// Keys in doubt.
    doubts: usize,
    /// Those of them whose last attempt left no trace at the upstream, or only an answer that frees the key.
    doubts_in_vain: usize,
}

impl Figures {
    fn add(&mut self, story: &crate::history::Story) {
        let count = |which: fn(&News) -> bool| story.exchanges.iter().filter(|seen| which(&seen.news)).count();
        self.keys += 1;
        self.executions += story.executions.len();
        self.exchanges += story.exchanges.len();
        self.broken += count(|news| *news == News::Broken);
        self.kept += usize::from(count(News::is_kept) > 0);
        self.replays += count(|news| matches!(news, News::Answer { replayed: true, .. }));
        self.doubts += usize::from(story.was_in_doubt());
        self.doubts_in_vain += usize::from(story.was_in_doubt() && story.ran_to_no_avail());
    }
}

/// Somebody with several orders open at once.
struct Client<'a> {
    world: &'a World,
    dice: Dice,
    number: u64,
    gateway: SocketAddr,
    begun: u32,
    /// Keys without an answer that is final for this client.
    open: Vec<String>,
}

impl<'a> Client<'a> {
    fn new(world: &'a World, seed: u64, number: u64, gateway: SocketAddr) -> Self {
        Self { world, dice: Dice::new(seed.wrapping_add(number + 1)), number, gateway, begun: 0, open: Vec::new() }
    }

    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            self.step();
        }
    }

    /// A new order, another try for an open one, or a look at anybody's: a double click, or a very late retry.
    fn step(&mut self) {
        let retry = self.open.len() >= 12 || self.dice.chance(40);
        if let Some(place) = self.dice.place(self.open.len()).filter(|_| retry) {
            let key = self.open.swap_remove(place);
            return self.ask(key);
        }
        let anybodys = self.world.keys();
        let recent = if self.dice.chance(50) { anybodys.len().saturating_sub(30) } else { 0 };
        if self.dice.chance(25)
            && let Some(place) = self.dice.place(anybodys.len() - recent)
        {
            drop(self.world.ask(self.gateway, &anybodys[recent + place]));
            return;
        }
        self.begun += 1;
        self.ask(format!("c{}-{}", self.number, self.begun));
    }

    fn ask(&mut self, key: String) {
        let news = self.world.ask(self.gateway, &key);
        if !news.is_kept() && news != News::InDoubt {
            self.open.push(key);
        }
        if matches!(news, News::Unreached | News::InFlight) {
            // A client that is refused takes a breath.
            std::thread::sleep(Duration::from_millis(self.dice.between(1, 10)));
        }
    }
}
