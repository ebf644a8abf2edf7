//! Parts of keys that are not there, are none, are typed, or are cut elsewhere: what each is, and what a refusal says of it.

use super::*;

const STEPS: [Step; 5] = [Step::Trim, Step::CollapseSpaces, Step::CaseFold, Step::Nfkc, Step::Digits];

fn typed(source: Source) -> Source {
    Source::Typed(Box::new(source), Steps::new(STEPS))
}

fn by_two() -> Settings {
    settings(vec![Source::All(vec![Source::Header(CUSTOMER), by_json("/sku")])])
}

fn found(settings: &Settings, sku: &str) -> Result<Arrival<'static>, Refusal> {
    let fields = [("x-customer-id", "7"), ("content-type", "application/json")];
    arrival(settings, request(&fields, &format!(r#"{{"sku":{sku}}}"#)))
}

#[test]
fn a_refusal_names_the_parts_that_are_not_there() {
    for sku in ["null", "\"\"", "\" \\t\"", "\"\\u00a0\""] {
        let Err(Refusal::KeyMissing(detail)) = found(&by_two(), sku) else { panic!("{sku}") };
        assert!(detail.ends_with("null or blank: JSON pointer /sku."), "{detail}");
    }
    let Err(Refusal::KeyMissing(detail)) = arrival(&by_two(), request(&[], "{}")) else { panic!("a key") };
    assert!(detail.ends_with("null or blank: header x-customer-id, JSON pointer /sku."), "{detail}");
    let Err(Refusal::KeyMissing(detail)) = arrival(&settings(vec![by_json("/no")]), request(&[], "{}")) else {
        panic!("a key")
    };
    assert!(!detail.contains("blank"), "of one part there is no more to say: {detail}");
}

#[test]
fn a_refusal_says_what_the_body_is_not() {
    let told = |source: Source, fields: &[(&str, &str)], body: &str| match arrival(
        &settings(vec![Source::Header(KEY), source]),
        request(fields, body),
    ) {
        Err(Refusal::KeyMissing(detail)) => detail,
        other => panic!("{other:?}"),
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert!(told(by_json("/no"), &[form], "no=7").ends_with("JSON pointer /no. The body is no JSON."));
    assert!(told(by_json("/no"), &[], "{}").ends_with("JSON pointer /no."));
    assert!(told(by_json("/no"), &[("content-encoding", "gzip")], "{}").ends_with("The body is compressed."));
    let field = || Source::Form("no".to_owned());
    assert!(told(field(), &[], "no=7").contains("The body is no form, by its type"));
    assert!(told(field(), &[form], "other=7").ends_with("form field no."));
}

#[test]
fn parts_that_are_no_scalars_are_refused_even_where_keys_may_be_missing() {
    let lenient = Settings { missing: Missing::Pass, ..by_two() };
    for settings in [by_two(), lenient.clone()] {
        for sku in ["[]", "{}", "[\"a\"]", "{\"a\":1}"] {
            let Err(Refusal::KeyInvalid(detail)) = found(&settings, sku) else { panic!("{sku}") };
            assert_eq!(detail, "The key (JSON pointer /sku) is an array or an object.");
        }
    }
    for sku in ["null", "\" \""] {
        let fields = [("x-customer-id", "7"), ("content-type", "application/json")];
        let request = request(&fields, &format!(r#"{{"sku":{sku}}}"#));
        assert!(matches!(identify(&lenient, request), Ok(Named::Unkeyed)), "{sku}");
    }
}

#[test]
fn scalars_of_each_kind_are_keys_of_their_own() {
    let all = ["true", "false", "1", "0", "\"true\"", "\"1\"", "\"null\""];
    let ids: Vec<_> = all.iter().map(|sku| found(&by_two(), sku).unwrap().operation).collect();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(found(&by_two(), "1.0").unwrap().operation, ids[2]);
    for settings in [settings(vec![by_json("/sku")]), settings(vec![Source::All(vec![by_json("/sku")])])] {
        let Err(Refusal::KeyInvalid(detail)) = found(&settings, "true") else { panic!("a boolean alone is a key") };
        assert!(detail.contains("is a boolean"), "{detail}");
    }
}

#[test]
fn typed_values_are_one_key_in_every_kind_of_source() {
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let by_form = settings(vec![typed(Source::Form("to".to_owned()))]);
    let keyed = |body: &str| operation_of(&by_form, &form, body);
    assert_eq!(keyed("to=Rue+de+l%27E%CC%81t%C3%A9+%EF%BC%91"), keyed("to=++RUE%C2%A0de+l%27%C3%A9t%C3%A9++1"));
    assert_ne!(keyed("to=a+b"), keyed("to=ab"));
    let by_header = settings(vec![typed(Source::Header(CUSTOMER))]);
    let keyed = |value: &'static str| operation_of(&by_header, &[("x-customer-id", value)], "");
    assert_eq!(keyed("Ann  Lee"), keyed("ann lee"));
    let by_query = settings(vec![typed(Source::Query("to".to_owned()))]);
    let keyed = |query: &str| arrival(&by_query, Request { query: Some(query.to_owned()), ..request(&[], "") });
    assert_eq!(keyed("to=A%20B").unwrap().operation, keyed("to=a+b+").unwrap().operation);
    assert!(is_missing(&keyed("to=%E3%80%80")));
}

#[test]
fn a_key_that_is_typed_in_its_form_is_the_key_without_steps() {
    let plain = settings(vec![by_json("/sku")]);
    let by_typed = settings(vec![typed(by_json("/sku"))]);
    assert_eq!(found(&plain, "\"maple 1\"").unwrap().operation, found(&by_typed, "\" MAPLE １\"").unwrap().operation);
    assert_eq!(
        found(&plain, "1").unwrap().operation,
        found(&by_typed, "1.0").unwrap().operation,
        "steps are for texts"
    );
    assert_ne!(found(&by_typed, "1").unwrap().operation, found(&by_typed, "\"１\"").unwrap().operation);
}

#[test]
fn the_limit_is_for_the_form_and_what_is_sent_has_its_own() {
    let by_typed = settings(vec![typed(by_json("/sku"))]);
    let sku = |spaces: usize, letters: usize| format!("\"{}{}\"", " ".repeat(spaces), "x".repeat(letters));
    assert!(found(&by_typed, &sku(3_000, 255)).is_ok());
    assert!(is_invalid(&found(&by_typed, &sku(0, 256))));
    assert!(is_invalid(&found(&by_typed, &sku(4_000, 97))));
    // Eighteen letters come of one.
    assert!(is_invalid(&found(&by_typed, &format!("\"{}\"", "\u{fdfa}".repeat(15)))));
}

fn normalizing() -> Settings {
    let values = |name: &str| vec![(name.to_owned(), Steps::new(STEPS))];
    let typed = Typed { json: values("/to/street"), form: values("street"), query: values("q") };
    Settings { fingerprint: FingerprintSettings { typed, ..FingerprintSettings::default() }, ..by_header() }
}

#[test]
fn typed_values_are_compared_in_their_form() {
    let json = |body: &str| prints(&normalizing(), request(&[("content-type", "application/json")], body)).canonical;
    let base = json(r#"{"to":{"street":"Maple Street 1","zip":"A 1"},"n":1}"#);
    assert_eq!(base, json(r#"{"n":1,"to":{"zip":"A 1","street":"  maple \t STREET １"}}"#));
    for other in [
        r#"{"to":{"street":"Maple Street 2","zip":"A 1"},"n":1}"#,
        r#"{"to":{"street":"Maple Street 1","zip":"a 1"},"n":1}"#,
        r#"{"to":{"street":["Maple Street 1"],"zip":"A 1"},"n":1}"#,
        r#"{"to":{"street":"Maple \"Street\" 1","zip":"A 1"},"n":1}"#,
    ] {
        assert_ne!(base, json(other), "{other}");
    }
    assert_ne!(json(r#"{"to":{"street":["A"]}}"#), json(r#"{"to":{"street":["a"]}}"#), "only texts are typed");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let form = |body: &str| prints(&normalizing(), request(&form, body)).canonical;
    assert_eq!(form("street=Maple++Street&x=A"), form("x=A&street=+maple+street"));
    assert_ne!(form("street=a&x=A"), form("street=a&x=a"));
    assert_ne!(form("street=a"), form("street"));
    let query =
        |query: &str| prints(&normalizing(), Request { query: Some(query.to_owned()), ..request(&[], "") }).canonical;
    assert_eq!(query("q=A%C2%A0b"), query("q=a+B"));
    assert_ne!(query("q=%ff"), query("q=%fe"), "what is no text stays as it is");
}

#[test]
fn a_typed_value_that_is_a_key_too_is_read_as_it_was_sent() {
    let steps = normalizing().fingerprint;
    let both = Settings { sources: vec![by_json("/to/street")], fingerprint: steps, ..by_header() };
    let keyed = |street: &str| {
        operation_of(&both, &[("content-type", "application/json")], &format!(r#"{{"to":{{"street":"{street}"}}}}"#))
    };
    assert_ne!(keyed("Maple"), keyed("maple"));
}

#[test]
fn what_is_done_to_values_is_part_of_the_settings_that_prints_are_compared_under() {
    let word = |typed: Typed| {
        fingerprint::settings_word(&FingerprintSettings { typed, ..FingerprintSettings::default() }, false)
    };
    let list = |steps: &[Step]| vec![("/a".to_owned(), Steps::new(steps.iter().copied()))];
    let words = [
        word(Typed::default()),
        word(Typed { json: list(&[Step::Trim]), ..Typed::default() }),
        word(Typed { json: list(&[Step::Trim, Step::Nfc]), ..Typed::default() }),
        word(Typed { form: list(&[Step::Trim]), ..Typed::default() }),
        word(Typed { query: list(&[Step::Trim]), ..Typed::default() }),
    ];
    let distinct: std::collections::HashSet<_> = words.iter().collect();
    assert_eq!(distinct.len(), words.len());
    // Records of gateways that knew no steps stay comparable.
    assert_eq!(words[0], 0xb469_959f);
}

#[test]
fn explain_shows_both_spellings() {
    let by_typed = settings(vec![typed(by_json("/sku"))]);
    let shown = |sku: &str| {
        let request = request(&[("content-type", "application/json")], &format!(r#"{{"sku":"{sku}"}}"#));
        explain(&by_typed, &request).unwrap().key[0].value.clone()
    };
    assert_eq!(shown(" Maple  1"), "maple 1 (sent as \" Maple  1\")");
    assert_eq!(shown("maple 1"), "maple 1");
}

#[test]
fn a_key_of_several_parts_cannot_be_forged() {
    let settings = settings(vec![Source::All(vec![by_json("/user"), by_json("/sku")])]);
    let keyed = |user: &str, sku: &str| operation_of(&settings, &[], &format!(r#"{{"user":"{user}","sku":"{sku}"}}"#));
    assert_eq!(keyed("a", "b"), keyed("a", "b"));
    for (user, sku) in [("ab", "c"), ("a", "bc"), ("c", "ab"), ("a:b", "c"), ("a", "b:c"), ("a,b", "c"), ("a", "b,c")] {
        let other = settings_twin(&settings, user, sku);
        assert_ne!(keyed(user, sku), other, "{user} {sku}");
    }
    assert!(is_missing(&arrival(&settings, request(&[], r#"{"user":"a"}"#))));
}

/// The same characters cut at another place.
fn settings_twin(settings: &Settings, user: &str, sku: &str) -> OperationId {
    let all = format!("{user}{sku}");
    let (head, tail) = all.split_at(if user.len() == 1 { 2 } else { 1 });
    operation_of(settings, &[], &format!(r#"{{"user":"{head}","sku":"{tail}"}}"#))
}
