//! Tests of templates: what they accept, what they make of a request, and what cannot get out of its place.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

use super::*;
use crate::keys::tests::identify;
use crate::keys::{Caller, FingerprintSettings, Missing, Named, Request, Settings};
use crate::machine::Probe;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CUSTOMER: HeaderName = HeaderName::from_static("x-customer-id");

fn known<'a>(sources: &'a [Source], scope: &'a Scope) -> Known<'a> {
    Known { sources, scope, segment: &|name| (name == "id").then_some(1) }
}

fn target(text: &str) -> Result<Template, TemplateError> {
    Template::target(text, &known(&[Source::Header(KEY)], &Scope::Header(CUSTOMER)))
}

fn field(text: &str) -> Template {
    Template::field(text, &known(&[Source::Header(KEY)], &Scope::Header(CUSTOMER))).unwrap()
}

fn settings(probe: ProbeTemplate) -> Settings {
    Settings {
        namespace: "orders".to_owned(),
        sources: vec![Source::Header(KEY)],
        dated: false,
        missing: Missing::Reject,
        scope: Scope::Header(CUSTOMER),
        require_same: Vec::new(),
        fingerprint: FingerprintSettings::default(),
        probe: Some(probe),
        also: None,
    }
}

fn of(text: &str) -> ProbeTemplate {
    ProbeTemplate { target: target(text).unwrap(), headers: Vec::new(), size_limit: 4096 }
}

fn request(path: &str, query: &str, fields: &[(&str, &[u8])], body: &str) -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    for (name, value) in [(KEY, "k-1"), (CUSTOMER, "42")] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: path::normalize(path).unwrap().into_owned(),
        query: Some(query.to_owned()),
        raw_path: path.to_owned(),
        headers,
        caller: Caller::default(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn probe(template: ProbeTemplate, request: Request) -> Option<Probe> {
    let Ok(Named::Operation(arrival)) = identify(&settings(template), request) else { panic!("no operation") };
    arrival.probe.map(|probe| *probe)
}

/// The target that is made of a request.
fn asked(template: &str, request: Request) -> Option<String> {
    probe(of(template), request).map(|probe| String::from_utf8(probe.target.to_vec()).unwrap())
}

fn by_body(body: &str) -> Request {
    request("/orders/7", "", &[("content-type", b"application/json")], body)
}

#[test]
fn each_placeholder_brings_its_value_in_its_place() {
    let fields: [(&str, &[u8]); 1] = [("content-type", b"application/json")];
    let from = || request("/orders/a%20b", "ts=1%2F2&x=", &fields, r#"{"order": {"no": "A/1 \u00e4"}, "n": 12e3}"#);
    for (template, expected) in [
        ("/orders", "/orders"),
        ("/orders/", "/orders/"),
        ("/orders?ref={key}", "/orders?ref=k-1"),
        ("/orders/{key}", "/orders/k-1"),
        ("/c/{scope}/x-{key}.json?a=1", "/c/42/x-k-1.json?a=1"),
        ("/o/{path:id}?p={path:id}", "/o/a%20b?p=a%20b"),
        ("/o?ts={query:ts}", "/o?ts=1%2F2"),
        ("/o?no={json:/order/no}&n={json:/n}", "/o?no=A%2F1%20%C3%A4&n=12000"),
        ("/o?c={header:X-Customer-Id}", "/o?c=42"),
        ("/o/a%20b?q=%7B", "/o/a%20b?q=%7B"),
    ] {
        assert_eq!(asked(template, from()).as_deref(), Some(expected), "{template}");
    }
    let operation = asked("/o?op={operation}", from()).unwrap();
    assert_eq!(operation.len(), "/o?op=".len() + 64);
    let form: [(&str, &[u8]); 1] = [("content-type", b"application/x-www-form-urlencoded")];
    let from = request("/orders/7", "", &form, "a=1&no=x+y%26");
    assert_eq!(asked("/o?no={form:no}", from).as_deref(), Some("/o?no=x%20y%26"));
}

#[test]
fn the_key_is_asked_for_as_it_was_meant() {
    let keyed = |key: &[u8]| request("/orders/7", "", &[("idempotency-key", key)], "");
    assert_eq!(asked("/o?k={key}", keyed(b"\"k 1\"")).as_deref(), Some("/o?k=k%201"));
    assert_eq!(asked("/o?k={header:Idempotency-Key}", keyed(b"\"k 1\"")).as_deref(), Some("/o?k=%22k%201%22"));
}

#[test]
fn fields_go_with_it_after_the_host() {
    let headers = vec![
        (http::header::AUTHORIZATION, field("{header:Authorization}")),
        (HeaderName::from_static("x-asked-for"), field("customer {scope}")),
    ];
    let template = ProbeTemplate { headers, ..of("/orders?ref={key}") };
    let from = |value: &[u8]| request("/orders/7", "", &[("authorization", value)], "");
    let fields: Vec<_> = probe(template.clone(), from(b"Bearer \xe4")).unwrap().headers;
    let shown: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"host", b"shop.example"), (b"authorization", b"Bearer \xe4"), (b"x-asked-for", b"customer 42")];
    assert_eq!(shown, expected);
    assert_eq!(probe(template, request("/orders/7", "", &[], "")), None, "nothing to pass on");
}

