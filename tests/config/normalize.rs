//! `normalize` on key sources and fingerprints: what arrives, and what is refused with its place.

use oncegate::keys::{Source, Step, Steps};

use super::{LEAST, config, errors, guard, loaded, warnings};

fn keyed(source: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!("      {more}\n") };
    LEAST.replace("{ header: Idempotency-Key }", source) + &more
}

#[test]
fn steps_arrive_in_their_own_order_and_are_shown_so_that_they_load_again() {
    let all = "{ all: [ { header: X-User }, { json: /a, normalize: [trim, digits, nfkc] } ] }, { form: f, normalize: [trim] }";
    let more = "fingerprint: { compare: false, normalize: [ { json: /a, steps: [trim, nfc] }, { form: f, steps: [digits] }, { query: q, steps: [case_fold] } ] }";
    let settings = loaded(&keyed(all, more)).settings;
    let keys = &guard(&settings).keys;
    let typed = |source, steps: &[Step]| Source::Typed(Box::new(source), Steps::new(steps.iter().copied()));
    let by_json = typed(Source::Json("/a".to_owned()), &[Step::Nfkc, Step::Digits, Step::Trim]);
    let expected = vec![
        Source::All(vec![Source::Header("x-user".parse().unwrap()), by_json]),
        typed(Source::Form("f".to_owned()), &[Step::Trim]),
    ];
    assert_eq!(keys.sources, expected);
    assert_eq!(keys.fingerprint.typed.json, [("/a".to_owned(), Steps::new([Step::Nfc, Step::Trim]))]);
    assert_eq!((keys.fingerprint.typed.form.len(), keys.fingerprint.typed.query.len()), (1, 1));
    let shown = config::show(&settings);
    assert_eq!(loaded(&shown).settings.gateway, settings.gateway, "{shown}");
}

#[test]
fn mistakes_are_refused_with_place_and_remedy() {
    for (source, place, says) in [
        ("{ header: Idempotency-Key, normalize: [trim] }", "key[0].normalize", "made by programs"),
        ("{ json: /a, normalize: [] }", "key[0].normalize", "is empty: write at least one"),
        ("{ json: /a, normalize: [trim, trim] }", "key[0].normalize[1]", "there already"),
        ("{ json: /a, normalize: [nfc, nfkc] }", "key[0].normalize[0]", "remove one of them"),
        ("{ json: /a, normalize: [fold] }", "key[0].normalize[0]", "`case_fold`"),
        ("{ all: [ { json: /a } ], normalize: [trim] }", "key[0].normalize", "does not belong to `all`"),
        ("{ normalize: [trim] }", "key[0]", "write one of `header`"),
        ("{ json: /a, normalise: [trim] }", "key[0].normalise", "did you mean `normalize`?"),
        ("{ json: /a, form: b, normalize: [trim] }", "key[0].form", "only one of"),
    ] {
        let found = errors(&keyed(source, ""));
        assert!(found.len() == 1 && found[0].contains(&format!("idempotency.{place} ")), "{source}: {found:?}");
        assert!(found[0].contains(says), "{found:?}");
    }
    for (list, place, says) in [
        ("[ { json: /a } ]", "normalize[0]", "`steps` is missing"),
        ("[ { json: a, steps: [trim] } ]", "normalize[0].json", "no JSON pointer"),
        ("[ { json: /a, steps: [trim] }, { json: /a, steps: [nfc] } ]", "normalize[1]", "there already"),
        ("[ { header: x, steps: [trim] } ]", "normalize[0].header", "not in this version yet"),
    ] {
        let found = errors(&keyed("{ json: /a }", &format!("fingerprint: {{ normalize: {list} }}")));
        assert!(found.len() == 1 && found[0].contains(&format!("fingerprint.{place} ")), "{list}: {found:?}");
        assert!(found[0].contains(says), "{found:?}");
    }
}

#[test]
fn a_key_that_is_normalized_alone_is_warned_of_where_requests_are_compared() {
    let typed = "{ json: /a, normalize: [trim] }";
    let warned = |more: &str| warnings(&keyed(typed, more)).iter().any(|warning| warning.contains("it is 422"));
    assert!(warned("fingerprint: { compare: true }"));
    assert!(!warned("fingerprint: { compare: true, normalize: [ { json: /a, steps: [trim] } ] }"));
    assert!(!warned(""), "business keys are not compared by default");
}
