//! `tokens`: what it makes of routes with token keys, what is said of secrets, and that none is ever shown.

use std::process::Command;
use std::time::Duration;

use http::HeaderMap;
use oncegate::clock::Clock;
use oncegate::keys::{self, Caller, Source, Tokens};
use oncegate::machine::Time;

use super::{LEAST, config, errors, guard, loaded};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// The least file whose route takes tokens, with this section; the guard is the last of it.
fn with(section: &str) -> String {
    let taking = LEAST.replace("header: Idempotency-Key", "token: {}");
    format!("tokens: {section}\n{taking}")
}

fn one(more: &str) -> String {
    with(&format!("{{ secrets: [ {SECRET} ]{more} }}"))
}

fn tokens(text: &str) -> Tokens {
    let settings = loaded(text).settings;
    let [Source::Token(tokens)] = &guard(&settings).keys.sources[..] else { panic!("no token key") };
    (**tokens).clone()
}

#[test]
fn a_route_takes_tokens_as_the_section_says() {
    let settings = loaded(&one("")).settings;
    assert_eq!(settings.gateway.tokens.as_deref(), Some("/idempotency-tokens"));
    assert!(guard(&settings).policy.compare, "the client got it for this request");
    let usual = tokens(&one(""));
    assert_eq!((usual.header.as_str(), usual.lifetime), ("idempotency-token", Duration::from_mins(30)));
    let own = tokens(&one(", path: /api/numbers, header: X-Number, lifetime: 5m"));
    assert_eq!((own.header.as_str(), own.lifetime), ("x-number", Duration::from_mins(5)));
    assert_eq!(loaded(LEAST).settings.gateway.tokens, None);
    for path in ["/", "a", "/a/", "/a%2Fb"] {
        let found = errors(&one(&format!(", path: {path}")));
        assert!(found.len() == 1 && found[0].contains("tokens.path"), "{found:?}");
    }
    assert!(errors(&one(", header: Connection"))[0].contains("tokens.header"));
    assert!(errors(&one(", lifetime: 8d"))[0].contains("between 1s and 7d"));
}

#[test]
fn secrets_come_from_texts_variables_and_files_and_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{OTHER}\n")).unwrap();
    let text = with(&format!("{{ secrets: [ \"${{TOKEN}}\", {{ file: '{}' }} ] }}", file.display()));
    let variable = |name: &str| (name == "TOKEN").then(|| SECRET.to_owned());
    let settings = config::parse("f.yaml", &text, &variable).unwrap().settings;
    let plain = with(&format!("{{ secrets: [ {SECRET}, {OTHER} ] }}"));
    assert_eq!(guard(&settings).keys, guard(&loaded(&plain).settings).keys);
    let shown = config::show(&settings) + &format!("{settings:?}");
    assert!(shown.contains("secrets: [\"***\", \"***\"]"), "{shown}");
    assert!(!shown.contains(SECRET) && !shown.contains(OTHER), "{shown}");
    // With its secrets put in again it says the same.
    let again = config::show(&settings).replace("[\"***\", \"***\"]", &format!("[{SECRET}, {OTHER}]"));
    assert_eq!(loaded(&again).settings.gateway, settings.gateway);
}

#[test]
fn a_secret_that_cannot_be_used_is_refused_without_being_told() {
    let short = &SECRET[..31];
    for (secrets, place, what) in [
        (short.to_owned(), "tokens.secrets[0]", "shorter than 32 bytes"),
        ("\"\"".to_owned(), "tokens.secrets[0]", ""),
        (format!("{SECRET}, {SECRET}"), "tokens.secrets[1]", "an earlier secret"),
        ("{ file: /nowhere/at/all }".to_owned(), "tokens.secrets[0].file", "cannot be read"),
        ("{ path: /a }".to_owned(), "tokens.secrets[0]", "file"),
        (String::new(), "tokens.secrets", "ONCEGATE_TOKEN_SECRET"),
        ([SECRET; 17].join(", "), "tokens.secrets", "16 may be here"),
    ] {
        let found = errors(&with(&format!("{{ secrets: [ {secrets} ] }}")));
        assert!(found[0].contains(place) && found[0].contains(what), "{found:?}");
        assert!(!found.concat().contains(short), "{found:?}");
    }
    assert!(errors(&with("{}"))[0].contains("openssl rand"));
}

