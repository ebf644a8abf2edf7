//! A file that the kill, or the disk, has damaged: the gateway has everything that was answered, or it refuses to work and
//! says why.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::gateway::{Gateway, wait_until};
use crate::history::News;
use crate::upstream::ScriptedUpstream;
use crate::world::{Manner, World, yaml};

const FILE: &str = "records.redb";
const PAGE: usize = 4_096;
/// Answers that must be heard before the kill.
const ENOUGH: usize = 150;
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A world, its upstream, and the file of a gateway that was killed in the middle of it.
struct Wreck {
    world: Arc<World>,
    upstream: ScriptedUpstream,
    /// Keys whose answer a client has heard.
    acknowledged: Vec<String>,
    file: Vec<u8>,
}

fn config(folder: &Path, upstream: &ScriptedUpstream) -> std::path::PathBuf {
    let store = format!("{{ kind: embedded, path: '{}', command_timeout: 5s }}", folder.display());
    let path = folder.join("oncegate.yaml");
    std::fs::write(&path, yaml(ANY_PORT, &store, upstream)).unwrap();
    path
}

fn wreck() -> Wreck {
    let (world, upstream) = World::new(1, Manner { slowest: 5, failures: 0 });
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::try_run(&config(folder.path(), &upstream)).unwrap_or_else(|told| panic!("{told:?}"));
    let address = gateway.address;
    std::thread::scope(|scope| {
        for client in 0..6 {
            let world = &world;
            // Until the kill: an exchange that breaks is a client's last.
            let keys = (0..).map(move |number| format!("t{client}-{number}"));
            scope.spawn(move || keys.map(|key| world.ask(address, &key)).find(|news| !news.is_kept()));
        }
        wait_until("clients hear answers", || world.heard() >= ENOUGH);
        gateway.kill();
    });
    let heard = |key: &String| world.story(key).exchanges.iter().any(|exchange| exchange.news.is_kept());
    let acknowledged = world.keys().into_iter().filter(heard).collect();
    let file = std::fs::read(folder.path().join(FILE)).unwrap();
    Wreck { world, upstream, acknowledged, file }
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
        for key in &self.acknowledged {
            match self.world.ask(gateway.address, key) {
                News::Refused(code) if ["record-unreadable", "store-unavailable"].contains(&code.as_str()) => {
                    seen = Seen::Unreadable;
                }
                // Whether it is the right one, and the only one, is for the stories to tell.
                News::Answer { replayed: true, .. } => {}
                news => panic!("{what}: {key} was answered, and now: {news:?}"),
            }
        }
        seen
    }

    /// No story has a second run, a wrong answer, or a hole.
    fn assert_true(&self) {
        for key in &self.acknowledged {
            let story = self.world.story(key);
            assert_eq!(story.executions.len(), 1, "{key}: {story:?}");
            let odd = |fault: &crate::history::Fault| !matches!(fault, crate::history::Fault::Odd(_));
            let faults: Vec<_> = story.faults(0).into_iter().filter(odd).collect();
            assert!(faults.is_empty(), "{key}: {faults:?}");
        }
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
    let (world, upstream) = World::new(1, Manner { slowest: 0, failures: 0 });
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &upstream);
    let first = Gateway::try_run(&config).unwrap_or_else(|told| panic!("{told:?}"));
    assert!(world.ask(first.address, "k-1").is_kept());
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("two processes share a store") };
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.contains("is in use by another process"), "{log}");
    // The first has taken no harm.
    assert!(world.ask(first.address, "k-1").is_kept());
    assert!(world.ask(first.address, "k-2").is_kept());
    drop(first);
    let heir = Gateway::try_run(&config).unwrap_or_else(|told| panic!("{told:?}"));
    for key in ["k-1", "k-2"] {
        assert!(world.ask(heir.address, key).is_kept());
        assert_eq!(world.story(key).faults(0), []);
    }
}
