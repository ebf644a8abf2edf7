//! Callers by a part of the path, alone and with others.

use std::io::Write;

use crate::authority::{Authority, Issued};
use crate::client::{Call, read_answer};
use crate::gateway::Gateway;
use crate::issuer::jwks;
use crate::upstream::ScriptedUpstream;
use crate::{assert_missing, bearer, books, claims, ec, yaml};

fn by_tenant(upstream: &ScriptedUpstream) -> Gateway {
    Gateway::start(&yaml(upstream, "/tenants/{tenant}/orders", "{ path_parameter: tenant }", ""))
}

fn to(target: &str) -> Call {
    Call::post(target).key("k").body("x")
}

#[test]
fn spellings_of_one_path_are_one_caller_and_other_paths_are_others() {
    let upstream = books();
    let gateway = by_tenant(&upstream);
    assert!(!gateway.send(&to("/tenants/A/orders")).is_replay());
    for same in ["/tenants/%41/orders", "//tenants/./A/orders/", "/tenants%2FA/orders", "/tenants/A/orders;x=1"] {
        // The fingerprint is of the path in normal form: a spelling that has another is told so, not run.
        let answer = gateway.send(&to(same));
        assert!(answer.is_replay() || answer.code().as_deref() == Some("key-reused"), "{same}: {}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 1);
    for (round, other) in
        ["/tenants/a/orders", "/tenants/B/orders", "/tenants/A%2FB/orders", "/tenants/A+/orders"].iter().enumerate()
    {
        assert!(!gateway.send(&to(other)).is_replay(), "{other}");
        assert_eq!(upstream.requests().len(), round + 2, "{other}");
    }
}

#[test]
fn a_part_that_names_nobody_or_two_is_400() {
    let upstream = books();
    let gateway = by_tenant(&upstream);
    for target in ["/tenants/%20/orders", "/tenants/%FF/orders", "/tenants/A;x=1/orders", "/tenants/A%3Bx/orders"] {
        assert_missing(&gateway.send(&to(target)), "The scope's path parameter tenant");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn who_asks_for_an_operation_names_the_part_in_the_query() {
    let upstream = books();
    let gateway = by_tenant(&upstream);
    assert_eq!(gateway.send(&to("/tenants/a%2Fb%20c/orders")).status, 201);
    let ask = |query: &str| gateway.send(&Call::new("GET", &format!("/_oncegate/operations/k{query}")));
    assert_eq!(ask("?tenant=a%2Fb+c").status, 200);
    assert_eq!(ask("?tenant=a").code().as_deref(), Some("operation-unknown"));
    for query in ["", "?tenant=", "?tenant=a&tenant=b", "?tenant=%zz", "?Tenant=a"] {
        assert_missing(&ask(query), "The scope's path parameter tenant");
    }
}

#[test]
fn a_caller_may_be_a_tenant_a_subject_and_a_certificate_together() {
    let (upstream, signer) = (books(), ec("k"));
    let (authority, clients) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, jwks(&[&signer])).unwrap();
    let more = format!(
        "  client_certificates: required\n  client_ca: '{}'\njwt: {{ jwks_file: '{}' }}",
        clients.file().display(),
        keys.display()
    );
    let scope = "{ all: [ { client_certificate: subject }, { path_parameter: tenant }, { jwt_claim: /sub } ] }";
    let top = Issued::yaml(&[&authority.issue("a", "a.test")], &more);
    let gateway = Gateway::start(&yaml(&upstream, "/tenants/{tenant}/orders", scope, &top));
    let send = |own: &Issued, tenant: &str, subject: &str| {
        let token = signer.token("ES256", &claims(subject));
        let order = bearer("k", &token).bytes();
        let order = String::from_utf8(order).unwrap().replace("/orders", &format!("/tenants/{tenant}/orders"));
        let mut stream = authority.client().showing(own).visit(gateway.address, "a.test").unwrap();
        stream.write_all(order.as_bytes()).unwrap();
        read_answer(&mut stream).unwrap()
    };
    let (one, renewed, two) = (clients.issue("1", "one"), clients.issue("1b", "one"), clients.issue("2", "two"));
    assert_eq!(send(&one, "A", "u").status, 201);
    assert!(send(&renewed, "A", "u").is_replay(), "a renewed certificate, a refreshed token");
    for (own, tenant, subject) in [(&two, "A", "u"), (&one, "B", "u"), (&one, "A", "v")] {
        assert!(!send(own, tenant, subject).is_replay(), "{tenant} {subject}");
    }
    assert_eq!(upstream.requests().len(), 4);
}

/// A single-use token is its caller's: who it is stands in the query where the token is asked for.
#[test]
fn a_single_use_token_of_one_caller_is_nothing_to_another() {
    let (upstream, signer) = (books(), ec("k"));
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, jwks(&[&signer])).unwrap();
    let top = format!(
        "jwt: {{ jwks_file: '{}' }}\ntokens: {{ secrets: [\"one secret of thirty-two bytes...\"] }}",
        keys.display()
    );
    let scope = "{ all: [ { jwt_claim: sub }, { path_parameter: tenant } ] }";
    let text = yaml(&upstream, "/tenants/{tenant}/orders", scope, &top);
    let gateway = Gateway::start(&text.replace("{ header: Idempotency-Key }", "{ token: {} }"));
    let by = |call: Call, subject: &str| {
        call.header("Authorization", format!("Bearer {}", signer.token("ES256", &claims(subject))))
    };
    let issued = gateway.send(&by(Call::post("/idempotency-tokens?route=create-order&tenant=A"), "u-1"));
    assert_eq!(issued.status, 201, "{}", issued.text());
    let issued: serde_json::Value = serde_json::from_slice(&issued.body).unwrap();
    let token = issued["token"].as_str().unwrap();
    let send = |tenant: &str, subject: &str| {
        let call = Call::post(&format!("/tenants/{tenant}/orders")).header("Idempotency-Token", token).body("x");
        gateway.send(&by(call, subject))
    };
    for (tenant, subject) in [("A", "u-2"), ("B", "u-1")] {
        assert_eq!(send(tenant, subject).code().as_deref(), Some("token-invalid"), "{tenant} {subject}");
    }
    assert_eq!(send("%41", "u-1").status, 201);
    assert!(send("A", "u-1").is_replay());
    assert_eq!(upstream.requests().len(), 1);
    let nobody = gateway.send(&Call::post("/idempotency-tokens?route=create-order&tenant=A"));
    assert_missing(&nobody, "is not there");
}
