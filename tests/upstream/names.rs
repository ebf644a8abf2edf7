//! Names and their addresses: who asks when, what a new answer changes, and what no answer does not change.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use oncegate::upstream::{Census, Fleet, Reason, Resolver, Server, Settings, SystemResolver, Upstream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::support::{Gate, Reply, ScriptedUpstream};
use super::{created, not_sent, ordered, settings, wait};

/// Knows the addresses that a test gave it, ports too, and counts the questions.
#[derive(Debug)]
struct Names {
    known: Mutex<HashMap<String, Vec<SocketAddr>>>,
    asked: Mutex<usize>,
    /// Questions that get an answer; the others wait.
    answers: Semaphore,
}

impl Names {
    fn new(answers: usize) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), asked: Mutex::default(), answers: Semaphore::new(answers) })
    }

    fn set(&self, name: &str, servers: &[&ScriptedUpstream]) {
        let addresses = servers.iter().map(|server| server.address()).collect();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), addresses);
    }

    fn forget(&self, name: &str) {
        self.known.lock().unwrap().remove(name);
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

/// What a fleet is given: it wants something that lives on its own.
#[derive(Debug)]
struct Shared(Arc<Names>);

impl Resolver for Shared {
    fn lookup(&self, host: &str, _: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let (names, host) = (Arc::clone(&self.0), host.to_owned());
        *names.asked.lock().unwrap() += 1;
        Box::pin(async move {
            names.answers.acquire().await.unwrap().forget();
            let known = names.known.lock().unwrap().get(&host).cloned();
            known.ok_or_else(|| io::Error::other("no such name"))
        })
    }
}

fn fleet_of(names: &Arc<Names>, hosts: &[&str]) -> Arc<Fleet> {
    let servers = hosts.iter().map(|host| Server { host: (*host).to_owned(), port: 80 }).collect();
    let settings = Settings { servers, ..settings(&[]) };
    Arc::new(Fleet::new(settings, 1, Arc::new(Shared(Arc::clone(names))), TaskTracker::new()))
}

fn seen<const N: usize>(servers: [&ScriptedUpstream; N]) -> [usize; N] {
    servers.map(|server| server.requests().len())
}

#[tokio::test]
async fn all_addresses_of_all_names_take_turns_and_the_first_request_asks_for_them() {
    let servers = [(); 3].map(|()| ScriptedUpstream::start(created));
    let names = Names::new(99);
    names.set("one", &[&servers[0], &servers[1], &servers[0]]);
    names.set("two", &[&servers[2]]);
    let client = Upstream::of(&fleet_of(&names, &["one", "two"]), 0);
    for _ in 0..6 {
        ordered(&client).await;
    }
    assert_eq!((seen(servers.each_ref()), names.asked()), ([2; 3], 2));
}

#[tokio::test]
async fn an_address_needs_no_asking() {
    let server = ScriptedUpstream::start(created);
    let names = Names::new(99);
    let settings = settings(&[server.address()]);
    let fleet = Arc::new(Fleet::new(settings, 1, Arc::new(Shared(Arc::clone(&names))), TaskTracker::new()));
    ordered(&Upstream::of(&fleet, 0)).await;
    assert_eq!((fleet.resolve().await, names.asked()), (Ok(()), 0));
}

#[tokio::test]
async fn a_new_address_takes_over_and_the_old_ones_end_in_peace() {
    let (gate, first_gate) = (Gate::new(), Gate::new());
    let (held, first_held) = (gate.clone(), first_gate.clone());
    // The first connection is in use for as long as its answer is not whole; the second waits.
    let old = ScriptedUpstream::start(move |seen| match seen.connection {
        1 => Reply::sized(201, &[], 4, "ma").then_wait(&first_held).then_send("de"),
        2 => created(seen).after(&held),
        _ => created(seen),
    });
    let new = ScriptedUpstream::start(created);
    let names = Names::new(99);
    names.set("api", &[&old]);
    let fleet = fleet_of(&names, &["api"]);
    let client = Arc::new(Upstream::of(&fleet, 0));
    let first = client.send(super::order()).await.unwrap();
    let under_way = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { ordered(&client).await })
    };
    wait(&old, |old| old.wait_for_requests(2)).await;
    first_gate.open();
    assert_eq!(super::body(first).await.unwrap(), "made");
    names.set("api", &[&new]);
    fleet.resolve().await.unwrap();
    // The idle connection is closed, the other one is not.
    wait(&old, |old| old.wait_for_closed(1)).await;
    ordered(&client).await;
    assert_eq!((seen([&old, &new]), under_way.is_finished()), ([2, 1], false));
    gate.open();
    assert_eq!(under_way.await.unwrap(), "made");
    wait(&old, |old| old.wait_for_closed(2)).await;
}

