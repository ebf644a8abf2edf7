//! The real binary in front of upstreams with TLS and HTTP/2: what clients are told, and what is remembered.

use std::process::Command;

use rustls::version::TLS13;

use super::certificates::{Authority, server};
use super::client::Call;
use super::frames::{FrameServer, INTERNAL_ERROR, REFUSED_STREAM, made, reset};
use super::gateway::Gateway;
use super::http2_server::{Http2Server, saying};
use super::tls_server::{Then, TlsServer};

fn yaml(server: &str, upstream: &str) -> String {
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: embedded, path: '{{dir}}/store' }}
upstreams:
  orders:
    servers: [ \"{server}\" ]
    {upstream}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
"
    )
}

fn call() -> Call {
    Call::post("/orders").key("k-1").json("{}")
}

#[test]
fn an_order_over_tls_is_done_once() {
    let authority = Authority::new();
    let server = TlsServer::start(server(&authority.issue("localhost"), &[&TLS13], None), |_| Then::Next);
    let ca = format!("tls: {{ ca: '{}' }}", authority.file().display());
    let gateway = Gateway::start(&yaml(&format!("https://localhost:{}", server.address.port()), &ca));
    let first = gateway.send(&call());
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = gateway.send(&call());
    assert_eq!((again.status, again.is_replay(), again.body), (201, true, first.body));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_server_that_is_not_believed_frees_the_key() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = TlsServer::start(server(&stranger.issue("localhost"), &[&TLS13], None), |_| Then::Next);
    let ca = format!("tls: {{ ca: '{}' }}", authority.file().display());
    let gateway = Gateway::start(&yaml(&format!("https://localhost:{}", server.address.port()), &ca));
    for _ in 0..2 {
        let refused = gateway.send(&call());
        assert_eq!((refused.status, refused.code().as_deref()), (502, Some("upstream-unreachable")));
        assert_eq!(refused.header("oncegate-outcome"), Some("not-executed"));
    }
    assert!(gateway.log().contains("UnknownIssuer"), "the log does not say why");
}

#[test]
fn orders_over_http2_are_done_once() {
    let server = Http2Server::start(saying("made"));
    let gateway = Gateway::start(&yaml(&format!("http://{}", server.address), "protocol: http2"));
    let (first, again) = (gateway.send(&call()), gateway.send(&call()));
    assert_eq!((first.status, first.is_replay(), &first.body[..]), (201, false, &b"made"[..]));
    assert_eq!((again.status, again.is_replay(), again.body), (201, true, first.body));
    assert_eq!(server.seen().arrived.len(), 1);
}

#[test]
fn what_the_gateway_adds_goes_over_http2_too() {
    let server = Http2Server::start(saying("made"));
    let text = format!("{}\nvia: edge", yaml(&format!("http://{}", server.address), "protocol: http2"));
    let gateway = Gateway::start(&text.replace("header: Idempotency-Key", "query: order"));
    assert_eq!(gateway.send(&Call::post("/orders?order=1").header("X-Last", "1").json("{}")).status, 201);
    let arrived = server.seen().arrived;
    let lines = |name: &str| -> Vec<&str> {
        arrived[0].head.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    };
    assert_eq!([lines("x-forwarded-for"), lines("x-forwarded-proto")], [["127.0.0.1"], ["http"]]);
    assert_eq!([lines("x-forwarded-host"), lines("oncegate-attempt")], [["api.test"], ["1"]]);
    let [operation, key] = ["oncegate-operation", "idempotency-key"].map(|name| lines(name).concat());
    assert_eq!((operation.len(), key), (64, format!("og-{operation}")));
    assert_eq!([lines("traceparent"), lines("x-request-id")].map(|lines| lines.concat().len()), [55, 36]);
    assert!(lines("via").concat().starts_with("1.1 edge-"), "{:?}", lines("via"));
}

#[test]
fn a_stream_refused_frees_the_key_and_a_stream_reset_leaves_doubt() {
    let server = FrameServer::start(|at| match at.connection {
        1 | 2 => vec![reset(at.stream, REFUSED_STREAM)],
        _ if at.stream == 1 => vec![reset(at.stream, INTERNAL_ERROR)],
        _ => made(at.stream),
    });
    let gateway = Gateway::start(
        &yaml(&format!("http://{}", server.address), "protocol: http2")
            .replace("listen: 127.0.0.1:0\nadmin", "workers: 1\nlisten: 127.0.0.1:0\nadmin"),
    );
    let refused = gateway.send(&call());
    assert_eq!((refused.status, refused.header("oncegate-outcome")), (502, Some("not-executed")));
    let broken = gateway.send(&call());
    assert_eq!((broken.status, broken.code().as_deref()), (502, Some("upstream-failed")));
    assert_eq!(broken.header("oncegate-outcome"), Some("unknown"));
    let held = gateway.send(&call());
    assert_eq!((held.status, held.code().as_deref()), (409, Some("outcome-unknown")));
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn check_finds_a_file_that_is_missing_and_shows_no_key() {
    let authority = Authority::new();
    let pair = authority.issue("gateway");
    let check = |tls: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("oncegate.yaml");
        std::fs::write(&file, yaml("https://localhost:8443", tls)).unwrap();
        let checked =
            Command::new(env!("CARGO_BIN_EXE_oncegate")).args(["check", "--config"]).arg(file).output().unwrap();
        (checked.status.success(), String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap())
    };
    let (ca, certificate, key) = (authority.file(), pair.certificate, pair.key);
    let (good, shown) = check(&format!(
        "tls: {{ ca: '{}', certificate: '{}', key: '{}' }}",
        ca.display(),
        certificate.display(),
        key.display()
    ));
    assert!(good, "{shown}");
    assert!(shown.contains(&format!("key: \"{}\"", key.display())), "{shown}");
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    let (good, said) = check("tls: { ca: './no-such-file.pem' }");
    assert!(!good && said.contains("upstreams.orders.tls.ca: ./no-such-file.pem: cannot be read"), "{said}");
}
