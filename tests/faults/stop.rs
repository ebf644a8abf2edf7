//! SIGTERM under load: whatever ran was answered, and whatever was answered is there after the next start.

use std::time::Duration;

use crate::drill::terms;
use crate::gateway::wait_until;
use crate::history::{Meaning, Name, News};
use crate::scene::{Backing, Clocks, Scene};
use crate::upstream::Manner;
use crate::world::{World, judge};

const CLIENTS: u64 = 12;
/// Answers that must be heard before the stop.
const ENOUGH: u64 = 100;

#[test]
fn a_stop_under_load_loses_nothing_on_the_embedded_store() {
    stop_under_load(Backing::Embedded);
}

#[test]
fn a_stop_under_load_loses_nothing_on_redis() {
    stop_under_load(Backing::Redis);
}

fn stop_under_load(backing: Backing) {
    let manner = Manner { seed: 1, slowest: 250, failures: 10, very_slow: 0 };
    let mut scene = Scene::set(backing, 1, Clocks::Nobodys, manner);
    let (world, door) = (World::beside(scene.upstream.ledger()), scene.doors()[0]);
    let heard = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let world = &world;
            let names = (0..).map(move |number| Name { scope: 0, key: (client << 32) + number });
            // A client goes home when nobody takes its request any more.
            let gone = |news: &News| matches!(news, News::Unreached | News::Broken);
            scope.spawn(move || names.map(|name| world.ask(door, &name, 0)).find(gone));
        }
        wait_until("clients hear answers", || world.heard() >= ENOUGH);
        let gateway = &mut scene.members[0].gateway;
        gateway.signal("TERM");
        let heard = world.heard();
        assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
        heard
    });
    let gateway = &scene.members[0].gateway;
    wait_until("the gateway says goodbye", || gateway.log().contains("stopped"));
    assert!(!gateway.log().contains("given up"), "{}", gateway.log());
    assert!(world.heard() > heard, "nothing was under way when the signal came");
    let before = world.stories(scene.upstream.ledger());
    for (name, story) in &before {
        // One client a key, and none asks twice: what ran is what was answered.
        let answers = story.exchanges.iter().filter(|exchange| matches!(exchange.news, News::Answer(_))).count();
        assert_eq!(story.runs.len(), answers, "{name:?} ran, and its client heard nothing: {}", story.text());
    }
    scene.members[0].restart();
    let closing = world.now();
    for (name, story) in &before {
        let news = world.ask_until_conclusive(door, name, Duration::from_secs(20));
        // Only an upstream's own 502 may leave a doubt: a request that was turned away took no key with it. One that runs
        // for the first time now may meet one too.
        let doubtful = story.runs.iter().any(|run| run.meaning() == Meaning::Unknown);
        let fresh = !story.exchanges.iter().any(|exchange| exchange.news.is_kept()) && !doubtful;
        assert!(fresh || (news == News::InDoubt) == doubtful, "{news:?} after {}", story.text());
        let replayed = matches!(&news, News::Answer(heard) if heard.replayed);
        assert!(fresh || doubtful || replayed, "{news:?} after {}", story.text());
    }
    let wrong = judge(&world.stories(scene.upstream.ledger()), &terms(&world, closing));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
