//! What `oncegate explain` says of callers, and what it keeps to itself.

use std::process::Command;

use serde_json::json;

use crate::issuer::{Signer, jwks};
use crate::{books, claims, ec, now, yaml};

/// What it says of an order with this token, under these lines of the section `jwt`.
fn explain(jwt: &str, listed: &str, token: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    std::fs::write(folder.path().join("keys.json"), listed).unwrap();
    let scope = "{ all: [ { jwt_claim: sub }, { path_parameter: tenant } ] }";
    let text = yaml(&books(), "/tenants/{tenant}/orders", scope, &format!("jwt: {jwt}"));
    crate::gateway::write(&config, &text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["explain", "--url", "/tenants/%41b/orders", "--data", "{}", "-H", "Idempotency-Key: k", "--config"]);
    let told = command.arg(&config).args(["-H", &format!("Authorization: Bearer {token}")]).output().unwrap();
    let told = String::from_utf8([told.stdout, told.stderr].concat()).unwrap();
    assert!(!told.contains(token), "{told}");
    told
}

#[test]
fn it_shows_the_claims_that_count_and_who_vouches_for_them() {
    let (signer, secret) = (ec("k"), "a secret of more than thirty-two bytes");
    let listed = jwks(&[&signer]);
    let token = signer.token("ES256", &claims("u-1"));
    let by_secret = Signer::secret(secret.as_bytes()).token("HS256", &claims("u-1"));
    for (jwt, token, word) in [
        ("{ jwks_file: '{dir}/keys.json' }", &token, "verified, signed with ES256"),
        (&format!("{{ secrets: [\"{secret}\"] }}"), &by_secret, "verified, signed with HS256"),
        ("{ unverified: true }", &token, "not verified: a proxy in front has to do that"),
        ("{ jwks_url: \"http://127.0.0.1:1/keys\" }", &token, "not verified here: `jwks_url` is not asked"),
    ] {
        let told = explain(jwt, &listed, token);
        for line in
            ["JWT claim /sub = u-1", "path parameter tenant = Ab", "JWT issuer /iss = \"https://id.example\"", word]
        {
            assert!(told.contains(line), "no `{line}` in\n{told}");
        }
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn it_says_why_a_token_is_refused() {
    let signer = ec("k");
    let listed = jwks(&[&signer]);
    let mut old = claims("u-1");
    old["exp"] = json!(now() - 3600);
    for (token, says) in [
        (signer.token("ES256", &old), "has expired"),
        (ec("k").token("ES256", &claims("u-1")), "not its issuer's"),
        (ec("x").token("ES256", &claims("u-1")), "does not list"),
    ] {
        let told = explain("{ jwks_file: '{dir}/keys.json' }", &listed, &token);
        assert!(told.contains("401 Unauthorized") && told.contains("scope-invalid") && told.contains(says), "{told}");
    }
}
