//! TLS towards an upstream: who is believed, what a refusal proves, and what may be used again.

use std::io::{Read, Write};
use std::net::TcpListener;

use oncegate::tls::client::{Identity, Settings as Tls, Unusable};
use oncegate::upstream::{Protocol, Reason, Upstream};
use rustls::version::{TLS12, TLS13};

use super::certificates::{Authority, Pair, server};
use super::tls_server::{Then, TlsServer};
use super::{not_sent, ordered, settings};

fn trusting(authority: &Authority) -> Tls {
    Tls { ca: Some(authority.file()), ..Tls::default() }
}

fn showing(authority: &Authority, pair: Pair) -> Tls {
    let identity = Identity { certificate: pair.certificate, key: pair.key };
    Tls { identity: Some(identity), ..trusting(authority) }
}

fn client(server: &TlsServer, tls: Tls) -> Upstream {
    Upstream::new(settings(&[server.address.port()], Protocol::Http1, Some(tls)))
}

fn start(authority: &Authority, name: &str, then: impl Fn(usize) -> Then + Send + Sync + 'static) -> TlsServer {
    TlsServer::start(server(&authority.issue(name), &[&TLS13, &TLS12], None), then)
}

#[tokio::test]
async fn a_server_that_shows_who_it_is_gets_the_request_as_it_is() {
    let authority = Authority::new();
    for versions in [[&TLS12].as_slice(), &[&TLS13]] {
        let server = TlsServer::start(server(&authority.issue("localhost"), versions, None), |_| Then::Next);
        let client = client(&server, trusting(&authority));
        assert_eq!(ordered(&client).await, "made");
        assert_eq!(ordered(&client).await, "made");
        let seen = server.seen();
        assert!(seen[0].request.starts_with("POST /orders?a=%2B HTTP/1.1\r\n"), "{seen:?}");
        assert!(seen[0].request.ends_with("\r\n\r\n{\"sku\":1}"), "{seen:?}");
        // The Host is the client's; the name asked for is the server's.
        assert!(seen[0].request.contains("host: shop.example\r\n"), "{seen:?}");
        assert_eq!(seen[0].sni.as_deref(), Some("localhost"));
        assert_eq!(seen.iter().map(|seen| seen.connection).collect::<Vec<_>>(), [1, 1]);
    }
}

#[tokio::test]
async fn nobody_else_gets_a_byte_of_it() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (good, expired) = (authority.issue("localhost"), authority.issue_expired("localhost"));
    for (shown, trusted, why) in [
        (&authority.issue("other.example"), &authority, "name"),
        (&good, &stranger, "UnknownIssuer"),
        (&expired, &authority, "expired"),
    ] {
        let server = TlsServer::start(server(shown, &[&TLS13], None), |_| Then::Next);
        let refused = not_sent(&client(&server, trusting(trusted))).await;
        assert_eq!(refused.reason, Reason::Tls, "{refused}");
        assert!(refused.detail.contains(why), "{refused} without {why}");
        assert!(server.seen().is_empty());
    }
}

#[tokio::test]
async fn the_name_may_be_set() {
    let authority = Authority::new();
    let server = start(&authority, "orders.internal", |_| Then::Next);
    let named = Tls { server_name: Some("orders.internal".to_owned()), ..trusting(&authority) };
    assert_eq!(ordered(&client(&server, named)).await, "made");
    assert_eq!(server.seen()[0].sni.as_deref(), Some("orders.internal"));
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_the_one_that_is_set() {
    let (authority, clients) = (Authority::new(), Authority::new());
    for version in [&TLS12, &TLS13] {
        let server =
            TlsServer::start(server(&authority.issue("localhost"), &[version], Some(&clients)), |_| Then::Next);
        let showing = showing(&authority, clients.issue("gateway"));
        assert_eq!(ordered(&client(&server, showing)).await, "made");
        assert_eq!(server.seen()[0].shown, 1);
    }
}

#[tokio::test]
async fn a_server_that_turns_this_gateway_down_got_no_request() {
    let (authority, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    // In TLS 1.3 the server says so only after the request has been written.
    for version in [&TLS12, &TLS13] {
        let server =
            TlsServer::start(server(&authority.issue("localhost"), &[version], Some(&clients)), |_| Then::Next);
        let expired = clients.issue_expired("gateway");
        for tls in [trusting(&authority), showing(&authority, others.issue("gateway")), showing(&authority, expired)] {
            let refused = not_sent(&client(&server, tls)).await;
            assert_eq!(refused.reason, Reason::Tls, "{version:?}: {refused}");
        }
        assert!(server.seen().is_empty());
    }
}

/// A server that reads a little and answers with these bytes, over and over.
fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = socket.read(&mut [0; 16]).and_then(|_| socket.write_all(bytes));
            let _ = std::io::copy(&mut socket, &mut std::io::sink());
        }
    });
    port
}

