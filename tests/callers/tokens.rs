//! Tokens of every kind: who they make the caller, and which are not believed.

use serde_json::json;

use crate::client::Call;
use crate::issuer::{Signer, base64url, jwks};
use crate::{assert_invalid, assert_missing, bearer, books, by_subject, claims, ec, now, order};

#[test]
fn a_refreshed_token_keeps_its_callers_operations_whatever_signs_it() {
    let upstream = books();
    let signers = ["RS256", "ES256", "ES384", "EdDSA"].map(|algorithm| (algorithm, Signer::new(algorithm, algorithm)));
    let gateway = by_subject(&upstream, "{ jwks_file: '{dir}/keys.json' }", &jwks(&signers.each_ref().map(|(_, s)| s)));
    let (first, signer) = &signers[0];
    let ours = bearer("k", &signer.token(first, &claims("u-1")));
    let answer = gateway.send(&ours);
    assert_eq!((answer.status, answer.is_replay()), (201, false), "{}", answer.text());
    assert!(gateway.send(&ours).is_replay());
    for (round, (algorithm, signer)) in signers.iter().enumerate() {
        let mut fresh = claims("u-1");
        (fresh["exp"], fresh["iat"], fresh["jti"]) = (json!(now() + 900), json!(now() + 1), json!(round));
        fresh["scope"] = json!("orders:write");
        assert!(gateway.send(&bearer("k", &signer.token(algorithm, &fresh))).is_replay(), "{algorithm}");
    }
    // Nobody else meets it: another subject, the same one of another issuer, or of none, or in another case.
    let strangers = [
        json!({ "sub": "u-2", "iss": "https://id.example" }),
        json!({ "sub": "u-1", "iss": "https://other.example" }),
        json!({ "sub": "u-1" }),
        json!({ "sub": "U-1", "iss": "https://id.example" }),
        json!({ "sub": 1, "iss": "https://id.example" }),
        json!({ "sub": "1", "iss": "https://id.example" }),
    ];
    for (round, stranger) in strangers.iter().enumerate() {
        assert!(!gateway.send(&bearer("k", &signer.token(first, stranger))).is_replay(), "{stranger}");
        assert_eq!(upstream.requests().len(), round + 2);
    }
    assert!(
        upstream.requests()[0].text("authorization").starts_with("Bearer eyJ"),
        "the API gets the token as it came"
    );
}

