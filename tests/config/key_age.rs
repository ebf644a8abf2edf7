//! `key_age`: what it makes of a guard, and which keys cannot say their age.

use std::time::Duration;

use super::{LEAST, config, errors, guard, loaded, with_guard};

#[test]
fn keys_say_nothing_of_their_age_unless_the_route_says_so() {
    let plain = loaded(LEAST).settings;
    assert_eq!((guard(&plain).keys.dated, guard(&plain).policy.clock_skew), (false, None));
    for (lines, skew) in [
        ("key_age: { from: uuid_v7 }", Duration::from_mins(5)),
        ("key_age: { from: uuid_v7, clock_skew: 30s }", Duration::from_secs(30)),
    ] {
        let dated = loaded(&with_guard(lines)).settings;
        assert_eq!((guard(&dated).keys.dated, guard(&dated).policy.clock_skew), (true, Some(skew)));
        let shown = config::show(&dated);
        assert_eq!(config::show(&loaded(&shown).settings), shown);
    }
}

#[test]
fn doubts_and_the_filter_outlive_such_keys() {
    let dated = loaded(&with_guard("retention: 100h\nkey_age: { from: uuid_v7, clock_skew: 30m }")).settings;
    let undated = loaded(&with_guard("retention: 100h")).settings;
    assert_eq!(guard(&dated).policy.doubt_retention, Duration::from_hours(101));
    assert_eq!(dated.filter.lifetime, undated.filter.lifetime + Duration::from_hours(2));
    let found = errors(&with_guard("retention: 100h\nkey_age: { from: uuid_v7 }\ndoubt_retention: 100h"));
    assert!(found.len() == 1 && found[0].contains("below `retention` and twice `key_age.clock_skew`"), "{found:?}");
}

#[test]
fn a_key_that_cannot_say_its_age_is_refused_with_its_place() {
    for source in ["fingerprint: {}", "all: [ { header: a }, { json: /b } ]"] {
        let text = LEAST.replace("{ header: Idempotency-Key }", &format!("{{ query: k }}, {{ {source} }}"));
        let found = errors(&format!("{text}      retention: 1h\n      key_age: {{ from: uuid_v7 }}\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("routes[0].idempotency.key[1]") && found[0].contains("`key_age` needs"), "{found:?}");
    }
    for (lines, word) in [
        ("key_age: {}", "uuid_v7"),
        ("key_age: { from: uuid_v4 }", "uuid_v7"),
        ("key_age: { from: uuid_v7, clock_skew: 2h }", "1h"),
    ] {
        assert!(errors(&with_guard(lines))[0].contains(word), "{lines}");
    }
}
