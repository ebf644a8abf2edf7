//! From whole requests to what they name.

use http::{HeaderValue, header::AUTHORIZATION};

mod parts;
mod raw;

use super::*;
use crate::machine::{Prints, Salt};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// One for all requests here, so that their raw prints compare.
const SALT: Salt = Salt(*b"saltsalt");
const CUSTOMER: HeaderName = HeaderName::from_static("x-customer-id");

fn settings(sources: Vec<Source>) -> Settings {
    Settings {
        namespace: "orders".to_owned(),
        sources,
        dated: false,
        missing: Missing::Reject,
        scope: Scope::None,
        require_same: Vec::new(),
        fingerprint: FingerprintSettings::default(),
        probe: None,
        also: None,
    }
}

pub(super) fn by_header() -> Settings {
    settings(vec![Source::Header(KEY)])
}

fn by_json(pointer: &str) -> Source {
    Source::Json(pointer.to_owned())
}

pub(super) fn request(fields: &[(&str, &str)], body: &str) -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: None,
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

/// Names one request alone. What its head has shown may make no difference.
pub(super) fn identify(settings: &Settings, request: Request) -> Result<Named<'static>, Refusal> {
    // What is named borrows both, and is to be handed back.
    let naming: &Naming = Box::leak(Box::new(Naming::new(settings.clone())));
    let request: &Request = Box::leak(Box::new(request));
    let kinds = Kinds::of(&request.headers);
    let named = naming.identify(request, SALT);
    if let Ok(head) = naming.check_head(&request.headers, kinds, request.query.as_deref(), &request.caller) {
        let after = naming.identify_after(head, request, SALT);
        assert_eq!(format!("{after:?}"), format!("{named:?}"));
        if let (Ok(Named::Operation(after)), Ok(Named::Operation(named))) = (after, &named) {
            assert_eq!(after.prints().raw, named.prints().raw);
        }
    }
    named
}

/// Looks at one head alone.
pub(super) fn check_head(settings: &Settings, request: &Request) -> Result<(), Refusal> {
    let kinds = Kinds::of(&request.headers);
    let naming = Naming::new(settings.clone());
    naming.check_head(&request.headers, kinds, request.query.as_deref(), &request.caller).map(drop)
}

fn arrival(settings: &Settings, request: Request) -> Result<Arrival<'static>, Refusal> {
    match identify(settings, request)? {
        Named::Operation(arrival) => Ok(arrival),
        Named::Unkeyed => Err(Refusal::KeyMissing("passed".to_owned())),
    }
}

fn operation_of(settings: &Settings, fields: &[(&str, &str)], body: &str) -> OperationId {
    arrival(settings, request(fields, body)).unwrap().operation
}

fn prints(settings: &Settings, mut request: Request) -> Prints {
    request.headers.insert(KEY, HeaderValue::from_static("k"));
    arrival(settings, request).unwrap().prints()
}

fn is_invalid<T: std::fmt::Debug>(result: &Result<T, Refusal>) -> bool {
    matches!(result, Err(Refusal::KeyInvalid(_)))
}

fn is_missing<T: std::fmt::Debug>(result: &Result<T, Refusal>) -> bool {
    matches!(result, Err(Refusal::KeyMissing(_)))
}

/// What the head shows must agree with what the whole request shows.
fn both(settings: &Settings, request: Request) -> Result<(), Refusal> {
    let head = check_head(settings, &request);
    let whole = identify(settings, request).map(|_| ());
    assert_eq!(head, whole);
    whole
}

#[test]
fn a_bad_key_header_is_refused_from_the_head_even_where_missing_passes() {
    let settings = Settings { missing: Missing::Pass, ..by_header() };
    let long = "k".repeat(256);
    for bad in ["", " ", &long, "k\u{e9}y", "a b", "\"a", "a,b"] {
        assert!(is_invalid(&both(&settings, request(&[("idempotency-key", bad)], ""))), "{bad}");
    }
    let twice = request(&[("idempotency-key", "a"), ("idempotency-key", "a")], "");
    assert!(is_invalid(&both(&settings, twice)));
    let twin = request(&[("idempotency-key", "a"), ("idempotency_key", "b")], "");
    assert!(is_invalid(&both(&settings, twin)));
    let lone_twin = request(&[("idempotency_key", "b")], "");
    assert!(is_invalid(&both(&settings, lone_twin)));
    let hop = request(&[("idempotency-key", "a"), ("connection", "close, Idempotency-Key")], "");
    assert!(is_invalid(&both(&settings, hop)));
}

