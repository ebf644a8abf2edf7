//! `fingerprint.client`: what it makes of a guard, and what its keys demand.

use std::time::Duration;

use oncegate::keys::{ClientPrints, ClientWord};

use super::{LEAST, config, errors, guard, loaded, with_guard};

const KEYED: &str = "{ header: X-Request-Fingerprint }";

fn client(text: &str) -> Option<ClientPrints> {
    guard(&loaded(text).settings).keys.fingerprint.client.clone()
}

fn keyed(key: &str, lines: &str) -> String {
    with_guard(lines).replace("{ header: Idempotency-Key }", key)
}

#[test]
fn fingerprints_are_ignored_unless_the_route_says_so() {
    let named = |word, required, skew, name: &str, time: &str| ClientPrints {
        word,
        required,
        skew,
        header: name.parse().unwrap(),
        timestamp_header: time.parse().unwrap(),
    };
    let usual = |word| named(word, false, Duration::from_secs(30), "x-request-fingerprint", "x-request-timestamp");
    for (lines, expected) in [
        ("mode: enforce", None),
        ("fingerprint: { client: { mode: ignore, required: true } }", None),
        ("fingerprint: { client: { mode: verify } }", Some(usual(ClientWord::Verify))),
        ("fingerprint: { client: { mode: trust } }", Some(usual(ClientWord::Trust))),
        (
            "fingerprint: { client: { mode: verify, required: true, skew: 1h, header: X-A, timestamp_header: X-B } }",
            Some(named(ClientWord::Verify, true, Duration::from_hours(1), "x-a", "x-b")),
        ),
    ] {
        let text = with_guard(lines);
        assert_eq!(client(&text), expected, "{lines}");
        let shown = config::show(&loaded(&text).settings);
        assert_eq!(config::show(&loaded(&shown).settings), shown);
    }
}

#[test]
fn a_key_that_is_a_fingerprint_is_required_and_outlives_its_time() {
    let verify = "fingerprint: { client: { mode: verify, required: true } }";
    let two = format!("{{ json: /a }}, {{ all: [ {KEYED}, {{ query: b }} ] }}");
    for key in [KEYED, two.as_str()] {
        let text = |lines: &str| keyed(key, lines);
        assert!(client(&text(verify)).is_some_and(|client| client.required));
        assert!(client(&text(&format!("{verify}\nretention: 1m"))).is_some());
        for (lines, says) in [
            (format!("{verify}\nretention: 59s"), "59s is below twice `fingerprint.client.skew` (1m)"),
            ("fingerprint: { client: { mode: trust } }".to_owned(), "write `required: true`"),
            ("fingerprint: { client: { mode: verify, required: false } }".to_owned(), "write `required: true`"),
            (format!("{verify}\noutcome_headers: trust"), "lets the upstream have an outcome forgotten"),
        ] {
            let found = errors(&text(&lines));
            assert!(found.len() == 1 && found[0].contains(says), "{lines}: {found:?}");
        }
    }
    // Beside another key its time binds nothing but the first attempt.
    assert!(client(&with_guard("retention: 1s\nfingerprint: { client: { mode: verify } }")).is_some());
}

#[test]
fn a_second_key_that_is_a_fingerprint_outlives_its_time_too() {
    let text = |also: &str, lines: &str| {
        let verify = "fingerprint: { client: { mode: verify, required: true } }";
        with_guard(&format!("{verify}\nalso: {{ key: [ {KEYED} ]{also} }}{lines}"))
    };
    assert!(client(&text("", "")).is_some());
    assert!(client(&text(", retention: 1m", "\nretention: 5s")).is_some());
    for (also, lines, path) in [(", retention: 59s", "", "also.retention"), ("", "\nretention: 59s", "retention")] {
        let found = errors(&text(also, lines));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("59s is below twice `fingerprint.client.skew` (1m)"), "{found:?}");
        assert!(found[0].contains(&format!("idempotency.{path} ")), "{found:?}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let place = "routes[0].idempotency.fingerprint.client";
    for (fields, field, says) in [
        ("mode: check", "mode", "`verify`"),
        ("mode: verify, skew: 0s", "skew", "1s"),
        ("mode: verify, skew: 2h", "skew", "1h"),
        ("mode: verify, header: Connection", "header", "belongs to the connection"),
        ("mode: verify, timestamp_header: Oncegate-Time", "timestamp_header", "to this gateway"),
        ("mode: verify, timestamp_header: x-request-fingerprint", "timestamp_header", "two fields"),
    ] {
        let found = errors(&with_guard(&format!("fingerprint: {{ client: {{ {fields} }} }}")));
        assert!(
            found.len() == 1 && found[0].contains(&format!("{place}.{field} ")) && found[0].contains(says),
            "{found:?}"
        );
    }
}

#[test]
fn a_clients_own_word_and_a_key_that_nobody_verifies_are_warned_of() {
    let warnings = |text: &str| super::warnings(text).join("\n");
    assert!(warnings(&with_guard("fingerprint: { client: { mode: trust } }")).contains("takes the client's word"));
    assert!(warnings(&LEAST.replace("{ header: Idempotency-Key }", KEYED)).contains("is taken as it comes"));
    let meant = keyed(KEYED, "fingerprint: { client: { mode: ignore } }");
    assert!(!warnings(&meant).contains("is taken as it comes"));
}
