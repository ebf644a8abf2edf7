//! `jwt`, `scope: jwt_claim` and `scope: path_parameter` in the file: what they become, and what is refused.

use std::time::Duration;

use oncegate::config::show;
use oncegate::jwt::{Algorithm, Origin, Proof};
use oncegate::keys::{Carrier, Scope};

use super::{LEAST, errors, guard, loaded, refused, warnings};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The least file with a scope by token; the section is in its last line.
fn with(section: &str) -> String {
    let scoped = LEAST.replace("trusted_header: X-Customer-Id", "jwt_claim: sub");
    format!("{scoped}jwt: {section}\n")
}

fn faults(section: &str) -> Vec<String> {
    errors(&with(section))
}

#[test]
fn a_section_gets_the_documented_defaults() {
    let settings = loaded(&with("{ jwks_url: \"https://id.example/keys?v=1\" }")).settings;
    assert_eq!(guard(&settings).keys.scope, Scope::JwtClaim("/sub".to_owned(), Carrier::Bearer));
    assert!(guard(&settings).keys.require_same.is_empty(), "it proves the caller");
    let jwt = settings.gateway.jwt.as_ref().unwrap();
    assert_eq!(jwt.algorithms, Algorithm::all(false).collect::<Vec<_>>());
    assert_eq!((jwt.size_limit, jwt.cache), (8 << 10, 4 << 20));
    assert_eq!(jwt.rules.leeway, Duration::from_mins(1));
    let Proof::Keys(Origin::Url { url, tls: Some(_) }, reading) = &jwt.proof else { panic!("{:?}", jwt.proof) };
    assert_eq!(url.to_string(), "https://id.example/keys?v=1");
    assert_eq!((reading.refresh, reading.pause), (Duration::from_mins(5), Duration::from_secs(10)));
    assert_eq!((reading.timeout, reading.size_limit), (Duration::from_secs(5), 256 << 10));
}

