//! Where an issuer's keys come from: over http and https, through rotations, faults and floods.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::{Authority, Issued};
use crate::gateway::{Gateway, wait_until};
use crate::issuer::{Signer, jwks};
use crate::upstream::{DeadPort, Reply};
use crate::{Listing, assert_invalid, bearer, books, by_subject, claims, ec};

const FAILED: &str = "oncegate_jwks_reads_total{result=\"failed\"}";
const OK: &str = "oncegate_jwks_reads_total{result=\"ok\"}";

fn at(url: &str, more: &str) -> String {
    format!("{{ jwks_url: \"{url}\", fetch_timeout: 10s{more} }}")
}

/// A request by this signer, answered.
fn send(gateway: &Gateway, signer: &Signer, key: &str) -> crate::client::Answer {
    gateway.send(&bearer(key, &signer.token("ES256", &claims("u-1"))))
}

#[test]
fn keys_are_read_over_http_and_a_new_one_is_known_at_once() {
    let upstream = books();
    let (old, new) = (ec("old"), ec("new"));
    let listing = Listing::of(jwks(&[&old]));
    let gateway = by_subject(&upstream, &at(&listing.url(), ", refresh: 1h, refresh_pause: 200ms"), "");
    assert_eq!(send(&gateway, &old, "k").status, 201);
    let asked = &listing.server.requests()[0];
    assert_eq!(asked.target(), "/.well-known/jwks.json?v=1");
    assert_eq!(asked.text("host"), listing.server.address().to_string());
    // The issuer changes its key; the first token of the new one makes the gateway look.
    let both = jwks(&[&old, &new]);
    listing.answers(move || Reply::whole(200, &[], &both));
    wait_until("the pause is over, and the key is known", || send(&gateway, &new, "k").is_replay());
    assert!(send(&gateway, &old, "k").is_replay());
    // And drops the old one.
    let only = jwks(&[&new]);
    listing.answers(move || Reply::whole(200, &[], &only));
    gateway.signal("HUP");
    wait_until("the old key is gone", || send(&gateway, &old, "k").status == 401);
    assert!(send(&gateway, &new, "k").is_replay());
    assert_eq!(upstream.requests().len(), 1);
    assert!(gateway.metric("oncegate_jwks_read_timestamp_seconds") > 0.0);
}

#[test]
fn keys_are_read_again_by_themselves() {
    let upstream = books();
    let signer = ec("k");
    let listing = Listing::of(jwks(&[&signer]));
    let gateway = by_subject(&upstream, &at(&listing.url(), ", refresh: 1s, refresh_pause: 100ms"), "");
    gateway.wait_for_metric(OK, 3.0);
    assert!(listing.readings() >= 3);
}

#[test]
fn unknown_keys_do_not_make_the_gateway_flood_the_issuer() {
    let upstream = books();
    let (known, unknown) = (ec("known"), ec("unknown"));
    let listing = Listing::of(jwks(&[&known]));
    let gateway = by_subject(&upstream, &at(&listing.url(), ", refresh: 1h, refresh_pause: 1m"), "");
    gateway.wait_for_metric(OK, 1.0);
    for key in 0..20 {
        assert_invalid(&send(&gateway, &unknown, &key.to_string()), "does not list");
    }
    assert!(listing.readings() <= 2, "{}", listing.readings());
    assert_eq!(send(&gateway, &known, "k").status, 201);
}

#[test]
fn the_last_good_keys_stay_whatever_the_issuer_says() {
    let upstream = books();
    let signer = ec("k");
    let listing = Listing::of(jwks(&[&signer]));
    let more = ", refresh: 1s, refresh_pause: 100ms, jwks_size_limit: 4KiB";
    let mut gateway = by_subject(&upstream, &at(&listing.url(), more), "");
    assert_eq!(send(&gateway, &signer, "k").status, 201);
    let list = jwks(&[&signer]);
    let bad: [fn() -> Reply; 9] = [
        || Reply::whole(500, &[], "no"),
        || Reply::whole(302, &[("Location", "http://127.0.0.1:1/")], ""),
        || Reply::whole(200, &[], "no JSON"),
        || Reply::whole(200, &[], "{\"keys\": []}"),
        || Reply::whole(200, &[], "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AAAA\"}]}"),
        || Reply::whole(200, &[], "[".repeat(4000)),
        || Reply::whole(200, &[], " ".repeat(5000)),
        || Reply::chunked(200, &[], &[&[b' '; 3000], &[b' '; 3000]]),
        Reply::reset,
    ];
    for answer in bad {
        let before = gateway.metric(FAILED);
        listing.answers(answer);
        gateway.wait_for_metric(FAILED, before + 1.0);
        assert!(send(&gateway, &signer, "k").is_replay());
    }
    gateway.wait_for_log("were not read; known ones stay");
    let before = gateway.metric(OK);
    listing.answers(move || Reply::whole(200, &[], &list));
    gateway.wait_for_metric(OK, before + 1.0);
    assert!(send(&gateway, &signer, "k").is_replay());
}

