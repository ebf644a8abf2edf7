//! What ends a pair of keys after a crash or a lost answer, and how the second key goes with tokens and with questions for
//! an operation. What clients see of a second key is in `also`.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::also::{PATIENT, detail, gateway, guard, numbered, numbered_with, pay, ran, refused, replayed, told};
use crate::client::{Answer, Call, connect};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Reply, ScriptedUpstream};
use crate::yaml;

const DOUBTS: &str = r#"oncegate_doubts{route="create-order"}"#;

fn doubts(gateway: &Gateway) -> Vec<Value> {
    let answer = gateway.get_admin("/api/v1/doubts");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page: Value = serde_json::from_slice(&answer.body).unwrap();
    page["doubts"].as_array().unwrap().clone()
}

fn resolve(gateway: &Gateway, doubt: &Value, word: &Value) -> Answer {
    let id = doubt["id"].as_str().unwrap();
    Call::post(&format!("/api/v1/keys/{id}/resolve")).json(&word.to_string()).send(gateway.admin)
}

/// A gateway that was killed while its upstream worked on `k` for order A, and has come back. It has swept.
fn crashed() -> (Gateway, ScriptedUpstream) {
    let upstream = numbered_with(|number, _| match number {
        1 => Reply::silence(),
        _ => Reply::whole(201, &[], format!("answer {number}")),
    });
    let text = yaml(&upstream, &guard("", "lease: 500ms"), &format!("{PATIENT}\nsweep_interval: 1s"));
    let mut gateway = Gateway::start(&text);
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&pay("k", "A").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.kill();
    gateway.restart();
    wait_until("the sweep has found it", || {
        let counted = gateway.metric(DOUBTS);
        assert!(counted <= 1.0, "two keys, one trouble");
        counted == 1.0 && doubts(&gateway).len() == 2
    });
    (gateway, upstream)
}

#[test]
fn after_a_crash_both_keys_are_in_doubt_and_executed_said_of_either_ends_both() {
    let answer = json!({"status": 201, "body": "booked"});
    said_of_either(&json!({"outcome": "executed", "reason": "in the books", "answer": answer}), |gateway, upstream| {
        for key in ["k", "fresh"] {
            assert!(replayed(&gateway.send(&pay(key, "A")), "booked"), "{key}");
        }
        assert_eq!(upstream.requests().len(), 1);
    });
}

#[test]
fn after_a_crash_both_keys_are_in_doubt_and_not_executed_said_of_either_frees_both() {
    said_of_either(&json!({"outcome": "not-executed", "reason": "not in the books"}), |gateway, upstream| {
        assert!(ran(&gateway.send(&pay("fresh", "A")), upstream));
        assert!(ran(&gateway.send(&pay("k", "B")), upstream));
    });
}

fn said_of_either(word: &Value, then: impl Fn(&Gateway, &ScriptedUpstream)) {
    for which in ["key", "also"] {
        let (gateway, upstream) = crashed();
        let found = doubts(&gateway);
        let names: BTreeSet<_> = found.iter().map(|doubt| doubt["key"].as_str().unwrap()).collect();
        assert_eq!(names, BTreeSet::from(["also", "key"]));
        assert_eq!((&found[0]["beside"], &found[1]["beside"]), (&found[1]["id"], &found[0]["id"]));
        for (key, order) in [("k", "A"), ("fresh", "A")] {
            assert_eq!(told(&gateway.send(&pay(key, order))), refused(409, "outcome-unknown"));
        }
        assert_eq!(told(&gateway.send(&pay("k", "B"))), refused(422, "key-reused"));
        let asked = found.iter().find(|doubt| doubt["key"] == which).unwrap();
        let done = resolve(&gateway, asked, word);
        assert_eq!(done.status, 200, "{done:?}");
        assert_eq!(doubts(&gateway), Vec::<Value>::new(), "{which}");
        let other = found.iter().find(|doubt| doubt["key"] != which).unwrap();
        let late = resolve(&gateway, other, word);
        assert!(late.status == 409 || late.status == 404, "{late:?}");
        then(&gateway, &upstream);
        wait_until("the sweep sees that too", || gateway.metric(DOUBTS) == 0.0);
    }
}