#[test]
fn what_connection_names_is_no_base_for_an_identity() {
    let fingerprint = FingerprintSettings { headers: vec![CUSTOMER], ..FingerprintSettings::default() };
    let settings = Settings { fingerprint, require_same: vec![AUTHORIZATION], ..by_header() };
    for named in ["Content-Type", "content-encoding", "X-CUSTOMER-ID", "close, authorization"] {
        let request = request(&[("idempotency-key", "a"), ("connection", named)], "");
        let head = check_head(&settings, &request);
        assert!(matches!(head, Err(Refusal::Unreliable(_))), "{named}");
        assert!(matches!(identify(&settings, request), Err(Refusal::Unreliable(_))), "{named}");
    }
    assert!(identify(&settings, request(&[("idempotency-key", "a"), ("connection", "x-a")], "")).is_ok());
}

#[test]
fn a_scope_header_cannot_be_taken_away_from_the_upstream() {
    let settings = Settings { scope: Scope::TrustedHeader(CUSTOMER), ..by_header() };
    let fields = [("idempotency-key", "a"), ("x-customer-id", "7")];
    assert_eq!(both(&settings, request(&fields, "")), Ok(()));
    for extra in [("connection", "X-Customer-Id"), ("x_customer_id", "8"), ("x-customer_id", "8")] {
        assert!(is_invalid(&both(&settings, request(&[&fields[..], &[extra]].concat(), ""))), "{extra:?}");
    }
}

#[test]
fn without_a_key_a_request_is_refused_or_passes() {
    assert!(is_missing(&both(&by_header(), request(&[], ""))));
    let pass = Settings { missing: Missing::Pass, ..by_header() };
    assert!(matches!(identify(&pass, request(&[], "")), Ok(Named::Unkeyed)));
    assert_eq!(both(&pass, request(&[], "")), Ok(()));
}

#[test]
fn the_head_waits_for_the_body_only_where_the_body_can_help() {
    let either = settings(vec![Source::Header(KEY), by_json("/no")]);
    assert_eq!(check_head(&either, &request(&[], "")), Ok(()));
    assert!(is_missing(&identify(&either, request(&[], "{}")).map(|_| ())));
    let needs_both = settings(vec![Source::All(vec![by_json("/no"), Source::Header(KEY)])]);
    assert!(is_missing(&check_head(&needs_both, &request(&[], ""))));
}

#[test]
fn a_missing_scope_is_refused_from_the_head() {
    let settings = Settings { scope: Scope::Header(CUSTOMER), ..by_header() };
    for fields in [&[("idempotency-key", "a")][..], &[("idempotency-key", "a"), ("x-customer-id", "")]] {
        assert!(matches!(both(&settings, request(fields, "")), Err(Refusal::ScopeMissing(_))));
    }
}

#[test]
fn the_first_source_that_is_present_is_the_key() {
    let settings = settings(vec![Source::Header(KEY), by_json("/no")]);
    let body = r#"{"no":"b"}"#;
    let by_first = operation_of(&settings, &[("idempotency-key", "a")], body);
    assert_eq!(by_first, operation_of(&settings, &[("idempotency-key", "\"a\"")], "no json"));
    assert_ne!(by_first, operation_of(&settings, &[], body));
    assert_ne!(operation_of(&settings, &[("idempotency-key", "b")], body), operation_of(&settings, &[], body));
}