#[test]
fn no_value_leaves_its_place() {
    let ways = ["../admin", "..", ".", "a/b", "a\\b", "a?b", "a#b", "a;b", "%2e%2e", "a\r\nX: y", "a\u{0}b", "\u{7f}"];
    for value in ways {
        let body = serde_json::json!({ "no": value }).to_string();
        assert_eq!(asked("/orders/{json:/no}", by_body(&body)), None, "{value:?}");
        assert_eq!(asked("/orders/x{json:/no}/y", by_body(&body)).is_some(), [".", ".."].contains(&value), "{value:?}");
        let control = value.contains(char::is_control);
        match asked("/orders?no={json:/no}&z=1", by_body(&body)) {
            None => assert!(control, "{value:?}"),
            Some(target) => {
                let (path, query) = target.split_once('?').unwrap();
                let inside = query.strip_prefix("no=").and_then(|rest| rest.strip_suffix("&z=1")).unwrap();
                assert_eq!((path, control), ("/orders", false), "{value:?}");
                assert!(inside.bytes().all(|byte| path::is_unreserved(byte) || byte == b'%'), "{target}");
            }
        }
        let headers = vec![(HeaderName::from_static("x-no"), field("{json:/no}"))];
        let template = ProbeTemplate { headers, ..of("/orders") };
        assert_eq!(probe(template, by_body(&body)).is_none(), control, "{value:?}");
    }
    let within = |text: &str, value: &str| {
        let headers = vec![(HeaderName::from_static("x-no"), field(text))];
        let body = serde_json::json!({ "no": value }).to_string();
        probe(ProbeTemplate { headers, ..of("/orders") }, by_body(&body)).is_some()
    };
    for value in ["1, 2", "1;of=43", "1\"", "1\\", "1 of 43"] {
        assert!(within("{json:/no}", value) && !within("no={json:/no}, of={scope}", value), "{value:?}");
    }
    for value in [" 1", "1 "] {
        assert!(!within("{json:/no}", value), "{value:?}: another one by the time it is read");
    }
    let two = by_body(r#"{"a": "."}"#);
    assert_eq!(asked("/orders/{json:/a}{json:/a}", two), None, "two halves of a dot segment");
    assert_eq!(
        asked("/orders?a={json:/a}", by_body(r#"{"a": "1&admin=1+2"}"#)).unwrap(),
        "/orders?a=1%26admin%3D1%2B2"
    );
}

#[test]
fn what_could_be_read_in_two_ways_fills_in_nothing() {
    for body in [
        r"{}",
        r#"{"no": null}"#,
        r#"{"no": ""}"#,
        r#"{"no": {"a": 1}}"#,
        r#"{"no": true}"#,
        r#"{"no": 1.5}"#,
        r#"{"no": 1e60}"#,
        r#"{"no": "a", "no": "b"}"#,
        "no json",
    ] {
        assert_eq!(asked("/o?no={json:/no}", by_body(body)), None, "{body}");
    }
    for (body, number) in [("-120", "-120"), ("0", "0"), ("1.0", "1"), ("9007199254740993", "9007199254740993")] {
        let body = format!(r#"{{"no": {body}}}"#);
        assert_eq!(asked("/o?no={json:/no}", by_body(&body)), Some(format!("/o?no={number}")));
    }
    for query in ["", "no=", "no=1&no=1", "no=%zz", "no=%ff", "No=1"] {
        assert_eq!(asked("/o?no={query:no}", request("/orders/7", query, &[], "")), None, "{query}");
    }
    let header = |fields: &[(&str, &[u8])]| asked("/o?a={header:X-A}", request("/orders/7", "", fields, ""));
    assert_eq!(header(&[("x-a", b"1")]).as_deref(), Some("/o?a=1"));
    let fields: [&[(&str, &[u8])]; 5] = [
        &[],
        &[("x-a", b"")],
        &[("x-a", b"1"), ("x-a", b"1")],
        &[("x-a", b"1"), ("connection", b"X-A")],
        &[("x-a", b"1"), ("x_a", b"2")],
    ];
    for fields in fields {
        assert_eq!(header(fields), None, "{fields:?}");
    }
    for path in ["/orders", "/orders/7;x=1", "/orders/7%3Bx", "/orders/a%2Fb", "/a%5Cb/7"] {
        assert_eq!(asked("/o?id={path:id}", request(path, "", &[], "")), None, "{path}");
    }
    let encoded: [(&str, &[u8]); 2] = [("content-type", b"application/json"), ("content-encoding", b"gzip")];
    assert_eq!(asked("/o?no={json:/no}", request("/orders/7", "", &encoded, r#"{"no": 1}"#)), None);
}

#[test]
fn a_probe_that_would_take_too_much_is_none() {
    let exact = "/orders?ref=k-1".len() + "host".len() + "shop.example".len();
    let within = |size_limit| probe(ProbeTemplate { size_limit, ..of("/orders?ref={key}") }, by_body(""));
    assert!(within(exact).is_some());
    assert_eq!(within(exact - 1), None);
}

#[test]
fn what_is_no_template_is_refused() {
    use TemplateError as Error;
    type Kind = fn(String) -> TemplateError;
    let cases: [(&[&str], Kind); 4] = [
        (&["", "orders", "http://a/b", "/a b", "/a#b", "/\u{e4}", "/a\\b", "*"], Error::Target),
        (&["//a/b", "/a/../b", "/a/./b", "/a//{key}", "/%7Ea", "/%zz", "/a%2f..%2fb"], Error::Path),
        (&["/a{", "/a}", "/a{key", "/a{{key}}", "/{a{key}}"], Error::Brace),
        (&[], Error::Field),
    ];
    for (texts, kind) in cases {
        for text in texts {
            assert_eq!(target(text), Err(kind((*text).to_owned())), "{text}");
        }
    }
    for inside in ["", "KEY", "key ", "query", "query:", "query.name", "json:no", "header:a b", "cookie:sid", "path:"] {
        assert_eq!(target(&format!("/a?b={{{inside}}}")), Err(Error::Unknown(inside.to_owned())), "{inside}");
    }
    assert_eq!(target("/{path:no}"), Err(Error::Parameter("no".to_owned())));
    let none = known(&[], &Scope::None);
    for text in ["", " ", "a\r\nb", "\u{e4}", "a\tb"] {
        assert_eq!(Template::field(text, &none), Err(Error::Field(text.to_owned())));
    }
}

#[test]
fn key_and_scope_are_asked_for_only_where_they_are_one_value() {
    let one = Source::Json("/no".to_owned());
    let several = Source::All(vec![one.clone(), Source::Query("b".to_owned())]);
    let lone = Source::All(vec![one.clone()]);
    let header = Scope::Header(CUSTOMER);
    for (sources, good) in [
        (vec![one.clone(), lone], true),
        (vec![one.clone(), several], false),
        (vec![one.clone(), Source::Fingerprint], false),
    ] {
        assert_eq!(Template::target("/{key}", &known(&sources, &header)).is_ok(), good, "{sources:?}");
    }
    for (scope, good) in [
        (header.clone(), true),
        (Scope::Cookie("sid".to_owned()), true),
        (Scope::All(vec![header.clone(), Scope::Cookie("sid".to_owned())]), false),
        (Scope::Authorization, false),
        (Scope::None, false),
    ] {
        assert_eq!(Template::target("/{scope}", &known(std::slice::from_ref(&one), &scope)).is_ok(), good, "{scope:?}");
    }
}

#[test]
fn a_template_shows_whether_it_names_the_caller() {
    for (text, names) in [
        ("/o?ref={key}", false),
        ("/o?ref={json:/no}", false),
        ("/o?ref={key}&c={scope}", true),
        ("/o?ref={operation}", true),
        ("/o?c={header:x-customer-id}", true),
        ("/o?c={header:authorization}", true),
        ("/o?c={header:x-other}", false),
    ] {
        assert_eq!(of(text).names_the_caller(&Scope::Header(CUSTOMER)), names, "{text}");
    }
}
