//! What a head may show, when it may begin an operation, and what its client's word is worth.

use bytes::Bytes;
use http::Method;

use super::*;
use crate::keys::tests::{check_head, identify};
use crate::keys::{Caller, FingerprintSettings, Missing, Named, Request, Scope, Settings, Source, explain};
use crate::machine::Arrival;
use std::time::Duration;

const PRINT: &str = "c501cc2769a5ff9bbec642bac3863373c2cd71683459637a34048cae0391645a";
const TIME: &str = "1732924800000";

fn prints(word: ClientWord) -> ClientPrints {
    ClientPrints {
        word,
        required: false,
        skew: Duration::from_secs(30),
        header: "x-request-fingerprint".parse().unwrap(),
        timestamp_header: "x-request-timestamp".parse().unwrap(),
    }
}

fn settings(client: Option<ClientPrints>) -> Settings {
    Settings {
        namespace: "orders".to_owned(),
        sources: vec![Source::Header("idempotency-key".parse().unwrap())],
        dated: false,
        missing: Missing::Pass,
        scope: Scope::None,
        require_same: Vec::new(),
        fingerprint: FingerprintSettings { client, ..FingerprintSettings::default() },
        probe: None,
        also: None,
    }
}

fn request(fields: &[(&str, &str)]) -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers.append("content-type", "application/json".parse().unwrap());
    headers.append("idempotency-key", "k".parse().unwrap());
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: Some("b=2&a=1".to_owned()),
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: Bytes::from_static(b"{\"total\": 12.50, \"items\": [1]}"),
    }
}

fn with(print: &str, time: &str) -> Request {
    request(&[("x-request-fingerprint", print), ("x-request-timestamp", time)])
}

fn arrival(settings: &Settings, request: Request) -> Result<Arrival<'static>, Refusal> {
    identify(settings, request).map(|named| match named {
        Named::Operation(arrival) => arrival,
        Named::Unkeyed => unreachable!("it has a key"),
    })
}

fn code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::FingerprintInvalid(_) => "fingerprint",
        Refusal::TimestampInvalid(_) => "timestamp",
        _ => "other",
    }
}

#[test]
fn the_example_of_the_documentation_is_taken_and_good_around_its_time() {
    let arrival = arrival(&settings(Some(prints(ClientWord::Verify))), with(PRINT, TIME)).unwrap();
    let stated = Time(1_732_924_800_000);
    let span = Validity {
        from: Time(stated.0 - 30_000),
        until: Time(stated.0 + 30_000),
        otherwise: Untimely::OffTime(stated),
    };
    assert_eq!(arrival.validities, [span]);
}

#[test]
fn what_is_malformed_is_refused_by_its_head_alone_whatever_the_clients_word_is_worth() {
    let long = "1".repeat(16);
    let huge = "9".repeat(40);
    for word in [ClientWord::Verify, ClientWord::Trust] {
        let settings = settings(Some(prints(word)));
        for (print, time, expected) in [
            (&PRINT[1..], TIME, "fingerprint"),
            (&PRINT.to_uppercase(), TIME, "fingerprint"),
            (&format!("{PRINT}0"), TIME, "fingerprint"),
            (&PRINT.replace('c', "g"), TIME, "fingerprint"),
            ("", TIME, "fingerprint"),
            (PRINT, "", "timestamp"),
            (PRINT, "-1", "timestamp"),
            (PRINT, "+1", "timestamp"),
            (PRINT, "1.5", "timestamp"),
            (PRINT, "01", "timestamp"),
            (PRINT, "0x1", "timestamp"),
            (PRINT, &long, "timestamp"),
            (PRINT, &huge, "timestamp"),
        ] {
            let request = with(print, time);
            let head = check_head(&settings, &request).unwrap_err();
            assert_eq!(code(&head), expected, "{print} {time}");
            assert_eq!(explain(&settings, &request).unwrap_err(), head);
            assert_eq!(arrival(&settings, request).unwrap_err(), head);
        }
        let bare = request(&[("x-request-fingerprint", PRINT)]);
        assert_eq!(code(&arrival(&settings, bare).unwrap_err()), "timestamp");
        for name in ["x-request-fingerprint", "x-request-timestamp"] {
            let value = if name.ends_with("print") { PRINT } else { TIME };
            let mut twice = with(PRINT, TIME);
            twice.headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
            assert_ne!(code(&arrival(&settings, twice).unwrap_err()), "other", "{name}");
        }
    }
}

