//! A changed configuration is taken over whole or not at all, while requests go on.

use std::io::{Read, Write};

use crate::client::{Call, connect, read_answer};
use crate::crowd::Crowd;
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, ready_upstream, yaml};

const TAKEN: &str = r#"oncegate_reloads_total{result="ok"}"#;
const REFUSED: &str = r#"oncegate_reloads_total{result="refused"}"#;

/// A route of its own for one path.
fn route(name: &str, path: &str, upstream: &str) -> String {
    format!("  - {{ name: {name}, match: {{ path: {path} }}, upstream: {upstream} }}\n")
}

/// Puts a configuration in force.
fn reload(gateway: &Gateway, yaml: &str) {
    let before = gateway.metric(TAKEN);
    gateway.rewrite(yaml);
    gateway.signal("HUP");
    gateway.wait_for_metric(TAKEN, before + 1.0);
}

#[test]
fn reloads_under_load_fail_no_request_and_drop_no_connection() {
    const CLIENTS: usize = 6;
    const RELOADS: usize = 40;
    let [upstream, other] = [ready_upstream(), ready_upstream()];
    let top = |extra: &str, timeout: &str| {
        let servers = format!("servers: [\"http://{}\"]", other.address());
        format!("workers: 2\n{extra}\nupstreams:\n  other: {{ {servers}, response_timeout: {timeout} }}")
    };
    let texts = [
        yaml(&upstream, &top("limits: { in_flight: 100 }", "10s"), &route("plain", "/plain", "other")),
        yaml(&upstream, &top("problem_types: 'urn:x:'", "11s"), &route("also", "/also", "other")),
    ];
    let gateway = Gateway::start(&texts[0]);
    let crowd = Crowd::default();
    std::thread::scope(|scope| {
        crowd.enter(scope, gateway.address, [CLIENTS, 1]);
        for number in 1..=RELOADS {
            crowd.wait_for_answers(20);
            reload(&gateway, &texts[number % 2]);
        }
        crowd.leave();
    });
    crowd.assert_served(&upstream);
    assert_eq!(crowd.kept_connections(), CLIENTS, "a connection was dropped");
    assert_eq!(gateway.metric(REFUSED), 0.0);
    let passed =
        |route: &str| gateway.metric(&format!("oncegate_requests_total{{route=\"{route}\",verdict=\"passed\"}}"));
    assert_eq!(passed("plain"), to_number(other.requests().len()), "a request was counted under another route");
    assert!(passed("plain") > 0.0 && passed("rest") > 0.0, "both configurations were in force");
}

fn to_number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

#[test]
fn an_upstream_that_stays_as_it_is_keeps_its_connections() {
    let upstream = ready_upstream();
    let gateway = Gateway::start(&yaml(&upstream, "workers: 1", ""));
    let call = Call::new("GET", "/plain");
    gateway.send(&call);
    reload(&gateway, &yaml(&upstream, "workers: 1", &route("extra", "/extra", "orders")));
    assert_eq!(gateway.send(&Call::new("GET", "/extra")).status, 200);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="extra",verdict="passed"}"#), 1.0);
    assert_eq!(upstream.connections(), 1);
    reload(&gateway, &yaml(&upstream, "workers: 1", "").replace("response_timeout: 10s", "response_timeout: 9s"));
    upstream.wait_for_closed(1);
    gateway.send(&call);
    assert_eq!(upstream.connections(), 2, "an upstream that differs begins anew");
}

#[test]
fn a_request_ends_under_the_configuration_that_it_began_with() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let with = yaml(&upstream, "", "");
    let mut gateway = Gateway::start(&with);
    let call = Call::post("/orders").key("k").body("x");
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&call.bytes()).unwrap();
    upstream.wait_for_requests(1);
    let without = with.replace("path: /orders", "path: /elsewhere").replace("create-order", "another");
    reload(&gateway, &without);
    let line = gateway.wait_for_log("configuration reloaded");
    assert!(line.contains("routes: another added, create-order removed"), "{line}");
    gate.open();
    assert_eq!(read_answer(&mut client).unwrap().text(), "done");
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="executed"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_in_flight{route="create-order"}"#), 0.0);
    // What it left behind is there when the route comes back.
    reload(&gateway, &with);
    assert!(gateway.send(&call).is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_bad_configuration_changes_nothing_and_is_reported_whole() {
    let upstream = ready_upstream();
    let good = yaml(&upstream, "", "");
    let mut gateway = gateway(&upstream);
    gateway.rewrite(&good.replace("upstream: orders", "upstream: order").replace("scope: none", "scop: none"));
    gateway.signal("HUP");
    gateway.wait_for_metric(REFUSED, 1.0);
    gateway.wait_for_log("configuration not reloaded");
    let log = gateway.log();
    assert!(log.contains("no upstream is called `order`") && log.contains("scop"), "{log}");
    assert!(log.contains("oncegate.yaml:") && log.contains("routes[0]"), "a fault without its place:\n{log}");
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body("x")).status, 201);
    reload(&gateway, &good);
    gateway.wait_for_log("nothing changed");
}

