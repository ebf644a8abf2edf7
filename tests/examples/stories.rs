//! Forms, open APIs, callbacks, business windows and bursts of reads, each on the configuration that is shipped for it.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::Example;
use crate::client::{Answer, Call};
use crate::redis::RedisServer;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn says(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.code())
}

fn code(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

#[test]
fn a_form_counts_once_per_token() {
    let example = Example::start("form", "SHOP_URL", &[("ONCEGATE_TOKEN_SECRET", SECRET)]);
    let issued = example.send(&Call::post("/idempotency-tokens?route=checkout").header("Cookie", "sid=7"));
    assert_eq!(issued.status, 201, "{issued:?}");
    let page: serde_json::Value = serde_json::from_str(&issued.text()).unwrap();
    let token = page["token"].as_str().unwrap();
    let of = |session: &str, body: &str| {
        Call::post("/checkout").header("Cookie", format!("sid={session}")).header("Idempotency-Token", token).body(body)
    };
    let clicks = example.crowd(&of("7", "tea"));
    assert!(clicks.iter().all(|answer| (answer.status, answer.text()) == (200, "answer 1".to_owned())), "{clicks:?}");
    assert_eq!(says(&example.send(&of("7", "coffee"))), code(422, "key-reused"));
    assert_eq!(says(&example.send(&of("8", "tea"))), code(400, "token-invalid"));
    assert_eq!(example.send(&Call::post("/checkout").header("Cookie", "sid=7")).status, 400);
    assert_eq!(example.executed(), 1);
}

/// A token of one customer, as the issuer signs it.
fn bearer(subject: &str, number: u32) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"sub\":\"{subject}\",\"jti\":\"{number}\",\"exp\":4102444800}}");
    let text = format!("{}.{}", part("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), part(&claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), text.as_bytes());
    format!("Bearer {text}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

#[test]
fn keys_of_an_open_api_belong_to_the_customer() {
    let example = Example::start("open-api", "ORDERS_URL", &[("ONCEGATE_JWT_SECRET", SECRET)]);
    let order = |subject: &str, number: u32, body: &str| {
        Call::post("/orders").header("Authorization", bearer(subject, number)).key("7f3a").json(body)
    };
    let crowd = example.crowd(&order("a", 1, "{\"qty\":2}"));
    assert!(crowd.iter().all(|answer| [200, 409].contains(&answer.status)), "{crowd:?}");
    let refreshed = example.send(&order("a", 2, "{ \"qty\": 2.0 }"));
    assert!(refreshed.is_replay(), "{refreshed:?}");
    assert_eq!(says(&example.send(&order("a", 1, "{\"qty\":3}"))), code(422, "key-reused"));
    assert!(!example.send(&order("b", 1, "{\"qty\":2}")).is_replay());
    let forged = Call::post("/orders").header("Authorization", bearer("a", 1) + "x").key("7f3a");
    assert_eq!(says(&example.send(&forged)), code(401, "scope-invalid"));
    assert_eq!(example.executed(), 2);
}

#[test]
fn orders_behind_a_proxy_wait_for_the_first_answer() {
    let example = Example::start("order-api", "ORDERS_URL", &[("LOG_FORMAT", "text")]);
    let order = |body: &str| Call::post("/orders").header("X-Customer-Id", "42").key("7f3a").json(body);
    let clicks = example.crowd(&order("{\"qty\":2,\"sent_at\":1}"));
    assert!(clicks.iter().all(|answer| answer.text() == "answer 1"), "{clicks:?}");
    assert!(example.send(&order("{\"sent_at\":2,\"qty\":2}")).is_replay());
    assert_eq!(says(&example.send(&order("{\"qty\":3}"))), code(422, "key-reused"));
    assert_eq!(example.executed(), 1);
}

#[test]
fn a_callback_is_acknowledged_and_handled_once() {
    let redis = RedisServer::start();
    let (url, upstream) = (redis.url(), "PAYMENTS_URL");
    let more = [("ONCEGATE_ADMIN_TOKEN", SECRET), ("REDIS_URL", url.as_str())];
    let example = Example::start("payment-callback", upstream, &more);
    let event = |status: &str| {
        Call::post("/callbacks/payments").json(&format!("{{\"payment_id\":7,\"status\":\"{status}\",\"sent\":1}}"))
    };
    let crowd = example.crowd(&event("paid"));
    assert!(crowd.iter().all(|answer| [200, 503].contains(&answer.status)), "{crowd:?}");
    assert_eq!(crowd.iter().filter(|answer| !answer.text().is_empty() && answer.status == 200).count(), 1);
    let again = example.send(&event("paid"));
    assert_eq!((again.status, again.text().as_str()), (200, ""));
    assert_eq!(example.send(&event("refunded")).status, 200);
    assert_eq!(example.executed(), 2);
}

#[test]
fn the_same_order_cannot_come_twice_within_its_window() {
    let example = Example::start("window", "ORDERS_URL", &[]);
    let order = |customer: &str, sku: &str| {
        let body = format!("{{\"sku\":\"{sku}\",\"address\":\"Main Street 1\",\"note\":\"{customer}{sku}\"}}");
        Call::post("/orders").header("X-Customer-Id", customer).json(&body)
    };
    assert_eq!(example.send(&order("42", "tea")).status, 200);
    let again = example.send(&order("42", "tea"));
    assert_eq!(says(&again), code(409, "duplicate-request"));
    assert!(again.header("idempotency-expires").is_some(), "it says until when");
    assert_eq!(example.send(&order("43", "tea")).status, 200);
    assert_eq!(example.send(&order("42", "coffee")).status, 200);
    assert_eq!(example.executed(), 3);
}

#[test]
fn a_form_with_a_number_counts_once() {
    let example = Example::start("form-number", "SHOP_URL", &[]);
    let form = |session: &str, fields: &str| {
        let call = Call::post("/checkout").header("Cookie", format!("lang=en; sid={session}"));
        call.header("Content-Type", "application/x-www-form-urlencoded").body(fields)
    };
    let clicks = example.crowd(&form("7", "order_no=A-1&sku=tea"));
    assert!(clicks.iter().all(|answer| answer.text() == "answer 1"), "{clicks:?}");
    assert!(example.send(&form("7", "sku=tea&order_no=A-1")).is_replay(), "another browser orders fields otherwise");
    assert_eq!(says(&example.send(&form("7", "order_no=A-1&sku=coffee"))), code(422, "key-reused"));
    assert_eq!(example.send(&form("7", "order_no=A-2&sku=tea")).text(), "answer 2");
    assert_eq!(example.send(&form("8", "order_no=A-1&sku=tea")).text(), "answer 3");
    assert_eq!(says(&example.send(&form("7", "sku=tea"))), code(400, "key-missing"));

    let top_up = |id: &str, amount: u32| {
        let fields = format!("--x\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n{amount}\r\n--x--\r\n");
        let call = Call::post(&format!("/account/top-up?requestId={id}")).header("Cookie", "sid=7");
        call.header("Content-Type", "multipart/form-data; boundary=x").body(fields)
    };
    assert_eq!(example.send(&top_up("r-1", 5)).text(), "answer 4");
    assert!(example.send(&top_up("r-1", 5)).is_replay());
    assert_eq!(says(&example.send(&top_up("r-1", 6))), code(422, "key-reused"));
    assert_eq!(example.send(&top_up("r-2", 5)).text(), "answer 5");
    assert_eq!(example.executed(), 5);
}

#[test]
fn equal_orders_without_any_key_count_once() {
    let example = Example::start("no-key", "ORDERS_URL", &[]);
    let order = |customer: &str, target: &str, body: &str| {
        example.send(&Call::post(target).header("X-Customer-Id", customer).json(body))
    };
    let body = "{\"sku\":\"tea\",\"qty\":2,\"sent_at\":1}";
    let clicks = example.crowd(&Call::post("/orders").header("X-Customer-Id", "42").json(body));
    assert!(clicks.iter().all(|answer| answer.text() == "answer 1"), "{clicks:?}");
    assert!(order("42", "/orders?ts=9", "{ \"sent_at\": 2, \"qty\": 2.0, \"sku\": \"tea\" }").is_replay());
    assert_eq!(order("42", "/orders", "{\"sku\":\"tea\",\"qty\":3}").text(), "answer 2");
    assert_eq!(order("43", "/orders", body).text(), "answer 3");
    assert_eq!(order("42", "/orders?gift=1", body).text(), "answer 4");
    assert_eq!(example.executed(), 4);
}

#[test]
fn an_order_is_paid_once_however_many_keys_are_made() {
    let example = Example::start("two-keys", "ORDERS_URL", &[]);
    let pay = |key: &str, order: &str, amount: u32| {
        let body = format!("{{\"order_no\":\"{order}\",\"amount\":{amount}}}");
        Call::post("/payments").header("X-Customer-Id", "42").key(key).json(&body)
    };
    let clicks: Vec<Answer> = std::thread::scope(|scope| {
        let example = &example;
        let clicks: Vec<_> =
            (0..8).map(|n| scope.spawn(move || example.send(&pay(&format!("k{n}"), "A-1", 5)))).collect();
        clicks.into_iter().map(|click| click.join().unwrap()).collect()
    });
    assert!(clicks.iter().all(|answer| answer.text() == "answer 1"), "{clicks:?}");
    assert!(example.send(&pay("k0", "A-1", 5)).is_replay());
    assert_eq!(says(&example.send(&pay("other", "A-2", 5))).0, 200);
    assert_eq!(says(&example.send(&pay("other", "A-3", 5))), code(422, "key-reused"));
    assert_eq!(example.executed(), 2);
}

#[test]
fn a_clients_own_fingerprint_names_the_request_and_its_retries() {
    let example = Example::start("client-fingerprint", "ORDERS_URL", &[]);
    let send = |told: &str, made: u64, body: &str| {
        let call = Call::post("/orders").header("X-Customer-Id", "42").json(body);
        let call = call.header("X-Request-Fingerprint", fingerprint(told, made));
        example.send(&call.header("X-Request-Timestamp", made.to_string()))
    };
    let now = oncegate::clock::Clock::wall().0;
    let order = "{\"qty\":2,\"sku\":\"tea\"}";
    assert_eq!(send(order, now, order).status, 200);
    assert!(send(order, now, "{ \"sku\": \"tea\", \"qty\": 2.0 }").is_replay());
    let changed = send(order, now, "{\"qty\":3,\"sku\":\"tea\"}");
    assert_eq!(says(&changed), code(400, "fingerprint-invalid"));
    assert!(!send(order, now + 1, order).is_replay(), "made at another time, it is another order");
    assert_eq!(says(&send(order, now - 120_000, order)), code(400, "timestamp-invalid"));
    assert_eq!(example.executed(), 2);
}

/// By the definition, for `POST /orders` with canonical JSON.
fn fingerprint(json: &str, made: u64) -> String {
    let made = made.to_string();
    let parts = ["oncegate-client-1", "POST", "/orders", "", "application/json", "", "json", json, &made];
    let text = parts.iter().fold(String::new(), |all, part| all + &format!("{}:{part},", part.len()));
    Sha256::digest(text).iter().fold(String::new(), |all, byte| all + &format!("{byte:02x}"))
}

#[test]
fn a_burst_of_reads_is_one_request_for_each_who_may_see_the_answer() {
    let example = Example::start("reads", "SHOP_URL", &[]);
    let stock = |cookie: &str| Call::new("GET", "/items/7/stock").header("Cookie", cookie);
    example.crowd(&stock("sid=1"));
    let after = example.executed();
    assert!(after < 8, "a second may pass while they come: {after}");
    let basket = |customer: &str| Call::new("GET", "/basket").header("X-Customer-Id", customer);
    let (one, other) = (example.send(&basket("1")), example.send(&basket("2")));
    assert!(!one.is_replay() && !other.is_replay() && one.text() != other.text());
}
