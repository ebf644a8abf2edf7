//! The requests that are measured, and the configuration that they are measured under. Nothing is measured here.

/// Routes of every kind; `UPSTREAM` stands for an address, `CACHE` for the size of the replay cache.
const CONFIG: &str = r#"
listen: 127.0.0.1:8080
admin: { listen: "127.0.0.1:9900" }
store: { kind: memory }
replay_cache: CACHE
upstreams:
  api: { servers: [ "http://UPSTREAM" ] }
routes:
  - name: create-order
    match: { methods: [POST], path: /orders }
    upstream: api
    idempotency: { key: [ { header: Idempotency-Key } ], scope: none, retention: 1h }
  - name: whole
    match: { methods: [POST], path: /whole }
    upstream: api
    idempotency: { key: [ { fingerprint: {} } ], scope: none, retention: 1h }
  - name: fields
    match: { methods: [POST], path: /fields }
    upstream: api
    idempotency:
      key: [ { all: [ { json: /order_no }, { json: /customer/id } ] } ]
      scope: { all: [ { trusted_header: X-Tenant }, { cookie: sid } ] }
      retention: 1h
  - name: plain
    match: { path: /plain }
    upstream: api
"#;

/// The configuration, with a replay cache of this size. Duplicates that are not in it are looked for in the store.
pub(crate) fn config(cache: &str) -> String {
    CONFIG.replace("CACHE", cache)
}

/// The same with an access log.
pub(crate) fn logged(cache: &str) -> String {
    format!("{}access_log: {{ path: /dev/null, flush: 1m }}\n", config(cache))
}

/// An order of 1 KiB as shops send it: nested, members in no order, some escapes, white space after commas.
pub(crate) fn order(number: usize) -> String {
    let line = |no: usize| {
        format!(
            r#"{{"sku": "SKU-{no:05}", "name": "Caf\u00e9 au lait, {no} g", "quantity": {no}, "unit_price": {no}.50}}"#
        )
    };
    let head = format!(
        r#"{{"order_no": "2026-11-30-{number:06}", "customer": {{"id": 90071992547, "email": "someone@shop.example", "name": "Zoë Müller"}}, "currency": "EUR", "total": 199.90, "express": false, "coupon": null, "address": {{"street": "Lange Straße 7", "zip": "10115", "city": "Berlin"}}, "lines": ["#
    );
    let lines: Vec<String> = (1..=7).map(line).collect();
    let text = format!("{head}{}], \"note\": \"", lines.join(", "));
    let note = "x".repeat(1024_usize.saturating_sub(text.len() + 5));
    format!("{text}{note}end\"}}")
}

/// A key as clients make them.
pub(crate) fn key(number: usize) -> String {
    format!("8e03978e-40d5-43dd-bc93-{number:012x}")
}

/// Requests for orders, with a key and an order number each.
pub(crate) fn requests(path: &str, numbers: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    numbers
        .map(|number| {
            let (order, key) = (order(number), key(number));
            format!(
                "POST {path} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n\
                 Content-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{order}",
                order.len()
            )
            .into_bytes()
        })
        .collect()
}

/// The API's answer: 400 bytes.
pub(crate) fn answer() -> Vec<u8> {
    let body = format!("{{\"id\": 7, \"note\": \"{}end\"}}", "x".repeat(376));
    format!(
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /orders/7\r\n\
         Date: Mon, 30 Nov 2026 08:00:00 GMT\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
