//! A second key on a route, over two gateways: a fresh first key gets nobody past it, and what dies leaves a doubt.

use std::io::Write;
use std::sync::Barrier;
use std::time::Duration;

use crate::client::{Answer, Call, connect};
use crate::gateway::{Gateway, wait_until};
use crate::proxy::{Proxy, Weather};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{pair, refused, store, told, yaml};

const ALSO: &str = "also: { key: [ { json: /order_no } ] }";
/// For tests of what is left behind: a lease that ends soon, and a sweep that looks often.
const HASTY: &str = "lease: 1s";
const SWEPT: &str = "sweep_interval: 1s";
const DOUBTS: &str = r#"oncegate_doubts{route="create-order"}"#;

fn pay(key: &str, order: &str) -> Call {
    Call::post("/orders").key(key).json(&format!("{{\"order_no\":\"{order}\"}}"))
}

fn records(redis: &RedisServer) -> usize {
    redis.run::<usize>(&["DBSIZE"])
}

/// The store is well; on a busy machine it may be slow.
fn patient(redis: &RedisServer) -> String {
    format!("{SWEPT}\nstore: {}", store(&redis.url(), Duration::from_secs(10)))
}

#[test]
fn of_thirty_clicks_with_fresh_keys_and_one_order_one_passes() {
    const CLICKS: usize = 30;
    const ROUNDS: usize = 20;
    let upstream = ScriptedUpstream::start(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Reply::whole(201, &[], "done")
    });
    let redis = RedisServer::start();
    let gateways = pair(&upstream, &redis, ALSO, &patient(&redis));
    for round in 0..ROUNDS {
        let start = Barrier::new(CLICKS);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let (start, gateways) = (&start, &gateways);
            let clicks = (0..CLICKS).map(|click| {
                scope.spawn(move || {
                    let call = pay(&format!("k{round}-{click}"), &format!("A{round}"));
                    start.wait();
                    gateways[click % 2].send(&call)
                })
            });
            let clicks: Vec<_> = clicks.collect();
            clicks.into_iter().map(|click| click.join().unwrap()).collect()
        });
        let ran = answers.iter().filter(|answer| answer.status == 201 && !answer.is_replay()).count();
        let others = |answer: &&Answer| answer.is_replay() || told(answer) == refused(409, "request-in-flight");
        assert_eq!((ran, answers.iter().filter(others).count()), (1, CLICKS - 1), "round {round}: {answers:?}");
        assert_eq!(upstream.requests().len(), round + 1, "round {round}");
    }
    // Nothing is left of the first keys of those that were refused: two records an order.
    wait_until("the refused clicks have left nothing", || records(&redis) == 2 * ROUNDS);
}

#[test]
fn a_gateway_that_is_killed_between_the_claims_leaves_the_first_key_in_doubt() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let proxy = Proxy::to(redis.port());
    // Its first claim is carried out and never answered, so that the second is not even sent.
    let slow = format!("workers: 1\nstore: {}", store(&proxy.url(), Duration::from_mins(1)));
    let mut dying = Gateway::start(&yaml(&upstream, &proxy.url(), &format!("{ALSO}\n{HASTY}"), &slow));
    let other = Gateway::start(&yaml(&upstream, &redis.url(), &format!("{ALSO}\n{HASTY}"), &patient(&redis)));
    assert_eq!(dying.send(&pay("before", "A-before")).status, 201);
    let before = records(&redis);
    proxy.set(Weather::SwallowReplies);
    let mut client = connect(dying.address).unwrap();
    client.write_all(&pay("k", "A").bytes()).unwrap();
    wait_until("the first key is claimed", || records(&redis) == before + 1);
    dying.kill();
    other.wait_for_metric(DOUBTS, 1.0);
    assert_eq!(told(&other.send(&pay("k", "A"))), refused(409, "outcome-unknown"));
    assert_eq!(other.send(&pay("fresh", "A")).status, 201, "the order was never claimed");
    assert_eq!(told(&other.send(&pay("k", "A"))), refused(409, "outcome-unknown"));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_gateway_that_is_killed_while_it_runs_leaves_both_keys_in_one_doubt() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let redis = RedisServer::start();
    let [mut dying, other] = pair(&upstream, &redis, &format!("{ALSO}\n{HASTY}"), &patient(&redis));
    let mut client = connect(dying.address).unwrap();
    client.write_all(&pay("k", "A").bytes()).unwrap();
    wait_until("it is forwarded", || upstream.requests().len() == 1);
    dying.kill();
    let unknown = refused(409, "outcome-unknown");
    for (key, what) in [("k", "the first key is in doubt"), ("fresh", "no fresh key gets past the order")] {
        // The leases of the two end a moment apart; until then it is refused as running.
        wait_until(what, || {
            let answer = told(&other.send(&pay(key, "A")));
            assert!([&unknown, &refused(409, "request-in-flight")].contains(&&answer), "{answer:?}");
            answer == unknown
        });
    }
    wait_until("the pair counts as one trouble", || {
        let counted = other.metric(DOUBTS);
        assert!(counted <= 1.0, "never as two: {counted}");
        counted == 1.0
    });
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_api_that_is_not_reached_frees_both_keys() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let text = yaml(&upstream, &redis.url(), ALSO, &patient(&redis));
    let away = Gateway::start(&text.replace(&upstream.address().to_string(), &closed.to_string()));
    let there = Gateway::start(&text);
    assert_eq!(told(&away.send(&pay("k", "A"))), refused(502, "upstream-unreachable"));
    assert_eq!(records(&redis), 0);
    assert_eq!(there.send(&pay("other", "A")).status, 201, "the order is free");
    assert_eq!(there.send(&pay("k", "B")).status, 201, "and so is the key");
    assert_eq!(upstream.requests().len(), 2);
}
