//! A file that the kill, or the disk, has damaged: the gateway has everything that was answered, or it refuses to work and
//! says why.

use std::net::SocketAddr;
use std::path::Path;

use crate::drill::terms;
use crate::gateway::{Gateway, wait_until};
use crate::history::{Ailment, Name, News};
use crate::scene::yaml;
use crate::upstream::{Manner, Upstream};
use crate::verdict::Fault;
use crate::world::{World, judge};

const FILE: &str = "records.redb";
const PAGE: usize = 4_096;
/// Answers that must be heard before the kill.
const ENOUGH: u64 = 150;
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const PROMPT: Manner = Manner { seed: 1, slowest: 5, failures: 0, very_slow: 0 };

/// A world, its upstream, and the file of a gateway that was killed in the middle of it.
struct Wreck {
    world: World,
    upstream: Upstream,
    /// Operations whose answer a client has heard.
    acknowledged: Vec<Name>,
    file: Vec<u8>,
    _folder: tempfile::TempDir,
}

fn config(folder: &Path, upstream: &Upstream) -> std::path::PathBuf {
    let store = format!("kind: embedded, path: '{}'", folder.display());
    let path = folder.join("oncegate.yaml");
    let upstream = SocketAddr::from(([127, 0, 0, 1], upstream.port()));
    std::fs::write(&path, yaml(ANY_PORT, &store, upstream)).unwrap();
    path
}

fn wreck() -> Wreck {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(folder.path(), PROMPT);
    let world = World::beside(upstream.ledger());
    let mut gateway = Gateway::try_run(&config(folder.path(), &upstream)).unwrap_or_else(|told| panic!("{told:?}"));
    let address = gateway.address;
    std::thread::scope(|scope| {
        for client in 0..6 {
            let world = &world;
            // Until the kill: an exchange that breaks is a client's last.
            let names = (0..).map(move |number| Name { scope: 0, key: (client << 32) + number });
            scope.spawn(move || names.map(|name| world.ask(address, &name, 0)).find(|news| !news.is_kept()));
        }
        wait_until("clients hear answers", || world.heard() >= ENOUGH);
        world.begin(Ailment::GatewayDied, "gateway killed");
        gateway.kill();
    });
    let stories = world.stories(upstream.ledger()).into_iter();
    let heard = stories.filter(|(_, story)| story.exchanges.iter().any(|exchange| exchange.news.is_kept()));
    let acknowledged = heard.map(|(name, _)| name).collect();
    let file = std::fs::read(folder.path().join(FILE)).unwrap();
    Wreck { world, upstream, acknowledged, file, _folder: folder }
}

/// What became of a gateway on a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It did not start, and said why.
    Refused,
    /// It answered for some keys that their records cannot be read.
    Unreadable,
    /// It had everything.
    Whole,
}

impl Wreck {
    /// Starts a gateway on `file` and asks for everything that was answered. `what` names the damage.
    fn start_on(&self, file: &[u8], what: &str) -> Seen {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), file).unwrap();
        let gateway = match Gateway::try_run(&config(folder.path(), &self.upstream)) {
            Ok(gateway) => gateway,
            Err((ended, log)) => {
                assert_eq!(ended.code(), Some(1), "{what}: {log}");
                let clear = log.contains("the store in ") && log.contains("cannot be opened: ");
                assert!(clear, "{what}: {log}");
                return Seen::Refused;
            }
        };
        let mut seen = Seen::Whole;
        for name in &self.acknowledged {
            match self.world.ask(gateway.address, name, 0) {
                News::Refused { code, .. } if ["record-unreadable", "store-unavailable"].contains(&code.as_str()) => {
                    seen = Seen::Unreadable;
                }
                // Whether it is the right one, and the only one, is for the stories to tell.
                News::Answer(heard) if heard.replayed => {}
                news => panic!("{what}: {name:?} was answered, and now: {news:?}"),
            }
        }
        seen
    }

    /// No story has a second run, a wrong answer, or a hole.
    fn assert_true(&self) {
        let stories = self.world.stories(self.upstream.ledger());
        let heard = |name: &Name| self.acknowledged.contains(name);
        let twice = stories.iter().find(|(name, story)| heard(name) && story.runs.len() != 1);
        assert!(twice.is_none(), "{twice:?}");
        // A record that cannot be read says nothing; whoever was not answered before was not asked again.
        let said = |fault: &Fault| !matches!(fault, Fault::Odd(_) | Fault::Unsettled | Fault::DoubtForgotten(_));
        let wrong = judge(&stories, &terms(&self.world, self.world.now()));
        let wrong: Vec<_> = wrong.iter().filter(|(_, faults, _)| faults.iter().any(said)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

fn garbled(file: &[u8], from: usize, to: usize) -> Vec<u8> {
    let mut file = file.to_vec();
    for (place, byte) in (1_u32..).zip(&mut file[from..to]) {
        *byte ^= (place.wrapping_mul(2_654_435_761) >> 24) as u8;
    }
    file
}

#[test]
fn a_torn_file_has_everything_or_is_refused() {
    let wreck = wreck();
    let file = &wreck.file;
    let size = file.len();
    assert_eq!(wreck.start_on(file, "as the kill left it"), Seen::Whole);
    let mut seen = Vec::new();
    for cut in [1, PAGE, 4 * PAGE, size / 2, size - 1, size] {
        seen.push(wreck.start_on(&file[..size - cut], &format!("cut by {cut}")));
    }
    for tail in [PAGE, 8 * PAGE, 64 * PAGE] {
        let from = size.saturating_sub(tail);
        seen.push(wreck.start_on(&garbled(file, from, size), &format!("the last {tail} garbled")));
        let mut zeroed = file.clone();
        zeroed[from..].fill(0);
        seen.push(wreck.start_on(&zeroed, &format!("the last {tail} zeroed")));
    }
    // What a torn write of the file's end may have left besides.
    for from in [0, PAGE, size / 4 / PAGE * PAGE] {
        seen.push(wreck.start_on(&garbled(file, from, from + PAGE), &format!("a page garbled from {from}")));
    }
    println!("{} answers in {size} bytes: {seen:?}", wreck.acknowledged.len());
    assert!(seen.iter().any(|seen| *seen != Seen::Whole), "no damage hit anything: {seen:?}");
    wreck.assert_true();
}

#[test]
fn a_second_process_on_the_same_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(folder.path(), PROMPT);
    let world = World::beside(upstream.ledger());
    let names = [1, 2].map(|key| Name { scope: 0, key });
    let config = config(folder.path(), &upstream);
    let first = Gateway::try_run(&config).unwrap_or_else(|told| panic!("{told:?}"));
    assert!(world.ask(first.address, &names[0], 0).is_kept());
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("two processes share a store") };
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.contains("is in use by another process"), "{log}");
    // The first has taken no harm.
    assert!(names.iter().all(|name| world.ask(first.address, name, 0).is_kept()));
    drop(first);
    let closing = world.now();
    let heir = Gateway::try_run(&config).unwrap_or_else(|told| panic!("{told:?}"));
    assert!(names.iter().all(|name| world.ask(heir.address, name, 0).is_kept()));
    let wrong = judge(&world.stories(upstream.ledger()), &terms(&world, closing));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
