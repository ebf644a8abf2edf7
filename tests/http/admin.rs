//! The operators' door.

use crate::client::{Answer, Call};
use crate::gateway::Gateway;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{gateway, yaml};

fn doubtful() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::reset())
}

/// Runs one request into doubt; gives the operation's digest as the upstream saw it.
fn doubt(upstream: &ScriptedUpstream, gateway: &Gateway, call: &Call) -> String {
    gateway.send(call);
    upstream.wait_for_requests(1).last().unwrap().text("Oncegate-Operation")
}

fn resolve(gateway: &Gateway, id: &str, body: &str, extra: &[(&str, &str)]) -> Answer {
    let call = Call::post(&format!("/api/v1/keys/{id}/resolve")).json(body);
    extra.iter().fold(call, |call, (name, value)| call.header(name, value)).send(gateway.admin)
}

#[test]
fn health_and_metrics_answer() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "");
    assert_eq!(gateway.get_admin("/livez").status, 200);
    assert_eq!(gateway.get_admin("/readyz").status, 200);
    let page = gateway.get_admin("/metrics");
    assert!(page.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(page.text().contains("# TYPE oncegate_requests_total counter"));
}

#[test]
fn an_operator_leads_an_operation_out_of_doubt() {
    for (outcome, code) in [("executed", Some("already-executed")), ("not-executed", Some("upstream-failed"))] {
        let upstream = doubtful();
        let mut gateway = gateway(&upstream, "");
        let call = Call::post("/orders").key("k").body("x");
        let id = doubt(&upstream, &gateway, &call);
        let shown: serde_json::Value =
            serde_json::from_slice(&gateway.get_admin(&format!("/api/v1/keys/{id}")).body).unwrap();
        assert_eq!(
            (&shown["state"], &shown["cause"], &shown["route"]),
            (&"in-doubt".into(), &"upstream-broke".into(), &"create-order".into())
        );
        let word = format!(r#"{{"outcome":"{outcome}","reason":"looked at the ledger"}}"#);
        assert_eq!(resolve(&gateway, &id, &word, &[]).status, 200);
        let audit = gateway.wait_for_log("resolved by an operator");
        assert!(audit.contains("looked at the ledger") && audit.contains("oncegate::audit"));
        assert_eq!(gateway.send(&call).code().as_deref(), code, "{outcome}");
        let executed = if outcome == "executed" { 1 } else { 2 };
        assert_eq!(upstream.requests().len(), executed);
    }
}

#[test]
fn a_resolution_is_conditional_and_needs_a_reason() {
    let upstream = doubtful();
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k").body("x");
    let id = doubt(&upstream, &gateway, &call);
    let word = r#"{"outcome":"executed","reason":"seen"}"#;
    let told = |id: &str, word: &str, extra: &[(&str, &str)]| {
        let answer = resolve(&gateway, id, word, extra);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        (answer.status, problem["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(told(&id, r#"{"outcome":"executed","reason":" "}"#, &[]), (400, "reason-missing".to_owned()));
    assert_eq!(told(&id, r#"{"outcome":"maybe","reason":"x"}"#, &[]), (422, "body-invalid".to_owned()));
    assert_eq!(told(&id, r#"{"outcome":"executed"}"#, &[]), (422, "body-invalid".to_owned()));
    assert_eq!(told(&id, "no json", &[]), (400, "body-invalid".to_owned()));
    assert_eq!(told(&id, word, &[("If-Match", "\"00-1\"")]), (412, "record-changed".to_owned()));
    assert_eq!(told("1234", word, &[]), (400, "id-invalid".to_owned()));
    assert_eq!(told(&"0".repeat(64), word, &[]), (404, "not-found".to_owned()));
    let etag = gateway.get_admin(&format!("/api/v1/keys/{id}")).header("etag").unwrap().to_owned();
    assert_eq!(resolve(&gateway, &id, word, &[("If-Match", &etag)]).status, 200);
    assert_eq!(told(&id, word, &[("If-Match", "*")]), (409, "not-in-doubt".to_owned()), "it is in doubt no longer");
}

#[test]
fn a_completed_operation_cannot_be_resolved() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k").body("x");
    let id = doubt(&upstream, &gateway, &call);
    assert_eq!(resolve(&gateway, &id, r#"{"outcome":"not-executed","reason":"x"}"#, &[]).status, 409);
    assert!(gateway.send(&call).is_replay());
}

#[test]
fn the_api_wants_its_token_where_one_is_set() {
    let upstream = doubtful();
    let text = yaml(&upstream, "", "")
        .replace("admin: { listen: 127.0.0.1:0 }", "admin: { listen: 127.0.0.1:0, token: s3cret }");
    let gateway = Gateway::start(&text);
    let id = "0".repeat(64);
    let show = |token: Option<&str>| {
        let call = Call::new("GET", &format!("/api/v1/keys/{id}"));
        let call = token.iter().fold(call, |call, token| call.header("Authorization", format!("Bearer {token}")));
        call.send(gateway.admin).status
    };
    assert_eq!((show(None), show(Some("wrong")), show(Some("s3cret"))), (401, 401, 404));
    assert_eq!(gateway.get_admin("/metrics").status, 200);
}
