//! What the demo tells, step by step, and how each step is checked.

use std::fmt::Display;
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;

use super::DemoError;
use super::api::Api;
use super::gateway::Gateway;
use crate::upstream::{Balance, Ejection, Host, Outgoing, Protocol, Server, Settings, Upstream};

/// What could not be done when nobody reads on.
pub(super) const OUTPUT: &str = "output";

/// An answer, as far as the story looks at it.
struct Heard {
    status: u16,
    replayed: bool,
    operation: Option<String>,
    body: String,
}

/// Tells the whole story.
pub(super) async fn tell(gateway: &mut Gateway, api: &Api) -> Result<(), DemoError> {
    line(format_args!("A sample order API listens on {}. Every POST to it is a new order.", api.address()))?;
    line(format_args!("oncegate stands in front of it, on {}, with the embedded store.\n", gateway.address))?;
    retry(gateway, api).await?;
    double_click(gateway, api).await?;
    changed(gateway, api).await?;
    crash(gateway, api).await?;
    line(format_args!(
        "Tea, cake and soup were asked for again and again. The API has {} orders: each of them once.",
        api.count()
    ))
}

async fn retry(gateway: &Gateway, api: &Api) -> Result<(), DemoError> {
    line("1. An order, and its retry with the same Idempotency-Key")?;
    let order = r#"{"item":"tea"}"#;
    let first = post(gateway.address, "demo-tea", order).await?;
    say("first", &first)?;
    let again = post(gateway.address, "demo-tea", order).await?;
    say("retry", &again)?;
    check(first.status == 201 && !first.replayed, "the first order is taken")?;
    check(again.replayed && again.body == first.body, "the retry gets the recorded answer")?;
    check(api.count() == 1, "the API has one order")
}

async fn double_click(gateway: &Gateway, api: &Api) -> Result<(), DemoError> {
    line("2. A double click: twice at once, the answer is slow")?;
    let order = r#"{"item":"cake","delay_ms":300}"#;
    let (left, right) =
        tokio::join!(post(gateway.address, "demo-cake", order), post(gateway.address, "demo-cake", order));
    let (left, right) = (left?, right?);
    say("one click", &left)?;
    say("the other", &right)?;
    let mut statuses = [left.status, right.status];
    statuses.sort_unstable();
    check(statuses == [201, 409], "one click is taken, the other is told to wait")?;
    check(api.count() == 2, "the API has one order more")
}

