//! What Redis answers when it cannot do what it is asked: the client's status, the record's state, and how it ends.

use std::io::Write as _;

use crate::client::{connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::proxy::{Proxy, Weather};
use crate::redis_server::{RedisServer, free_port, until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{BACK, created, gateway, in_time, order, refuses, runs_within, state, yaml};

/// What befalls a server, and how that ends.
struct Ailment {
    /// The first word of the replies that it gives meanwhile.
    says: &'static str,
    strike: fn(&mut RedisServer) -> Remedy,
}

/// What makes a server well again.
type Remedy = Box<dyn FnOnce(&mut RedisServer)>;

fn store(url: &str) -> String {
    format!("url: \"{url}\"")
}

/// How often the server has given an error.
fn given(redis: &RedisServer, error: &str) -> u32 {
    let told = redis.info(&format!("errorstat_{error}"));
    told.strip_prefix("count=").map_or(0, |count| count.trim().parse().unwrap())
}

/// While it lasts, new requests are refused in time and leave no record; the client of a running attempt gets its answer.
/// When it ends, the outcome of that attempt is written, and what was refused runs once: without a restart.
fn endures(ailment: &Ailment) {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        let reply = Reply::whole(201, &[], "done");
        if request.text("Idempotency-Key") == "k-running" { reply.after(&hold) } else { reply }
    });
    let mut redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "og", "on", "nopass", "~*", "+@all"]);
    let url = format!("redis://og:x@{}/0", redis.address());
    let gateway = gateway(&upstream, &store(&url), "");
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    let mut running = connect(gateway.address).unwrap();
    running.write_all(&order("k-running").bytes()).unwrap();
    upstream.wait_for_requests(2);

    let mend = (ailment.strike)(&mut redis);
    let refused = refuses(&gateway, &upstream, "k");
    gate.open();
    let answer = read_answer(&mut running).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (201, "done"));
    assert_eq!(answer.header("idempotency-expires"), None, "nothing is recorded yet");
    assert_eq!(gateway.get_admin("/readyz").status, 503);
    mend(&mut redis);

    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    assert!(given(&redis, ailment.says) >= 2, "the server did not say {}", ailment.says);
    assert_eq!(state(&gateway, &refused), None, "a claim that was refused leaves no record");
    runs_within(BACK, &gateway, &upstream, "k");
    wait_until("the outcome is written", || in_time(&gateway, "k-running").is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", "k-running"), 1);
    assert!(gateway.send(&order("k-before")).is_replay());
}

/// Changes a setting, and back.
fn set(redis: &RedisServer, name: &'static str, ill: &str, well: &'static str) -> Remedy {
    redis.run::<()>(&["CONFIG", "SET", name, ill]);
    Box::new(move |redis| redis.run(&["CONFIG", "SET", name, well]))
}

#[test]
fn oom() {
    endures(&Ailment { says: "OOM", strike: |redis| set(redis, "maxmemory", "1", "0") });
}

#[test]
fn noreplicas() {
    endures(&Ailment { says: "NOREPLICAS", strike: |redis| set(redis, "min-replicas-to-write", "1", "0") });
}

#[test]
fn readonly() {
    endures(&Ailment {
        says: "READONLY",
        strike: |redis| {
            redis.run::<()>(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
            Box::new(|redis| redis.run(&["REPLICAOF", "NO", "ONE"]))
        },
    });
}

#[test]
fn noperm() {
    endures(&Ailment {
        says: "NOPERM",
        strike: |redis| {
            redis.run::<()>(&["ACL", "SETUSER", "og", "-@write", "-@scripting"]);
            Box::new(|redis| redis.run(&["ACL", "SETUSER", "og", "+@all"]))
        },
    });
}

#[test]
fn busy() {
    endures(&Ailment {
        says: "BUSY",
        strike: |redis| {
            redis.run::<()>(&["CONFIG", "SET", "busy-reply-threshold", "20"]);
            let client = redis::Client::open(redis.url()).unwrap();
            let script = std::thread::spawn(move || {
                let mut connection = client.get_connection().unwrap();
                redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
            });
            until("the server is busy", || {
                redis.try_run::<()>(&["GET", "x"]).is_err_and(|error| error.code() == Some("BUSY"))
            });
            Box::new(|redis| {
                redis.run::<()>(&["SCRIPT", "KILL"]);
                assert!(script.join().unwrap().is_err());
            })
        },
    });
}

#[test]
fn loading() {
    endures(&Ailment {
        says: "LOADING",
        strike: |redis| {
            let filler = "for i = 1, 1000 do redis.call('SET', 'filler-' .. i, string.rep('x', 2048)) end";
            redis.run::<()>(&["EVAL", filler, "0"]);
            redis.run::<()>(&["CONFIG", "SET", "rdbcompression", "no"]);
            redis.run::<()>(&["SAVE"]);
            // 20 ms for each key, and other clients have their turn in between. Users are not in the snapshot.
            let slowly = ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];
            let user = ["--user", "og", "on", "nopass", "~*", "+@all"];
            redis.restart_unready(&[&slowly[..], &user].concat());
            until("the server is loading", || {
                redis.try_run::<()>(&["GET", "x"]).is_err_and(|error| error.code() == Some("LOADING"))
            });
            Box::new(|redis| {
                let told = given(redis, "LOADING");
                until("the gateway is told", || given(redis, "LOADING") > told);
                redis.run::<()>(&["CONFIG", "SET", "key-load-delay", "0"]);
                until("it has loaded", || redis.try_run::<()>(&["GET", "x"]).is_ok());
            })
        },
    });
}

