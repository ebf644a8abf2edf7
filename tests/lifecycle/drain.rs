//! How a gateway stops: in order, in time, or at once.

use std::io::{Read, Write};

use crate::client::{Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, ready_upstream, yaml};

const KEPT: &str = "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_drain_finishes_and_records_what_is_under_way() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = gateway(&upstream);
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

/// A thread that has to be had for it might not be: then the stop would be none.
#[test]
fn a_drain_needs_no_further_thread() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = Gateway::start(&yaml(&upstream, "store: { kind: memory }\n", ""));
    let call = Call::post("/orders").key("k-1").body("x");
    let (address, tasks) = (gateway.address, format!("/proc/{}/task", gateway.pid()));
    let threads = || std::fs::read_dir(&tasks).unwrap().count();
    let before = threads();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call.send(address));
        upstream.wait_for_requests(1);
        gateway.signal("TERM");
        wait_until("no new connection is taken", || connect(address).is_err());
        assert!(threads() <= before);
        gate.open();
        assert_eq!(first.join().unwrap().text(), "done");
    });
    assert!(gateway.wait().success());
}

#[test]
fn a_drain_ends_in_time_and_leaves_a_doubt() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let mut gateway = Gateway::start(&yaml(&upstream, "drain_timeout: 300ms", ""));
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
    let mut gateway = Gateway::start(&yaml(&upstream, "drain_timeout: 300ms\nworkers: 1", ""));
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

#[test]
fn a_second_signal_ends_at_once() {
    let upstream = ScriptedUpstream::start(|_| Reply::silence());
    let mut gateway = Gateway::start(&yaml(&upstream, "drain_timeout: 1h", ""));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&Call::post("/orders").key("k-1").body("x").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    tell_again(&gateway);
    assert_eq!(gateway.wait().code(), Some(1), "an end that is not clean must be seen");
}

/// Gives a second signal, which counts from a moment after the first on.
fn tell_again(gateway: &Gateway) {
    wait_until("it ends at once", || {
        gateway.signal("TERM");
        gateway.log().contains("stopped at once")
    });
}

/// `timeout`, for one, tells a process and then its group.
#[test]
fn one_word_that_is_said_twice_drains() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = Gateway::start(&yaml(&upstream, "drain_timeout: 1h", ""));
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&Call::post("/orders").key("k-1").body("x").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    gateway.signal("TERM");
    gate.open();
    assert_eq!(read_answer(&mut client).unwrap().status, 201);
    assert!(gateway.wait().success(), "{}", gateway.log());
}

/// Balancers look at `/readyz` every few seconds: until they have, they send clients here.
#[test]
fn it_is_not_ready_before_it_takes_no_more_connections() {
    let upstream = ready_upstream();
    let mut gateway = Gateway::start(&yaml(&upstream, "drain_delay: 1h", ""));
    let mut kept = connect(gateway.address).unwrap();
    kept.write_all(KEPT.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut kept).unwrap().header("connection"), None);
    assert_eq!(gateway.get_admin("/readyz").status, 200);
    gateway.signal("TERM");
    wait_until("it is not ready", || gateway.get_admin("/readyz").status == 503);
    assert!(gateway.get_admin("/readyz").text().contains("stopping"));
    assert_eq!(gateway.get_admin("/livez").status, 200);
    let mut fresh = connect(gateway.address).unwrap();
    for client in [&mut kept, &mut fresh] {
        client.write_all(KEPT.as_bytes()).unwrap();
        let answer = read_answer(client).unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }
    tell_again(&gateway);
    assert_eq!(gateway.wait().code(), Some(1));
}

#[test]
fn operators_look_on_until_the_end() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let mut gateway = gateway(&upstream);
    let mut client = connect(gateway.address).unwrap();
    client.write_all(&Call::post("/orders").key("k").body("x").bytes()).unwrap();
    upstream.wait_for_requests(1);
    gateway.signal("TERM");
    wait_until("no new connection is taken", || connect(gateway.address).is_err());
    assert_eq!((gateway.get_admin("/readyz").status, gateway.get_admin("/livez").status), (503, 200));
    assert_eq!(gateway.metric(r#"oncegate_in_flight{route="create-order"}"#), 1.0);
    gate.open();
    assert_eq!(read_answer(&mut client).unwrap().header("connection"), Some("close"));
    assert_eq!(gateway.wait().code(), Some(0));
}

/// Whoever has connected is served, whether or not the gateway had come to accept the connection; and whoever has sent a
/// request over a kept connection.
#[test]
fn what_had_arrived_when_the_signal_came_is_served() {
    // So many that the signal comes while they are being accepted.
    const CLIENTS: usize = 400;
    let upstream = ready_upstream();
    for workers in [1, 2] {
        let mut gateway = Gateway::start(&yaml(&upstream, &format!("workers: {workers}"), ""));
        let mut kept = connect(gateway.address).unwrap();
        kept.write_all(KEPT.as_bytes()).unwrap();
        read_answer(&mut kept).unwrap();
        gateway.signal("STOP");
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(gateway.address).unwrap()).collect();
        clients.push(kept);
        for client in &mut clients {
            client.write_all(KEPT.as_bytes()).unwrap();
        }
        gateway.signal("TERM");
        gateway.signal("CONT");
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = read_answer(client).unwrap_or_else(|error| panic!("client {number}: {error}"));
            assert_eq!(answer.status, 200);
            // Said, or, where the answer was faster than the signal, done after a while.
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        }
        assert_eq!(gateway.wait().code(), Some(0));
    }
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let upstream = ready_upstream();
    let mut gateway = gateway(&upstream);
    let [mut silent, mut kept] = [(); 2].map(|()| connect(gateway.address).unwrap());
    kept.write_all(KEPT.as_bytes()).unwrap();
    read_answer(&mut kept).unwrap();
    gateway.signal("TERM");
    for client in [&mut silent, &mut kept] {
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "it is closed in order");
    }
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(!gateway.log().contains("given up"), "{}", gateway.log());
}

/// The answer came before its server had read all of the request.
#[test]
fn a_drain_lets_an_overtaken_request_out() {
    const LENGTH: usize = 48 << 20;
    let gate = Gate::new();
    let (hold, (told, read)) = (gate.clone(), std::sync::mpsc::channel());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade").unwrap();
        hold.pass();
        told.send(std::io::copy(&mut stream.take(LENGTH as u64), &mut std::io::sink()).unwrap()).unwrap();
    });
    let unused = ScriptedUpstream::start(|_| Reply::silence());
    let guard = format!("request_body_limit: {LENGTH}B");
    let text = yaml(&unused, "limits: { buffered_bodies: 256MiB }", "");
    let text = text
        .replace(&unused.address().to_string(), &address.to_string())
        .replace("scope: none", &format!("scope: none\n      {guard}"));
    let mut gateway = Gateway::start(&text);
    assert_eq!(gateway.send(&Call::post("/orders").key("k").body(vec![b'x'; LENGTH])).text(), "made");
    gateway.signal("TERM");
    gateway.wait_for_log("stopping");
    wait_until("no new connection is taken", || connect(gateway.address).is_err());
    gate.open();
    assert_eq!(read.recv().unwrap(), LENGTH as u64);
    assert!(gateway.wait().success());
}
