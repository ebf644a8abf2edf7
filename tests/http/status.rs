//! `operations`: clients ask what became of their operations, and learn nothing of anybody else's.

use oncegate::clock::Clock;
use serde_json::Value;

use crate::client::{Answer, Call, exchange_to_end, raw_exchange};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::yaml;

const ON: &str = "operations: {}";
const HERE: &str = "/_oncegate/operations";

fn start(upstream: &ScriptedUpstream, guard: &str) -> Gateway {
    Gateway::start(&yaml(upstream, guard, ON))
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

fn ask(rest: &str) -> Call {
    Call::new("GET", &format!("{HERE}/{rest}"))
}

fn json(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("oncegate-source"), Some("gateway"));
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.header("oncegate-operation"), told["operation"].as_str());
    assert_eq!(
        answer.header("retry-after").map(|seconds| seconds.parse::<u64>().unwrap()),
        told["retry_after"].as_u64()
    );
    for name in ["since", "expires"] {
        let at: jiff::Timestamp = told[name].as_str().unwrap().parse().unwrap();
        assert!(at.as_millisecond() > 1_600_000_000_000, "{name}");
    }
    told
}

fn told(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, if answer.status < 400 { None } else { answer.code() })
}

fn refusal(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

/// An upstream that answers by the key: `broken`, `large`, `held` until the gate opens, else 201.
fn scripted(gate: &Gate) -> ScriptedUpstream {
    let hold = gate.clone();
    ScriptedUpstream::start(move |request| match request.text("Idempotency-Key").as_str() {
        "broken" => Reply::reset(),
        "large" => Reply::whole(202, &[], "more than ten bytes"),
        "held" => Reply::whole(201, &[], "ok").after(&hold),
        _ => Reply::whole(201, &[], "ok"),
    })
}

#[test]
fn each_state_is_told_for_one_load_at_most() {
    let gate = Gate::new();
    let upstream = scripted(&gate);
    let gateway = start(&upstream, "response_body_limit: 10B\nscope: { header: X-Customer-Id }");
    let mine = |call: Call| gateway.send(&call.header("X-Customer-Id", "7"));
    assert_eq!(told(&mine(ask("k"))), refusal(404, "operation-unknown"));
    let first = mine(order("k"));
    let done = mine(ask("k"));
    let seen = json(&done);
    assert_eq!((&seen["state"], &seen["status"], &seen["attempt"]), (&"completed".into(), &201.into(), &1.into()));
    assert_eq!((&seen["retry"], &seen["replayable"]), (&"same-key".into(), &true.into()));
    assert_eq!(done.header("idempotency-expires"), first.header("idempotency-expires"));
    assert_eq!(upstream.requests()[0].text("Oncegate-Operation"), seen["operation"].as_str().unwrap());
    assert_eq!(mine(order("broken")).status, 502);
    let doubt = mine(ask("broken"));
    let seen = json(&doubt);
    assert_eq!((&seen["state"], &seen["retry"]), (&"in-doubt".into(), &"same-key".into()));
    assert!(doubt.header("retry-after").is_some() && doubt.header("idempotency-expires").is_none());
    mine(order("large"));
    let seen = json(&mine(ask("large")));
    assert_eq!((&seen["status"], &seen["retry"], &seen["replayable"]), (&202.into(), &"stop".into(), &false.into()));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| mine(order("held")));
        upstream.wait_for_requests(4);
        let answer = mine(ask("held"));
        assert_eq!(json(&answer)["state"], "in-flight");
        assert!(answer.header("retry-after").is_some() && answer.header("idempotency-expires").is_none());
        gate.open();
        running.join().unwrap();
    });
    // Outcomes were in the local cache; the three others cost a load each.
    assert_eq!(gateway.metric(r#"oncegate_store_seconds_count{op="load"}"#), 3.0);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="looked_up"}"#), 5.0);
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn nobody_learns_of_anothers_operation() {
    let upstream = scripted(&Gate::new());
    let gateway = start(&upstream, "scope: { header: X-Customer-Id }");
    let call = |call: Call, customer: &str, secret: &str| {
        gateway.send(&call.header("X-Customer-Id", customer).header("Authorization", secret))
    };
    for key in ["k", "broken"] {
        call(order(key), "7", "mine");
        assert_eq!(call(ask(key), "7", "mine").status, 200);
        let unknown = call(ask("other"), "7", "mine");
        for stranger in [call(ask(key), "8", "mine"), call(ask(key), "7", "theirs")] {
            assert_eq!(told(&stranger), refusal(404, "operation-unknown"));
            assert_eq!(stranger.body, unknown.body);
            let names = |answer: &Answer| answer.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&stranger), names(&unknown));
        }
    }
    assert_eq!(told(&gateway.send(&ask("k"))), refusal(400, "scope-missing"));
    let trusted = Gateway::start(&yaml(
        &upstream,
        "scope: { trusted_header: X-Customer-Id }",
        &format!("{ON}\ntrusted_proxies: [10.0.0.0/8]"),
    ));
    let refused = trusted.send(&ask("k").header("X-Customer-Id", "7"));
    assert_eq!(told(&refused), refusal(400, "scope-missing"), "this peer is no trusted proxy");
}

