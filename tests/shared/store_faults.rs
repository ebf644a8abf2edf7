//! A Redis that pauses, dies, refuses or runs full, and is well again later: nothing restarts but itself.

use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::{RedisServer, free_port};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{COMMAND_TIMEOUT, order, pair, refused, told};
use std::io::Write;

/// What an answer may take over the command timeout on a busy machine.
const MARGIN: Duration = Duration::from_secs(1);

/// What can befall a Redis, and how it ends.
struct Fault {
    strike: fn(&mut RedisServer),
    mend: fn(&mut RedisServer),
}

/// An answer that came in time.
fn in_time(what: &str, call: &Call, gateway: &Gateway) -> Answer {
    let start = Clock::instant();
    let answer = gateway.send(call);
    assert!(start.elapsed() < COMMAND_TIMEOUT + MARGIN, "{what} took {:?}", start.elapsed());
    answer
}

/// While the store is away: guarded routes refuse in time, plain routes and those that fail open work.
fn refuses(gateway: &Gateway) {
    for key in ["k-away", "k-away-2"] {
        let answer = in_time("a refusal", &order(key), gateway);
        assert_eq!(told(&answer), refused(503, "store-unavailable"));
        assert!(answer.header("retry-after").is_some());
        assert!(answer.text().contains(r#""retry":"same-key""#));
    }
    let plain = in_time("a plain route", &Call::new("GET", "/plain"), gateway);
    assert_eq!((plain.status, plain.header("oncegate-unguarded")), (201, None));
    let open = in_time("an open route", &Call::post("/open").key("k-open").body("x"), gateway);
    assert_eq!((open.status, open.header("oncegate-unguarded")), (201, Some("store-unavailable")));
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="open",verdict="unguarded"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="store_unavailable"}"#), 2.0);
    assert_eq!(gateway.get_admin("/readyz").status, 503);
    assert_eq!(gateway.get_admin("/livez").status, 200);
}

/// The store is well again: what was refused runs, once, and its answer is there for both gateways.
fn heals(gateways: &[Gateway; 2], upstream: &ScriptedUpstream) {
    for key in ["k-away", "k-away-2"] {
        wait_until("guarded routes work again", || {
            let answer = gateways[0].send(&order(key));
            assert!(matches!(answer.status, 201 | 503), "{answer:?}");
            answer.status == 201
        });
        wait_until("the other gateway replays", || gateways[1].send(&order(key)).is_replay());
        assert_eq!(upstream.executions("Idempotency-Key", key), 1);
    }
    wait_until("ready again", || gateways[0].get_admin("/readyz").status == 200);
}

/// One attempt is running when the fault strikes. Its client gets its answer, and the outcome is written when the
/// store is back: the other gateway, which has not seen it, replays it.
fn survives(fault: &Fault) {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        let reply = Reply::whole(201, &[], "done");
        if request.text("Idempotency-Key") == "k-running" { reply.after(&hold) } else { reply }
    });
    let mut redis = RedisServer::start();
    let gateways = pair(&upstream, &redis, "", "");
    assert_eq!(gateways[1].send(&order("k-before")).status, 201);
    let mut running = connect(gateways[0].address).unwrap();
    running.write_all(&order("k-running").bytes()).unwrap();
    upstream.wait_for_requests(2);

    (fault.strike)(&mut redis);
    gate.open();
    let start = Clock::instant();
    let answer = read_answer(&mut running).unwrap();
    assert!(start.elapsed() < COMMAND_TIMEOUT + MARGIN, "the answer took {:?}", start.elapsed());
    assert_eq!((answer.status, answer.text().as_str()), (201, "done"));
    assert_eq!(answer.header("idempotency-expires"), None, "nothing is recorded yet");
    refuses(&gateways[0]);

    (fault.mend)(&mut redis);
    gateways[0].wait_for_metric(r#"oncegate_outcomes_total{outcome="kept",route="create-order"}"#, 1.0);
    wait_until("the outcome is replayed elsewhere", || {
        let again = gateways[1].send(&order("k-running"));
        assert!(again.is_replay() || told(&again) == refused(503, "store-unavailable"), "{again:?}");
        again.is_replay()
    });
    assert_eq!(upstream.executions("Idempotency-Key", "k-running"), 1);
    heals(&gateways, &upstream);
}

#[test]
fn a_paused_redis() {
    survives(&Fault { strike: |redis| redis.pause(), mend: |redis| redis.resume() });
}

#[test]
fn a_killed_redis_that_comes_back_empty() {
    survives(&Fault { strike: RedisServer::kill, mend: RedisServer::restart });
}

#[test]
fn a_demoted_redis() {
    survives(&Fault {
        strike: |redis| redis.run(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]),
        mend: |redis| redis.run(&["REPLICAOF", "NO", "ONE"]),
    });
}

#[test]
fn a_full_redis() {
    survives(&Fault {
        strike: |redis| redis.run(&["CONFIG", "SET", "maxmemory", "1"]),
        mend: |redis| redis.run(&["CONFIG", "SET", "maxmemory", "0"]),
    });
}

#[test]
fn forgotten_scripts_are_noticed_by_nobody() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let redis = RedisServer::start();
    let gateways = pair(&upstream, &redis, "", "");
    let mut running = connect(gateways[0].address).unwrap();
    running.write_all(&order("k").bytes()).unwrap();
    upstream.wait_for_requests(1);
    redis.run::<()>(&["SCRIPT", "FLUSH"]);
    gate.open();
    let answer = read_answer(&mut running).unwrap();
    assert_eq!(answer.status, 201);
    assert!(answer.header("idempotency-expires").is_some(), "recorded at once");
    assert!(gateways[1].send(&order("k")).is_replay());
    for gateway in &gateways {
        assert_eq!(gateway.metric(r#"oncegate_store_errors_total{op="settle"}"#), 0.0);
    }
}

#[test]
fn a_gateway_that_starts_before_its_redis_works_once_that_is_there() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let mut redis = RedisServer::start();
    redis.kill();
    let gateways = pair(&upstream, &redis, "", "");
    refuses(&gateways[0]);
    redis.restart();
    heals(&gateways, &upstream);
}
