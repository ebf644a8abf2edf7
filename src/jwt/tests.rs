//! Tokens of every kind, good and bad, against verifiers of every kind. Reading keys over the network is tested with
//! the real binary.

use std::sync::LazyLock;
use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::keys::{Carrier, Claim};

#[path = "../../tests/support/issuer.rs"]
mod issuer;

use issuer::{Signer, base64url, jwks};

const NOW: Time = Time(1_700_000_000_000);

static RSA: LazyLock<Signer> = LazyLock::new(|| Signer::new("rsa", "RS256"));

fn settings(proof: Proof) -> Settings {
    let symmetric = matches!(proof, Proof::Secrets(_));
    Settings {
        proof,
        carrier: Carrier::Bearer,
        algorithms: Algorithm::all(symmetric).collect(),
        rules: Rules { leeway: Duration::from_mins(1), ..Rules::default() },
        size_limit: 8192,
        cache: 1 << 20,
    }
}

fn key_set(text: &str) -> Proof {
    let set = Arc::new(KeySet::read(text.as_bytes()).unwrap());
    let second = Duration::from_secs(1);
    let reading = Reading { refresh: second, pause: second, timeout: Duration::ZERO, size_limit: 1 << 16 };
    Proof::Keys(Origin::File { path: "nowhere".into(), set }, reading)
}

fn listing(signers: &[&Signer]) -> Settings {
    settings(key_set(&jwks(signers)))
}

fn verifier(settings: Settings) -> Verifier {
    Verifier::new(settings, Arc::new(Metrics::new().unwrap()))
}

/// What a fresh verifier thinks of a token. Nothing that it waits for ever comes.
fn judge(settings: &Settings, token: &str) -> Result<Arc<Claims>, Refused> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(verifier(settings.clone()).believe(token.as_bytes(), NOW))
}

