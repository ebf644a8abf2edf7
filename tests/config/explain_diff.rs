//! `oncegate explain --diff`: is the second request the first one again, and if not, why?

use std::process::Command;

const FILE: &str = "\
upstreams:
  orders: { servers: [\"http://127.0.0.1:9001\"] }
routes:
  - name: create-order
    match: { methods: [POST], path: /orders }
    upstream: orders
    idempotency:
      key: [{ header: Idempotency-Key }, { json: /no }]
      scope: { trusted_header: X-Customer-Id }
      fingerprint: { compare: true, headers: [X-Currency], ignore: { json: [/sent_at], query: [ts] } }
  - name: everything-else
    match: { path: '/{*rest}' }
    upstream: orders
";

const FIRST: &str = "\
POST /orders?b=2&a=1 HTTP/1.1
Host: api.example
X-Customer-Id: 42
Idempotency-Key: 7f3a
Content-Type: application/json

{\"items\": [{\"sku\": \"tea\", \"qty\": 2}], \"sent_at\": 1}
";

const FORM: &str = "\
POST /orders HTTP/1.1
Host: api.example
X-Customer-Id: 42
Idempotency-Key: 7f3a
Content-Type: application/x-www-form-urlencoded

sku=tea&qty=2
";

/// Exit code and what is said.
fn compared(first: &str, second: &str, more: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("c.yaml", FILE), ("a.http", first), ("b.http", second)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.current_dir(directory.path()).args(["explain", "--config", "c.yaml", "--diff", "a.http", "b.http"]);
    let output = command.args(more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn one_file_is_not_compared_with_anything() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("c.yaml"), FILE).unwrap();
    command.current_dir(directory.path()).args(["explain", "--config", "c.yaml", "--diff", "a.http"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("write `explain --diff a.http b.http`"), "{said}");
}

/// What is said of one thing, line by line.
fn said(text: &str, name: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned()).collect()
}

/// The second is the first with one text in another's place.
fn changed(from: &str, to: &str) -> (Option<i32>, String) {
    assert!(FIRST.contains(from));
    compared(FIRST, &FIRST.replace(from, to), &["--full"])
}

#[test]
fn the_whole_page() {
    let second = FIRST.replace("\"qty\": 2", "\"qty\": 3").replace("b=2&a=1", "a=1&b=2");
    let (code, text) = compared(FIRST, &second.replace("7f3a", "7f3b"), &[]);
    assert_eq!(code, Some(1));
    assert_eq!(text, include_str!("golden/diff.txt"));
}

#[test]
fn a_retry_is_told_in_any_spelling() {
    for (from, to, spelled) in [
        ("Host", "Host", "nothing"),
        ("\"qty\": 2", "\"qty\": 2.0", "/items/0/qty: 2 -> 2.0"),
        ("\"sku\": ", "\"sku\":", "body: "),
        ("b=2&a=1", "a=1&b=2", "query: \"b=2&a=1\" -> \"a=1&b=2\""),
        ("b=2", "b=2&ts=7", "query: "),
        ("/orders", "//orders", "path: \"/orders\" -> \"//orders\""),
        ("api.example", "API.example", "authority: "),
        ("application/json", "application/json; charset=utf-8", "content type: "),
        ("\"sent_at\": 1", "\"sent_at\": 2", "/sent_at: 1 -> 2"),
        ("7f3a", "\"7f3a\"", "header idempotency-key"),
        ("7f3a", "7f3a\nUser-Agent: x", "header user-agent"),
    ] {
        let (code, text) = changed(from, to);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(said(&text, "differs"), ["nothing"], "{text}");
        assert!(said(&text, "does not count")[0].starts_with(spelled), "{spelled}\n{text}");
    }
}

#[test]
fn a_changed_request_is_told_by_its_place() {
    for (from, to, place) in [
        ("\"qty\": 2", "\"qty\": 30", "/items/0/qty: 2 -> 30"),
        ("\"tea\"", "\"tea\", \"a/b\": null", "/items/0/a~1b: nothing -> null"),
        ("b=2", "b=3", "query b: \"2\" -> \"3\""),
        ("b=2", "b", "query b: \"2\" -> a name alone"),
        ("b=2&", "", "query b: \"2\" -> nothing"),
        ("a=1", "a=1&a=2", "query a: \"1\" -> \"1\", \"2\""),
        ("api.example", "b.example", "authority: \"api.example\" -> \"b.example\""),
        ("7f3a", "7f3a\nX-Currency: EUR", "header x-currency: nothing -> \"EUR\""),
        ("application/json", "application/merge+json", "content type: "),
        ("{\"items\"", "{{\"items\"", "body read as: \"json\" -> \"raw\""),
    ] {
        let (code, text) = changed(from, to);
        assert_eq!(code, Some(1), "{text}");
        assert!(said(&text, "the second is")[0].contains("422 `key-reused`"), "{text}");
        assert!(said(&text, "differs")[0].starts_with(place), "{place}\n{text}");
    }
    let (_, text) = compared(FORM, &FORM.replace("qty=2", "qty=3"), &[]);
    assert_eq!(said(&text, "differs"), ["form field qty: \"2\" -> \"3\""]);
    let part = |content: &str| {
        let body = format!("--x\r\nContent-Disposition: form-data; name=f\r\n\r\n{content}\r\n--x--\r\n");
        FORM.replace("application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
            .replace("sku=tea&qty=2\n", &body)
            .replace("\nContent-Type", &format!("\nContent-Length: {}\nContent-Type", body.len()))
    };
    let (_, text) = compared(&part("one"), &part("two"), &[]);
    assert!(said(&text, "differs")[0].starts_with("part f: SHA-256 of its content: "), "{text}");
}

#[test]
fn another_operation_is_told_by_key_and_scope() {
    for (from, to, place) in [
        ("7f3a", "7f3b", "key idempotency-key: \"7f3a\" -> \"7f3b\""),
        (": 42", ": 43", "scope x-customer-id: \"42\" -> \"43\""),
        ("Idempotency-Key: 7f3a\n", "", "key idempotency-key: kind: "),
    ] {
        let second = FIRST.replace(from, to).replace("\"sent_at\"", "\"no\": 7, \"sent_at\"");
        let (code, text) = compared(FIRST, &second, &[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(said(&text, "the second is")[0].starts_with("a new operation, by its "), "{text}");
        assert!(said(&text, "other operation")[0].starts_with(place), "{place}\n{text}");
    }
}

/// The same with another guard.
fn compared_with(lines: &str, first: &str, second: &str) -> (Option<i32>, String) {
    compared_in(FILE, lines, first, second)
}

/// The same in another file.
fn compared_in(file: &str, lines: &str, first: &str, second: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let guard = "      key: [{ header: Idempotency-Key }, { json: /no }]\n";
    let text = file.replace(guard, &format!("      key: [{{ header: Idempotency-Key }}]\n{lines}"));
    let text = text.replace("compare: true,", if lines.contains("also") { "" } else { "client: { mode: trust }," });
    for (name, text) in [("c.yaml", text.as_str()), ("a.http", first), ("b.http", second)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.current_dir(directory.path()).args(["explain", "--config", "c.yaml", "--diff", "a.http", "b.http"]);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_second_key_makes_a_duplicate_under_a_fresh_first_one() {
    let numbered = FIRST.replace("\"sent_at\"", "\"no\": 7, \"sent_at\"");
    let fresh = numbered.replace("7f3a", "7f3b");
    let also = "      also: { key: [{ json: /no }] }\n";
    let (code, text) = compared_with(also, &numbered, &fresh);
    assert_eq!(code, Some(0), "{text}");
    assert!(said(&text, "the second is")[0].starts_with("a duplicate by the second key (JSON pointer /no)"), "{text}");
    let (code, text) = compared_with(also, &numbered, &fresh.replace("\"no\": 7", "\"no\": 8"));
    assert!(code == Some(1) && said(&text, "the second is")[0].starts_with("a new operation"), "{text}");
}

/// Routes that share their keys may read a request in unlike ways: then only equal bytes are known to be equal.
#[test]
fn routes_with_unlike_settings_are_not_taken_for_alike() {
    let second = "  - name: create-order-again
    match: { methods: [POST], path: /v2/orders }
    upstream: orders
    idempotency:
      namespace: create-order
      key: [{ header: Idempotency-Key }]
      also: { namespace: numbers, key: [{ json: /no }], fingerprint: { compare: true } }
      scope: { trusted_header: X-Customer-Id }
  - name: everything-else
";
    let also = "      also: { namespace: numbers, key: [{ json: /no }], fingerprint: { compare: true } }\n";
    let said_with = |from: &str, to: &str| {
        let first = FIRST.replace("\"sent_at\"", "\"no\": 7, \"sent_at\"");
        let text = FILE.replace("  - name: everything-else\n", second);
        let later = first.replace("/orders", "/v2/orders").replace(from, to);
        let (code, text) = compared_in(&text, also, &first, &later);
        assert_eq!(code, Some(1), "{text}");
        said(&text, "the second is").remove(0)
    };
    assert!(said_with("7f3a", "7f3a").starts_with("no retry for sure: the routes' fingerprint settings differ"));
    let by_number = said_with("7f3a", "7f3b");
    assert!(by_number.starts_with("refused with 409, since the routes' fingerprint settings differ"), "{by_number}");
}

#[test]
fn a_fingerprint_that_is_taken_on_the_clients_word_is_all_that_counts() {
    let with = |digit: &str| {
        let fields = format!("X-Request-Fingerprint: {}\nX-Request-Timestamp: 1\nContent-Type", digit.repeat(64));
        FIRST.replace("Content-Type", &fields)
    };
    let (code, text) = compared_with("", &with("a"), &with("a").replace("\"qty\": 2", "\"qty\": 3"));
    assert_eq!((code, said(&text, "differs")), (Some(0), vec!["nothing".to_owned()]), "{text}");
    let (code, text) = compared_with("", &with("a"), &with("b"));
    assert_eq!((code, said(&text, "differs")), (Some(0), vec!["nothing".to_owned()]), "{text}");
    let (code, text) = compared_with("", &with("a"), &with("b").replace("\"qty\": 2", "\"qty\": 3"));
    assert_eq!(code, Some(1), "{text}");
    assert!(said(&text, "differs")[0].starts_with("the client's own: hex aaaa"), "{text}");
}

#[test]
fn what_comes_to_no_guard_is_not_compared() {
    for second in [FIRST.replace("POST /orders", "POST /other"), FIRST.replace(": 42", ":")] {
        let (code, text) = compared(FIRST, &second, &[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(said(&text, "the second is")[0].starts_with("not compared"), "{text}");
    }
    let (code, text) = compared(FIRST, "no request at all, this\n", &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("b.http"), "{text}");
    let (code, text) = compared(FIRST, FIRST, &["--json"]);
    let page: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, page["same_operation"].as_str()), (Some(0), Some("yes")));
}
