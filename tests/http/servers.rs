//! An upstream of several servers behind the real binary: failover, health checks, limits, and connections that close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::client::Call;
use crate::closing::Closing;
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{DeadPort, Gate, Recorded, Reply, ScriptedUpstream};

/// The usual configuration with other servers, and further settings of the upstream.
fn yaml(servers: &[String], more: &str) -> String {
    let any = ScriptedUpstream::start(made);
    let servers: Vec<_> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    let from = format!("servers: [ \"http://{}\" ]", any.address());
    let text = crate::yaml(&any, "", "store: { kind: memory }\n");
    assert!(text.contains(&from), "{text}");
    text.replace(&from, &format!("servers: [ {} ]\n    {more}", servers.join(", ")))
}

fn start(servers: &[String], more: &str) -> Gateway {
    Gateway::start(&yaml(servers, more))
}

fn made(_: &Recorded) -> Reply {
    Reply::whole(201, &[], "made")
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).body("x")
}

#[test]
fn guarded_and_plain_requests_go_to_a_server_that_is_there() {
    let (dead, alive) = (DeadPort::refusing(), ScriptedUpstream::start(made));
    let gateway =
        start(&[dead.address().to_string(), alive.address().to_string()], "ejection: { failures: 2, for: 1h }");
    for number in 0..10 {
        let key = format!("k-{number}");
        assert_eq!(gateway.send(&order(&key)).status, 201);
        assert_eq!(gateway.send(&Call::post("/plain").body("x")).status, 201);
        assert!(gateway.send(&order(&key)).is_replay());
        assert_eq!(alive.executions("Idempotency-Key", &key), 1);
    }
    assert_eq!(alive.requests().len(), 20);
    gateway.wait_for_metric(r#"oncegate_upstream_servers{state="ejected",upstream="orders"}"#, 1.0);
    assert_eq!(gateway.metric(r#"oncegate_upstream_servers{state="healthy",upstream="orders"}"#), 1.0);
    assert_eq!(gateway.metric(r#"oncegate_upstream_ejections_total{upstream="orders"}"#), 1.0);
}

#[test]
fn a_server_that_does_not_answer_is_left_out() {
    let (silent, good) = (ScriptedUpstream::start(|_| Reply::silence()), ScriptedUpstream::start(made));
    let servers = [silent.address().to_string(), good.address().to_string()];
    let text = yaml(&servers, "ejection: { failures: 2, for: 1h }")
        .replace("response_timeout: 10s", "response_timeout: 200ms");
    let gateway = Gateway::start(&text);
    wait_until("the silent server is left out", || {
        let answer = gateway.send(&Call::post("/plain").body("x"));
        assert!(answer.status == 201 || answer.code().as_deref() == Some("upstream-timeout"), "{answer:?}");
        gateway.metric(r#"oncegate_upstream_servers{state="ejected",upstream="orders"}"#) == 1.0
    });
    let seen = silent.requests().len();
    for _ in 0..4 {
        assert_eq!(gateway.send(&Call::post("/plain").body("x")).status, 201);
    }
    assert_eq!(silent.requests().len(), seen);
}

#[test]
fn clients_that_break_off_speak_against_no_server() {
    let servers = [(); 2].map(|()| ScriptedUpstream::start(made));
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    let gateway = start(&addresses, "ejection: { failures: 1, for: 1h }");
    let head = "POST /plain HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for _ in 0..4 {
        let answer = crate::raw::talk(gateway.address, format!("{head}1\r\nx\r\nno size").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(gateway.send(&Call::post("/plain").body("x")).status, 201);
    assert_eq!(gateway.metric(r#"oncegate_upstream_ejections_total{upstream="orders"}"#), 0.0);
    gateway.wait_for_metric(r#"oncegate_upstream_servers{state="healthy",upstream="orders"}"#, 2.0);
}

#[test]
fn what_one_server_may_have_got_goes_to_no_other() {
    let servers = [(); 2].map(|()| ScriptedUpstream::start(|_| Reply::reset()));
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    let gateway = start(&addresses, "ejection: { failures: 0 }");
    for (number, call) in [order("k-1"), Call::post("/plain").body("x"), order("k-2")].iter().enumerate() {
        let answer = gateway.send(call);
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-failed")));
        let seen: usize = servers.iter().map(|server| server.requests().len()).sum();
        assert_eq!(seen, number + 1);
    }
    assert_eq!(gateway.send(&order("k-1")).code().as_deref(), Some("outcome-unknown"));
}

#[test]
fn without_a_healthy_server_the_key_stays_free() {
    let status = Arc::new(AtomicU16::new(500));
    let health = Arc::clone(&status);
    let upstream = ScriptedUpstream::start(move |seen| match seen.target().as_str() {
        "/healthz" => Reply::whole(health.load(Ordering::SeqCst), &[], ""),
        _ => made(seen),
    });
    let check = "health: { path: /healthz, interval: 100ms, unhealthy_after: 1 }";
    let gateway = start(&[upstream.address().to_string()], check);
    gateway.wait_for_metric(r#"oncegate_upstream_servers{state="unhealthy",upstream="orders"}"#, 1.0);
    for call in [order("k"), order("k"), Call::post("/plain").body("x")] {
        let answer = gateway.send(&call);
        assert_eq!((answer.status, answer.code().as_deref()), (503, Some("upstream-unreachable")));
        assert_eq!(answer.header("oncegate-outcome"), Some("not-executed"));
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(gateway.get_admin("/readyz").status, 200);
    assert!(gateway.metric(r#"oncegate_upstream_health_checks_total{result="failed",upstream="orders"}"#) >= 1.0);
    status.store(204, Ordering::SeqCst);
    wait_until("the server is used again", || gateway.send(&order("k")).status == 201);
    assert!(gateway.send(&order("k")).is_replay());
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
    gateway.wait_for_metric(r#"oncegate_upstream_servers{state="healthy",upstream="orders"}"#, 1.0);
}

#[test]
fn without_a_free_connection_the_key_stays_free() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = ScriptedUpstream::start(move |seen| made(seen).after(&held));
    let gateway = start(&[upstream.address().to_string()], "max_connections: 1\n    connect_timeout: 300ms");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&order("first")));
        upstream.wait_for_requests(1);
        let answer = gateway.send(&order("second"));
        assert_eq!((answer.status, answer.code().as_deref()), (503, Some("upstream-unreachable")));
        assert_eq!(answer.header("oncegate-outcome"), Some("not-executed"));
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    assert_eq!(gateway.send(&order("second")).status, 201);
    assert_eq!(upstream.executions("Idempotency-Key", "second"), 1);
}

#[test]
fn a_name_is_looked_up_and_found() {
    let upstream = ScriptedUpstream::start(made);
    let gateway = start(&[format!("localhost:{}", upstream.address().port())], "resolve_interval: 1s");
    for number in 0..6 {
        assert_eq!(gateway.send(&order(&format!("k-{number}"))).status, 201);
    }
    assert_eq!(upstream.requests().len(), 6);
}

/// Connections that the API closes at any moment cost no needless refusal, and nothing runs twice. What was written to a
/// connection that closed at that very moment is in doubt, and is said to be.
#[test]
fn connections_that_close_at_any_moment_cost_no_order() {
    const THREADS: usize = 4;
    const EACH: usize = 150;
    let upstream = Closing::start(11, "x-order");
    let gateway = start(&[upstream.address.to_string()], "");
    let unknown: usize = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (gateway, upstream) = (&gateway, &upstream);
            scope.spawn(move || {
                let orders = (0..EACH).map(|number| format!("{thread}-{number}"));
                orders.filter(|order| !is_made(gateway, upstream, order)).count()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{unknown} of {} unknown, over {} connections", THREADS * EACH, upstream.connections());
    assert!(unknown <= THREADS * EACH / 40, "{unknown} in doubt");
    assert!(upstream.connections() >= 30, "only {} connections: nothing was closed", upstream.connections());
}

/// Whether an order was made, and once. Otherwise it must be in doubt.
fn is_made(gateway: &Gateway, upstream: &Closing, name: &str) -> bool {
    let guarded = !name.ends_with('7');
    let call = if guarded { order(name) } else { Call::post("/plain").body("x") }.header("X-Order", name);
    let answer = gateway.send(&call);
    let ran = upstream.executions(name);
    if answer.status == 201 {
        assert_eq!(ran, 1, "{name}");
        return true;
    }
    assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-failed")), "{name}");
    assert_eq!(answer.header("oncegate-outcome"), Some("unknown"), "{name}");
    assert!(ran <= 1, "{name} ran {ran} times");
    if guarded {
        assert_eq!(gateway.send(&call).code().as_deref(), Some("outcome-unknown"), "{name}");
        assert_eq!(upstream.executions(name), ran, "{name}");
    }
    false
}