#[test]
fn a_doubt_under_retry_is_tried_again_under_both_of_its_keys_alone() {
    let upstream = numbered_with(|number, _| match number {
        1 => Reply::reset(),
        _ => Reply::whole(201, &[], format!("answer {number}")),
    });
    let gateway = gateway(&upstream, "", "in_doubt: retry");
    assert_eq!(told(&gateway.send(&pay("k", "A"))), refused(502, "upstream-failed"));
    let fresh = gateway.send(&pay("fresh", "A"));
    assert_eq!(told(&fresh), refused(409, "outcome-unknown"));
    assert!(detail(&fresh).contains("second key"), "{}", fresh.text());
    assert!(ran(&gateway.send(&pay("k", "A")), &upstream));
    assert_eq!(upstream.requests()[1].text("Oncegate-Attempt"), "2");
    assert!(replayed(&gateway.send(&pay("fresh", "A")), "answer 2"));
    assert!(ran(&gateway.send(&pay("fresh", "B")), &upstream));
}

/// What is asked is asked about the first key's operation, whichever key the duplicate was refused by.
#[test]
fn what_the_api_says_when_it_is_asked_ends_both() {
    let probe =
        "in_doubt: probe\nprobe: { get: \"/orders?ref={key}\", schedule: [1h], interval: 10ms, absent_after: 10ms }";
    for (found, asker) in [(200, "k"), (200, "fresh"), (404, "k"), (404, "fresh")] {
        let upstream = numbered_with(move |number, request| match (request.method().as_str(), number) {
            ("GET", _) => Reply::whole(found, &[], "found"),
            (_, 1) => Reply::reset(),
            _ => Reply::whole(201, &[], format!("answer {number}")),
        });
        let gateway = gateway(&upstream, "", probe);
        assert_eq!(told(&gateway.send(&pay("k", "A"))), refused(502, "upstream-failed"));
        let mut last = gateway.send(&pay(asker, "A"));
        wait_until("it is asked", || {
            let open = told(&last) == refused(409, "outcome-unknown");
            last = if open { gateway.send(&pay(asker, "A")) } else { last.clone() };
            !open
        });
        assert_eq!(upstream.requests()[1].target(), "/orders?ref=k");
        if found == 200 {
            for key in ["k", "fresh"] {
                let answer = gateway.send(&pay(key, "A"));
                assert!(replayed(&answer, "found"), "{asker} {key} {answer:?}");
                assert_eq!(answer.header("oncegate-source"), Some("probe"));
            }
        } else {
            assert_eq!((last.status, last.is_replay()), (201, false), "{asker}: {last:?}");
            let other = if asker == "k" { pay("fresh", "B") } else { pay("k", "B") };
            assert!(ran(&gateway.send(&other), &upstream), "{asker}: the other key is free too");
        }
        let orders = upstream.requests().iter().filter(|request| request.method() == "POST").count();
        assert_eq!(orders, if found == 200 { 1 } else { 3 });
    }
}

/// Questions come by the first key. One that was refused by the second has no operation.
#[test]
fn the_first_key_is_what_clients_ask_by() {
    let upstream = numbered(201);
    let gateway = Gateway::start(&yaml(&upstream, &guard("", ""), &format!("{PATIENT}\noperations: {{}}")));
    assert_eq!(gateway.send(&pay("k", "A")).status, 201);
    assert!(gateway.send(&pay("fresh", "A")).is_replay());
    let ask = |key: &str| gateway.send(&Call::new("GET", &format!("/_oncegate/operations/{key}")));
    let known = ask("k");
    assert!(known.status == 200 && known.text().contains("\"completed\""), "{}", known.text());
    for key in ["A", "fresh"] {
        assert_eq!(told(&ask(key)), refused(404, "operation-unknown"), "{key}");
    }
}