#[test]
fn a_question_can_wait_for_the_attempt() {
    let gate = Gate::new();
    let upstream = scripted(&gate);
    let gateway = Gateway::start(&yaml(&upstream, "", "operations: { max_wait: 20s }\nlimits: { waiters: 1 }"));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| gateway.send(&order("held")));
        upstream.wait_for_requests(1);
        let begun = Clock::instant();
        let short = gateway.send(&ask("held?wait=300ms"));
        assert_eq!(json(&short)["state"], "in-flight");
        assert!(begun.elapsed().as_millis() >= 300);
        // The one place may just be taken by the question below.
        let waiting = scope.spawn(|| {
            loop {
                let answer = gateway.send(&ask("held?wait=20s"));
                if answer.status != 503 {
                    return answer;
                }
            }
        });
        wait_until("the place in line is taken", || {
            told(&gateway.send(&ask("held?wait=1ms"))) == refusal(503, "overloaded")
        });
        gate.open();
        assert_eq!(json(&waiting.join().unwrap())["state"], "completed");
        assert!(begun.elapsed().as_secs() < 20, "it was woken");
        running.join().unwrap();
    });
    assert_eq!(told(&gateway.send(&ask("held?wait=soon"))), refusal(400, "bad-request"));
}

#[test]
fn keys_are_read_as_in_the_header() {
    let upstream = scripted(&Gate::new());
    let gateway = start(&upstream, "");
    for (header, path) in
        [("\"a b/c%\"", "a%20b%2Fc%25"), ("\"a,b\"", "a,b"), ("8e03978e", "8e03978%65"), ("a+b", "a+b"), ("a/b", "a/b")]
    {
        assert_eq!(gateway.send(&order(header)).status, 201, "{header}");
        assert_eq!(gateway.send(&ask(path)).status, 200, "{path}");
    }
    for bad in ["", "%20", "%C3%A9", &"k".repeat(256)] {
        assert_eq!(told(&gateway.send(&ask(bad))), refusal(400, "key-invalid"), "{bad}");
    }
    assert_eq!(told(&gateway.send(&ask("a%zz"))), refusal(400, "bad-request"), "this is no path");
    let dated = start(&upstream, "key_age: { from: uuid_v7 }");
    assert_eq!(told(&dated.send(&ask("k"))), refusal(400, "key-invalid"));
    let old = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    assert_eq!(told(&dated.send(&ask(old))), refusal(410, "key-expired"));
}

#[test]
fn the_route_is_named_where_there_are_several() {
    let upstream = scripted(&Gate::new());
    let second = "  - name: pay\n    match: { methods: [POST], path: /pay }\n    upstream: orders\n    idempotency: \
                  { key: [ { query: id } ], scope: none }\n";
    let text = yaml(&upstream, "", ON).replace("  - name: rest\n", &format!("{second}  - name: rest\n"));
    let gateway = Gateway::start(&text);
    assert_eq!(gateway.send(&order("k")).status, 201);
    assert_eq!(gateway.send(&Call::post("/pay?id=p")).status, 201);
    assert_eq!(gateway.send(&ask("k?route=create-order")).status, 200);
    assert_eq!(gateway.send(&ask("p?route=pay")).status, 200);
    assert_eq!(told(&gateway.send(&ask("k?route=pay"))), refusal(404, "operation-unknown"));
    let unnamed = gateway.send(&ask("k"));
    assert_eq!(told(&unnamed), refusal(400, "bad-request"));
    assert!(unnamed.text().contains("?route="), "{}", unnamed.text());
    for other in ["k?route=rest", "k?route=none", "k?route=pay&route=pay"] {
        assert_eq!(told(&gateway.send(&ask(other))), refusal(400, "bad-request"), "{other}");
    }
}