#[test]
fn what_is_set_arrives_and_is_shown_so_that_it_loads_again() {
    let more = "issuer: [\"https://id.example\"], audience: [a, b], leeway: 5s, algorithms: [ES256, RS512], cookie: id, \
                token_size_limit: 1KiB, cache: 0";
    let keys = format!(
        "{{ jwks_url: \"http://127.0.0.1:1/k\", refresh: 1h, refresh_pause: 1m, fetch_timeout: 1s, jwks_size_limit: \
         4KiB, {more} }}"
    );
    let settings = loaded(&with(&keys)).settings;
    let jwt = settings.gateway.jwt.as_ref().unwrap();
    assert_eq!(jwt.algorithms, [Algorithm::Es256, Algorithm::Rs512]);
    assert_eq!(jwt.rules.audiences, ["a", "b"]);
    assert_eq!(guard(&settings).keys.scope, Scope::JwtClaim("/sub".to_owned(), Carrier::Cookie("id".to_owned())));
    for section in [keys.as_str(), "{ unverified: true, header: X-Token }"] {
        let settings = loaded(&with(section)).settings;
        assert_eq!(loaded(&show(&settings)).settings, settings, "{}", show(&settings));
    }
    let shown = show(&loaded(&with(&format!("{{ secrets: [\"{SECRET}\", \"{SECRET}2\"] }}"))).settings);
    assert!(shown.contains(r#"secrets: ["***", "***"]"#) && !shown.contains(SECRET), "{shown}");
}

#[test]
fn exactly_one_thing_proves_a_token() {
    refused(
        &LEAST.replace("trusted_header: X-Customer-Id", "jwt_claim: sub"),
        "9:14 routes[0].idempotency.scope",
        "`jwt`",
    );
    for (section, says) in [
        ("{}", "says nothing that proves a token"),
        ("{ unverified: false }", "says nothing that proves a token"),
        (&format!("{{ unverified: true, secrets: [\"{SECRET}\"] }}"), "stands beside `secrets`"),
        ("{ jwks_url: \"https://a/b\", unverified: true }", "stands beside `jwks_url`"),
        ("{ jwks_file: /nowhere/keys.json }", "`/nowhere/keys.json` cannot be read"),
        ("{ jwks_url: /keys }", "is no address"),
        ("{ jwks_url: \"https://me:secret@id.example/keys\" }", "with a user"),
        ("{ jwks_url: \"ftp://id.example/keys\" }", "neither over"),
        ("{ jwks_url: \"http://127.0.0.1/keys\", tls: {} }", "belongs to an `https://` address"),
        ("{ unverified: true, tls: {} }", "belongs to `jwks_url` only"),
        ("{ secrets: [] }", "is empty"),
        ("{ secrets: [short] }", "fewer than 32 bytes"),
        (&format!("{{ secrets: [\"{SECRET}\"], algorithms: [RS256] }}"), "verified with public keys"),
        ("{ jwks_url: \"https://a/b\", algorithms: [HS256] }", "verified with `secrets`"),
        ("{ jwks_url: \"https://a/b\", algorithms: [none] }", "`none` is no algorithm"),
        ("{ jwks_url: \"https://a/b\", algorithms: [] }", "is empty"),
        ("{ jwks_url: \"https://a/b\", refresh: 5s }", "is above `refresh` (5s)"),
        ("{ unverified: true, header: X-A, cookie: a }", "stands beside `header`"),
        ("{ unverified: true, leeway: 2h }", "between 0ms and 1h"),
    ] {
        let found = faults(section);
        assert!(found.len() == 1 && found[0].contains("jwt") && found[0].contains(says), "{section}: {found:#?}");
        assert!(!found[0].contains("secret@") && !found[0].contains(SECRET), "{found:?}");
    }
}

#[test]
fn a_file_of_keys_has_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    for (text, says) in
        [("", "no JSON Web Key Set"), ("{\"keys\": []}", "has no key"), (&"x".repeat(300_000), "larger")]
    {
        let path = folder.path().join("keys.json");
        std::fs::write(&path, text).unwrap();
        let found = faults(&format!("{{ jwks_file: '{}' }}", path.display()));
        assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
    }
}

#[test]
fn what_is_believed_too_easily_is_warned_of() {
    let warned = |text: &str, says: &str| {
        let found = warnings(text);
        assert!(found.iter().any(|it| it.contains(says)), "{found:?}");
    };
    warned(&with("{ unverified: true }"), "whoever reaches this gateway can name any caller");
    let proxies = format!("{}trusted_proxies: [10.0.0.0/8]\n", with("{ unverified: true }"));
    warned(&proxies, "these have to verify every token");
    warned(&with("{ jwks_url: \"http://id.example/keys\" }"), "in the clear");
    assert_eq!(warnings(&with("{ jwks_url: \"http://127.0.0.1:8/keys\" }")), Vec::<String>::new());
    warned(&format!("{LEAST}jwt: {{ unverified: true }}\n"), "no route's scope reads a token");
}

#[test]
fn a_path_parameter_is_one_of_the_routes_path() {
    let scoped = |path: &str, scope: &str| {
        LEAST.replace("path: /orders", &format!("path: '{path}'")).replace("trusted_header: X-Customer-Id", scope)
    };
    let text = scoped("/t/{tenant}/orders", "path_parameter: tenant");
    let settings = loaded(&text).settings;
    assert_eq!(guard(&settings).keys.scope, Scope::PathParameter("tenant".to_owned()));
    assert_eq!(guard(&settings).keys.require_same, [http::header::AUTHORIZATION], "it proves nobody");
    assert!(warnings(&text).iter().any(|it| it.contains("the client's own word")));
    assert_eq!(loaded(&show(&settings)).settings, settings);
    let place = "9:14 routes[0].idempotency.scope";
    refused(&scoped("/t/{tenant}/orders", "path_parameter: id"), place, "no parameter `{id}`");
    refused(&scoped("/t/{*tenant}", "path_parameter: tenant"), place, "of one segment");
    refused(&scoped("/t/{route}", "path_parameter: route"), place, "rename `{route}`");
    let all = scoped("/t/{tenant}/orders", "all: [ { path_parameter: nobody }, { cookie: sid } ]");
    assert!(errors(&all)[0].contains("no parameter `{nobody}`"));
}
