//! Operators who list doubts, end them with an answer of their own, and leave a trace of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

fn doubtful() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::reset())
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

/// Runs a request into doubt; gives the operation's digest.
fn doubt(gateway: &Gateway, call: &Call) -> String {
    let answer = gateway.send(call);
    assert_eq!(answer.code().as_deref(), Some("upstream-failed"));
    answer.header("oncegate-operation").unwrap().to_owned()
}

fn resolve(gateway: &Gateway, id: &str, word: &Value) -> Answer {
    Call::post(&format!("/api/v1/keys/{id}/resolve")).json(&word.to_string()).send(gateway.admin)
}

/// Code and detail of a refusal.
fn refusal(answer: &Answer) -> (u16, String, String) {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    let text = |name: &str| problem[name].as_str().unwrap().to_owned();
    (answer.status, text("code"), text("detail"))
}

fn get(gateway: &Gateway, path: &str) -> Value {
    let answer = gateway.get_admin(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// All doubts, page after page, and how many pages that took.
fn all_doubts(gateway: &Gateway, query: &str) -> (Vec<Value>, usize) {
    let (mut doubts, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = get(gateway, &format!("/api/v1/doubts?{query}{cursor}"));
        pages += 1;
        assert!(pages < 1_000, "the list has no end: {page}");
        doubts.extend(page["doubts"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { return (doubts, pages) };
        cursor = format!("&cursor={next}");
    }
}

fn ids(doubts: &[Value]) -> BTreeSet<String> {
    doubts.iter().map(|doubt| doubt["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn duplicates_get_the_answer_that_an_operator_gave() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "");
    let id = doubt(&gateway, &order("k"));
    let answer = json!({"status": 201, "headers": {"Content-Type": "application/json", "Location": "/orders/7"},
        "body": "{\"id\": 7}"});
    let done = resolve(&gateway, &id, &json!({"outcome": "executed", "reason": "in the books", "answer": answer}));
    assert_eq!(done.status, 200, "{done:?}");
    for _ in 0..2 {
        let replay = gateway.send(&order("k"));
        assert_eq!((replay.status, replay.text().as_str(), replay.is_replay()), (201, "{\"id\": 7}", true));
        assert_eq!(replay.header("oncegate-source"), Some("operator"));
        assert_eq!(
            (replay.header("location"), replay.header("content-type")),
            (Some("/orders/7"), Some("application/json"))
        );
        assert_eq!(replay.header("x-idempotent-retry"), Some("true"));
        assert!(replay.header("idempotency-expires").is_some());
    }
    let shown = get(&gateway, &format!("/api/v1/keys/{id}"));
    assert_eq!(
        (&shown["state"], &shown["status"], &shown["replayable"]),
        (&"completed".into(), &201.into(), &true.into())
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_answer_may_be_any_bytes_up_to_what_the_route_keeps() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "response_body_limit: 300KiB");
    let (small, large) = ([0, 255, 10].repeat(102_400), vec![0; 307_201]);
    let word = |body: &[u8]| {
        let body = base64(body);
        json!({"outcome": "executed", "reason": "x", "answer": {"status": 200, "body_base64": body}})
    };
    let id = doubt(&gateway, &order("k"));
    let (status, code, detail) = refusal(&resolve(&gateway, &id, &word(&large)));
    assert_eq!((status, code.as_str()), (422, "answer-invalid"));
    assert!(detail.contains("`answer.body_base64`") && detail.contains("response_body_limit"), "{detail}");
    assert_eq!(gateway.send(&order("k")).code().as_deref(), Some("outcome-unknown"), "nothing has changed");
    assert_eq!(resolve(&gateway, &id, &word(&small)).status, 200);
    assert_eq!(gateway.send(&order("k")).body, small);
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn a_word_that_cannot_be_taken_names_its_field_and_changes_nothing() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "");
    let id = doubt(&gateway, &order("k"));
    let long = "x".repeat(1_025);
    for (word, code, told) in [
        (json!({"outcome": "executed", "reason": "x", "answer": {"status": 101}}), "answer-invalid", "answer.status"),
        (json!({"outcome": "executed", "reason": "x", "answer": {"status": "200"}}), "body-invalid", "answer.status"),
        (json!({"outcome": "executed", "reason": "x", "answer": {}}), "body-invalid", "status"),
        (
            json!({"outcome": "executed", "reason": "x", "answer": {"status": 200, "headers": {"Oncegate-Store": "no"}}}),
            "answer-invalid",
            "answer.headers.oncegate-store",
        ),
        (json!({"outcome": "not-executed", "reason": "x", "answer": {"status": 200}}), "answer-invalid", "`answer`"),
        (json!({"outcome": "executed", "reason": long}), "body-invalid", "`reason`"),
        (json!({"outcome": "executed", "reason": "x", "actor": long}), "body-invalid", "`actor`"),
        (json!({"outcome": "executed", "reason": "x", "actor": " "}), "body-invalid", "`actor`"),
        (json!({"outcome": "executed", "reason": "x", "actor": "eve\nroot"}), "body-invalid", "`actor`"),
    ] {
        let (status, found, detail) = refusal(&resolve(&gateway, &id, &word));
        assert_eq!((status, found.as_str()), (422, code), "{word}: {detail}");
        assert!(detail.contains(told), "{word}: {detail}");
    }
    assert_eq!(get(&gateway, &format!("/api/v1/keys/{id}"))["state"], "in-doubt");
}

#[test]
fn every_word_is_in_the_audit_log_whatever_the_level() {
    let upstream = doubtful();
    // The harness waits for a line of the gateway's start; nothing else is to be heard.
    let log = "log: { format: text, level: \"off,oncegate::app=info,oncegate::audit=off\", audit: '{dir}/audit.json' }";
    let mut gateway = Gateway::start(&yaml(&upstream, "", log));
    let (first, second) = (doubt(&gateway, &order("k-1")), doubt(&gateway, &order("k-2")));
    let answer = json!({"status": 201, "headers": {"X-Token": "s3cret"}, "body": "private"});
    let word = json!({"outcome": "executed", "reason": "in the books", "actor": "mia@example.com", "answer": answer});
    assert_eq!(resolve(&gateway, &first, &word).status, 200);
    let line = gateway.wait_for_log("resolved by an operator");
    for part in
        ["oncegate::audit", &first[..], "mia@example.com", "in the books", "127.0.0.1", "upstream-broke", "x-token"]
    {
        assert!(line.contains(part), "no {part} in {line}");
    }
    gateway.rewrite(&yaml(&upstream, "", &log.replace("off,oncegate::app=info", "error")));
    gateway.signal("HUP");
    gateway.wait_for_metric(r#"oncegate_reloads_total{result="ok"}"#, 1.0);
    assert_eq!(resolve(&gateway, &second, &json!({"outcome": "not-executed", "reason": "not there"})).status, 200);
    gateway.wait_for_log("not there");

    let kept = std::fs::read_to_string(gateway.folder().join("audit.json")).unwrap();
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    let told = |line: &Value, names: &[&str]| names.iter().map(|name| line[*name].clone()).collect::<Vec<_>>();
    let fields =
        ["operation", "route", "attempt", "outcome", "actor", "peer", "status", "body_bytes", "result", "target"];
    assert_eq!(
        Value::from(told(&kept[0], &fields)),
        json!([
            first,
            "create-order",
            1,
            "executed",
            "mia@example.com",
            "127.0.0.1",
            201,
            7,
            "written",
            "oncegate::audit"
        ])
    );
    assert_eq!(kept[0]["body_sha256"].as_str().map(str::len), Some(64));
    let fields = ["operation", "outcome", "actor", "reason", "result"];
    assert_eq!(
        Value::from(told(&kept[1], &fields)),
        json!([second, "not-executed", "not stated", "not there", "written"])
    );
    let all = gateway.log() + &serde_json::to_string(&kept).unwrap();
    assert!(!all.contains("s3cret") && !all.contains("private"), "{all}");
}

#[test]
fn an_audit_file_that_cannot_be_written_is_no_start() {
    let upstream = doubtful();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    crate::gateway::write(&config, &yaml(&upstream, "", "log: { audit: '{dir}/not-there/audit.json' }"));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it started") };
    assert_eq!(ended.code(), Some(1));
    assert!(log.contains("`log.audit`") && log.contains("not-there"), "{log}");
}

/// Doubts and completed operations on two routes; the doubts' digests by route.
fn many(gateway: &Gateway) -> [BTreeSet<String>; 2] {
    let mut expected = [BTreeSet::new(), BTreeSet::new()];
    for number in 0..12 {
        let key = format!("k-{number}");
        expected[0].insert(doubt(gateway, &order(&key)));
        if number % 4 == 0 {
            expected[1].insert(doubt(gateway, &Call::post("/pay").key(&key).body("x")));
        }
        assert_eq!(gateway.send(&Call::post("/pay?fine").key(&format!("fine-{number}")).body("x")).status, 201);
    }
    expected
}

#[test]
fn doubts_are_listed_page_by_page_and_by_route_on_every_store() {
    let redis = RedisServer::start();
    for store in [
        "store: { kind: memory }".to_owned(),
        "store: { kind: embedded, path: '{dir}/store' }".to_owned(),
        format!("store: {{ kind: redis, url: \"{}\", command_timeout: 5s }}", redis.url()),
    ] {
        let upstream = ScriptedUpstream::start(|request| match request.target().as_str() {
            "/pay?fine" => Reply::whole(201, &[], "done"),
            _ => Reply::reset(),
        });
        let pay = "  - name: pay
    match: { methods: [POST], path: /pay }
    upstream: orders
    idempotency: { key: [ { header: Idempotency-Key } ], scope: none }
  - name: rest\n";
        let gateway = Gateway::start(&yaml(&upstream, "", &store).replace("  - name: rest\n", pay));
        let [orders, payments] = many(&gateway);
        for limit in [1, 5, 100] {
            let (found, pages) = all_doubts(&gateway, &format!("limit={limit}"));
            assert_eq!(ids(&found), &orders | &payments, "{store} {limit}");
            assert!(pages > 1 || limit == 100, "{store}: {pages} pages at {limit}");
        }
        assert_eq!(ids(&all_doubts(&gateway, "route=pay&limit=4").0), payments, "{store}");
        let (found, _) = all_doubts(&gateway, "route=create-order");
        assert_eq!(ids(&found), orders, "{store}");
        for field in ["since", "expires"] {
            assert!(found[0][field].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{found:?}");
        }
        assert_eq!(
            (&found[0]["cause"], &found[0]["attempt"], &found[0]["route"]),
            (&"upstream-broke".into(), &1.into(), &"create-order".into())
        );
        let resolved = found[0]["id"].as_str().unwrap();
        let word = json!({"outcome": "executed", "reason": "seen"});
        assert_eq!(resolve(&gateway, resolved, &word).status, 200);
        assert!(!ids(&all_doubts(&gateway, "").0).contains(resolved), "{store}");
    }
}

#[test]
fn doubts_of_routes_that_share_a_namespace_are_listed_under_each_of_them() {
    let upstream = doubtful();
    let pay = "  - name: pay
    match: { methods: [POST], path: /pay }
    upstream: orders
    idempotency: { key: [ { header: Idempotency-Key } ], scope: none, namespace: create-order }
  - name: rest\n";
    let gateway = Gateway::start(&yaml(&upstream, "", "").replace("  - name: rest\n", pay));
    let id = doubt(&gateway, &Call::post("/pay").key("k").body("x"));
    for route in ["create-order", "pay"] {
        let (found, _) = all_doubts(&gateway, &format!("route={route}"));
        assert_eq!(ids(&found), BTreeSet::from([id.clone()]));
        assert_eq!(found[0]["route"], "create-order");
    }
}

#[test]
fn a_list_that_cannot_be_given_says_why() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "");
    for (query, told) in [
        ("limit=0", "`limit`"),
        ("limit=1001", "`limit`"),
        ("limit=x", "limit"),
        ("route=nobody", "`nobody`"),
        ("cursor=%2F", "`cursor`"),
        ("cursor=", "`cursor`"),
        ("since=1", "since"),
        ("limit=1&limit=2", "limit"),
    ] {
        let answer = gateway.get_admin(&format!("/api/v1/doubts?{query}"));
        let (status, code, detail) = refusal(&answer);
        assert_eq!((status, code.as_str()), (400, "query-invalid"), "{query}");
        assert!(detail.contains(told), "{query}: {detail}");
    }
    assert_eq!(get(&gateway, "/api/v1/doubts"), json!({"doubts": [], "unreadable": 0, "next": null}));
}

#[test]
fn doubts_of_a_shadow_route_are_listed_only_by_its_name() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "mode: shadow");
    gateway.send(&order("k"));
    wait_until("the doubt is written", || !all_doubts(&gateway, "route=create-order").0.is_empty());
    assert!(all_doubts(&gateway, "").0.is_empty());
}
