//! A gateway that is killed at each moment of a pair's life, with another one beside it: nothing runs twice, what is left
//! is in doubt or made up, and in the end both keys say the same. Writes that come after their gateway's death change
//! nothing.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use oncegate::machine::{OperationId, State};
use oncegate::store::codec::Codec;
use serde_json::{Value, json};

use crate::client::{Answer, Call, connect};
use crate::gateway::{Gateway, wait_until};
use crate::interceptor::{Interceptor, Write};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Recorded, Reply, ScriptedUpstream};
use crate::{refused, store, told, yaml};

const DOUBTS: &str = r#"oncegate_doubts{route="create-order"}"#;
/// The namespaces of the two keys.
const FIRST: &str = "create-order";
const SECOND: &str = "create-order/also";
const NEVER_SWEPT: &str = "sweep_interval: 1h";
const SWEPT: &str = "sweep_interval: 1s";

/// Two gateways, of which one will die, and between that one and its store somebody who can take out what it writes.
struct Scene {
    upstream: ScriptedUpstream,
    redis: RedisServer,
    between: Interceptor,
    dying: Gateway,
    other: Gateway,
}

impl Scene {
    fn new(upstream: ScriptedUpstream, sweep: &str) -> Self {
        Self::guarded(upstream, sweep, "")
    }

    /// The same with further lines of the guard.
    fn guarded(upstream: ScriptedUpstream, sweep: &str, more: &str) -> Self {
        let redis = RedisServer::start();
        let between = Interceptor::to(redis.port());
        let guard = &format!("also: {{ key: [ {{ json: /order_no }} ] }}\nlease: 2s\n{more}");
        // It waits for its store for longer than it lives; and it makes nothing up that others are to find.
        let slow = format!("workers: 1\n{NEVER_SWEPT}\nstore: {}", store(&between.url(), Duration::from_mins(1)));
        let dying = Gateway::start(&yaml(&upstream, &between.url(), guard, &slow));
        let patient = format!("{sweep}\nstore: {}", store(&redis.url(), Duration::from_secs(10)));
        let other = Gateway::start(&yaml(&upstream, &redis.url(), guard, &patient));
        let scene = Self { upstream, redis, between, dying, other };
        // From here on the server knows the scripts, so that each write is one command.
        for call in [pay("kept", "kept"), pay("freed", "refused")] {
            scene.dying.send(&call);
        }
        scene
    }

    /// The request that the gateway dies over.
    fn ask(&self) -> TcpStream {
        let mut client = connect(self.dying.address).unwrap();
        client.write_all(&pay("k", "A").bytes()).unwrap();
        client
    }

    /// How often orders of this number were forwarded.
    fn executed(&self, order: &str) -> usize {
        let mine = format!("\"{order}\"");
        let requests = self.upstream.requests();
        requests.iter().filter(|request| String::from_utf8_lossy(&request.body).contains(&mine)).count()
    }

    fn state(&self, id: OperationId) -> &'static str {
        let key = [b"og:", &id.0[..]].concat();
        let Some(bytes) = self.redis.run::<Option<Vec<u8>>>(&[b"GET".to_vec(), key]) else { return "absent" };
        match Codec::default().decode(&id, &bytes).unwrap().state {
            State::InFlight { .. } => "in flight",
            State::InDoubt { .. } => "in doubt",
            State::Completed { .. } => "completed",
        }
    }

    /// What the store has of an operation of this namespace that was claimed last.
    fn is(&self, namespace: &str) -> &'static str {
        self.state(self.between.last_claimed(namespace))
    }

    fn told(&self, key: &str, order: &str) -> (u16, Option<String>) {
        told(&self.other.send(&pay(key, order)))
    }

    /// What a request is told once nothing of it runs any more.
    fn ends(&self, key: &str, order: &str) -> Answer {
        let mut last = self.other.send(&pay(key, order));
        wait_until("nothing of it runs", || {
            let runs = told(&last) == refused(409, "request-in-flight");
            if runs {
                last = self.other.send(&pay(key, order));
            }
            !runs
        });
        last
    }

    /// Waits until the sweep counts one doubt. It has never counted more.
    fn counts_one_doubt(&self) {
        wait_until("the doubt is counted", || {
            let counted = self.other.metric(DOUBTS);
            assert!(counted <= 1.0, "one attempt, one doubt: {counted}");
            counted == 1.0
        });
    }

    fn doubts(&self) -> Vec<Value> {
        let answer = self.other.get_admin("/api/v1/doubts");
        let page: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
        page["doubts"].as_array().unwrap().clone()
    }

    /// An operator says of the one that is told first what happened to it.
    fn resolve(&self, outcome: &str) -> Answer {
        let id = self.doubts()[0]["id"].as_str().unwrap().to_owned();
        let word = json!({"outcome": outcome, "reason": "looked up"});
        Call::post(&format!("/api/v1/keys/{id}/resolve")).json(&word.to_string()).send(self.other.admin)
    }

    /// Both keys have the answer, the order was forwarded once, and neither is anybody's trouble.
    fn both_are_replayed(&self) {
        for key in ["k", "fresh"] {
            let answer = self.other.send(&pay(key, "A"));
            assert!(answer.is_replay() && answer.text() == "done", "{key}: {answer:?}");
        }
        assert_eq!(self.told("k", "B"), refused(422, "key-reused"));
        assert_eq!((self.is(FIRST), self.is(SECOND)), ("completed", "completed"));
        assert_eq!((self.executed("A"), self.doubts()), (1, vec![]));
    }
}

