//! `oncegate explain`: what it says of a request.

use std::process::{Command, Output};

const FILE: &str = "\
upstreams:
  orders: { servers: [\"http://127.0.0.1:9001\"] }
routes:
  - name: create-order
    match: { methods: [POST], path: /orders, hosts: [api.example, localhost] }
    upstream: orders
    idempotency:
      key: [{ header: Idempotency-Key }]
      scope: { trusted_header: X-Customer-Id }
      request_body_limit: 32B
  - name: everything-else
    match: { path: '/{*rest}', hosts: [localhost] }
    upstream: orders
";

fn oncegate(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, FILE).unwrap();
    std::fs::write(directory.path().join("body"), "{\"a\": 1.0}").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.current_dir(directory.path()).args(["explain", "--config"]).arg(&path).args(arguments).output().unwrap()
}

/// What is said of a request, without what its lines are called by.
fn told(arguments: &[&str], name: &str) -> Option<String> {
    let output = oncegate(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim_start().to_owned())
}

const CALLER: [&str; 4] = ["-H", "X-Customer-Id: 42", "-H", "Content-Type: application/json"];

fn keyed<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&CALLER[..], &["-H", "Idempotency-Key: \"7f3a\""], more].concat()
}

#[test]
fn route_key_scope_and_fingerprint_are_shown() {
    let arguments = keyed(&["--url", "http://API.example:8080//orders/?x=1", "--data", "{\"b\":1.0, \"a\":[2]}"]);
    for (name, value) in [
        ("route", "create-order"),
        ("upstream", "orders"),
        ("key", "header idempotency-key = 7f3a"),
        ("scope", "trusted header x-customer-id = 42"),
        ("canonical JSON", "{\"a\":[2],\"b\":1}"),
        ("refused", ""),
    ] {
        assert_eq!(told(&arguments, name).unwrap_or_default(), value, "{name}");
    }
    assert_eq!(told(&arguments, "operation").map(|digits| digits.len()), Some(64));
}

#[test]
fn equal_requests_have_one_fingerprint_and_changed_ones_another() {
    let of = |body: &str, name: &str| told(&keyed(&["--url", "/orders", "--data", body]), name).unwrap();
    assert_eq!(of("{\"a\":1}", "fingerprint"), of("{ \"a\": 1.0 }", "fingerprint"));
    assert_ne!(of("{\"a\":1}", "raw fingerprint"), of("{ \"a\": 1.0 }", "raw fingerprint"));
    assert_ne!(of("{\"a\":1}", "fingerprint"), of("{\"a\":2}", "fingerprint"));
    assert_eq!(of("{\"a\":1}", "operation"), of("{\"a\":2}", "operation"));
    let from_file = told(&keyed(&["--url", "/orders", "--data-file", "body"]), "fingerprint").unwrap();
    assert_eq!(from_file, of("{\"a\":1}", "fingerprint"));
}

#[test]
fn a_refusal_is_shown_as_the_client_would_get_it() {
    for (arguments, status, code) in [
        (CALLER[..2].to_vec(), "400", "key-missing"),
        (keyed(&[])[4..].to_vec(), "400", "scope-missing"),
        (keyed(&["-H", "Idempotency-Key: other"]), "400", "key-invalid"),
        (keyed(&["--data", "{\"text\": \"longer than 32 bytes\"}  "]), "413", "body-too-large"),
        (keyed(&["-H", "Host: other.example"]), "404", "no-route"),
        (keyed(&["-H", "X-HTTP-Method-Override: PUT"]), "400", "bad-request"),
        (keyed(&["-H", "Connection: Authorization"]), "400", "bad-request"),
    ] {
        let arguments = [&["--method", "POST", "--url", "/orders"], &arguments[..]].concat();
        assert!(told(&arguments, "refused").is_some_and(|it| it.starts_with(status)), "{arguments:?}");
        let answer: serde_json::Value = serde_json::from_str(&told(&arguments, "answer").unwrap()).unwrap();
        assert_eq!(answer["code"], code);
    }
    assert!(told(&["--url", "/a%00"], "answer").is_some_and(|it| it.contains("bad-request")));
    assert!(told(&["--url", "/a", "--method", "TRACE"], "answer").is_some_and(|it| it.contains("method-refused")));
}

#[test]
fn a_plain_route_has_no_guard() {
    assert_eq!(told(&["--url", "/orders"], "route").as_deref(), Some("everything-else"));
    assert!(told(&["--url", "/orders"], "guard").is_some_and(|it| it.starts_with("none")));
    let asked = ["-H", "Origin: https://a.example", "-H", "Access-Control-Request-Method: POST"];
    let preflight = [&["--method", "OPTIONS", "--url", "/orders"], &asked[..]].concat();
    assert!(told(&preflight, "guard").is_some_and(|it| it.contains("preflight")));
}

#[test]
fn what_is_no_request_is_a_fault_of_the_command_line() {
    for arguments in [
        &["--url", "orders"][..],
        &["--url", "/orders", "-H", "no colon"],
        &["--url", "/orders", "-H", "a b: c"],
        &["--url", "/orders", "--data-file", "missing"],
    ] {
        let output = oncegate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{output:?}");
    }
    for arguments in [&["--url", "/a b"][..], &[], &["--url", "/", "--data", "a", "--data-file", "b"]] {
        assert_eq!(oncegate(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn what_would_be_asked_about_a_doubt_is_shown_or_why_nothing() {
    let asking = FILE.replace(
        "      request_body_limit",
        "      in_doubt: probe\n      probe: { get: \"/orders?no={json:/no}&of={scope}\" }\n      request_body_limit",
    );
    let told = |body: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &asking).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["explain", "--config"]).arg(file.path());
        let output = command.args(keyed(&["--url", "/orders", "--data", body])).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| line.strip_prefix("probe")).unwrap().trim_start().to_owned()
    };
    assert_eq!(told("{\"no\":\"a 1\"}"), "GET /orders?no=a%201&of=42");
    assert_eq!(told("{}"), "none, so a doubt is held: {json:/no} is not there");
    assert_eq!(told("{\"no\":1.5}"), "none, so a doubt is held: {json:/no} is no whole number that can be written out");
}
