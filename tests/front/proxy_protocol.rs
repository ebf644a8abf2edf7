//! The PROXY protocol: whom it is taken from, what it changes, and what ends a connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::authority::{Authority, Issued};
use crate::client::{Call, connect, read_answer};
use crate::{Gateway, books, gateway};

const FROM_HERE: &str = "proxy_protocol: { from: [ 127.0.0.0/8 ] }";
const V1: &[u8] = b"PROXY TCP4 198.51.100.7 203.0.113.1 12345 443\r\n";
const FAILED: &str = "oncegate_handshakes_failed_total{step=\"proxy\"}";

fn v2(command: u8) -> Vec<u8> {
    let addresses = [198, 51, 100, 8, 203, 0, 113, 1, 0x30, 0x39, 1, 0xbb];
    let tlv = [0x20, 0, 3, 1, 2, 3];
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, 0x11, 0, 18], &addresses, &tlv].concat()
}

fn call() -> Vec<u8> {
    Call::new("GET", "/plain").bytes()
}

/// Everything that comes until the end.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn the_address_in_the_header_becomes_the_client() {
    let upstream = books();
    let gateway = gateway(&upstream, FROM_HERE);
    let cases = [
        (V1.to_vec(), "198.51.100.7"),
        (v2(0x21), "198.51.100.8"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n".to_vec(), "2001:db8::7"),
        // What the balancer says on its own behalf.
        (v2(0x20), "127.0.0.1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
    ];
    for (number, (header, address)) in cases.into_iter().enumerate() {
        let mut stream = connect(gateway.address).unwrap();
        stream.write_all(&[header, call()].concat()).unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().status, 201);
        assert_eq!(upstream.requests()[number].text("x-forwarded-for"), address);
    }
    assert_eq!(gateway.metric(FAILED), 0.0);
}

#[test]
fn the_header_may_come_in_pieces() {
    let upstream = books();
    let gateway = gateway(&upstream, FROM_HERE);
    for header in [V1.to_vec(), v2(0x21)] {
        let mut stream = connect(gateway.address).unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in header {
            stream.write_all(&[byte]).unwrap();
        }
        stream.write_all(&call()).unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().status, 201);
    }
}

#[test]
fn it_stands_before_tls() {
    let (authority, upstream) = (Authority::new(), books());
    let tls = Issued::yaml(&[&authority.issue("a", "a.test")], FROM_HERE);
    let gateway = gateway(&upstream, &tls);
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&v2(0x21)).unwrap();
    let mut stream = authority.client().shake_hands(stream, "a.test").unwrap();
    stream.write_all(&call()).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 201);
    let [request] = &upstream.requests()[..] else { panic!("not once") };
    assert_eq!(request.text("x-forwarded-for"), "198.51.100.8");
    assert_eq!(request.text("x-forwarded-proto"), "https");
}

/// Closed, counted, and nothing of it was taken for a request.
#[test]
fn a_balancer_without_a_sound_header_is_cut_off() {
    let upstream = books();
    let gateway = gateway(&upstream, &format!("{FROM_HERE}\nlimits: {{ header_timeout: 300ms }}"));
    let bad: [Vec<u8>; 6] = [
        call(),
        [&b"PROXY TCP4 nonsense\r\n"[..], &call()].concat(),
        [&[b'P'; 200][..], &call()].concat(),
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"[..], &call()].concat(),
        // Never whole.
        V1[..20].to_vec(),
        Vec::new(),
    ];
    for bytes in &bad {
        let mut stream = connect(gateway.address).unwrap();
        stream.write_all(bytes).unwrap();
        assert_eq!(rest(stream), b"", "{}", bytes.escape_ascii());
    }
    gateway.wait_for_metric(FAILED, 6.0);
    assert!(upstream.requests().is_empty());
}

/// Who is not listed could name any address.
#[test]
fn a_header_of_somebody_else_is_not_taken() {
    let upstream = books();
    let gateway = gateway(&upstream, "proxy_protocol: { from: [ 10.0.0.0/8 ] }");
    for header in [V1.to_vec(), v2(0x21)] {
        let mut stream = connect(gateway.address).unwrap();
        stream.write_all(&[header, call()].concat()).unwrap();
        assert!(!rest(stream).starts_with(b"HTTP/1.1 2"));
    }
    assert!(upstream.requests().is_empty());
    assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 201);
    assert_eq!(upstream.requests()[0].text("x-forwarded-for"), "127.0.0.1");
}

#[test]
fn http2_comes_after_it() {
    let upstream = books();
    let gateway: Gateway = gateway(&upstream, FROM_HERE);
    let mut raw = crate::frames::Raw::connect(gateway.address);
    raw.send(V1);
    raw.send(crate::frames::PREFACE);
    raw.send(&crate::frames::Raw::settings());
    raw.send(&crate::frames::Raw::head(1, "GET", "/plain", true));
    assert_eq!(raw.status(1), 201);
    assert_eq!(upstream.requests()[0].text("x-forwarded-for"), "198.51.100.7");
}
