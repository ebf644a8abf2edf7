//! `safe_methods`: what becomes of GET and HEAD on a guarded route.

use std::time::Duration;

use oncegate::config;
use oncegate::gateway::{OnInFlight, SafeMethods, StoreFailure};
use oncegate::machine::InDoubt;

use super::{LEAST, guard, loaded, parse};

/// Reads that share one answer.
fn collapsing() -> String {
    let text = LEAST.replace("[POST]", "[GET, HEAD]").replace("header: Idempotency-Key", "fingerprint: {}");
    format!("{text}      safe_methods: collapse\n      retention: 2s\n")
}

#[test]
fn reads_share_an_answer_where_the_route_says_so_and_leave_nothing_behind() {
    let settings = loaded(&collapsing()).settings;
    let guard = guard(&settings);
    assert_eq!((guard.safe_methods, guard.in_flight), (SafeMethods::Collapse, OnInFlight::Wait));
    assert_eq!((guard.policy.in_doubt, guard.store_failure), (InDoubt::Retry, StoreFailure::Open));
    assert_eq!(guard.policy.doubt_retention, Duration::from_secs(2));
    let names = |settings: &config::Settings| {
        let guard = super::guard(settings);
        assert!(guard.keys.require_same.is_empty());
        guard.keys.fingerprint.headers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&settings), "authorization cookie accept accept-encoding accept-language origin");
    let own = collapsing() + "      fingerprint: { headers: [X-Currency] }\n      replay: { require_same: [] }\n";
    assert_eq!(names(&loaded(&own).settings), "x-currency accept accept-encoding accept-language origin");
}

#[test]
fn reads_are_guarded_only_where_the_route_says_how() {
    for (word, means) in
        [("pass", SafeMethods::Pass), ("guard", SafeMethods::Guard), ("collapse", SafeMethods::Collapse)]
    {
        let text = collapsing().replace("collapse", word);
        let loaded = loaded(&text);
        assert_eq!(guard(&loaded.settings).safe_methods, means);
        assert_eq!(loaded.warnings.len(), 0, "{:?}", loaded.warnings);
        assert!(config::show(&loaded.settings).contains(&format!("safe_methods: {word}")));
    }
    assert_eq!(guard(&loaded(LEAST).settings).safe_methods, SafeMethods::Pass);
    for (text, faults) in [
        (LEAST.replace("[POST]", "[POST, GET]"), &["GET changes nothing by definition"][..]),
        (collapsing().replace("[GET, HEAD]", "[GET, POST]"), &["is for reads alone"]),
        (collapsing().replace("methods: [GET, HEAD], ", ""), &["is for reads alone"]),
        (collapsing().replace("fingerprint: {}", "header: Idempotency-Key"), &["cannot be the key of reads"]),
        (collapsing().replace("2s", "2m"), &["at most 1m"]),
        (collapsing() + "      in_flight: reject\n      in_doubt: hold\n", &["has no meaning", "has no meaning"]),
        (collapsing() + "      doubt_retention: 1h\n", &["has no meaning"]),
    ] {
        let errors = parse(&text).unwrap_err();
        let messages: Vec<_> = errors.into_iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), faults.len(), "{messages:#?}");
        for (message, fault) in messages.iter().zip(faults) {
            assert!(message.contains(fault), "{message}");
        }
    }
}