#[test]
fn another_requests_fingerprint_is_refused_without_a_word_of_the_right_one() {
    let settings = settings(Some(prints(ClientWord::Verify)));
    let mut changed = with(PRINT, TIME);
    changed.body = Bytes::from_static(b"{\"total\": 12.51, \"items\": [1]}");
    let other = PRINT.replace('5', "6");
    let mut several = with(PRINT, TIME);
    several.headers.append("content-type", "application/json".parse().unwrap());
    for request in [with(PRINT, "1732924800001"), with(&other, TIME), changed, several] {
        let refusal = arrival(&settings, request.clone()).unwrap_err();
        assert_eq!(code(&refusal), "fingerprint");
        let piece = explain(&settings, &request).unwrap().client.unwrap();
        let Some(expected) = &piece.expected else { continue };
        assert!(!refusal.to_string().contains(expected));
        assert_eq!(piece.refusal, Some(refusal));
    }
}

#[test]
fn a_trusted_word_takes_the_place_of_the_gateways_own() {
    let (own, told) = (settings(None), settings(Some(prints(ClientWord::Trust))));
    let by = |settings: &Settings, request: Request| arrival(settings, request).unwrap().prints();
    let other = PRINT.replace('5', "6");
    let (none, one, two) = (by(&own, with(PRINT, TIME)), by(&told, with(PRINT, TIME)), by(&told, with(&other, TIME)));
    assert_eq!(one.canonical.to_string(), PRINT[..32]);
    assert_eq!(two.canonical.to_string(), other[..32]);
    assert_eq!((one.raw, one.settings), (two.raw, two.settings));
    assert_ne!(one.settings, none.settings, "digests of different makers are not compared");
    assert_eq!(by(&told, request(&[])), by(&own, request(&[])), "without one, the gateway makes its own");
    let verified = settings(Some(prints(ClientWord::Verify)));
    assert_eq!(by(&verified, with(PRINT, TIME)), none);
}

#[test]
fn what_is_not_asked_for_is_not_looked_at_and_what_is_needed_must_be_there() {
    assert!(arrival(&settings(None), with("x", "y")).unwrap().validities.is_empty());
    let lone = request(&[("x-request-timestamp", "y")]);
    assert!(arrival(&settings(Some(prints(ClientWord::Verify))), lone).unwrap().validities.is_empty());
    let needed = settings(Some(ClientPrints { required: true, ..prints(ClientWord::Verify) }));
    assert_eq!(code(&arrival(&needed, request(&[])).unwrap_err()), "fingerprint");
}

#[test]
fn values_that_a_route_ignores_count_in_a_fingerprint_all_the_same() {
    let mut settings = settings(Some(prints(ClientWord::Verify)));
    settings.fingerprint.ignore_json = vec!["/total".to_owned()];
    settings.fingerprint.ignore_query = vec!["a".to_owned()];
    assert!(arrival(&settings, with(PRINT, TIME)).is_ok());
}

#[test]
fn a_field_that_would_not_reach_the_upstream_is_refused() {
    let settings = settings(Some(prints(ClientWord::Verify)));
    for name in ["x-request-fingerprint", "X-Request-Timestamp"] {
        let mut request = with(PRINT, TIME);
        request.headers.append("connection", name.parse().unwrap());
        assert!(matches!(arrival(&settings, request), Err(Refusal::Unreliable(_))), "{name}");
    }
}
