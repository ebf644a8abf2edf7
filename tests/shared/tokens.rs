//! Tokens over two gateways: what one issued, the other takes, once; and what changes of secrets, times and clocks do to
//! them.

use std::sync::Barrier;

use oncegate::clock::Clock;

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{refused, told, yaml};

const SECRETS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
const TAKEN: &str = r#"oncegate_reloads_total{result="ok"}"#;

fn text(upstream: &ScriptedUpstream, redis: &str, guard: &str, tokens: &str) -> String {
    let text = yaml(upstream, redis, guard, &format!("tokens: {{ {tokens} }}"));
    text.replacen("header: Idempotency-Key", "token: {}", 1)
}

fn secrets(list: &[&str]) -> String {
    format!("secrets: [ {} ]", list.join(", "))
}

fn created() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

fn token(gateway: &Gateway) -> String {
    let answer = gateway.send(&Call::post("/idempotency-tokens?route=create-order"));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    told["token"].as_str().unwrap().to_owned()
}

fn order(token: &str) -> Call {
    Call::post("/orders").header("Idempotency-Token", token).body("x")
}

fn reload(gateway: &Gateway, yaml: &str) {
    let before = gateway.metric(TAKEN);
    gateway.rewrite(yaml);
    gateway.signal("HUP");
    gateway.wait_for_metric(TAKEN, before + 1.0);
}

#[test]
fn of_thirty_uses_over_two_gateways_one_passes() {
    const CLIENTS: usize = 30;
    const ROUNDS: usize = 20;
    let upstream = ScriptedUpstream::start(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Reply::whole(201, &[], "done")
    });
    let redis = RedisServer::start();
    let text = text(&upstream, &redis.url(), "", &secrets(&SECRETS[..1]));
    // The store is well; on a busy machine it may be slow.
    let text = text.replace("command_timeout: 500ms", "command_timeout: 10000ms");
    let gateways = [(), ()].map(|()| Gateway::start(&text));
    for round in 0..ROUNDS {
        let token = token(&gateways[round % 2]);
        let start = Barrier::new(CLIENTS);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let (start, token, gateways) = (&start, &token, &gateways);
            let clients = (0..CLIENTS).map(|client| {
                scope.spawn(move || {
                    let call = order(token);
                    start.wait();
                    gateways[client % 2].send(&call)
                })
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let ran = answers.iter().filter(|answer| answer.status == 201 && !answer.is_replay()).count();
        let others = |answer: &&Answer| answer.is_replay() || told(answer) == refused(409, "request-in-flight");
        assert_eq!((ran, answers.iter().filter(others).count()), (1, CLIENTS - 1), "round {round}");
        assert_eq!(upstream.executions("Idempotency-Token", &token), 1, "round {round}");
    }
}

#[test]
fn secrets_change_while_gateways_run() {
    let upstream = created();
    let redis = RedisServer::start();
    let with = |list: &[&str]| text(&upstream, &redis.url(), "", &secrets(list));
    let [old, new] = SECRETS;
    let (a, b) = (Gateway::start(&with(&[old])), Gateway::start(&with(&[old])));
    let first = token(&a);
    assert_eq!(b.send(&order(&first)).status, 201, "the other gateway's token");
    let early = token(&a);
    // The new one is known everywhere before anybody signs with it.
    reload(&a, &with(&[old, new]));
    reload(&b, &with(&[old, new]));
    reload(&a, &with(&[new, old]));
    let late = token(&a);
    assert_eq!(b.send(&order(&late)).status, 201);
    assert_eq!(a.send(&order(&early)).status, 201);
    let last = token(&b);
    reload(&b, &with(&[new, old]));
    reload(&a, &with(&[new]));
    for gone in [&last, &early] {
        assert_eq!(told(&a.send(&order(gone))), refused(400, "token-invalid"), "its secret is gone here");
    }
    assert_eq!(b.send(&order(&last)).status, 201);
    assert!(b.send(&order(&early)).is_replay());
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn a_used_token_outlives_a_reload_that_shortens_its_times() {
    let upstream = created();
    let redis = RedisServer::start();
    let with = |guard: &str, lifetime: &str| {
        let tokens = format!("{}, lifetime: {lifetime}", secrets(&SECRETS[..1]));
        text(&upstream, &redis.url(), guard, &tokens).replace("tokens: {", "replay_cache: 0\ntokens: {")
    };
    let (long, short) = (with("", "10m"), with("retention: 33s", "3s"));
    let (a, b) = (Gateway::start(&long), Gateway::start(&short));
    let (begun, used, unused) = (Clock::instant(), token(&a), token(&a));
    let first = b.send(&order(&used));
    let kept = httpdate::parse_http_date(first.header("idempotency-expires").unwrap()).unwrap();
    let kept = kept.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs() - Clock::wall().0 / 1000;
    assert!((500..=600).contains(&kept), "{kept} s: not its retention, but the token's own end");
    wait_until("three seconds have passed", || begun.elapsed().as_millis() > 3_500);
    assert_eq!(told(&b.send(&order(&unused))), refused(410, "token-expired"));
    reload(&b, &long);
    assert!(b.send(&order(&used)).is_replay());
    assert_eq!(b.send(&order(&unused)).status, 201, "it was not used, and is good for ten minutes again");
}