async fn changed(gateway: &Gateway, api: &Api) -> Result<(), DemoError> {
    line("3. Another order under a used key")?;
    let other = post(gateway.address, "demo-tea", r#"{"item":"coffee"}"#).await?;
    say("changed", &other)?;
    check(other.status == 422, "a changed request is no retry")?;
    check(api.count() == 2, "the API has no order more")
}

async fn crash(gateway: &mut Gateway, api: &Api) -> Result<(), DemoError> {
    line("4. A crash: the gateway is killed (SIGKILL) while an order is under way, and started again")?;
    let address = gateway.address;
    let order = r#"{"item":"soup","delay_ms":1000}"#;
    let lost = tokio::spawn(async move { post(address, "demo-soup", order).await });
    wait_for(|| api.count() == 3, "the order reaches the API").await?;
    gateway.crash()?;
    check(matches!(lost.await, Ok(Err(_))), "the client hears nothing")?;
    line("   client     no answer; the API has taken the order, and the gateway does not know it")?;
    let retry = until_in_doubt(address, order).await?;
    say("retry", &retry)?;
    check(api.count() == 3, "the order in doubt is not run again")?;
    line("   The outcome is unknown, so nobody may run it again. An operator looks, and says what happened:")?;
    resolve(gateway, &retry).await?;
    let settled = post(address, "demo-soup", order).await?;
    say("retry", &settled)?;
    check(settled.body.contains("already-executed"), "the retry is told that the order was executed")?;
    check(api.count() == 3, "the API has the order once")
}

/// Retries until the lease of the killed gateway's attempt has ended.
async fn until_in_doubt(address: SocketAddr, order: &'static str) -> Result<Heard, DemoError> {
    for _ in 0..50 {
        let heard = post(address, "demo-soup", order).await?;
        if heard.body.contains("outcome-unknown") {
            return Ok(heard);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(DemoError::Story("the lease never ended".to_owned()))
}

/// The refusal names the operation; that is what the operator speaks of.
async fn resolve(gateway: &Gateway, doubt: &Heard) -> Result<(), DemoError> {
    let operation = doubt.operation.clone().ok_or_else(|| DemoError::Story("no operation named".to_owned()))?;
    let word = r#"{"outcome":"executed","reason":"order 3 is in the API's list"}"#;
    let path = format!("/api/v1/keys/{operation}/resolve");
    line(format_args!("   operator   POST {path}\n              {word}"))?;
    let request = Request::post(path).header("content-type", "application/json");
    let heard = send(gateway.admin, request.body(Outgoing::Whole(Bytes::from_static(word.as_bytes())))).await?;
    check(heard.status == 200, "the operator's word is taken")
}

/// What to try next.
pub(super) fn invite(gateway: &Gateway) -> Result<(), DemoError> {
    let (at, admin, config) = (gateway.address, gateway.admin, gateway.config().display());
    line(format_args!(
        r#"
It stays up until Ctrl-C. Try, more than once:
  curl -i http://{at}/orders -H 'Idempotency-Key: mine-1' -H 'Content-Type: application/json' -d '{{"item":"pie"}}'
  curl http://{at}/orders
  curl -s http://{admin}/metrics | grep oncegate_requests_total | grep -v ' 0$'
With "delay_ms":5000 in an order the API answers late. The configuration is {config}"#
    ))
}

async fn post(to: SocketAddr, key: &str, order: &'static str) -> Result<Heard, DemoError> {
    let request = Request::post("/orders").header("content-type", "application/json").header("idempotency-key", key);
    send(to, request.body(Outgoing::Whole(Bytes::from_static(order.as_bytes())))).await
}

async fn send(to: SocketAddr, request: http::Result<Request<Outgoing>>) -> Result<Heard, DemoError> {
    let failed = |error: &dyn std::fmt::Display| DemoError::Request(error.to_string());
    let patience = Duration::from_secs(30);
    let client = Upstream::new(Settings {
        name: "demo".to_owned(),
        servers: vec![Server { host: to.ip().to_string(), port: to.port() }],
        balance: Balance::RoundRobin,
        ejection: Ejection { failures: 0, lasts: patience },
        health: None,
        resolve_interval: patience,
        connect_timeout: patience,
        idle_timeout: patience,
        idle_connections: 0,
        connection_age: patience,
        max_connections: 0,
        response_timeout: patience,
        attempt_timeout: patience,
        first_byte_timeout: None,
        answer_idle_timeout: None,
        total_timeout: None,
        host: Host::Server,
        protocol: Protocol::Http1,
        tls: None,
        preserve_header_case: true,
    });
    let answer: Response<_> = client.send(request.map_err(|e| failed(&e))?).await.map_err(|e| failed(&e))?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|e| failed(&e))?.to_bytes();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Heard {
        status: head.status.as_u16(),
        replayed: text("idempotent-replayed").as_deref() == Some("true"),
        operation: text("oncegate-operation"),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn say(who: &str, heard: &Heard) -> Result<(), DemoError> {
    let mark = if heard.replayed { "  (Idempotent-Replayed: true)" } else { "" };
    line(format_args!("   {who:<10} {} {}{mark}", heard.status, in_short(&heard.body)))
}

/// The body; of a problem its code and detail.
fn in_short(body: &str) -> String {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    match (problem["code"].as_str(), problem["detail"].as_str()) {
        (Some(code), Some(detail)) => format!("{code}: {detail}"),
        _ => body.to_owned(),
    }
}

fn line(text: impl Display) -> Result<(), DemoError> {
    writeln!(stdout(), "{text}").map_err(|error| DemoError::Io(OUTPUT, error))
}

fn check(holds: bool, what: &str) -> Result<(), DemoError> {
    if holds { Ok(()) } else { Err(DemoError::Story(format!("not so: {what}"))) }
}

async fn wait_for(mut holds: impl FnMut() -> bool, what: &str) -> Result<(), DemoError> {
    for _ in 0..200 {
        if holds() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(DemoError::Story(format!("never so: {what}")))
}