/// What is refused by the order number has not used its token.
#[test]
fn a_token_is_not_used_by_a_request_that_its_order_number_refuses() {
    let upstream = numbered(201);
    let lines = "key: [ { token: {} } ]\nscope: none\nalso: { key: [ { json: /order_no } ], duplicate: reject }";
    let secrets = format!("{PATIENT}\ntokens: {{ secrets: [ \"0123456789abcdef0123456789abcdef\" ] }}");
    let gateway = Gateway::start(&yaml(&upstream, lines, &secrets));
    let issue = || {
        let issued = gateway.send(&Call::post("/idempotency-tokens?route=create-order"));
        let told: Value = serde_json::from_slice(&issued.body).unwrap();
        told["token"].as_str().unwrap().to_owned()
    };
    let pay = |token: &str, order: &str| {
        let call = Call::post("/orders").header("Idempotency-Token", token);
        gateway.send(&call.json(&format!("{{\"order_no\":\"{order}\"}}")))
    };
    let (used, fresh) = (issue(), issue());
    assert!(ran(&pay(&used, "A"), &upstream));
    assert_eq!(told(&pay(&fresh, "A")), refused(409, "duplicate-request"));
    assert!(ran(&pay(&fresh, "B"), &upstream));
    assert_eq!(told(&pay(&fresh, "C")), refused(422, "key-reused"));
    assert!(replayed(&pay(&used, "A"), "answer 1"));
}

/// The embedded store is back with its gateway. Whatever that was about with each of many orders, none runs twice, and its
/// two keys agree.
#[test]
fn after_a_crash_in_the_middle_of_many_each_order_has_run_once_at_most() {
    const ORDERS: usize = 24;
    let upstream = numbered_with(|number, _| {
        std::thread::sleep(Duration::from_millis(rand::random_range(0..10)));
        Reply::whole(201, &[], format!("answer {number}"))
    });
    let mut gateway =
        Gateway::start(&yaml(&upstream, &guard("", "lease: 500ms"), &format!("{PATIENT}\nsweep_interval: 1s")));
    for round in 0..3 {
        let enough = upstream.requests().len() + rand::random_range(1..ORDERS / 2);
        std::thread::scope(|scope| {
            for number in 0..ORDERS {
                let (call, to) = (pay(&format!("k{round}-{number}"), &format!("{round}-{number}")), gateway.address);
                // Most of them get no answer.
                scope.spawn(move || drop(call.try_send(to)));
            }
            wait_until("it is in the middle of it", || upstream.requests().len() >= enough);
            gateway.kill();
        });
        gateway.restart();
        for order in (0..ORDERS).map(|number| format!("{round}-{number}")) {
            let executed = || {
                let mine = format!("\"{order}\"");
                let requests = upstream.requests();
                requests.iter().filter(|request| String::from_utf8_lossy(&request.body).contains(&mine)).count()
            };
            let by_key = ends(&gateway, &pay(&format!("k{order}"), &order));
            let ran_before = executed();
            let by_order = ends(&gateway, &pay(&format!("fresh{order}"), &order));
            let unknown = refused(409, "outcome-unknown");
            if told(&by_key) == unknown {
                let never_claimed = by_order.status == 201 && !by_order.is_replay() && ran_before == 0;
                assert!(told(&by_order) == unknown || never_claimed, "{order}: {by_order:?}");
            } else {
                assert!(by_key.status == 201 && by_order.is_replay(), "{order}: {by_key:?} {by_order:?}");
            }
            assert!(executed() <= 1, "{order} ran twice");
        }
    }
}

/// What a request is told once nothing of it runs any more.
fn ends(gateway: &Gateway, call: &Call) -> Answer {
    let mut last = gateway.send(call);
    wait_until("nothing of it runs", || {
        let runs = told(&last) == refused(409, "request-in-flight");
        if runs {
            last = gateway.send(call);
        }
        !runs
    });
    last
}