#[test]
fn a_json_key_is_a_text_or_a_number() {
    let settings = settings(vec![by_json("/order/no")]);
    let keyed = |value: &str| operation_of(&settings, &[], &format!(r#"{{"order":{{"no":{value}}}}}"#));
    assert_eq!(keyed("1"), keyed("1.0"));
    assert_eq!(keyed("\"a\""), keyed(r#""\u0061""#));
    assert_ne!(keyed("1"), keyed("\"1\""));
    assert_ne!(keyed("9007199254740992"), keyed("9007199254740993"));
    assert_ne!(keyed("\"1.0\""), keyed("\"1\""));
    for (body, invalid) in [
        (r#"{"order":{"no":null}}"#, false),
        (r#"{"order":{}}"#, false),
        (r#"{"order":"no"}"#, false),
        ("", false),
        (r#"{"order":{"no":"1"}"#, false),
        (r#"{"order":{"no":{}}}"#, true),
        (r#"{"order":{"no":["1"]}}"#, true),
        (r#"{"order":{"no":true}}"#, true),
        (r#"{"order":{"no":""}}"#, false),
        (r#"{"order":{"no":"\u3000 "}}"#, false),
        (r#"{"order":{"no":"1","no":"2"}}"#, true),
        (r#"{"order":{"no":"1"},"order":{}}"#, true),
    ] {
        let found = arrival(&settings, request(&[], body));
        assert!(if invalid { is_invalid(&found) } else { is_missing(&found) }, "{body} {found:?}");
    }
    assert!(is_missing(&arrival(&settings, request(&[("content-encoding", "gzip")], r#"{"order":{"no":1}}"#))));
}

#[test]
fn a_query_key_is_the_decoded_value_of_one_parameter() {
    let settings = settings(vec![Source::Query("requestId".to_owned())]);
    let keyed = |query: &str| arrival(&settings, Request { query: Some(query.to_owned()), ..request(&[], "") });
    assert_eq!(keyed("requestId=a%31").unwrap().operation, keyed("x=1&request%49d=a1").unwrap().operation);
    assert_ne!(keyed("requestId=1%2B2").unwrap().operation, keyed("requestId=1+2").unwrap().operation);
    let long = format!("requestId={}", "k".repeat(256));
    for bad in ["requestId=a&requestId=a", "requestId=%zz", "requestId=%ff", &long] {
        assert!(is_invalid(&keyed(bad)), "{bad}");
    }
    for absent in ["requestid=a", "requestId=", "requestId", "requestId=+%C2%A0"] {
        assert!(is_missing(&keyed(absent)), "{absent}");
    }
}

#[test]
fn a_form_key_needs_a_form() {
    let settings = settings(vec![Source::Form("order_no".to_owned())]);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(operation_of(&settings, &form, "a=1&order_no=7"), operation_of(&settings, &form, "order%5Fno=%37"));
    assert!(is_missing(&arrival(&settings, request(&[("content-type", "text/plain")], "order_no=7"))));
    assert!(is_invalid(&arrival(&settings, request(&form, "order_no=7&order_no=7"))));
}

#[test]
fn a_fingerprint_key_is_the_canonical_request() {
    let settings = settings(vec![Source::Fingerprint]);
    let json = [("content-type", "application/json")];
    assert_eq!(
        operation_of(&settings, &json, r#"{"a":1,"b":2}"#),
        operation_of(&settings, &json, r#"{"b":2.0,"a":1}"#)
    );
    assert_ne!(operation_of(&settings, &json, r#"{"a":1}"#), operation_of(&settings, &json, r#"{"a":2}"#));
}

#[test]
fn namespace_scope_and_kind_of_source_are_part_of_the_operation() {
    let fields = [("idempotency-key", "a"), ("x-customer-id", "a"), ("x-other", "a")];
    let scoped = |scope| Settings { scope, ..by_header() };
    let all = [
        by_header(),
        Settings { namespace: "other".to_owned(), ..by_header() },
        settings(vec![Source::Header(CUSTOMER)]),
        settings(vec![Source::All(vec![Source::Header(CUSTOMER), Source::Header(KEY)])]),
        scoped(Scope::Header(CUSTOMER)),
        scoped(Scope::TrustedHeader(CUSTOMER)),
        scoped(Scope::Header(HeaderName::from_static("x-other"))),
    ]
    .map(|settings| operation_of(&settings, &fields, ""));
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{at}");
    }
    assert_ne!(namespace_tag("orders"), namespace_tag("other"));
}

#[test]
fn credentials_are_asked_for_where_the_route_says_so() {
    let fields = [("idempotency-key", "a"), ("x-customer-id", "7"), ("authorization", "Bearer x")];
    let shown = |scope, require_same: &[HeaderName], fields: &[(&str, &str)]| {
        let settings = Settings { scope, require_same: require_same.to_vec(), ..by_header() };
        arrival(&settings, request(fields, "")).unwrap().credentials
    };
    let same = [AUTHORIZATION];
    let with = shown(Scope::None, &same, &fields);
    let without = shown(Scope::None, &same, &fields[..2]);
    let empty = shown(Scope::None, &same, &[fields[0], ("authorization", "")]);
    assert!(with.is_some() && without.is_some() && empty.is_some());
    assert!(with != without && without != empty && with != empty);
    assert_eq!(shown(Scope::None, &[], &fields), None);
    for scope in [Scope::Header(CUSTOMER), Scope::TrustedHeader(CUSTOMER)] {
        assert_eq!(shown(scope, &same, &fields), with);
    }
}

#[test]
fn duplicate_members_and_broken_json_compare_as_bytes() {
    let json = [("content-type", "application/json")];
    let of = |body: &str| prints(&by_header(), request(&json, body)).canonical;
    assert_eq!(of(r#"{"a":1, "b":2}"#), of(r#"{"b":2,"a":1}"#));
    for (one, other) in [(r#"{"a":1,"a":1}"#, r#"{"a":1, "a":1}"#), ("{", "{ "), (r#"["\ud800"]"#, r#"[ "\ud800"]"#)] {
        assert_eq!(of(one), of(one));
        assert_ne!(of(one), of(other));
    }
    let scanned = settings(vec![Source::Header(KEY), by_json("/a")]);
    assert_eq!(prints(&scanned, request(&json, r#"{"a":1}"#)).canonical, of(r#"{"a":1.0}"#));
}

#[test]
fn forms_of_bodies_never_meet() {
    let types = [
        &[("content-type", "application/json")][..],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
        &[("content-type", "application/json"), ("content-type", "application/json")],
        &[],
    ];
    let all = types.map(|fields| prints(&by_header(), request(fields, "1")));
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| other.canonical != one.canonical && other.raw != one.raw), "{at}");
    }
}

#[test]
fn settings_say_what_else_counts_and_what_does_not() {
    let fingerprint = FingerprintSettings {
        headers: vec![CUSTOMER],
        ignore_json: vec!["/sent_at".to_owned()],
        ignore_query: vec!["ts".to_owned()],
        ..FingerprintSettings::default()
    };
    let settings = Settings { fingerprint, ..by_header() };
    let of = |customer: &str, query: &str, body: &str| {
        let fields = [("content-type", "application/json"), ("x-customer-id", customer)];
        prints(&settings, Request { query: Some(query.to_owned()), ..request(&fields, body) })
    };
    let base = of("7", "a=1&ts=1", r#"{"n":1,"sent_at":1}"#);
    let later = of("7", "ts=2&a=1", r#"{"sent_at":2,"n":1}"#);
    assert!(later.canonical == base.canonical && later.raw != base.raw);
    assert_ne!(of("8", "a=1&ts=1", r#"{"n":1,"sent_at":1}"#).canonical, base.canonical);
    assert_ne!(of("8", "a=1&ts=1", r#"{"n":1,"sent_at":1}"#).raw, base.raw);
    assert_ne!(of("7", "a=2&ts=1", r#"{"n":1,"sent_at":1}"#).canonical, base.canonical);
    assert_ne!(base.settings, prints(&by_header(), request(&[], "")).settings);
}

#[test]
fn the_boundary_counts_only_where_the_parts_cannot_be_told() {
    let of = |boundary: &str, body: &str| {
        let value = format!("multipart/form-data; boundary={boundary}");
        prints(&by_header(), request(&[("content-type", &value)], body))
    };
    let body = |b: &str| format!("--{b}\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--{b}--\r\n");
    assert_eq!(of("x", &body("x")).canonical, of("y", &body("y")).canonical);
    let (one, other) = (of("x", "--x and --y"), of("y", "--x and --y"));
    assert!(one.canonical != other.canonical && one.raw != other.raw);
}

#[test]
fn an_explanation_shows_the_same_identity() {
    let settings = Settings {
        scope: Scope::All(vec![Scope::Header(CUSTOMER), Scope::Authorization]),
        ..settings(vec![Source::All(vec![Source::Header(KEY), by_json("/n")])])
    };
    let fields = [
        ("idempotency-key", "\"a\""),
        ("x-customer-id", "7"),
        ("authorization", "Bearer secret"),
        ("content-type", "application/json"),
    ];
    let shown = explain(&settings, &request(&fields, r#"{"n":1.50, "a":"\u0062"}"#)).unwrap();
    let arrival = arrival(&settings, request(&fields, r#"{"n":1.50, "a":"\u0062"}"#)).unwrap();
    assert_eq!(shown.operation, Some(arrival.operation));
    let prints = arrival.prints();
    assert_eq!((shown.canonical, shown.settings), (prints.canonical, prints.settings));
    let pieces = |pieces: &[Piece]| pieces.iter().map(|p| format!("{}={}", p.from, p.value)).collect::<Vec<_>>();
    assert_eq!(pieces(&shown.key), ["header idempotency-key=a", "JSON pointer /n=15e-1"]);
    assert_eq!(pieces(&shown.scope)[0], "header x-customer-id=7");
    assert!(!pieces(&shown.scope)[1].contains("secret"));
    assert_eq!((shown.body, shown.canonical_json.as_deref()), (BodyForm::Json, Some(r#"{"a":"b","n":15e-1}"#)));
}
