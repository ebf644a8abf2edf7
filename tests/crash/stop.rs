//! SIGTERM under load: whatever ran was answered, and whatever was answered is there after the next start.

use crate::gateway::{Gateway, wait_until};
use crate::history::{Meaning, News};
use crate::redis::RedisServer;
use crate::world::{Manner, OwnPort, World, yaml};

const CLIENTS: usize = 12;
/// Answers that must be heard before the stop.
const ENOUGH: usize = 100;

#[test]
fn a_stop_under_load_loses_nothing_on_the_embedded_store() {
    stop_under_load("{ kind: embedded, path: '{dir}/store', command_timeout: 5s }");
}

#[test]
fn a_stop_under_load_loses_nothing_on_redis() {
    let redis = RedisServer::start();
    stop_under_load(&format!("{{ kind: redis, url: '{}', command_timeout: 5s }}", redis.url()));
}

fn stop_under_load(store_line: &str) {
    let (world, upstream) = World::new(1, Manner { slowest: 250, failures: 10 });
    let port = OwnPort::new();
    let mut gateway = Gateway::start(&yaml(port.address(), store_line, &upstream));
    let address = port.address();
    let heard = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let world = &world;
            let keys = (0..).map(move |number| format!("s{client}-{number}"));
            // A client goes home when nobody takes its request any more.
            let gone = |news: &News| matches!(news, News::Unreached | News::Broken);
            scope.spawn(move || keys.map(|key| world.ask(address, &key)).find(gone));
        }
        wait_until("clients hear answers", || world.heard() >= ENOUGH);
        gateway.signal("TERM");
        let heard = world.heard();
        assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
        heard
    });
    wait_until("the gateway says goodbye", || gateway.log().contains("stopped"));
    assert!(!gateway.log().contains("given up"), "{}", gateway.log());
    assert!(world.heard() > heard, "nothing was under way when the signal came");
    for key in world.keys() {
        // One client a key, and none asks twice: what ran is what was answered.
        let story = world.story(&key);
        let answers = story.exchanges.iter().filter(|exchange| matches!(exchange.news, News::Answer { .. })).count();
        assert_eq!(story.executions.len(), answers, "{key} ran, and its client heard nothing: {story:?}");
    }
    gateway.restart();
    let last_start = world.tick();
    for key in world.keys() {
        let before = world.story(&key);
        let news = world.ask_until_conclusive(address, &key);
        // Only an upstream's own 502 may leave a doubt here: a request that was turned away took no key with it.
        let doubtful = before.executions.iter().any(|run| Meaning::of(run.status) == Meaning::Unknown);
        assert_eq!(news == News::InDoubt, doubtful, "{key}: {before:?}");
        let kept = before.exchanges.iter().any(|exchange| exchange.news.is_kept());
        assert!(!kept || matches!(news, News::Answer { replayed: true, .. }), "{key}: {news:?} after {before:?}");
    }
    let faults = world.faults(last_start);
    assert!(faults.is_empty(), "{faults:#?}");
}