fn pay(key: &str, order: &str) -> Call {
    Call::post("/orders").key(key).json(&format!("{{\"order_no\":\"{order}\"}}"))
}

/// An API that books all orders but those that are to be refused.
fn books(request: &Recorded) -> Reply {
    let status = if String::from_utf8_lossy(&request.body).contains("refused") { 422 } else { 201 };
    Reply::whole(status, &[], "done")
}

fn is_claim(write: &Write) -> bool {
    write.record.as_ref().is_some_and(|record| matches!(record.state, State::InFlight { .. }))
}

fn is_outcome(write: &Write) -> bool {
    write.record.as_ref().is_some_and(|record| matches!(record.state, State::Completed { .. }))
}

/// A gateway that died between its two claims.
fn between_the_claims() -> Scene {
    let mut scene = Scene::new(ScriptedUpstream::start(books), SWEPT);
    scene.between.hold(|write| is_claim(write) && write.is_in(SECOND));
    let _client = scene.ask();
    wait_until("the second claim is on its way", || scene.between.holds());
    assert!(scene.is(FIRST) != "absent" && scene.is(SECOND) == "absent");
    scene.dying.kill();
    scene.counts_one_doubt();
    assert_eq!((scene.is(FIRST), scene.is(SECOND)), ("in doubt", "absent"));
    assert_eq!(scene.told("k", "A"), refused(409, "outcome-unknown"));
    scene
}

#[test]
fn killed_between_the_claims_the_order_is_free_and_a_claim_that_comes_after_it_has_run_is_nothing() {
    let scene = between_the_claims();
    assert_eq!(scene.told("fresh", "A"), (201, None));
    assert!(!scene.between.deliver().starts_with("$-1"), "the order has a record");
    assert_eq!(scene.is(SECOND), "completed");
    assert_eq!(scene.told("k", "A"), refused(409, "outcome-unknown"));
    assert_eq!((scene.resolve("not-executed").status, scene.doubts()), (200, vec![]));
    assert!(scene.other.send(&pay("k", "A")).is_replay(), "both keys have the order's answer");
    assert_eq!(scene.executed("A"), 1);
}

#[test]
fn a_claim_that_comes_after_its_gateways_death_leaves_a_doubt_of_both() {
    let scene = between_the_claims();
    assert!(scene.between.deliver().starts_with("$-1"), "there is nothing in its way");
    assert_eq!(scene.told("fresh", "A"), refused(409, "outcome-unknown"));
    wait_until("both are one doubt", || scene.doubts().len() == 2);
    scene.counts_one_doubt();
    assert_eq!(scene.executed("A"), 0);
    assert_eq!((scene.resolve("not-executed").status, scene.doubts()), (200, vec![]));
    assert_eq!((scene.is(FIRST), scene.is(SECOND)), ("absent", "absent"));
    assert_eq!(scene.told("k", "A"), (201, None));
    scene.both_are_replayed();
}