#[test]
fn a_token_that_is_none_or_no_longer_good_is_401_and_nothing_is_forwarded() {
    let upstream = books();
    let (good, foreign) = (ec("k1"), ec("k1"));
    let jwt = "{ jwks_file: '{dir}/keys.json', issuer: [\"https://id.example\"], audience: [shop], leeway: 1s }";
    let gateway = by_subject(&upstream, jwt, &jwks(&[&good]));
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = claims("u-1");
        claims["aud"] = json!("shop");
        claims[name] = value;
        good.token("ES256", &claims)
    };
    assert_eq!(gateway.send(&bearer("good", &with("aud", json!(["shop"])))).status, 201);
    let none = format!("{}.{}.", base64url(r#"{"alg":"none"}"#), base64url(claims("u-1").to_string()));
    for (token, says) in [
        ("nonsense".to_owned(), "is no JSON Web Token"),
        (none, "algorithm"),
        (foreign.token("ES256", &claims("u-1")), "not its issuer's"),
        (with("exp", json!(now() - 2)), "has expired"),
        (with("nbf", json!(now() + 300)), "is not valid yet"),
        (with("iss", json!("https://evil.example")), "of another issuer"),
        (with("aud", json!("elsewhere")), "for another audience"),
    ] {
        let answer = gateway.send(&bearer("k", &token));
        assert_invalid(&answer, says);
        assert!(!answer.text().contains(&token), "it is not told again");
    }
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(gateway.metric("oncegate_requests_total{route=\"create-order\",verdict=\"scope_invalid\"}"), 7.0);
    assert_eq!(gateway.metric("oncegate_jwt_checks_total{result=\"refused\"}"), 7.0);
    assert!(!gateway.log().contains("eyJ"), "no token is logged");
}

#[test]
fn no_token_several_tokens_or_a_claim_that_names_nobody_is_400() {
    let upstream = books();
    let signer = ec("k");
    let gateway = by_subject(&upstream, "{ jwks_file: '{dir}/keys.json' }", &jwks(&[&signer]));
    let token = signer.token("ES256", &claims("u-1"));
    assert_missing(&gateway.send(&order("k")), "is not there");
    assert_missing(&gateway.send(&order("k").header("Authorization", "Basic dTpw")), "is of another kind");
    let twice = bearer("k", &token).header("Authorization", format!("Bearer {token}"));
    assert_missing(&gateway.send(&twice), "several lines");
    for nobody in [json!(null), json!(" "), json!(["u-1"]), json!({ "id": "u-1" }), json!(true)] {
        let mut claims = claims("x");
        claims["sub"] = nobody;
        assert_missing(&gateway.send(&bearer("k", &signer.token("ES256", &claims))), "The scope's claim /sub");
    }
    assert_eq!(upstream.requests().len(), 0);
    // Named in Connection, the API would never see it.
    let hop = bearer("k", &token).header("Connection", "Authorization");
    assert_eq!(gateway.send(&hop).status, 400);
}

#[test]
fn secrets_are_verified_in_turn_and_taken_over_by_a_reload() {
    let upstream = books();
    let secrets = ["a first secret of thirty-two bytes", "a second secret, thirty-two bytes"];
    let jwt = format!("{{ secrets: [\"{}\", \"{}\"] }}", secrets[1], secrets[0]);
    let mut gateway = by_subject(&upstream, &jwt, "");
    let token = |secret: &str, algorithm: &str| Signer::secret(secret.as_bytes()).token(algorithm, &claims("u-1"));
    assert_eq!(gateway.send(&bearer("k", &token(secrets[0], "HS256"))).status, 201);
    assert!(gateway.send(&bearer("k", &token(secrets[1], "HS512"))).is_replay());
    assert_invalid(
        &gateway.send(&bearer("k", &token("another secret of thirty-two bytes", "HS256"))),
        "not its issuer's",
    );
    let jwt = format!("jwt: {{ secrets: [\"{}\"] }}", secrets[1]);
    gateway.rewrite(&crate::yaml(&upstream, "/orders", "{ jwt_claim: sub }", &jwt));
    gateway.signal("HUP");
    gateway.wait_for_log("configuration reloaded");
    assert_invalid(&gateway.send(&bearer("k", &token(secrets[0], "HS256"))), "not its issuer's");
    assert!(gateway.send(&bearer("k", &token(secrets[1], "HS384"))).is_replay());
    assert!(!gateway.log().contains("secret"), "{}", gateway.log());
}

/// The attack that many verifiers fell for: the public key, which everybody knows, as an HMAC's secret.
#[test]
fn a_public_key_is_no_secret() {
    let upstream = books();
    let signer = Signer::new("rsa", "RS256");
    let listed = jwks(&[&signer]);
    let gateway = by_subject(&upstream, "{ jwks_file: '{dir}/keys.json' }", &listed);
    for shape in [listed.clone(), signer.jwk().to_string(), signer.jwk()["n"].as_str().unwrap().to_owned()] {
        let header = json!({ "alg": "HS256", "kid": "rsa" });
        let forged = Signer::secret(shape.as_bytes()).signed("HS256", &header, &claims("u-1").to_string());
        assert_invalid(&gateway.send(&bearer("k", &forged)), "not allowed");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_token_may_come_in_a_header_or_cookie_of_its_own_and_be_asked_with() {
    let signer = ec("k");
    for (jwt, name, value) in [
        ("{ jwks_file: '{dir}/keys.json', header: X-Access-Token }", "X-Access-Token", ""),
        ("{ jwks_file: '{dir}/keys.json', cookie: id }", "Cookie", "a=b; id="),
    ] {
        let upstream = books();
        let gateway = by_subject(&upstream, jwt, &jwks(&[&signer]));
        let token = |subject: &str| format!("{value}{}", signer.token("ES256", &claims(subject)));
        assert_missing(&gateway.send(&bearer("k", &token("u-1"))), "is not there");
        assert_eq!(gateway.send(&order("k").header(name, token("u-1"))).status, 201);
        let asked =
            |subject: &str| gateway.send(&Call::new("GET", "/_oncegate/operations/k").header(name, token(subject)));
        assert_eq!(asked("u-1").status, 200);
        assert_eq!(asked("u-2").code().as_deref(), Some("operation-unknown"));
        assert!(gateway.send(&order("k").header(name, token("u-1"))).is_replay());
    }
}

#[test]
fn a_token_is_verified_once_and_then_remembered() {
    let upstream = books();
    let signer = Signer::new("rsa", "RS256");
    let gateway = by_subject(&upstream, "{ jwks_file: '{dir}/keys.json' }", &jwks(&[&signer]));
    let token = signer.token("RS256", &claims("u-1"));
    for key in ["a", "b", "c"] {
        assert_eq!(gateway.send(&bearer(key, &token)).status, 201);
    }
    assert_eq!(gateway.metric("oncegate_jwt_checks_total{result=\"verified\"}"), 1.0);
    assert_eq!(gateway.metric("oncegate_jwt_checks_total{result=\"remembered\"}"), 2.0);
}