#[test]
fn a_used_token_must_be_remembered_as_long_as_it_is_good() {
    let text = one("") + "      retention: 30m\n";
    let found = errors(&text);
    assert!(found.len() == 1 && found[0].contains("routes[0].idempotency.retention"), "{found:?}");
    assert!(found[0].contains("`tokens.lifetime`") && found[0].contains("1830s"), "{found:?}");
    loaded(&(one("") + "      retention: 1830s\n"));
    assert!(
        errors(&one(", lifetime: 1d"))[0].contains("too short for tokens"),
        "the default is not long enough either"
    );
}

#[test]
fn token_keys_and_the_section_go_together() {
    let alone = LEAST.replace("header: Idempotency-Key", "token: {}");
    let found = errors(&alone);
    assert!(found.len() == 1 && found[0].contains("idempotency.key[0]") && found[0].contains("`tokens`"), "{found:?}");
    let warned =
        |text: &str, what: &str| loaded(text).warnings.iter().any(|warning| warning.to_string().contains(what));
    assert!(warned(&format!("{LEAST}tokens: {{ secrets: [ {SECRET} ] }}\n"), "no route has token keys"));
    assert!(warned(&one("").replace("{ token: {} }", "{ token: {} }, { query: k }"), "need no token"));
    assert!(warned(&(one("") + "      missing: pass\n"), "only issued tokens pass"));
    assert!(!warned(&one(""), "token"));
    let inside = one("").replace("{ token: {} }", "{ all: [ { token: {} }, { query: k } ] }");
    assert!(errors(&inside)[0].contains("cannot stand inside of `all`"));
    let dated = one("") + "      key_age: { from: uuid_v7 }\n";
    assert!(errors(&dated)[0].contains("`key_age` needs"));
    let below = one(", path: /_oncegate/operations/tokens") + "operations: {}\n";
    assert!(errors(&below)[0].contains("below `operations.path`"));
}

/// A token of this text's route, for this customer, made at this time.
fn issued(text: &str, customer: &'static str, at: Time) -> String {
    let mut headers = HeaderMap::new();
    headers.insert("x-customer-id", customer.parse().unwrap());
    keys::issue(&guard(&loaded(text).settings).keys, &headers, &Caller::default(), at, [7; 16]).unwrap().0
}

#[test]
fn explain_shows_a_tokens_parts_and_why_it_is_refused_but_never_the_token() {
    let (now, text) = (Clock::wall(), one(""));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let explain = |text: &str, token: &str| {
        std::fs::write(&path, text).unwrap();
        let fields = [format!("Idempotency-Token: {token}"), "X-Customer-Id: 7".to_owned()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["explain", "--full", "--url", "/orders", "--data", "x", "-H", &fields[0], "-H", &fields[1]]);
        let output = command.arg("--config").arg(&path).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !told.contains(token) && !told.contains(SECRET), "{told}");
        told
    };
    let good = explain(&text, &issued(&text, "7", now));
    for part in ["number 07070707", "issued for this route and this caller", "operation", "token in idempotency-token"]
    {
        assert!(good.contains(part), "no `{part}` in\n{good}");
    }
    let old = explain(&text, &issued(&text, "7", Time(now.0 - 31 * 60_000)));
    assert!(old.contains("over, by this machine's clock"), "{old}");
    let renamed = text.replace("create-order", "pay");
    let rotated = text.replace(SECRET, OTHER);
    let shadow = text.clone() + "      mode: shadow\n";
    for (text, token, why) in [
        (&text, issued(&text, "8", now), "another namespace or another caller"),
        (&renamed, issued(&text, "7", now), "another namespace or another caller"),
        (&rotated, issued(&text, "7", now), "none of `tokens.secrets`"),
        (&shadow, issued(&text, "7", now), "another namespace or another caller"),
    ] {
        let told = explain(text, &token);
        assert!(told.contains(why) && told.contains("token-invalid"), "{told}");
    }
    assert!(explain(&text, "k-1").contains("token-invalid"));
}
