//! Late answers: what an attempt brings whose operation is in doubt already. And late beginnings, of which there are none.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::proxy::{Proxy, Weather};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{order, refused, store, told, yaml};

const LATE: &str = "oncegate_late_answers_total";

/// An attempt of one gateway that is in doubt, seen by a duplicate at the other, because the first is cut off from the
/// store that they share.
struct CutOff {
    way: Proxy,
    alone: Gateway,
    other: Gateway,
    client: TcpStream,
    upstream: ScriptedUpstream,
    gate: Gate,
    _redis: RedisServer,
}

impl CutOff {
    /// The first request is answered like this once the gate is open, every other one at once and plainly.
    fn start(late: &Reply) -> Self {
        let gate = Gate::new();
        let late = late.clone().after(&gate);
        let upstream = ScriptedUpstream::start(move |request| match request.text("X-First").as_str() {
            "" => Reply::whole(201, &[], "second"),
            _ => late.clone(),
        });
        let redis = RedisServer::start();
        let way = Proxy::to(redis.port());
        let guard = "lease: 1s\noutcome_headers: trust";
        let start = |url: &str| Gateway::start(&yaml(&upstream, url, guard, "sweep_interval: 1h"));
        let (alone, other) = (start(&way.url()), start(&redis.url()));
        let mut client = connect(alone.address).unwrap();
        client.write_all(&first().bytes()).unwrap();
        upstream.wait_for_requests(1);
        way.set(Weather::BlackHole);
        wait_until("a duplicate elsewhere finds the lease at its end", || {
            let told = told(&other.send(&order("k")));
            assert!(told == refused(409, "request-in-flight") || told == refused(409, "outcome-unknown"), "{told:?}");
            told == refused(409, "outcome-unknown")
        });
        Self { way, alone, other, client, upstream, gate, _redis: redis }
    }

    /// The answer comes while the store is still away, and its client gets it; then the store is back.
    fn answer_and_mend(&mut self) {
        self.gate.open();
        let answer = read_answer(&mut self.client).unwrap();
        assert_eq!((answer.text().as_str(), answer.header("idempotency-expires")), ("first", None), "not recorded yet");
        assert_eq!(told(&self.other.send(&order("k"))), refused(409, "outcome-unknown"));
        self.way.set(Weather::Fair);
    }
}

/// The same operation as `order("k")`: headers are no part of it.
fn first() -> Call {
    order("k").header("X-First", "1")
}

#[test]
fn a_late_answer_ends_the_doubt_when_the_store_is_back() {
    let mut scene = CutOff::start(&Reply::whole(201, &[], "first"));
    scene.answer_and_mend();
    wait_until("the late answer is replayed", || {
        let again = scene.other.send(&order("k"));
        assert!(again.is_replay() || told(&again) == refused(409, "outcome-unknown"), "{again:?}");
        again.is_replay() && again.text() == "first"
    });
    assert_eq!((scene.alone.metric(LATE), scene.other.metric(LATE)), (1.0, 0.0));
    assert_eq!(scene.upstream.requests().len(), 1);
}

#[test]
fn a_late_answer_that_releases_frees_the_key() {
    for late in [Reply::whole(500, &[], "first"), Reply::whole(201, &[("Oncegate-Outcome", "not-executed")], "first")] {
        let mut scene = CutOff::start(&late);
        scene.answer_and_mend();
        wait_until("the key is free", || {
            let again = scene.other.send(&order("k"));
            assert!(again.status == 201 || told(&again) == refused(409, "outcome-unknown"), "{again:?}");
            again.text() == "second"
        });
        assert!(scene.other.send(&order("k")).is_replay());
        let attempts: Vec<_> =
            scene.upstream.requests().iter().map(|request| request.text("Oncegate-Attempt")).collect();
        assert_eq!(attempts, ["1", "1"]);
    }
}

/// The store's reply takes longer than the lease: nothing begins late, and the key is free at once.
#[test]
fn an_attempt_whose_lease_has_ended_before_it_begins_is_not_sent() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let way = Proxy::to(redis.port());
    let store = format!("store: {}\nsweep_interval: 1h", store(&way.url(), Duration::from_secs(10)));
    let gateway = Gateway::start(&yaml(&upstream, &way.url(), "lease: 200ms", &store));
    way.set(Weather::Slow(Duration::from_millis(400)));
    let answer = gateway.send(&order("k"));
    assert_eq!(told(&answer), refused(502, "upstream-unreachable"), "{answer:?}");
    assert_eq!(answer.header("oncegate-outcome"), Some("not-executed"));
    assert!(upstream.requests().is_empty());
    way.set(Weather::Fair);
    wait_until("the next one runs", || {
        let again = gateway.send(&order("k"));
        // On a busy machine 200ms may pass again.
        assert!(again.status == 201 || told(&again) == refused(502, "upstream-unreachable"), "{again:?}");
        again.status == 201
    });
    assert_eq!(upstream.requests().len(), 1);
}
