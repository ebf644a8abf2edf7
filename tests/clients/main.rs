//! Clients that people really use, retries on, through the real binary to an API that knows nothing of keys.
//! Here it is Stripe's: whatever breaks on the way, one call makes one customer. The modules have the others.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

#[allow(dead_code, reason = "the tests of TLS use the rest")]
#[path = "../front/authority.rs"]
mod authority;
#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/upstream.rs"]
mod upstream;

mod browser;
mod cut;
mod libraries;
mod payments;
mod sdk;
mod stripe;

use client::Call;
use cut::Cut;
use gateway::Gateway;
use std::net::SocketAddr;
use stripe::{Create, LocalStripe};

/// A gateway as one would stand in front of Stripe: each account is a scope of its own.
fn gateway(server: SocketAddr, in_doubt: &str) -> Gateway {
    Gateway::start(&format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: embedded, path: '{{dir}}/store' }}
upstreams:
  stripe: {{ servers: [ \"http://{server}\" ] }}
routes:
  - name: write
    match: {{ methods: [POST], path: \"/v1/{{*rest}}\" }}
    upstream: stripe
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: {{ authorization: hash }}
      in_doubt: {in_doubt}
  - name: read
    match: {{ path: \"/{{*rest}}\" }}
    upstream: stripe
"
    ))
}

/// Why the tests below mean something: the API itself runs a retry again, and the client does retry.
#[test]
fn without_the_gateway_a_cut_connection_makes_two_customers() {
    let stripe = LocalStripe::start();
    let cut = Cut::before(stripe.address);
    let report = Create::through(cut.address()).run();
    assert_eq!(report.answers, ["no answer", "200"]);
    let customers = stripe.customers();
    assert_eq!(customers.len(), 2, "{customers:?}");
    assert!(customers.contains(&cut.withheld_customer()) && customers.iter().any(|id| id == report.customer()));
}

#[test]
fn a_client_cut_off_from_the_gateway_gets_its_customer_on_the_retry() {
    let stripe = LocalStripe::start();
    let gateway = gateway(stripe.address, "hold");
    let cut = Cut::before(gateway.address);
    let report = Create::through(cut.address()).run();
    assert_eq!(report.answers, ["no answer", "200 replayed"]);
    assert_eq!(report.replayed.as_deref(), Some("true"), "the client's caller can see it");
    assert_eq!(report.customer(), cut.withheld_customer());
    assert_eq!(stripe.customers(), [report.customer()]);
}

#[test]
fn a_gateway_cut_off_from_the_api_holds_the_doubt_until_an_operator_has_looked() {
    let stripe = LocalStripe::start();
    let cut = Cut::before(stripe.address);
    let gateway = gateway(cut.address(), "hold");
    let create = Create::through(gateway.address).key("order-4711");
    let first = create.clone().retries(2).run();
    assert_eq!(first.answers, ["502 upstream-failed unknown", "409 outcome-unknown", "409 outcome-unknown"]);
    assert_eq!(first.error.as_deref(), Some("APIError 409 outcome-unknown"));
    assert_eq!(stripe.customers(), [cut.withheld_customer()]);

    let id = cut.requests()[0].text("Oncegate-Operation");
    let word = r#"{"outcome":"executed","reason":"the customer is there"}"#;
    let resolved = Call::post(&format!("/api/v1/keys/{id}/resolve")).json(word).send(gateway.admin);
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    let second = create.retries(0).run();
    assert_eq!(second.answers, ["409 already-executed"]);
    assert_eq!(second.error.as_deref(), Some("APIError 409 already-executed"));
    assert_eq!(stripe.customers(), [cut.withheld_customer()]);
    assert_eq!(cut.requests().len(), 1);
}

/// What the reference says of `retry`: it is for APIs that know the key themselves. This one does not.
#[test]
fn a_doubt_that_may_be_retried_runs_again_at_an_api_without_keys() {
    let stripe = LocalStripe::start();
    let cut = Cut::before(stripe.address);
    let gateway = gateway(cut.address(), "retry");
    let report = Create::through(gateway.address).run();
    assert_eq!(report.answers, ["502 upstream-failed unknown", "200"]);
    assert_eq!(stripe.customers().len(), 2);
    // Such an API could have told: the key is the same, and the attempt is numbered.
    let forwarded = cut.requests();
    let seen: Vec<_> =
        forwarded.iter().map(|sent| (sent.text("Idempotency-Key"), sent.text("Oncegate-Attempt"))).collect();
    assert_eq!(seen, [(report.keys[0].clone(), "1".to_owned()), (report.keys[0].clone(), "2".to_owned())]);
}

#[test]
fn another_key_or_another_account_is_another_customer() {
    let stripe = LocalStripe::start();
    let gateway = gateway(stripe.address, "hold");
    let create = Create::through(gateway.address);
    let reports = [
        create.run(),
        create.run(),
        create.clone().key("order-1").run(),
        create.clone().key("order-1").api_key("sk_test_another").run(),
    ];
    for report in &reports {
        assert_eq!(report.answers, ["200"]);
        assert_eq!(report.replayed, None);
    }
    let mut created = reports.map(|report| report.customer().to_owned());
    let mut customers = stripe.customers();
    created.sort();
    customers.sort();
    assert_eq!(customers, created);
}

#[test]
fn a_key_answers_its_own_call_again_and_refuses_another() {
    let stripe = LocalStripe::start();
    let gateway = gateway(stripe.address, "hold");
    let create = Create::through(gateway.address).key("order-1");
    let first = create.run();
    assert_eq!(first.answers, ["200"]);
    let again = create.run();
    assert_eq!(again.answers, ["200 replayed"]);
    assert_eq!(again.customer(), first.customer());
    // The client would take IdempotencyError from Stripe's own error object only. It does not retry a 422.
    let other = create.email("somebody@example.com").run();
    assert_eq!(other.answers, ["422 key-reused"]);
    assert_eq!(other.error.as_deref(), Some("APIError 422 key-reused"));
    assert_eq!(stripe.customers(), [first.customer()]);
}

#[test]
fn a_client_outlasts_an_api_that_is_down() {
    const DOWN: &str = "502 upstream-unreachable not-executed";
    let mut stripe = LocalStripe::start();
    let gateway = gateway(stripe.address, "hold");
    stripe.kill();
    let gave_up = Create::through(gateway.address).retries(0).run();
    assert_eq!(gave_up.answers, [DOWN]);
    assert_eq!(gave_up.error.as_deref(), Some("APIError 502 upstream-unreachable"));

    let create = Create::through(gateway.address).retries(8);
    let report = std::thread::scope(|scope| {
        let client = scope.spawn(|| create.run());
        gateway.wait_for_metric(r#"oncegate_outcomes_total{outcome="not_sent",route="write"}"#, 2.0);
        stripe.restart();
        client.join().unwrap()
    });
    let (last, before) = report.answers.split_last().unwrap();
    assert!(!before.is_empty() && before.iter().all(|answer| answer == DOWN), "{before:?}");
    assert_eq!(last, "200");
    assert_eq!(stripe.customers(), [report.customer()]);
}
