//! Upstreams in the file: what their addresses and their TLS may say. What is then spoken is in `tests/upstream_tls/`.

use oncegate::config::show;
use oncegate::upstream::Protocol;

use super::{LEAST, loaded, refused};

/// The least file with another upstream.
fn with(upstream: &str) -> String {
    LEAST.replace("{ servers: [\"http://127.0.0.1:9001\"] }", upstream)
}

#[test]
fn plain_http1_is_the_default_and_http2_a_word() {
    let upstream = loaded(LEAST).settings.upstreams.remove(0);
    assert!(upstream.protocol == Protocol::Http1 && upstream.tls.is_none());
    let text = with("{ servers: [\"http://127.0.0.1:9001\"], protocol: http2 }");
    assert_eq!(loaded(&text).settings.upstreams[0].protocol, Protocol::Http2);
    refused(&text.replace("http2", "h2"), "2:59 upstreams.orders.protocol", "known here: `http1`, `http2`");
}

#[test]
fn addresses_of_one_upstream_agree_about_tls() {
    let mixed = with("{ servers: [\"http://127.0.0.1:9001\", \"https://127.0.0.1:9002\"] }");
    refused(&mixed, "2:22 upstreams.orders.servers", "make two upstreams");
    let needless = with("{ servers: [\"http://127.0.0.1:9001\"], tls: {} }");
    refused(&needless, "2:54 upstreams.orders.tls", "needs `https://` servers");
}

#[test]
fn files_of_tls_are_looked_into() {
    let tls = |fields: &str| with(&format!("{{ servers: [\"https://api\"], tls: {{ {fields} }} }}"));
    for (fields, place, says) in [
        ("ca: /no/file", "2:50 upstreams.orders.tls.ca", "/no/file: cannot be read"),
        ("ca: Cargo.toml", "2:50 upstreams.orders.tls.ca", "has no certificate"),
        ("certificate: a.pem", "2:59 upstreams.orders.tls.certificate", "`key` belongs to it"),
        ("key: a.pem", "2:51 upstreams.orders.tls.key", "`certificate` belongs to it"),
        ("server_name: 'a b'", "2:59 upstreams.orders.tls.server_name", "is no name of a server"),
        ("verify: false", "2:46 upstreams.orders.tls.verify", "unknown field `verify`"),
    ] {
        refused(&tls(fields), place, says);
    }
}

#[test]
fn what_is_set_is_shown_and_loads_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    std::fs::write(&file, authority.pem()).unwrap();
    let tls = format!("tls: {{ ca: '{}', server_name: api.internal }}", file.display());
    let text = with(&format!("{{ servers: [\"https://[::1]\"], protocol: http2, {tls} }}"));
    let shown = show(&loaded(&text).settings);
    for line in ["https://[::1]:443", "protocol: http2", "server_name: \"api.internal\""] {
        assert!(shown.contains(line), "no {line} in:\n{shown}");
    }
    assert_eq!(show(&loaded(&shown).settings), shown);
}