#[test]
fn other_methods_and_pages_of_other_origins() {
    let upstream = scripted(&Gate::new());
    let text = yaml(&upstream, "scope: { header: X-Customer-Id }", ON)
        .replace("    idempotency:\n", "    cors: { origins: [\"https://shop.example\"] }\n    idempotency:\n");
    let gateway = Gateway::start(&text);
    let of = |call: Call| gateway.send(&call.header("X-Customer-Id", "7").header("Origin", "https://shop.example"));
    of(order("k"));
    let head = Call::new("HEAD", &format!("{HERE}/k")).header("X-Customer-Id", "7").bytes();
    let head = String::from_utf8(raw_exchange(gateway.address, &head).unwrap()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("idempotency-expires: ") && head.contains("content-length: "), "{head}");
    for method in ["POST", "PUT", "DELETE"] {
        let refused = of(Call::new(method, &format!("{HERE}/k")));
        assert_eq!(told(&refused), refusal(405, "method-not-allowed"));
        assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    for answer in [of(ask("k")), of(ask("unknown"))] {
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://shop.example"));
        assert!(answer.header("access-control-expose-headers").unwrap().contains("oncegate-operation"));
    }
    let preflight = of(Call::new("OPTIONS", &format!("{HERE}/k")).header("Access-Control-Request-Method", "GET"));
    assert_eq!((preflight.status, preflight.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("x-customer-id"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_body_that_comes_with_a_question_is_not_taken_for_the_next_request() {
    let upstream = scripted(&Gate::new());
    let gateway = start(&upstream, "");
    let smuggled = "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n";
    let bytes = format!("GET {HERE}/k HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{smuggled}");
    let answers = exchange_to_end(gateway.address, bytes.as_bytes()).unwrap();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [404]);
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn nothing_is_there_unless_the_configuration_says_so() {
    let upstream = scripted(&Gate::new());
    let gateway = crate::gateway(&upstream, "mode: shadow");
    assert_eq!(gateway.send(&ask("k")).status, 201, "the path is the upstream's");
    let shadow = start(&upstream, "mode: shadow");
    shadow.send(&order("k"));
    assert_eq!(told(&shadow.send(&ask("k"))), refusal(400, "bad-request"), "a trial has nothing to say");
}

#[test]
fn gateways_tell_of_each_others_attempts_and_nothing_is_told_while_the_store_is_away() {
    let redis = RedisServer::start();
    let gate = Gate::new();
    let upstream = scripted(&gate);
    let top = format!("store: {{ kind: redis, url: '{}', command_timeout: 5s }}\n{ON}", redis.url());
    let [a, b] = [(), ()].map(|()| Gateway::start(&yaml(&upstream, "", &top)));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| a.send(&order("held")));
        upstream.wait_for_requests(1);
        assert_eq!(json(&b.send(&ask("held")))["state"], "in-flight");
        let waiting = scope.spawn(|| b.send(&ask("held?wait=10s")));
        gate.open();
        running.join().unwrap();
        assert_eq!(json(&waiting.join().unwrap())["state"], "completed");
    });
    drop(redis);
    assert_eq!(told(&b.send(&ask("unheard-of"))), refusal(503, "store-unavailable"));
}

#[test]
fn an_attempt_whose_gateway_died_is_told_as_a_doubt() {
    let gate = Gate::new();
    let upstream = scripted(&gate);
    let mut gateway = Gateway::start(&yaml(&upstream, "lease: 500ms", &format!("{ON}\nsweep_interval: 1h")));
    let mut stream = crate::client::connect(gateway.address).unwrap();
    std::io::Write::write_all(&mut stream, &order("held").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.kill();
    gate.open();
    gateway.restart();
    wait_until("its lease has ended", || json(&gateway.send(&ask("held")))["state"] == "in-doubt");
    assert_eq!(gateway.metric("oncegate_lease_lost_total"), 1.0);
    assert_eq!(told(&gateway.send(&order("held"))), refusal(409, "outcome-unknown"));
}