/// Every connection is cut, and nobody gets a new one.
#[test]
fn max_clients() {
    let upstream = created();
    let redis = RedisServer::start();
    let gateway = gateway(&upstream, &store(&redis.url()), "");
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    let client = redis::Client::open(redis.url()).unwrap();
    // The one client that there may be.
    let mut operator = client.get_connection().unwrap();
    let mut tell = |words: &[&str]| redis::Cmd::new().arg(words).query::<redis::Value>(&mut operator).unwrap();
    tell(&["CONFIG", "SET", "maxclients", "1"]);
    tell(&["CLIENT", "KILL", "TYPE", "normal"]);
    let refused = refuses(&gateway, &upstream, "k");
    refuses(&gateway, &upstream, "k");
    tell(&["CONFIG", "SET", "maxclients", "10000"]);
    assert!(redis.info("rejected_connections").trim().parse::<u32>().unwrap() >= 2);
    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    assert_eq!(state(&gateway, &refused), None);
    runs_within(BACK, &gateway, &upstream, "k");
    assert!(gateway.send(&order("k-before")).is_replay());
}

#[test]
fn a_killed_connection_is_noticed_by_nobody() {
    let upstream = created();
    let redis = RedisServer::start();
    let gateway = gateway(&upstream, &store(&redis.url()), "");
    for turn in 0..10 {
        let key = format!("k-{turn}");
        assert_eq!(in_time(&gateway, &key).status, 201);
        redis.run::<()>(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(in_time(&gateway, &key).is_replay());
        assert_eq!(upstream.executions("Idempotency-Key", &key), 1);
    }
}

/// Scripts that the server has forgotten are taught again within the call.
#[test]
fn noscript() {
    let upstream = created();
    let redis = RedisServer::start();
    let gateway = gateway(&upstream, &store(&redis.url()), "");
    for turn in 0..5 {
        redis.run::<()>(&["SCRIPT", "FLUSH"]);
        let answer = in_time(&gateway, &format!("k-{turn}"));
        assert_eq!(answer.status, 201);
        assert!(answer.header("idempotency-expires").is_some(), "recorded at once");
    }
    assert!(given(&redis, "NOSCRIPT") >= 5);
    assert_eq!(gateway.metric(r#"oncegate_store_errors_total{op="settle"}"#), 0.0);
}

/// The claim is written and its reply is lost: nothing is sent for it, and it is taken back long before its lease ends.
#[test]
fn a_reply_that_is_lost_after_the_write() {
    let upstream = created();
    let redis = RedisServer::start();
    let proxy = Proxy::to(redis.port());
    // One worker: its connection is the one that the first request has made.
    let gateway = Gateway::start(&format!("workers: 1\n{}", yaml(&upstream, &store(&proxy.url()), "")));
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    proxy.set(Weather::SwallowReplies);
    let refused = refuses(&gateway, &upstream, "k");
    assert_eq!(redis.run::<u32>(&["DBSIZE"]), 2, "the claim was carried out");
    proxy.set(Weather::Fair);
    wait_until("the claim is taken back", || redis.run::<u32>(&["DBSIZE"]) == 1);
    wait_until("ready again", || gateway.get_admin("/readyz").status == 200);
    assert_eq!(state(&gateway, &refused), None);
    runs_within(BACK, &gateway, &upstream, "k");
}

/// A connection that is cut in the midst of its replies: what came of them is not taken for a whole.
#[test]
fn half_a_reply() {
    let upstream = created();
    let redis = RedisServer::start();
    let proxy = Proxy::to(redis.port());
    let gateway = gateway(&upstream, &store(&proxy.url()), "");
    assert_eq!(gateway.send(&order("k-before")).status, 201);
    // In the midst of `$-1`, the answer to a first claim.
    proxy.set(Weather::CutReplies(2));
    let answer = in_time(&gateway, "k-before");
    assert!(answer.is_replay(), "from the gateway's cache: {answer:?}");
    refuses(&gateway, &upstream, "k");
    proxy.set(Weather::Fair);
    runs_within(BACK, &gateway, &upstream, "k");
}
