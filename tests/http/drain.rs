//! How a gateway stops: in order, in time, or at once.

use std::io::Write;

use crate::client::{Call, connect};
use crate::gateway::wait_until;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

#[test]
fn a_drain_finishes_and_records_what_is_under_way() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = gateway(&upstream, "");
    let call = Call::post("/orders").key("k-1").body("x");
    let address = gateway.address;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call.send(address));
        upstream.wait_for_requests(1);
        gateway.signal("TERM");
        gateway.wait_for_log("stopping");
        wait_until("no new connection is taken", || connect(address).is_err());
        gate.open();
        assert_eq!(first.join().unwrap().text(), "done");
    });
    assert!(gateway.wait().success());
    gateway.restart();
    assert!(gateway.send(&call).is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_drain_ends_in_time_and_leaves_a_doubt() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let mut gateway = crate::Gateway::start(&yaml(&upstream, "", "drain_timeout: 300ms"));
    let call = Call::post("/orders").key("k-1").body("x");
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&call.bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    gateway.restart();
    assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"));
    assert_eq!(upstream.requests().len(), 1);
}

/// One worker, a plain answer that never ends, an operator who never finishes a request: nobody ends by themselves.
#[test]
fn a_drain_ends_in_time_whoever_hangs() {
    let upstream = ScriptedUpstream::start(|_| Reply::sized(200, &[], 10, "half").then_hang());
    let mut gateway = crate::Gateway::start(&yaml(&upstream, "", "drain_timeout: 300ms\nworkers: 1"));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&Call::new("GET", "/plain").bytes()).unwrap();
    upstream.wait_for_requests(1);
    let mut operator = connect(gateway.admin).unwrap();
    let path = format!("/api/v1/keys/{}/resolve", "0".repeat(64));
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n");
    operator.write_all(format!("{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n").as_bytes()).unwrap();
    // The gateway reads the operator's body.
    let mut interim = [0; 12];
    std::io::Read::read_exact(&mut operator, &mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100");
    gateway.signal("TERM");
    assert!(gateway.wait().success());
}

/// Many servers read their configuration anew at a hangup: who expects that must not kill attempts under way.
#[test]
fn a_hangup_ends_nothing() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = gateway(&upstream, "");
    let address = gateway.address;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| Call::post("/orders").key("k-1").body("x").send(address));
        upstream.wait_for_requests(1);
        gateway.signal("HUP");
        gateway.wait_for_log("SIGHUP does nothing");
        gate.open();
        assert_eq!(first.join().unwrap().text(), "done");
    });
}

#[test]
fn a_second_signal_ends_at_once() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let mut gateway = crate::Gateway::start(&yaml(&upstream, "", "drain_timeout: 1h"));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&Call::post("/orders").key("k-1").body("x").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert!(gateway.log().contains("stopped at once"));
}