#[test]
fn what_needs_a_restart_is_refused_by_name() {
    let upstream = ready_upstream();
    let mut gateway = gateway(&upstream);
    let other = yaml(&upstream, "listen: 127.0.0.1:1\nstore: { kind: memory }", &route("extra", "/extra", "orders"));
    gateway.rewrite(&other);
    gateway.signal("HUP");
    gateway.wait_for_metric(REFUSED, 1.0);
    for name in ["listen", "store"] {
        gateway.wait_for_log(&format!("`{name}` differs: it needs a restart"));
    }
    gateway.send(&Call::new("GET", "/extra"));
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="extra",verdict="passed"}"#), 0.0, "taken over in part");
}

#[test]
fn limits_token_readiness_and_log_level_follow() {
    let upstream = ready_upstream();
    let mut gateway = gateway(&upstream);
    assert_eq!(gateway.get_admin("/api/v1/keys/1").status, 400);
    let admin = "admin: { listen: 127.0.0.1:0, token: a-new-secret-token }";
    let top = format!("{admin}\nlimits: {{ connections: 1 }}\nlog: {{ level: debug }}");
    let mut held = connect(gateway.address).unwrap();
    // In the middle of a head, it does not rest, and makes no room.
    held.write_all(b"GET /plain HTTP/1.1\r\n").unwrap();
    reload(&gateway, &yaml(&upstream, &top, ""));
    assert_eq!(gateway.get_admin("/api/v1/keys/1").status, 401);
    assert_eq!(gateway.send(&Call::new("GET", "/plain")).status, 503, "the connection from before counts");
    gateway.wait_for_log("connection turned away");
    drop(held);
    wait_until("there is room again", || gateway.send(&Call::new("GET", "/plain")).status == 200);
}

#[test]
fn a_route_that_is_gone_tells_of_no_doubts() {
    let upstream = ScriptedUpstream::start(|_| Reply::reset());
    let text = yaml(&upstream, "sweep_interval: 1s", "");
    let gateway = Gateway::start(&text);
    gateway.send(&Call::post("/orders").key("k").body("x"));
    let doubts = r#"oncegate_doubts{route="create-order"}"#;
    gateway.wait_for_metric(doubts, 1.0);
    // Its operations stay under the other name, as a good operator has it.
    let namespace = "scope: none\n      namespace: create-order";
    reload(&gateway, &text.replace("create-order", "renamed").replace("scope: none", namespace));
    gateway.wait_for_metric(r#"oncegate_doubts{route="renamed"}"#, 1.0);
    wait_until("its doubts are told of no more", || gateway.metric(doubts) == 0.0);
    reload(&gateway, &text);
    gateway.wait_for_metric(doubts, 1.0);
}

#[test]
fn what_connections_begin_with_follows_too() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let upstream = ready_upstream();
    let gateway = gateway(&upstream);
    let first_bytes = || {
        let mut client = connect(gateway.address).unwrap();
        client.write_all(PREFACE).unwrap();
        let mut bytes = [0; 12];
        client.read_exact(&mut bytes).unwrap();
        (client, bytes)
    };
    let (mut kept, settings) = first_bytes();
    assert_eq!(settings[3], 4, "no SETTINGS: {settings:?}");
    reload(&gateway, &yaml(&upstream, "http2: { enabled: false }", ""));
    assert_eq!(&first_bytes().1, b"HTTP/1.1 505");
    // A connection from before goes on in what it speaks: a ping is answered.
    kept.write_all(b"\0\0\x08\x06\0\0\0\0\0pingping").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"pingping") {
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        heard.extend(byte);
    }
    let missing = "tls: { certificates: [ { certificate: '{dir}/none.crt', key: '{dir}/none.key' } ] }";
    gateway.rewrite(&yaml(&upstream, missing, ""));
    gateway.signal("HUP");
    gateway.wait_for_metric(REFUSED, 1.0);
    assert_eq!(&first_bytes().1, b"HTTP/1.1 505", "the configuration in force stays");
}
