//! TLS in front: which protocol, which certificate, which client; and what a reload changes.

use std::io::{Read, Write};
use std::process::Command;

use crate::authority::{Authority, Issued, Stream};
use crate::client::{Answer, Call, connect, read_answer};
use crate::gateway::wait_until;
use crate::{Gateway, books, gateway, yaml};

static OLD: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS12];

/// Sends a call on a TLS connection that stays open.
fn ask(stream: &mut Stream, call: &Call) -> std::io::Result<Answer> {
    let bytes = String::from_utf8_lossy(&call.bytes()).replace("Connection: close\r\n", "");
    stream.write_all(bytes.as_bytes())?;
    stream.flush()?;
    read_answer(stream)
}

#[test]
fn the_protocol_is_agreed_on() {
    let (authority, upstream) = (Authority::new(), books());
    let issued = authority.issue("a", "a.test");
    let both = gateway(&upstream, &Issued::yaml(&[&issued], ""));
    let agreed = |gateway: &Gateway, wanted: &[&str]| {
        let stream = authority.client().asking_for(wanted).visit(gateway.address, "a.test");
        stream.map(|stream| stream.conn.alpn_protocol().map(|protocol| String::from_utf8(protocol.to_vec()).unwrap()))
    };
    for (wanted, expected) in [(&["http/1.1", "h2"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)] {
        assert_eq!(agreed(&both, wanted).unwrap().as_deref(), expected);
    }
    assert!(agreed(&both, &["h3"]).is_err());
    let one = gateway(&upstream, &Issued::yaml(&[&issued], "http2: { enabled: false }"));
    assert_eq!(agreed(&one, &["http/1.1", "h2"]).unwrap().as_deref(), Some("http/1.1"));
}

#[test]
fn requests_are_guarded_and_the_api_hears_that_they_came_encrypted() {
    let (authority, upstream) = (Authority::new(), books());
    let gateway = gateway(&upstream, &Issued::yaml(&[&authority.issue("a", "a.test")], ""));
    let mut stream = authority.client().visit(gateway.address, "a.test").unwrap();
    let call = Call::post("/orders").key("k").body("x");
    let first = ask(&mut stream, &call).unwrap();
    assert_eq!((first.status, first.text().as_str()), (201, "booked"));
    assert!(ask(&mut stream, &call).unwrap().is_replay());
    assert!(call.try_send(gateway.address).unwrap().text().contains("speaks TLS"));
    let [request] = &upstream.requests()[..] else { panic!("not once") };
    assert_eq!(request.text("x-forwarded-proto"), "https");
}

#[test]
fn the_name_chooses_the_certificate() {
    let (authority, upstream) = (Authority::new(), books());
    let issued = [("a", "a.test"), ("b", "b.test"), ("c", "*.c.test")].map(|(file, name)| authority.issue(file, name));
    let gateway = gateway(&upstream, &Issued::yaml(&issued.each_ref(), ""));
    for (name, expected) in [("a.test", 0), ("b.test", 1), ("x.c.test", 2)] {
        let stream = authority.client().visit(gateway.address, name).unwrap();
        assert_eq!(stream.conn.peer_certificates().unwrap()[0], issued[expected].der(), "{name}");
    }
    for (name, shown) in [("c.test", "unknown name"), ("127.0.0.1", "no name")] {
        let refused = authority.client().visit(gateway.address, name).unwrap_err().to_string();
        assert!(refused.contains("a.test"), "{shown} gets the first: {refused}");
    }
}

#[test]
fn the_oldest_version_is_a_setting() {
    let (authority, upstream) = (Authority::new(), books());
    let issued = authority.issue("a", "a.test");
    let old = authority.client().speaking(&OLD);
    let open = gateway(&upstream, &Issued::yaml(&[&issued], ""));
    assert!(old.visit(open.address, "a.test").is_ok());
    let strict = gateway(&upstream, &Issued::yaml(&[&issued], "  min_version: 1.3"));
    assert!(old.visit(strict.address, "a.test").is_err());
    assert!(authority.client().visit(strict.address, "a.test").is_ok());
    strict.wait_for_metric("oncegate_handshakes_failed_total{step=\"tls\"}", 1.0);
}

#[test]
fn a_client_certificate_is_a_scope() {
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let upstream = books();
    let more = format!("  client_certificates: required\n  client_ca: '{}'", clients.file().display());
    let top = Issued::yaml(&[&authority.issue("a", "a.test")], &more);
    let gateway = Gateway::start(&yaml(&upstream, "scope: { client_certificate: subject }", &top));
    let call = Call::post("/orders").key("k").body("x");
    let send = |own: Option<&Issued>| {
        let visitor = authority.client();
        let visitor = own.map_or(visitor.clone(), |own| visitor.showing(own));
        ask(&mut visitor.visit(gateway.address, "a.test")?, &call)
    };
    assert!(!send(Some(&clients.issue("one", "one"))).unwrap().is_replay());
    assert!(send(Some(&clients.issue("renewed", "one"))).unwrap().is_replay());
    assert!(!send(Some(&clients.issue("two", "two"))).unwrap().is_replay());
    assert_eq!(upstream.requests().len(), 2);
    assert!(send(None).is_err());
    assert!(send(Some(&strangers.issue("one", "one"))).is_err());
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_client_may_be_asked_without_having_to_answer() {
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let upstream = books();
    let more = format!("  client_certificates: optional\n  client_ca: '{}'", clients.file().display());
    let top = Issued::yaml(&[&authority.issue("a", "a.test")], &more);
    let gateway = Gateway::start(&yaml(&upstream, "scope: { client_certificate: fingerprint }", &top));
    let visit =
        |visitor: &crate::authority::Visitor, call: &Call| ask(&mut visitor.visit(gateway.address, "a.test")?, call);
    let (guarded, plain) = (Call::post("/orders").key("k").body("x"), Call::new("GET", "/plain"));
    let nobody = authority.client();
    assert_eq!(visit(&nobody, &plain).unwrap().status, 201);
    assert_eq!(visit(&nobody, &guarded).unwrap().code().as_deref(), Some("scope-missing"));
    let one = authority.client().showing(&clients.issue("one", "one"));
    assert_eq!(visit(&one, &guarded).unwrap().status, 201);
    assert!(visit(&one, &guarded).unwrap().is_replay());
    assert!(visit(&authority.client().showing(&strangers.issue("one", "one")), &plain).is_err());
}

#[test]
fn new_certificates_are_taken_over_and_connections_go_on() {
    let (authority, upstream) = (Authority::new(), books());
    let issued = authority.issue("a", "a.test");
    let first = issued.der();
    let mut gateway = gateway(&upstream, &Issued::yaml(&[&issued], ""));
    let shown = || {
        let stream = authority.client().visit(gateway.address, "a.test").unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone()
    };
    let mut open = authority.client().visit(gateway.address, "a.test").unwrap();
    assert_eq!(shown(), first);
    let second = authority.issue("a", "a.test").der();
    wait_until("the new certificate is shown", || shown() == second);
    assert_eq!(ask(&mut open, &Call::new("GET", "/x")).unwrap().status, 201);

    let failed = "oncegate_tls_reload_failed";
    assert_eq!(gateway.metric(failed), 0.0);
    std::fs::write(&issued.key, "torn").unwrap();
    gateway.wait_for_metric(failed, 1.0);
    assert_eq!(shown(), second);
    assert_eq!(ask(&mut open, &Call::new("GET", "/x")).unwrap().status, 201);
    let third = authority.issue("a", "a.test").der();
    wait_until("the next good one is shown", || shown() == third);
    wait_until("all is well again", || gateway.metric(failed) == 0.0);
    gateway.wait_for_log("a.key: has no private key");
}

#[test]
fn a_slow_handshake_is_shed() {
    let (authority, upstream) = (Authority::new(), books());
    let top = Issued::yaml(&[&authority.issue("a", "a.test")], "  handshake_timeout: 200ms");
    let gateway = gateway(&upstream, &top);
    for beginning in [&b""[..], &[22, 3, 1, 2, 0, 1]] {
        let mut stream = connect(gateway.address).unwrap();
        stream.write_all(beginning).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
    gateway.wait_for_metric("oncegate_handshakes_failed_total{step=\"tls\"}", 2.0);
    // To open the port and leave is what balancers do.
    drop(connect(gateway.address).unwrap());
    assert!(authority.client().visit(gateway.address, "a.test").is_ok());
    assert_eq!(gateway.metric("oncegate_handshakes_failed_total{step=\"tls\"}"), 2.0);
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_starts() {
    let (authority, upstream) = (Authority::new(), books());
    let (a, b) = (authority.issue("a", "a.test"), authority.issue("b", "b.test"));
    let crossed = Issued { certificate: a.certificate, key: b.key };
    let file = authority.file().with_file_name("c.yaml");
    std::fs::write(&file, yaml(&upstream, "", &Issued::yaml(&[&crossed], ""))).unwrap();
    for (command, code) in [("check", 2), ("serve", 1)] {
        let output = Command::new(env!("CARGO_BIN_EXE_oncegate")).args([command, "--config"]).arg(&file).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("b.key: is not the key of the first certificate in"), "{said}");
    }
}

/// A real client from elsewhere: its own TLS, its own HTTP/2.
#[test]
fn curl_speaks_http2() {
    let (authority, upstream) = (Authority::new(), books());
    let gateway = gateway(&upstream, &Issued::yaml(&[&authority.issue("a", "localhost")], ""));
    let url = format!("https://localhost:{}/orders", gateway.address.port());
    for (version, replay) in [("--http2", false), ("--http1.1", true)] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--include", version, "--cacert"])
            .arg(authority.file())
            .args(["-H", "Idempotency-Key: k", "-d", "x", &url])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(text.starts_with(if replay { "http/1.1 201" } else { "http/2 201" }), "{output:?}");
        assert_eq!(text.contains("idempotent-replayed: true"), replay, "{text}");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_client_that_begins_no_handshake_makes_room_for_a_new_one() {
    let (authority, upstream) = (Authority::new(), books());
    let issued = authority.issue("a", "a.test");
    let gateway = gateway(&upstream, &Issued::yaml(&[&issued], "workers: 1\nlimits: { connections: 2 }"));
    let mut silent = [connect(gateway.address).unwrap(), connect(gateway.address).unwrap()];
    // A newcomer that is there before the others were looked at finds no room yet.
    let mut stream = (0..50).find_map(|_| authority.client().visit(gateway.address, "a.test").ok()).unwrap();
    assert_eq!(ask(&mut stream, &Call::post("/orders").key("k").body("x")).unwrap().status, 201);
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the one that has rested longest");
    assert_eq!(gateway.metric("oncegate_handshakes_failed_total{step=\"tls\"}"), 0.0);
}
