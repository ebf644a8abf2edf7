//! `also`: what a route's second key becomes, and what of it is refused, each with its place and what to do.

use std::time::Duration;

use http::StatusCode;
use oncegate::gateway::OnDuplicate;
use oncegate::keys::{Missing, Scope, Source};
use oncegate::machine::Window;

use super::{LEAST, config, errors, guard, loaded, refused, warnings, with_guard};

const DAY: Duration = Duration::from_hours(24);
const ORDERS: &str = "also: { key: [{ json: /order_no }] }";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The least file with a second key, by order number where nothing else is said.
fn with(also: &str) -> String {
    let key = if also.contains("key:") { "" } else { "key: [{ json: /order_no }], " };
    with_guard(&format!("also: {{ {key}{also} }}"))
}

/// Asserts that this second key is refused in the file's tenth line, where `part` of it begins.
fn refused_at(also: &str, part: &str, path: &str, says: &str) {
    refused_in(&with(also), part, path, says);
}

fn refused_in(text: &str, part: &str, path: &str, says: &str) {
    let column = 1 + text.lines().nth(9).and_then(|line| line.rfind(part)).expect("a part of the line");
    refused(text, &format!("10:{column} routes[0].idempotency.{path}"), says);
}

#[test]
fn a_second_key_lives_by_the_routes_settings_unless_it_has_its_own() {
    let lines = "duplicate: reject\nduplicate_status: 410\nretention: 2d\nwindow: sliding";
    let settings = loaded(&with_guard(&format!("{ORDERS}\n{lines}"))).settings;
    let first = guard(&settings);
    let (keys, also) = (first.keys.also.as_ref().unwrap(), first.also.as_ref().unwrap());
    assert_eq!((keys.namespace.as_str(), keys.missing, &keys.scope), ("create-order/also", Missing::Reject, &None));
    assert_eq!(keys.sources, [Source::Json("/order_no".to_owned())]);
    assert_eq!((also.duplicate, also.duplicate_status), (OnDuplicate::Reject, StatusCode::GONE));
    assert_eq!((also.policy.retention, also.policy.doubt_retention), (2 * DAY, 3 * DAY));
    assert!(!also.policy.compare && first.policy.compare, "an order number says nothing of the rest of the request");
    assert_eq!((also.policy.window, first.policy.window), (Window::Fixed, Window::Sliding));

    let own = "key: [{ query: no }], namespace: orders, missing: pass, scope: { header: X-Shop }, duplicate: replay, \
               duplicate_status: 423, retention: 30d, fingerprint: { compare: false }";
    let settings = loaded(&with_guard(&format!("also: {{ {own} }}\n{lines}"))).settings;
    let (keys, also) = (guard(&settings).keys.also.as_ref().unwrap(), guard(&settings).also.as_ref().unwrap());
    assert_eq!((keys.namespace.as_str(), keys.missing), ("orders", Missing::Pass));
    assert_eq!(keys.scope, Some(Scope::Header("x-shop".parse().unwrap())));
    assert_eq!((also.duplicate, also.duplicate_status), (OnDuplicate::Replay, StatusCode::LOCKED));
    assert_eq!((also.policy.retention, also.policy.doubt_retention), (30 * DAY, 30 * DAY));
    assert!(!also.policy.compare);
    let again = loaded(&config::show(&settings)).settings;
    assert_eq!(again.gateway, settings.gateway, "what `check` prints is the same file");
}

/// As long as a record lives, the filter knows it: of either key.
#[test]
fn the_filter_remembers_as_long_as_the_longer_of_two_keys() {
    let lifetime = |text: &str| loaded(text).settings.filter.lifetime;
    let minutes = Duration::from_mins(5);
    assert_eq!(lifetime(LEAST), minutes + 3 * DAY + DAY);
    assert_eq!(lifetime(&with("retention: 30d")), minutes + 30 * DAY + 30 * DAY);
    assert_eq!(lifetime(&with("retention: 1h")), minutes + 3 * DAY + DAY);
    let trusted = with_guard("also: { key: [{ json: /no }], doubt_retention: 9d }\noutcome_headers: trust");
    assert_eq!(lifetime(&trusted), minutes + 9 * DAY + 9 * DAY);
}

#[test]
fn what_is_no_second_key_is_refused() {
    refused(&with_guard("also: {}"), "10:13 routes[0].idempotency.also", "write `key: [{ json: /order_no }]`");
    refused_at("key: []", "[]", "also.key", "write at least one");
    refused_at("key: [{ token: {} }]", "{ token", "also.key[0]", "put it under the route's `key`");
    refused_at("key: [{ all: [{ token: {} }] }]", "{ token", "also.key[0].all[0]", "use header, query, json or form");
    refused_at("key: [{ header: Idempotency-Key }]", "[{ header", "also.key", "name another source, or remove `also`");
    refused_at("key: [{ fingerprint: {} }]", "{ fingerprint", "also.key[0]", "such as `retention: 10m`");
    loaded(&with("key: [{ fingerprint: {} }], retention: 10m"));
    refused_at("key: [{ header: X-Order, normalize: [shout] }]", "shout", "also.key[0].normalize[0]", "`trim`");
    refused_at("key: [{ header: Connection }]", "{ header", "also.key[0]", "cannot be used here");
    refused(&with("key: [{ header: X_Order }]"), "8:7 routes[0].idempotency", "write `underscore_headers: pass`");
    // Whether or not there are tokens: they are not what is missing.
    let issuing = format!("{}tokens: {{ secrets: [ {SECRET} ] }}\n", with("key: [{ token: {} }]"));
    refused_in(&issuing, "{ token", "also.key[0]", "is a first key only");
}