#[test]
fn killed_while_the_api_works_both_are_one_doubt_until_somebody_knows() {
    for (outcome, left) in [("executed", "completed"), ("not-executed", "absent")] {
        let gate = Gate::new();
        let hold = gate.clone();
        let upstream = ScriptedUpstream::start(move |request| {
            let is_held = String::from_utf8_lossy(&request.body).contains("\"A\"");
            if is_held { books(request).after(&hold) } else { books(request) }
        });
        let mut scene = Scene::new(upstream, SWEPT);
        let _client = scene.ask();
        wait_until("it is forwarded", || scene.executed("A") == 1);
        scene.dying.kill();
        // The answer comes to nobody.
        gate.open();
        scene.counts_one_doubt();
        wait_until("both are in doubt", || (scene.is(FIRST), scene.is(SECOND)) == ("in doubt", "in doubt"));
        for (key, order) in [("k", "A"), ("fresh", "A")] {
            assert_eq!(scene.told(key, order), refused(409, "outcome-unknown"));
        }
        assert_eq!(scene.executed("A"), 1);
        assert_eq!((scene.resolve(outcome).status, scene.doubts()), (200, vec![]));
        assert_eq!((scene.is(FIRST), scene.is(SECOND)), (left, left));
        let expected = if left == "absent" { (201, None) } else { refused(409, "already-executed") };
        assert_eq!(scene.told("k", "A"), expected);
        wait_until("the sweep counts none", || scene.other.metric(DOUBTS) == 0.0);
        // The one that died says the same when it is back.
        scene.between.hold_no_more();
        scene.dying.restart();
        for key in ["k", "fresh"] {
            let answer = scene.dying.send(&pay(key, "A"));
            assert!(answer.is_replay() || told(&answer) == refused(409, "already-executed"), "{answer:?}");
        }
        assert_eq!(scene.executed("A"), if left == "absent" { 2 } else { 1 });
    }
}

/// A gateway that died when one half of an outcome was written, and the half of this namespace was not.
fn between_the_settles(missing: &'static str, sweep: &str, more: &str) -> Scene {
    let mut scene = Scene::guarded(ScriptedUpstream::start(books), sweep, more);
    scene.between.hold(move |write| is_outcome(write) && write.is_in(missing));
    let _client = scene.ask();
    let there = if missing == FIRST { SECOND } else { FIRST };
    wait_until("one half of the outcome is written", || scene.between.holds() && scene.is(there) == "completed");
    assert_ne!(scene.is(missing), "completed");
    scene.dying.kill();
    scene
}

#[test]
fn killed_between_the_settles_the_sweep_makes_up_the_other_half() {
    for missing in [FIRST, SECOND] {
        let scene = between_the_settles(missing, SWEPT, "");
        wait_until("nobody asks, and it is made up", || {
            assert_eq!(scene.other.metric(DOUBTS), 0.0, "nothing of it is unknown");
            scene.is(missing) == "completed"
        });
        let late = scene.between.deliver();
        assert!(!late.contains(":1\r\n"), "what comes late does not fit: {late:?}");
        scene.both_are_replayed();
    }
}

#[test]
fn killed_between_the_settles_a_duplicate_makes_up_the_other_half() {
    // A doubt that may be tried again is none: what was executed is not forwarded again.
    for (missing, more) in [(FIRST, ""), (SECOND, ""), (FIRST, "in_doubt: retry"), (SECOND, "in_doubt: retry")] {
        let scene = between_the_settles(missing, NEVER_SWEPT, more);
        let call = pay(if missing == FIRST { "k" } else { "fresh" }, "A");
        wait_until("its lease has ended", || {
            let answer = scene.other.send(&call);
            let runs = told(&answer) == refused(409, "request-in-flight");
            assert!(runs || answer.is_replay(), "never in doubt: {answer:?}");
            answer.is_replay()
        });
        let late = scene.between.deliver();
        assert!(!late.contains(":1\r\n"), "what comes late does not fit: {late:?}");
        scene.both_are_replayed();
    }
}