fn why(settings: &Settings, token: &str) -> &'static str {
    match judge(settings, token) {
        Err(Refused::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn somebody() -> Value {
    json!({ "sub": "u-1", "iss": "https://id.example" })
}

#[test]
fn every_algorithm_is_verified_with_its_own_key_alone() {
    let signers: Vec<(&str, Signer)> =
        ["PS512", "ES256", "ES384", "EdDSA"].map(|name| (name, Signer::new(name, name))).into_iter().collect();
    let all: Vec<&Signer> = signers.iter().map(|(_, signer)| signer).chain([&*RSA]).collect();
    let settings = listing(&all);
    let by_rsa = ["RS256", "RS384", "RS512", "PS256", "PS384"].map(|name| (name, &*RSA));
    for (name, signer) in signers.iter().map(|(name, signer)| (*name, signer)).chain(by_rsa) {
        let token = signer.token(name, &somebody());
        assert_eq!(judge(&settings, &token).unwrap().claim("/sub"), Ok(Claim::Text("u-1".to_owned())), "{name}");
        // The same message, under another key's name.
        let header = json!({ "alg": name, "kid": if name == "ES256" { "EdDSA" } else { "ES256" } });
        assert_eq!(why(&settings, &signer.signed(name, &header, &somebody().to_string())), UNPROVEN, "{name}");
        let altered = token
            .replacen('.', &format!(".{}", &base64url("{")[..0]), 1)
            .replace(&base64url(somebody().to_string()), &base64url(json!({ "sub": "u-2" }).to_string()));
        assert_eq!(why(&settings, &altered), UNPROVEN, "{name}");
    }
}

#[test]
fn secrets_verify_what_was_signed_with_one_of_them() {
    let secrets = [b"an old secret, thirty-two bytes..".to_vec(), b"a new secret of thirty-two bytes.".to_vec()];
    let proof = Proof::Secrets(secrets.iter().map(|secret| Secret::new(secret.clone()).unwrap()).collect());
    let settings = settings(proof);
    for secret in &secrets {
        for algorithm in ["HS256", "HS384", "HS512"] {
            assert!(judge(&settings, &Signer::secret(secret).token(algorithm, &somebody())).is_ok(), "{algorithm}");
        }
    }
    let foreign = Signer::secret(b"a foreign one of thirty-two bytes").token("HS256", &somebody());
    assert_eq!(why(&settings, &foreign), UNPROVEN);
    assert!(why(&settings, &RSA.token("RS256", &somebody())).contains("not allowed"));
    assert_eq!(Secret::new(*b"thirty-one bytes are too few..."), None);
}

/// Whoever takes a public key for a secret believes everybody who knows it.
#[test]
fn a_public_key_is_never_a_secret() {
    let jwk = RSA.jwk();
    let modulus = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, jwk["n"].as_str().unwrap());
    let shapes =
        [jwk.to_string().into_bytes(), jwks(&[&RSA]).into_bytes(), jwk["n"].to_string().into_bytes(), modulus.unwrap()];
    let mut settings = listing(&[&RSA]);
    let header = json!({ "alg": "HS256", "kid": RSA.name });
    for shape in &shapes {
        let token = Signer::secret(shape).signed("HS256", &header, &somebody().to_string());
        assert!(why(&settings, &token).contains("not allowed"));
    }
    // Even where the list of algorithms were wrong.
    settings.algorithms.push(Algorithm::Hs256);
    for shape in &shapes {
        let token = Signer::secret(shape).signed("HS256", &header, &somebody().to_string());
        assert_eq!(why(&settings, &token), UNPROVEN);
    }
    let oct = json!({ "keys": [Signer::secret(&shapes[0]).jwk()] }).to_string();
    assert_eq!(KeySet::read(oct.as_bytes()), Err(BadSet::Empty), "secrets have no place in a set");
}

#[test]
fn what_is_no_signed_token_is_refused() {
    let settings = listing(&[&RSA]);
    let with = |header: Value| RSA.signed("RS256", &header, &somebody().to_string());
    let none = |name: &str| format!("{}.{}.", base64url(json!({ "alg": name }).to_string()), base64url("{}"));
    let good = RSA.token("RS256", &somebody());
    for (token, says) in [
        (String::new(), "is no JSON Web Token"),
        ("a.b".to_owned(), "is no JSON Web Token"),
        ("a.b.c.d.e".to_owned(), "is encrypted"),
        (format!("{good}="), "is not in base64url"),
        (good.replacen('.', "?.", 1), "is not in base64url"),
        (none("none"), "not known here"),
        (none("NONE"), "not known here"),
        (none("rs256"), "not known here"),
        (format!("{}.{}.AA", base64url("{"), base64url("{}")), "no header that can be read"),
        (with(json!({ "kid": "rsa" })), "no header that can be read"),
        (with(json!({ "alg": "RS256", "kid": 7 })), "no header that can be read"),
        (with(json!({ "alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": false })), "asks for extensions"),
        (RSA.signed("RS256", &json!({ "alg": "RS256" }), "[]"), "cannot be read in one way"),
        (RSA.signed("RS256", &json!({ "alg": "RS256" }), r#"{"sub":"a","sub":"b"}"#), "cannot be read in one way"),
        (RSA.token("RS256", &json!({ "sub": "x".repeat(9000) })), "is longer"),
    ] {
        let why = why(&settings, &token);
        assert!(why.contains(says), "{token}: {why}");
    }
}

#[test]
fn what_a_key_is_for_is_respected() {
    let ec = Signer::new("ec", "ES256");
    let changed = |signer: &Signer, name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        json!({ "keys": [jwk, Signer::new("other", "EdDSA").jwk()] }).to_string()
    };
    let token = RSA.token("RS256", &somebody());
    for (name, value, good) in [
        ("use", json!("sig"), true),
        ("use", json!("enc"), false),
        ("key_ops", json!(["verify"]), true),
        ("key_ops", json!(["encrypt"]), false),
        ("alg", json!("RS256"), true),
        ("alg", json!("RS512"), false),
        ("alg", json!("PS256"), false),
        ("alg", json!("RSA-OAEP"), false),
        ("kty", json!("EC"), false),
        ("n", json!("AQAB"), false),
        ("n", json!(7), false),
    ] {
        let settings = settings(key_set(&changed(&RSA, name, value.clone())));
        assert_eq!(judge(&settings, &token).is_ok(), good, "{name}: {value}");
    }
    for (name, value) in [("crv", json!("P-384")), ("crv", json!("secp256k1")), ("x", json!("AA")), ("y", json!(null))]
    {
        let settings = settings(key_set(&changed(&ec, name, value.clone())));
        assert!(judge(&settings, &ec.token("ES256", &somebody())).is_err(), "{name}: {value}");
    }
}

#[test]
fn a_token_without_a_key_id_may_be_by_any_key_and_one_with_it_by_that_alone() {
    let (one, two) = (Signer::new("one", "ES256"), Signer::new("two", "ES256"));
    let both = listing(&[&one, &two]);
    let nameless = |signer: &Signer| signer.signed("ES256", &json!({ "alg": "ES256" }), &somebody().to_string());
    assert!(judge(&both, &nameless(&two)).is_ok());
    assert!(judge(&listing(&[&one]), &nameless(&two)).is_err());
    assert_eq!(why(&listing(&[&one]), &two.token("ES256", &somebody())), UNLISTED);
    // Keys of other kinds are not among those that are tried.
    let mut all: Vec<_> = (0..8).map(|number| Signer::new(&number.to_string(), "ES256")).collect();
    all.push(Signer::new("last", "RS256"));
    let nameless = all[8].signed("RS256", &json!({ "alg": "RS256" }), &somebody().to_string());
    assert!(judge(&listing(&all.iter().collect::<Vec<_>>()), &nameless).is_ok());
    let lying = two.signed("ES256", &json!({ "alg": "ES256", "kid": "one" }), &somebody().to_string());
    assert_eq!(why(&both, &lying), UNPROVEN);
}

#[test]
fn a_token_holds_in_its_time_and_for_whom_it_was_made() {
    let mut settings = listing(&[&RSA]);
    settings.rules.issuers = vec!["https://id.example".to_owned()];
    settings.rules.audiences = vec!["shop".to_owned(), "pay".to_owned()];
    let now = NOW.0 / 1_000;
    for (changes, says) in [
        (json!({}), ""),
        (json!({ "aud": ["other", "pay"] }), ""),
        (json!({ "exp": now - 59, "nbf": now + 60 }), ""),
        (json!({ "exp": 1_700_000_000.5, "nbf": 0, "iat": "whatever" }), ""),
        (json!({ "exp": 1e300 }), ""),
        (json!({ "exp": now - 60 }), "has expired"),
        (json!({ "exp": -1 }), "has expired"),
        (json!({ "exp": 0 }), "has expired"),
        (json!({ "exp": "2100-01-01" }), "is no number"),
        (json!({ "exp": null }), "is no number"),
        (json!({ "nbf": now + 61 }), "not valid yet"),
        (json!({ "nbf": true }), "is no number"),
        (json!({ "iss": "https://evil.example" }), "another issuer"),
        (json!({ "iss": "https://id.example/" }), "another issuer"),
        (json!({ "iss": ["https://id.example"] }), "no text"),
        (json!({ "iss": null }), "no text"),
        (json!({ "aud": "SHOP" }), "another audience"),
        (json!({ "aud": [] }), "another audience"),
        (json!({ "aud": { "shop": true } }), "another audience"),
    ] {
        let mut claims = json!({ "sub": "u", "iss": "https://id.example", "aud": "shop" });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let told = judge(&settings, &RSA.token("RS256", &claims)).map_err(|refused| refused.to_string());
        assert!(
            told.as_ref().map_or_else(|why| !says.is_empty() && why.contains(says), |_| says.is_empty()),
            "{told:?}"
        );
    }
    for absent in ["iss", "aud"] {
        let mut claims = json!({ "iss": "https://id.example", "aud": "shop" });
        claims.as_object_mut().unwrap().remove(absent);
        assert!(judge(&settings, &RSA.token("RS256", &claims)).is_err(), "{absent}");
    }
}

#[test]
fn a_verified_token_is_remembered_until_its_end_or_that_of_its_key() {
    let metrics = Arc::new(Metrics::new().unwrap());
    let verifier = Verifier::new(listing(&[&RSA]), Arc::clone(&metrics));
    let token = RSA.token("RS256", &json!({ "sub": "u", "exp": NOW.0 / 1_000 + 10 }));
    let believe = |at: Time| verifier.believe(token.as_bytes(), at).now_or_never().unwrap();
    let counted = |result: &str| {
        let series = format!("oncegate_jwt_checks_total{{result=\"{result}\"}} ");
        metrics.render().lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok()).unwrap()
    };
    assert_eq!(believe(NOW), believe(NOW));
    assert_eq!((counted("verified"), counted("remembered")), (1, 1));
    let late = NOW.plus(Duration::from_secs(70));
    assert_eq!(believe(late), Err(Refused::Invalid("has expired (`exp`)")));
    assert!(believe(NOW).is_ok());
    let ring = verifier.ring.as_ref().unwrap();
    ring.take(KeySet::read(jwks(&[&Signer::new("rsa", "ES256")]).as_bytes()).unwrap());
    assert_eq!(believe(NOW), Err(Refused::Invalid(UNPROVEN)), "its key is gone");
    ring.take(KeySet::read(jwks(&[&RSA]).as_bytes()).unwrap());
    assert!(believe(NOW).is_ok());
    assert_eq!(counted("verified"), 2);
}

#[test]
fn unverified_tokens_are_still_tokens_in_their_time() {
    let mut settings = settings(Proof::Elsewhere);
    settings.algorithms = Algorithm::all(true).chain(Algorithm::all(false)).collect();
    let unsigned = |algorithm: &str, claims: Value| {
        format!("{}.{}.", base64url(json!({ "alg": algorithm }).to_string()), base64url(claims.to_string()))
    };
    assert!(judge(&settings, &unsigned("RS256", somebody())).is_ok());
    assert!(why(&settings, &unsigned("none", somebody())).contains("algorithm"));
    assert!(why(&settings, &unsigned("RS256", json!({ "exp": 1 }))).contains("expired"));
    assert!(verifier(settings).is_credulous());
}

#[tokio::test]
async fn a_file_of_keys_is_read_again_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    std::fs::write(&path, jwks(&[&old])).unwrap();
    let set = Arc::new(KeySet::load(&path, 1 << 16).unwrap());
    let second = Duration::from_secs(1);
    let reading = Reading { refresh: second, pause: second, timeout: Duration::ZERO, size_limit: 1 << 16 };
    let verifier = verifier(settings(Proof::Keys(Origin::File { path: path.clone(), set }, reading)));
    let ring = verifier.ring().unwrap();
    let token = new.token("ES256", &somebody());
    assert_eq!(verifier.believe(token.as_bytes(), NOW).await, Err(Refused::Invalid(UNLISTED)));
    for bad in ["", "{}", "{\"keys\":[]}", "{\"keys\":7}", &"x".repeat(1 << 17)] {
        std::fs::write(&path, bad).unwrap();
        assert!(!ring.step().await);
        assert!(verifier.believe(old.token("ES256", &somebody()).as_bytes(), NOW).await.is_ok(), "{bad:.20}");
    }
    std::fs::write(&path, jwks(&[&new])).unwrap();
    assert!(ring.step().await);
    assert!(verifier.believe(token.as_bytes(), NOW).await.is_ok());
    std::fs::remove_file(&path).unwrap();
    assert!(!ring.step().await);
    assert!(verifier.believe(token.as_bytes(), NOW).await.is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_token_with_a_changed_letter_is_not_believed(at in any::<prop::sample::Index>(), letter in 0_u8..128) {
        static ISSUED: LazyLock<(Settings, String)> = LazyLock::new(|| {
            let signer = Signer::new("k", "ES256");
            (listing(&[&signer]), signer.token("ES256", &somebody()))
        });
        let (settings, token) = &*ISSUED;
        let mut changed = token.clone().into_bytes();
        let at = at.index(changed.len());
        changed[at] = letter;
        prop_assert_eq!(settings.explain(&changed, NOW).is_ok(), changed == token.as_bytes());
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){2}") {
        let settings = settings(Proof::Elsewhere);
        prop_assert!(settings.explain(&bytes, NOW).is_err());
        prop_assert!(settings.explain(text.as_bytes(), NOW).is_err());
        let _ = KeySet::read(&bytes);
    }
}

#[test]
fn a_secret_never_shows() {
    let settings = settings(Proof::Secrets(vec![Secret::new([b'q'; 40]).unwrap()]));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("113") && !shown.contains("qq"), "{shown}");
}