#[test]
fn what_its_settings_cannot_be_is_refused() {
    refused_at("namespace: create-order", "create-order", "also.namespace", "give the second key one of its own");
    refused_at("namespace: a/b", "a/b", "also.namespace", "1 to 64 of letters, digits");
    refused_at("missing: maybe", "maybe", "also.missing", "`reject`, `pass`");
    refused_at("duplicate: ignore", "ignore", "also.duplicate", "`replay`, `reject`");
    refused_at("duplicate_status: 302", "302", "also.duplicate_status", "409");
    refused_at("retention: 100ms", "100ms", "also.retention", "between 1s and");
    refused_at("doubt_retention: 23h", "23h", "also.doubt_retention", "is below `retention` (1d): raise it");
    refused_at(
        "retention: 9d, doubt_retention: 8d",
        "8d",
        "also.doubt_retention",
        "is below `retention` (9d): raise it",
    );
    refused_at("fingerprint: { ignore: {} }", "ignore", "also.fingerprint.ignore", "`compare`");
    refused_at("window: sliding", "window", "also.window", "unknown");
}

#[test]
fn its_scope_is_of_what_every_request_has() {
    let plain = "leave it out, or use a header, a cookie, a certificate or `none`";
    let jwt = |text: String| format!("{text}jwt: {{ secrets: [ {SECRET} ] }}\n");
    let by_claim = with("scope: { jwt_claim: sub }");
    // Also where there is a section `jwt`, and where the path has such a parameter.
    for text in [by_claim.clone(), jwt(by_claim).replace("{ trusted_header: X-Customer-Id }", "{ jwt_claim: sub }")] {
        refused_in(&text, "{ jwt", "also.scope", plain);
    }
    let by_path = with("scope: { path_parameter: shop }");
    for text in [by_path.clone(), by_path.replace("path: /orders", "path: \"/{shop}/orders\"")] {
        refused_in(&text, "{ path", "also.scope", plain);
    }
    let mixed = with("scope: { all: [ { header: X-Shop }, { jwt_claim: sub } ] }");
    refused_in(&mixed, "{ jwt", "also.scope.all[1]", plain);
    refused_at("scope: { client_certificate: subject }", "{ client", "also.scope", "set `tls.client_certificates`");
    for scope in ["none", "{ header: X-Shop }", "{ cookie: shop }", "{ all: [ { header: A }, { cookie: b } ] }"] {
        loaded(&with(&format!("scope: {scope}")));
    }
}

#[test]
fn what_does_not_go_with_a_second_key_is_refused() {
    let beside = |line: &str| with_guard(&format!("{ORDERS}\n{line}"));
    refused(&beside("missing: pass"), "11:16 routes[0].idempotency.missing", "write `missing: reject`, or make");
    let alone = format!(
        "{}store: {{ kind: redis, url: 'redis://db', sole_gateway: true }}\n",
        beside("store_failure: open_if_unseen")
    );
    refused(&alone, "11:22 routes[0].idempotency.store_failure", "of two keys the journal keeps none; write `closed`");
    let reads = LEAST.replace("[POST]", "[GET]").replace("header: Idempotency-Key", "fingerprint: {}");
    let reads = format!("{reads}      {ORDERS}\n      safe_methods: collapse\n      retention: 1s\n");
    refused(&reads, "10:13 routes[0].idempotency.also", "has no meaning with `safe_methods: collapse`");
    // Everything that is wrong is told at once.
    let also = "key: [{ token: {} }], namespace: create-order, scope: { jwt_claim: sub }, doubt_retention: 1h";
    let all = errors(&with_guard(&format!("also: {{ {also} }}\nmissing: pass")));
    assert_eq!(all.len(), 5, "{all:#?}");
    let all = errors(&with_guard(&format!("also: {{ {also} }}")).replace("trusted_header", "client_certificate"));
    assert_eq!(all.len(), 5, "with the first key's scope: {all:#?}");
}

#[test]
fn two_routes_take_the_same_two_keys_in_one_order() {
    let route = |name: &str, first: &str, second: &str| {
        format!(
            "  - name: {name}\n    match: {{ methods: [POST], path: /{name} }}\n    upstream: orders\n    idempotency:\n      \
             namespace: {first}\n      key: [{{ header: Idempotency-Key }}]\n      scope: {{ trusted_header: A }}\n      \
             also: {{ key: [{{ json: /no }}], namespace: {second} }}\n"
        )
    };
    let routes = |second: String| format!("{LEAST}{}{second}", route("one", "keys", "orders"));
    refused(
        &routes(route("two", "orders", "keys")),
        "25:13 routes[2].idempotency.also",
        "route `one` reserves in `keys` first and then in `orders`, this one the other way round: make the same key the \
         first one in both",
    );
    for fine in [route("two", "keys", "orders"), route("two", "orders", "others"), route("two", "other", "orders")] {
        loaded(&routes(fine));
    }
}

#[test]
fn a_list_of_unlike_keys_is_warned_of() {
    let mixed = warnings(&with("key: [{ json: /no }, { header: X-No }]"));
    assert!(mixed.len() == 1 && mixed[0].contains("state `fingerprint.compare`"), "{mixed:?}");
    assert_eq!(warnings(&with("key: [{ json: /no }, { header: X-No }], fingerprint: { compare: true }")), [""; 0]);
    assert_eq!(warnings(&with("")), [""; 0]);
}