#[test]
fn without_any_keys_nobody_is_believed_and_nobody_is_called_a_liar() {
    let upstream = books();
    let signer = ec("k");
    let dead = DeadPort::refusing();
    let url = format!("http://{}/keys", dead.address());
    let gateway = by_subject(&upstream, &at(&url, ", refresh: 1h, refresh_pause: 100ms"), "");
    let answer = send(&gateway, &signer, "k");
    assert_eq!((answer.status, answer.code().as_deref()), (503, Some("scope-unavailable")), "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(gateway.metric("oncegate_requests_total{route=\"create-order\",verdict=\"scope_unavailable\"}"), 1.0);
    // Once they can be read, it goes on by itself.
    let listing = Listing::of(jwks(&[&signer]));
    gateway.rewrite(&crate::yaml(
        &upstream,
        "/orders",
        "{ jwt_claim: sub }",
        &format!("jwt: {}", at(&listing.url(), ", refresh: 1h")),
    ));
    gateway.signal("HUP");
    wait_until("the keys are read", || send(&gateway, &signer, "k").status == 201);
}

#[test]
fn a_silent_issuer_holds_a_request_no_longer_than_a_reading_may_take() {
    let upstream = books();
    let silent = Listing::new(Reply::silence);
    let jwt = format!("{{ jwks_url: \"{}\", fetch_timeout: 300ms }}", silent.url());
    let gateway = by_subject(&upstream, &jwt, "");
    assert_eq!(send(&gateway, &ec("k"), "k").code().as_deref(), Some("scope-unavailable"));
    gateway.wait_for_metric(FAILED, 1.0);
}

#[test]
fn a_reload_takes_over_changed_files_of_keys() {
    let upstream = books();
    let (old, new) = (ec("old"), ec("new"));
    let text = crate::yaml(&upstream, "/orders", "{ jwt_claim: sub }", "jwt: { jwks_file: '{dir}/keys.json' }");
    let folder = tempfile::tempdir().unwrap();
    let (config, keys) = (folder.path().join("oncegate.yaml"), folder.path().join("keys.json"));
    std::fs::write(&keys, jwks(&[&old])).unwrap();
    crate::gateway::write(&config, &text);
    let mut gateway = Gateway::try_run(&config).unwrap();
    assert_eq!(send(&gateway, &old, "k").status, 201);
    std::fs::write(&keys, jwks(&[&new])).unwrap();
    gateway.signal("HUP");
    assert!(gateway.wait_for_log("configuration reloaded").contains("the keys in `jwt.jwks_file`"));
    assert!(send(&gateway, &new, "k").is_replay());
    assert_invalid(&send(&gateway, &old, "k"), "does not list");
    // A bad file changes nothing.
    std::fs::write(&keys, "{}").unwrap();
    gateway.signal("HUP");
    gateway.wait_for_log("configuration not reloaded");
    assert!(send(&gateway, &new, "k").is_replay());
}

#[test]
fn over_https_only_the_issuer_itself_is_believed() {
    let upstream = books();
    let (signer, authority) = (ec("k"), Authority::new());
    let address = secured(&authority.issue("id", "localhost"), jwks(&[&signer]));
    let jwt = |ca: &Authority| {
        let url = format!("https://localhost:{}/keys", address.port());
        at(&url, &format!(", refresh: 1h, tls: {{ ca: '{}' }}", ca.file().display()))
    };
    let gateway = by_subject(&upstream, &jwt(&authority), "");
    assert_eq!(send(&gateway, &signer, "k").status, 201);
    let other = Authority::new();
    let mut gateway = by_subject(&upstream, &jwt(&other), "");
    assert_eq!(send(&gateway, &signer, "k").code().as_deref(), Some("scope-unavailable"));
    gateway.wait_for_log("no TLS with localhost");
}

/// Answers each connection with this text, over TLS.
fn secured(issued: &Issued, text: String) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(&issued.certificate).unwrap()];
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket.unwrap());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            // A client that turned the certificate down has gone.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}
