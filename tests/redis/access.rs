//! Who may connect, and how: TLS, certificates, users, passwords that change, the protocol.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::gateway::wait_until;
use crate::redis_server::{Cluster, RedisServer, Sentinels, free_port};
use crate::{BACK, created, gateway, in_time, refuses, runs_within};

/// Files of an authority, of a server at 127.0.0.1 and of a client, in a folder of their own.
fn certificates() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Names of their own: OpenSSL takes a certificate that bears its issuer's name for one that signed itself.
    authority.distinguished_name.push(DnType::CommonName, "authority");
    write("ca.crt", authority.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(authority, key);
    for (name, subject) in [("server", "127.0.0.1"), ("client", "gateway")] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![subject.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.crt"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    folder
}

/// Options of a server that speaks TLS on `port`, beside the plain one for the test itself, and asks for certificates.
fn secure(folder: &Path, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let options = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", file("server.crt")),
        ("--tls-key-file", file("server.key")),
        ("--tls-ca-cert-file", file("ca.crt")),
        ("--tls-auth-clients", "yes".to_owned()),
    ];
    options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

fn tls(folder: &Path) -> String {
    let folder = folder.display();
    format!("tls: {{ ca: {folder}/ca.crt, certificate: {folder}/client.crt, key: {folder}/client.key }}")
}

#[test]
fn one_server_over_tls_with_a_client_certificate() {
    let (upstream, folder, port) = (created(), certificates(), free_port());
    let options = secure(folder.path(), port);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let _redis = RedisServer::start_with(&options);
    let url = format!("url: \"rediss://127.0.0.1:{port}/0\"");
    let trusted = gateway(&upstream, &format!("{url}, {}, protocol: resp3", tls(folder.path())), "");
    runs_within(BACK, &trusted, &upstream, "k");

    // Without a certificate to show, or for a name that the server's does not bear, nobody is served.
    let ca = folder.path().join("ca.crt");
    let nobody = gateway(&upstream, &format!("{url}, tls: {{ ca: {} }}", ca.display()), "");
    refuses(&nobody, &upstream, "k-nobody");
    let elsewhere = tls(folder.path()).replace("tls: {", "tls: { server_name: redis.internal,");
    let mut elsewhere = gateway(&upstream, &format!("{url}, {elsewhere}"), "");
    refuses(&elsewhere, &upstream, "k-elsewhere");
    elsewhere.wait_for_log("not valid for name \"redis.internal\"");
}

/// Nodes name each other by their TLS ports to those who speak TLS.
#[test]
fn a_cluster_over_tls() {
    let (upstream, folder) = (created(), certificates());
    let own = || [secure(folder.path(), free_port()), vec!["--tls-cluster".to_owned(), "yes".to_owned()]].concat();
    let redis = Cluster::start_each(0, own);
    let ports = redis.nodes.iter().map(|node| node.run::<(String, String)>(&["CONFIG", "GET", "tls-port"]).1);
    let nodes: Vec<_> = ports.map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let store = format!("cluster: {{ nodes: [{}] }}, {}", nodes.join(", "), tls(folder.path()));
    let gateway = gateway(&upstream, &store, "");
    for turn in 0..12 {
        runs_within(BACK, &gateway, &upstream, &format!("k-{turn}"));
    }
}

#[test]
fn a_password_in_a_file_can_be_changed_while_gateways_run() {
    let upstream = created();
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "og", "on", ">first", "~og:*", "+@all"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").unwrap();
    let store = format!("url: \"{}\", username: og, password_file: {}", redis.url(), file.display());
    let gateway = gateway(&upstream, &store, "");
    runs_within(BACK, &gateway, &upstream, "k-1");

    // Both are good while the file changes; then the old one goes, and with it every connection.
    redis.run::<()>(&["ACL", "SETUSER", "og", ">second"]);
    std::fs::write(&file, "second\n").unwrap();
    redis.run::<()>(&["ACL", "SETUSER", "og", "<first"]);
    redis.run::<()>(&["CLIENT", "KILL", "USER", "og"]);
    assert_eq!(in_time(&gateway, "k-2").status, 201);

    // A file that is gone is named in the log, and costs no more than a password that is wrong.
    std::fs::remove_file(&file).unwrap();
    redis.run::<()>(&["CLIENT", "KILL", "USER", "og"]);
    refuses(&gateway, &upstream, "k-3");
    std::fs::write(&file, "second").unwrap();
    runs_within(BACK, &gateway, &upstream, "k-3");
    assert!(!gateway.log().contains("second"));
}

/// Sentinels too may have their password in a file.
#[test]
fn sentinels_are_asked_with_a_password_from_a_file() {
    let upstream = created();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "w4tch").unwrap();
    let redis = Sentinels::start_with(0, &[], &["user watcher on >w4tch +@all"]);
    let access = format!("username: watcher, password_file: {}", file.display());
    let store = format!("sentinel: {{ master: mymaster, nodes: {}, {access} }}", redis.nodes());
    let gateway = gateway(&upstream, &store, "");
    wait_until("served", || in_time(&gateway, "k").status == 201);
}

/// What a user may not do is named in the log, also of the questions that begin a connection.
#[test]
fn a_permission_that_is_missing_is_named() {
    let upstream = created();
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "og", "on", ">w4tch", "~og:*", "+@all", "-info"]);
    let store = format!("url: \"{}\", username: og, password: w4tch", redis.url());
    let mut gateway = gateway(&upstream, &store, "");
    refuses(&gateway, &upstream, "k");
    gateway.wait_for_log("NOPERM this user has no permissions to run the 'info' command");
}
