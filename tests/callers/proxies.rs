//! Tokens that a proxy in front has verified: whose word counts then.

use crate::gateway::Gateway;
use crate::{assert_invalid, assert_missing, bearer, books, claims, ec, yaml};

#[test]
fn an_unverified_token_is_believed_of_trusted_proxies_alone() {
    let upstream = books();
    let nobodys = ec("nobody");
    let gateway = |proxies: &str| {
        let top = format!("jwt: {{ unverified: true }}\n{proxies}");
        Gateway::start(&yaml(&upstream, "/orders", "{ jwt_claim: sub }", &top))
    };
    let call = bearer("k", &nobodys.token("ES256", &claims("u-1")));
    let trusting = gateway("trusted_proxies: [127.0.0.0/8]");
    assert_eq!(trusting.send(&call).status, 201);
    assert!(trusting.send(&bearer("k", &ec("other").token("ES256", &claims("u-1")))).is_replay());
    assert!(!trusting.send(&bearer("k", &nobodys.token("ES256", &claims("u-2")))).is_replay());
    assert_invalid(&trusting.send(&bearer("k", "a.b.c")), "base64url");
    let wary = gateway("trusted_proxies: [10.0.0.0/8]");
    assert_missing(&wary.send(&call), "taken from trusted proxies only");
    // Nobody is listed: everybody is believed, and the log says what that means.
    let open = gateway("");
    assert_eq!(open.send(&call).status, 201);
    assert!(open.log().contains("whoever reaches this gateway can name any caller"), "{}", open.log());
}

#[test]
fn a_verified_token_is_believed_whoever_brings_it() {
    let (upstream, signer) = (books(), ec("k"));
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, crate::issuer::jwks(&[&signer])).unwrap();
    let top = format!("jwt: {{ jwks_file: '{}' }}\ntrusted_proxies: [10.0.0.0/8]", keys.display());
    let gateway = Gateway::start(&yaml(&upstream, "/orders", "{ jwt_claim: sub }", &top));
    assert_eq!(gateway.send(&bearer("k", &signer.token("ES256", &claims("u-1")))).status, 201);
}
