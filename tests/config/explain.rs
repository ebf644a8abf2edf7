//! `oncegate explain`: what it says of a request.

use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

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
      request_body_limit: 200B
  - name: everything-else
    match: { path: '/{*rest}', hosts: [localhost] }
    upstream: orders
operations: {}
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
fn what_the_gateway_answers_itself_comes_to_no_route() {
    let own = ["--url", "/_oncegate/operations/7f3a"];
    assert_eq!(told(&own, "answered").as_deref(), Some("by the gateway itself: `operations.path`"));
    assert_eq!(told(&own, "route"), None);
    let other = ["--url", "/_oncegate/operations"];
    assert_eq!((told(&other, "answered"), told(&other, "route").as_deref()), (None, Some("everything-else")));
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
        (keyed(&["--data", &"longer than 200 bytes ".repeat(10)]), "413", "body-too-large"),
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

/// A request in a file, as an editor keeps it.
fn of_file(text: &str, more: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    oncegate(&[&["--request", file.path().to_str().unwrap()], more].concat())
}

const ORDER: &str = "\
# what a shop sends
POST /orders?b=2&a=%31 HTTP/1.1
Host: api.example
X-Customer-Id: 42
Idempotency-Key: \"7f3a\"
Content-Type: application/json; charset=utf-8

{\"qty\": 2.0,\t\"at\": \"a\\b\"}
";

#[test]
fn every_byte_of_an_identity_is_shown() {
    let text = String::from_utf8(of_file(ORDER, &[]).stdout).unwrap();
    assert_eq!(text, include_str!("golden/order.txt"));
    assert_eq!(String::from_utf8(of_file(&ORDER.replace('\n', "\r\n"), &[]).stdout).unwrap(), text);
}

/// SHA-256 over what is shown, by the rule that the design states: lengths and counts as eight bytes, then the bytes.
fn digest(parts: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.as_array().unwrap() {
        let mut put = |text: &[u8]| bytes.extend([&(text.len() as u64).to_be_bytes(), text].concat());
        if let Some(text) = part["text"].as_str() {
            put(text.as_bytes());
        } else if let Some(digits) = part["hex"].as_str() {
            let own = unhex(digits);
            put(&own);
            assert!(part["parts"].is_null() || digest(&part["parts"]) == own, "{part}");
        } else {
            bytes.extend(part["count"].as_u64().unwrap().to_be_bytes());
        }
    }
    Sha256::digest(bytes).to_vec()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn whoever_hashes_what_is_shown_gets_the_digests() {
    let file = "--x\r\nContent-Disposition: form-data; name=a; filename=f\r\nContent-Type: text/plain\r\n\r\n\u{1}\r\n--x--\r\n";
    for (content_type, body) in [
        ("application/json", "{\"b\":[1.50,null]}"),
        ("application/x-www-form-urlencoded", "b=%00&a&a=1%2"),
        ("multipart/form-data; boundary=x", file),
        ("multipart/form-data; boundary=y", file),
        ("text/plain", ""),
    ] {
        let (content_type, body) = (format!("Content-Type: {content_type}"), format!("--data={body}"));
        let fields = ["-H", "X-Customer-Id: \u{e9}", "-H", &content_type, "-H", "Idempotency-Key: k"];
        let output = oncegate(&[&fields[..], &["--json", "--url", "/orders", &body]].concat());
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = |name: &str| unhex(page[name].as_str().unwrap());
        assert_eq!(digest(&page["operation_parts"]), told("operation"), "{page:#}");
        assert_eq!(digest(&page["raw_parts"])[..16], told("raw_fingerprint"), "{page:#}");
        assert_eq!(digest(&page["fingerprint_parts"])[..16], told("fingerprint"), "{page:#}");
    }
}

#[test]
fn long_values_are_cut_unless_all_is_asked_for() {
    let body = "0123456789".repeat(10);
    let cut = "100 bytes \"0123456789012345678901234567890123456789012345678901234567890123\"… SHA-256 ";
    let arguments = keyed(&["--url", "/orders", "--data", &body]);
    let body_of = |more: &[&str]| told(&[&arguments[..], more].concat(), "  body             ").unwrap();
    assert!(body_of(&[]).starts_with(cut), "{}", body_of(&[]));
    assert_eq!(body_of(&["--full"]), format!("100 bytes \"{body}\""));
}

#[test]
fn a_file_holds_a_request_as_editors_write_it_or_as_the_wire_has_it() {
    let told = |text: &str, name: &str| {
        let output = of_file(text, &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        told.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim_start().to_owned()
    };
    let expected = told(ORDER, "raw fingerprint");
    let body = ORDER.split_once("\n\n").unwrap().1.trim_end();
    let length = format!("Idempotency-Key: \"7f3a\"\nContent-Length: {}", body.len());
    for same in [
        ORDER.trim_end().to_owned(),
        format!("### one\n\n{ORDER}"),
        ORDER.replace(" HTTP/1.1", ""),
        ORDER
            .replace("/orders?b=2&a=%31 HTTP/1.1", "https://api.example/orders\n    ?b=2\n    &a=%31")
            .replace("Host: api.example\n", ""),
        ORDER.replace("Idempotency-Key: \"7f3a\"", &length),
    ] {
        assert_eq!(told(&same, "raw fingerprint"), expected, "{same}");
    }
    assert_eq!(told("http://localhost/orders", "route"), "everything-else");
    for (text, fault) in [
        ("", "holds no request"),
        ("# nothing\n\n", "holds no request"),
        ("POST /orders and more HTTP/1.1\n", "no request line"),
        ("P(ST /orders\n", "no method"),
        ("POST /orders\nno colon\n", "is not `Name: value`"),
        ("POST /orders\nContent-Length: 5\n\nfour", "its Content-Length says 5"),
        ("POST /orders\nContent-Length: 5\n\nfive and more", "more bytes"),
        ("POST /orders\nContent-Length: five\n\nfive", "no number"),
        ("POST /orders\n\none\n### two\nPOST /orders\n", "more than one request"),
        ("POST /orders\nTransfer-Encoding: chunked\n\n0\n\n", "Transfer-Encoding"),
    ] {
        let output = of_file(text, &[]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(fault), "{fault}: {output:?}");
    }
}