#[test]
fn killed_between_two_releases_what_is_left_is_in_doubt() {
    for missing in [FIRST, SECOND] {
        let mut scene = Scene::new(ScriptedUpstream::start(|_| Reply::whole(422, &[], "no")), SWEPT);
        scene.between.hold(move |write| write.record.is_none() && write.is_in(missing));
        let _client = scene.ask();
        let gone = if missing == FIRST { SECOND } else { FIRST };
        wait_until("one half is freed", || scene.between.holds() && scene.is(gone) == "absent");
        scene.dying.kill();
        scene.counts_one_doubt();
        // That the other half is gone proves nothing to whoever finds this one.
        let late = scene.between.deliver();
        assert!(!late.contains(":1\r\n"), "what comes late does not fit: {late:?}");
        assert_eq!((scene.is(missing), scene.told("k", "A")), ("in doubt", refused(409, "outcome-unknown")));
        if missing == SECOND {
            assert_eq!(scene.told("fresh", "A"), refused(409, "outcome-unknown"));
        }
        assert_eq!((scene.resolve("not-executed").status, scene.doubts()), (200, vec![]));
        for key in ["k", "fresh"] {
            assert_eq!(scene.told(key, "A"), (422, None), "both are free");
        }
        assert_eq!(scene.executed("A"), 3);
    }
}

#[test]
fn killed_after_both_settles_both_have_the_answer() {
    let mut scene = Scene::new(ScriptedUpstream::start(books), SWEPT);
    let _client = scene.ask();
    wait_until("both are written", || {
        scene.executed("A") == 1 && (scene.is(FIRST), scene.is(SECOND)) == ("completed", "completed")
    });
    scene.dying.kill();
    scene.both_are_replayed();
    assert_eq!(scene.other.metric(DOUBTS), 0.0);
}

/// Whatever it was about with each of many orders.
#[test]
fn killed_in_the_middle_of_many_no_order_runs_twice_and_its_keys_agree() {
    const ORDERS: usize = 24;
    let upstream = ScriptedUpstream::start(|request| {
        std::thread::sleep(Duration::from_millis(rand::random_range(0..10)));
        books(request)
    });
    let mut scene = Scene::new(upstream, SWEPT);
    for round in 0..3 {
        let name = |number: usize| format!("{round}-{number}");
        let before = scene.upstream.requests().len();
        let enough = before + rand::random_range(1..ORDERS / 2);
        std::thread::scope(|scope| {
            for number in 0..ORDERS {
                let (call, to) = (pay(&format!("k{}", name(number)), &name(number)), scene.dying.address);
                // Most of them get no answer.
                scope.spawn(move || drop(call.try_send(to)));
            }
            wait_until("it is in the middle of it", || scene.upstream.requests().len() >= enough);
            scene.dying.kill();
        });
        for order in (0..ORDERS).map(name) {
            let by_key = scene.ends(&format!("k{order}"), &order);
            let ran_before = scene.executed(&order);
            let by_order = scene.ends(&format!("fresh{order}"), &order);
            let unknown = refused(409, "outcome-unknown");
            if told(&by_key) == unknown {
                let never_claimed = by_order.status == 201 && !by_order.is_replay() && ran_before == 0;
                assert!(told(&by_order) == unknown || never_claimed, "{order}: {by_order:?}");
            } else {
                assert!(by_key.status == 201 && by_order.is_replay(), "{order}: {by_key:?} {by_order:?}");
            }
            assert!(scene.executed(&order) <= 1, "{order} ran twice");
        }
        scene.dying.restart();
    }
}

/// Not killed, but cut off from its store between the two claims: it gives the first one back.
#[test]
fn a_store_that_is_lost_between_the_claims_leaves_neither() {
    let (upstream, redis) = (ScriptedUpstream::start(books), RedisServer::start());
    let between = Interceptor::to(redis.port());
    let guard = "also: { key: [ { json: /order_no } ] }\nlease: 60s";
    let top = format!("workers: 1\nstore: {}", store(&between.url(), Duration::from_secs(3)));
    let gateway = Gateway::start(&yaml(&upstream, &between.url(), guard, &top));
    for call in [pay("kept", "kept"), pay("freed", "refused")] {
        gateway.send(&call);
    }
    let before = redis.run::<usize>(&["DBSIZE"]);
    between.hold(|write| is_claim(write) && write.is_in(SECOND));
    assert_eq!(told(&gateway.send(&pay("k", "A"))), refused(503, "store-unavailable"));
    between.hold_no_more();
    wait_until("the first key is given back", || redis.run::<usize>(&["DBSIZE"]) == before);
    assert_eq!(gateway.send(&pay("k", "B")).status, 201);
    assert_eq!(gateway.send(&pay("fresh", "A")).status, 201);
    assert!(!between.deliver().contains("$-1\r\n"), "the claim comes late, and the order has a record");
    assert!(gateway.send(&pay("new", "A")).is_replay());
}