#[tokio::test]
async fn an_address_that_stays_keeps_its_connections() {
    let servers = [(); 3].map(|()| ScriptedUpstream::start(created));
    let names = Names::new(99);
    names.set("api", &[&servers[0], &servers[1]]);
    let fleet = fleet_of(&names, &["api"]);
    let client = Upstream::of(&fleet, 0);
    for change in [&servers[1], &servers[2], &servers[1]] {
        names.set("api", &[&servers[0], change]);
        fleet.resolve().await.unwrap();
        ordered(&client).await;
        ordered(&client).await;
    }
    assert_eq!(
        (seen(servers.each_ref()), servers.each_ref().map(ScriptedUpstream::connections)),
        ([3, 2, 1], [1, 2, 1])
    );
}

#[tokio::test]
async fn no_answer_leaves_the_last_one_in_force() {
    let server = ScriptedUpstream::start(created);
    let names = Names::new(99);
    names.set("api", &[&server]);
    let fleet = fleet_of(&names, &["api"]);
    let client = Upstream::of(&fleet, 0);
    ordered(&client).await;
    names.forget("api");
    let failed = fleet.resolve().await.unwrap_err();
    assert_eq!(failed, "api: no such name");
    names.set("api", &[]);
    assert_eq!(fleet.resolve().await.unwrap_err(), "api: no address");
    ordered(&client).await;
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn one_name_without_an_answer_does_not_keep_the_others_back() {
    let server = ScriptedUpstream::start(created);
    let names = Names::new(99);
    names.set("known", &[&server]);
    let fleet = fleet_of(&names, &["unknown", "known"]);
    ordered(&Upstream::of(&fleet, 0)).await;
    assert_eq!(fleet.census(), Census { healthy: 1, ejected: 0, unhealthy: 0 });
}

#[tokio::test]
async fn a_name_that_is_known_later_is_used_then() {
    let server = ScriptedUpstream::start(created);
    let names = Names::new(99);
    let client = Upstream::of(&fleet_of(&names, &["api"]), 0);
    assert_eq!(not_sent(&client).await, Reason::Dns);
    names.set("api", &[&server]);
    ordered(&client).await;
}

#[tokio::test]
async fn requests_that_wait_for_the_first_address_wait_for_one_answer() {
    let server = ScriptedUpstream::start(created);
    let names = Names::new(0);
    names.set("api", &[&server]);
    let client = Arc::new(Upstream::of(&fleet_of(&names, &["api"]), 0));
    let sent: Vec<_> = (0..8)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { ordered(&client).await })
        })
        .collect();
    while names.asked() == 0 {
        tokio::task::yield_now().await;
    }
    names.answers.add_permits(1);
    for sent in sent {
        assert_eq!(sent.await.unwrap(), "made");
    }
    assert_eq!((names.asked(), server.requests().len()), (1, 8));
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    let names = Names::new(0);
    let servers = vec![Server { host: "api".to_owned(), port: 80 }];
    let settings = Settings { servers, connect_timeout: Duration::from_millis(30), ..settings(&[]) };
    let fleet = Arc::new(Fleet::new(settings, 1, Arc::new(Shared(names)), TaskTracker::new()));
    assert_eq!(not_sent(&Upstream::of(&fleet, 0)).await, Reason::Dns);
}

#[tokio::test]
async fn the_system_knows_localhost() {
    let found = SystemResolver.lookup("localhost", 4321).await.unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 4321), "{found:?}");
    assert!(!found.is_empty());
    assert!(SystemResolver.lookup("no name at all", 80).await.is_err());
}
