//! `wait_replicas`: no request is forwarded before its claim is where a failover leaves it, and no client is told that an
//! outcome is recorded before that is there too.

use std::time::Duration;

use crate::client::Answer;
use crate::gateway::{Gateway, wait_until};
use crate::proxy::{Proxy, Weather};
use crate::redis_server::{RedisServer, until};
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{BACK, created, gateway, in_time, order, refuses, runs_within, state};

const UNACKNOWLEDGED: &str = "oncegate_redis_unacknowledged_total";

/// A primary and its replica.
fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start();
    let replica = RedisServer::replica_of(&primary, &[]);
    // A replica that is online may still wait to be sent what is written. It acknowledges once a second by itself: only several
    // times in a row, each within a tenth of that, show that it does when it is asked.
    until("the replica acknowledges", || {
        let mut writes = redis::pipe();
        writes.cmd("SET").arg("x").arg("y").ignore().cmd("DEL").arg("x").ignore().cmd("WAIT").arg(1).arg(100);
        let client = redis::Client::open(primary.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        (0..5).all(|_| writes.query::<(u32,)>(&mut connection).unwrap() == (1,))
    });
    primary.run::<()>(&["CONFIG", "RESETSTAT"]);
    (primary, replica)
}

fn store(url: &str) -> String {
    format!("url: \"{url}\", wait_replicas: 1, wait_timeout: 200ms")
}

/// How often a command was executed.
fn calls(redis: &RedisServer, command: &str) -> u32 {
    let told = redis.info(&format!("cmdstat_{command}"));
    let count = told.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// The claim that an answer names is gone soon, long before its lease ends.
fn is_taken_back(gateway: &Gateway, refused: &Answer) {
    wait_until("the claim is taken back", || state(gateway, refused).is_none());
}

#[test]
fn claims_and_outcomes_wait_and_nothing_else_does() {
    let upstream = created();
    let (primary, _replica) = pair();
    let gateway = gateway(&upstream, &store(&primary.url()), "");
    for turn in 0..5 {
        let key = format!("k-{turn}");
        // A replica on a busy machine may not have the claim in time.
        wait_until("the order runs", || in_time(&gateway, &key).status == 201);
        assert!(in_time(&gateway, &key).is_replay());
    }
    // One for each claim and each outcome, and one behind a script that was not known yet; replays come from the gateway's
    // cache. What was not acknowledged is written again.
    let waits = f64::from(calls(&primary, "wait"));
    let again = gateway.metric(UNACKNOWLEDGED);
    assert!((10.0..=11.0 + again).contains(&waits), "{waits}, {again} of them in vain");
}

#[test]
fn a_claim_that_no_replica_has_is_taken_back_at_once() {
    let upstream = created();
    let (primary, replica) = pair();
    let gateway = gateway(&upstream, &store(&primary.url()), "");
    assert_eq!(in_time(&gateway, "k-before").status, 201);
    replica.pause();
    for turn in 1..=3 {
        let refused = refuses(&gateway, &upstream, "k");
        is_taken_back(&gateway, &refused);
        assert!(gateway.metric(UNACKNOWLEDGED) >= f64::from(turn));
    }
    assert_eq!(gateway.get_admin("/readyz").status, 503, "a reservation that counts cannot be written");
    assert!(in_time(&gateway, "k-before").is_replay(), "what is recorded is told all the same");
    replica.resume();
    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    runs_within(BACK, &gateway, &upstream, "k");
}

#[test]
fn a_claim_over_a_doubt_waits_too_and_leaves_the_doubt() {
    let upstream = ScriptedUpstream::start(|request| match request.text("Oncegate-Attempt").as_str() {
        "1" => Reply::reset(),
        _ => Reply::whole(201, &[], "done"),
    });
    let (primary, replica) = pair();
    let gateway = gateway(&upstream, &store(&primary.url()), "in_doubt: retry");
    // A replica on a busy machine may not have the claim in time: then nothing was sent.
    let breaks = || in_time(&gateway, "k").code().as_deref() == Some("upstream-failed");
    wait_until("the upstream breaks the first attempt off", breaks);
    replica.pause();
    let refused = refuses(&gateway, &upstream, "k");
    wait_until("the doubt is back", || state(&gateway, &refused).as_deref() == Some("in-doubt"));
    replica.resume();
    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    wait_until("the second attempt runs", || in_time(&gateway, "k").status == 201);
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 2);
}

/// The reply is lost with its connection, and the claim is sent again over a fresh one, where the server has no write to
/// wait for: it would call every replica up to date.
#[test]
fn a_claim_that_meets_itself_is_not_taken_for_acknowledged() {
    let upstream = created();
    let (primary, replica) = pair();
    let proxy = Proxy::to(primary.port());
    // One connection, whose next reply is the claim's.
    let store = format!("{}, connections: 1", store(&proxy.url()));
    let gateway = Gateway::start(&format!("workers: 1\n{}", crate::yaml(&upstream, &store, "")));
    // The gateway's first pass through the store goes by the same proxy.
    gateway.wait_for_metric("oncegate_store_seconds_count{op=\"list\"}", 1.0);
    // A replica on a busy machine may not have the claim in time.
    wait_until("an order runs", || in_time(&gateway, "k-before").status == 201);
    replica.pause();
    proxy.set(Weather::CutNextReply);
    let refused = refuses(&gateway, &upstream, "k");
    is_taken_back(&gateway, &refused);
    replica.resume();
    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    proxy.set(Weather::CutNextReply);
    runs_within(BACK, &gateway, &upstream, "k");
}

/// The client has its answer all the same, without the word that it is recorded; and it is, once a replica has it.
#[test]
fn an_outcome_that_no_replica_has_is_told_unmarked_and_written_again() {
    let gate = crate::upstream::Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let (primary, replica) = pair();
    let gateway = gateway(&upstream, &store(&primary.url()), "");
    let address = gateway.address;
    let running: Vec<_> =
        (0..4).map(|turn| std::thread::spawn(move || order(&format!("k-{turn}")).send(address))).collect();
    upstream.wait_for_requests(4);
    replica.pause();
    let waiting: Vec<_> =
        (0..8).map(|turn| std::thread::spawn(move || order(&format!("w-{turn}")).send(address))).collect();
    std::thread::sleep(Duration::from_millis(50));
    gate.open();
    for answer in running {
        let answer = answer.join().unwrap();
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("idempotency-expires"), None, "a failover could lose it");
    }
    for answer in waiting {
        assert_eq!(answer.join().unwrap().status, 503);
    }
    replica.resume();
    gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#, 4.0);
    for turn in 0..4 {
        let replay = in_time(&gateway, &format!("k-{turn}"));
        assert!(replay.is_replay() && replay.header("idempotency-expires").is_some(), "{replay:?}");
    }
}