#[tokio::test]
async fn a_server_without_tls_got_no_request() {
    let authority = Authority::new();
    let port = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let plain = Upstream::new(settings(&[port], Protocol::Http1, Some(trusting(&authority))));
    assert_eq!(not_sent(&plain).await.reason, Reason::Tls);
}

#[tokio::test]
async fn a_server_that_never_finishes_the_handshake_got_no_request() {
    let authority = Authority::new();
    let mut silent = settings(&[answering(b"")], Protocol::Http1, Some(trusting(&authority)));
    silent.connect_timeout = std::time::Duration::from_millis(100);
    assert_eq!(not_sent(&Upstream::new(silent)).await.reason, Reason::Timeout);
}

#[tokio::test]
async fn what_tls_says_by_itself_does_not_spoil_a_connection() {
    let authority = Authority::new();
    let server = start(&authority, "localhost", |_| Then::RenewKeys);
    let client = client(&server, trusting(&authority));
    for _ in 0..3 {
        assert_eq!(ordered(&client).await, "made");
        // New keys wait on the socket, and the event loop has not heard of them.
        server.go_on();
    }
    assert_eq!(server.seen().last().unwrap().connection, 1);
}

#[tokio::test]
async fn an_idle_connection_that_is_over_costs_nothing() {
    let authority = Authority::new();
    for ending in [Then::SayGoodbye, Then::Vanish, Then::SayTimeout] {
        let server =
            start(&authority, "localhost", move |connection| if connection == 1 { ending } else { Then::Next });
        let client = client(&server, trusting(&authority));
        assert_eq!(ordered(&client).await, "made");
        server.go_on();
        assert_eq!(ordered(&client).await, "made", "{ending:?}");
        assert_eq!(server.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>(), [1, 2]);
    }
}

#[tokio::test]
async fn http2_is_spoken_only_where_it_is_agreed_on() {
    let authority = Authority::new();
    for offered in [&[][..], &[b"http/1.1".to_vec()]] {
        let mut config = server(&authority.issue("localhost"), &[&TLS13], None);
        config.alpn_protocols = offered.to_vec();
        let server = TlsServer::start(config, |_| Then::Next);
        let port = server.address.port();
        let wanting = Upstream::new(settings(&[port], Protocol::Http2, Some(trusting(&authority))));
        assert_eq!(not_sent(&wanting).await.reason, Reason::Tls);
        assert!(server.seen().is_empty());
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (one, two) = (authority.issue("one"), other.issue("two"));
    let load = |tls: Tls| oncegate::tls::client::Client::load(tls, b"h2").unwrap_err();
    let absent = authority.file().with_file_name("absent.pem");
    let with = |certificate: &std::path::Path, key: &std::path::Path| {
        load(showing(&authority, Pair { certificate: certificate.to_owned(), key: key.to_owned() }))
    };
    assert!(matches!(load(Tls { ca: Some(absent.clone()), ..Tls::default() }), Unusable::Ca(_)));
    assert!(matches!(load(Tls { ca: Some(one.key.clone()), ..Tls::default() }), Unusable::Ca(_)));
    for (certificate, key, wrong) in [
        (&absent, &one.key, &absent),
        (&one.certificate, &absent, &absent),
        (&one.certificate, &one.certificate, &one.certificate),
        (&one.certificate, &two.key, &two.key),
    ] {
        assert!(matches!(with(certificate, key), Unusable::Identity(error) if error.path == *wrong));
    }
}
