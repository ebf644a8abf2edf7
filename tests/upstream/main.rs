//! The upstream client against a server that misbehaves on command: what was sent, how often, and what it is called.
#![allow(clippy::unwrap_used, reason = "clippy does not take functions that tests share for test code")]

#[path = "../support/closing.rs"]
mod closing;
#[path = "../support/streamed.rs"]
mod streamed;
#[path = "../support/upstream.rs"]
mod support;

mod checks;
mod kept;
mod names;
mod overtaken;
mod servers;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use oncegate::upstream::{Balance, Behalf, BodyError, Ejection, Failure, Fleet, Host, Incoming};
use oncegate::upstream::{Outgoing, Protocol, Reason, Server, Settings, SystemResolver, Upstream};
use streamed::streamed;
use support::{Accept, DeadPort, Gate, Recorded, Reply, ScriptedUpstream};
use tokio_util::task::TaskTracker;

fn settings(servers: &[SocketAddr]) -> Settings {
    let server = |address: &SocketAddr| Server { host: address.ip().to_string(), port: address.port() };
    Settings {
        name: "orders".to_owned(),
        servers: servers.iter().map(server).collect(),
        balance: Balance::RoundRobin,
        ejection: Ejection { failures: 3, lasts: Duration::from_mins(1) },
        health: None,
        resolve_interval: Duration::from_mins(1),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_mins(1),
        idle_connections: 128,
        connection_age: Duration::from_hours(1),
        max_connections: 0,
        response_timeout: Duration::from_secs(30),
        attempt_timeout: Duration::from_mins(1),
        first_byte_timeout: None,
        answer_idle_timeout: None,
        total_timeout: None,
        host: Host::Preserve,
        protocol: Protocol::Http1,
        tls: None,
        preserve_header_case: true,
    }
}

fn client(servers: &[&ScriptedUpstream]) -> Upstream {
    let servers: Vec<_> = servers.iter().map(|server| server.address()).collect();
    Upstream::new(settings(&servers))
}

/// Servers that two workers share.
fn fleet(settings: Settings) -> Arc<Fleet> {
    Arc::new(Fleet::new(settings, 2, Arc::new(SystemResolver), TaskTracker::new()))
}

fn request(method: Method, target: &str, body: &'static [u8]) -> Request<Outgoing> {
    let request = Request::builder().method(method).uri(target).header("Host", "shop.example").header("X-Key", "k");
    request.body(Outgoing::Whole(Bytes::from_static(body))).unwrap()
}

fn order() -> Request<Outgoing> {
    request(Method::POST, "/orders", br#"{"sku":1}"#)
}

async fn body(answer: Response<Incoming>) -> Result<Bytes, BodyError> {
    answer.into_body().collect().await.map(http_body_util::Collected::to_bytes)
}

/// Sends an order and reads the whole answer.
async fn ordered(client: &Upstream) -> Bytes {
    body(client.send(order()).await.unwrap()).await.unwrap()
}

/// Waits off the runtime's thread, so that connections are driven meanwhile.
async fn wait<T: Send + 'static>(
    server: &ScriptedUpstream,
    until: impl FnOnce(&ScriptedUpstream) -> T + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || until(&server)).await.unwrap()
}

fn created(_: &Recorded) -> Reply {
    Reply::whole(201, &[], "made")
}

async fn not_sent(client: &Upstream) -> Reason {
    match client.send(order()).await {
        Err(Failure::NotSent(why)) => why.reason,
        other => panic!("{other:?}"),
    }
}

async fn unknown(client: &Upstream) -> String {
    match client.send(order()).await {
        Err(Failure::Unknown(why)) => why,
        other => panic!("{other:?}"),
    }
}

// What goes over the wire.

#[tokio::test]
async fn the_target_arrives_byte_for_byte() {
    let server = ScriptedUpstream::start(created);
    let client = client(&[&server]);
    let targets = [
        "/%6Frders//x?a=%2B&b",
        "/",
        "/?",
        "/a/../b/./c;x=1",
        "/orders?a=1?b=2&&c",
        "/%zz?%",
        "/a|b~[c]{d}\"e?f^g`h{}",
        "//host/path",
        "/caf\u{e9}?q=\u{fc}",
        "*",
    ];
    for target in targets {
        body(client.send(request(Method::OPTIONS, target, b"")).await.unwrap()).await.unwrap();
    }
    let seen: Vec<_> = server.requests().iter().map(Recorded::target).collect();
    assert_eq!(seen, targets);
}

#[tokio::test]
async fn an_absolute_target_is_sent_in_origin_form() {
    let server = ScriptedUpstream::start(created);
    let client = client(&[&server]);
    for (target, expected) in [("http://shop.example/a%2Fb?c", "/a%2Fb?c"), ("http://shop.example", "/")] {
        body(client.send(request(Method::GET, target, b"")).await.unwrap()).await.unwrap();
        assert_eq!(server.requests().pop().unwrap().target(), expected);
    }
}

#[tokio::test]
async fn header_values_and_body_arrive_byte_for_byte() {
    let server = ScriptedUpstream::start(created);
    let mut order = request(Method::POST, "/orders", b"\x00\xff\r\n\r\n0\r\n");
    order.headers_mut().insert("x-name", HeaderValue::from_bytes(b"M\xfcller \xe2\x82\xac").unwrap());
    for value in ["2", "1", "3"] {
        order.headers_mut().append("x-line", HeaderValue::from_static(value));
    }
    client(&[&server]).send(order).await.unwrap();
    let seen = server.requests().pop().unwrap();
    assert_eq!(seen.header("X-Name").unwrap(), b"M\xfcller \xe2\x82\xac");
    assert_eq!(seen.all("X-Line"), [b"2", b"1", b"3"]);
    assert_eq!(seen.text("Content-Length"), "9");
    assert_eq!(seen.body, b"\x00\xff\r\n\r\n0\r\n");
}

#[tokio::test]
async fn answers_arrive_byte_for_byte() {
    let server = ScriptedUpstream::start(|_| {
        Reply::raw(
            *b"HTTP/1.1 201 Made\r\nX-Name: M\xfcller\r\nX-Line: 2\r\nX-Line: 1\r\nContent-Length: 3\r\n\r\n\x00\xff\n",
        )
    });
    let answer = client(&[&server]).send(order()).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["x-name"].as_bytes(), b"M\xfcller");
    let lines: Vec<_> = answer.headers().get_all("x-line").iter().collect();
    assert_eq!(lines, ["2", "1"]);
    assert_eq!(&body(answer).await.unwrap()[..], b"\x00\xff\n");
}

#[tokio::test]
async fn host_is_the_clients_or_the_servers() {
    let server = ScriptedUpstream::start(created);
    let own = server.address().to_string();
    let mut by_server = settings(&[server.address()]);
    by_server.host = Host::Server;
    let (preserving, by_server) = (client(&[&server]), Upstream::new(by_server));
    let mut without = order();
    without.headers_mut().remove("host");
    for (client, order, expected) in [
        (&preserving, order(), "shop.example"),
        (&by_server, order(), own.as_str()),
        (&preserving, without, own.as_str()),
    ] {
        body(client.send(order).await.unwrap()).await.unwrap();
        assert_eq!(server.requests().pop().unwrap().text("Host"), expected);
    }
}

#[tokio::test]
async fn an_absent_body_is_said_where_one_is_expected() {
    let server = ScriptedUpstream::start(created);
    let client = client(&[&server]);
    for (method, expected) in [(Method::POST, Some(b"0".to_vec())), (Method::GET, None), (Method::DELETE, None)] {
        body(client.send(request(method, "/", b"")).await.unwrap()).await.unwrap();
        assert_eq!(server.requests().pop().unwrap().header("Content-Length"), expected);
    }
}

#[tokio::test]
async fn a_streaming_body_is_passed_on_whatever_the_method() {
    let server = ScriptedUpstream::start(created);
    let client = client(&[&server]);
    for (method, begun) in [(Method::POST, ""), (Method::GET, ""), (Method::GET, "zero,")] {
        let stream = streamed(&[b"one,", b"two"], Ok(()));
        let outgoing = match stream {
            Outgoing::Streaming(rest) if !begun.is_empty() => Outgoing::Resumed { begun: Bytes::from(begun), rest },
            stream => stream,
        };
        let answer = client.send(request(method, "/", b"").map(|_| outgoing)).await.unwrap();
        assert_eq!(body(answer).await.unwrap(), "made");
        let seen = server.requests().pop().unwrap();
        assert_eq!(seen.text("Transfer-Encoding"), "chunked");
        assert_eq!(seen.body, format!("{begun}one,two").into_bytes());
    }
}

// Answers.

#[tokio::test]
async fn interim_answers_are_not_the_answer() {
    let server = ScriptedUpstream::start(|_| {
        Reply::whole(201, &[], "made").after_interim(103, &[("Link", "</x>")]).after_interim(100, &[])
    });
    let answer = client(&[&server]).send(order()).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert!(!answer.headers().contains_key("link"));
    assert_eq!(body(answer).await.unwrap(), "made");
}

/// Keeps the interim answers that it hears.
#[derive(Default)]
struct Ears(Mutex<Vec<u8>>);

impl Behalf for Ears {
    fn hears(&self, interim: Bytes) {
        self.0.lock().unwrap().extend_from_slice(&interim);
    }
}

#[tokio::test]
async fn interim_answers_are_told_to_who_wants_them() {
    let server = ScriptedUpstream::start(|_| {
        Reply::raw(
            *b"HTTP/1.1 100 Continue\r\n\r\n\
            HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n\r\n\
            HTTP/1.1 199 Odd\r\nX-Name: M\xfcller\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        )
    });
    let client = client(&[&server]);
    let ears = Ears::default();
    assert_eq!(client.send_for(&mut order(), &ears).await.unwrap().status(), 200);
    assert_eq!(client.send(order()).await.unwrap().status(), 200);
    let expected = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\n\
        HTTP/1.1 199 Interim\r\nx-name: M\xfcller\r\n\r\n";
    assert_eq!(ears.0.lock().unwrap().as_slice(), expected);
}

#[tokio::test]
async fn switching_protocols_unasked_is_no_answer() {
    let server = ScriptedUpstream::start(|_| Reply::raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"));
    unknown(&client(&[&server])).await;
    assert_eq!(server.executions("X-Key", "k"), 1);
}

#[tokio::test]
async fn a_body_may_end_with_its_connection() {
    let server = ScriptedUpstream::start(|_| Reply::until_close(200, &[], "to the end"));
    let client = client(&[&server]);
    assert_eq!(ordered(&client).await, "to the end");
    assert_eq!(ordered(&client).await, "to the end");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_body_cut_short_is_an_error() {
    let replies = [
        Reply::cut_short(200, &[], 10, "12345"),
        Reply::cut_short(200, &[], 10, ""),
        Reply::chunked_cut_short(200, &[], &[b"12345"]),
        Reply::chunked_cut_short(200, &[], &[]),
        Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123").then_close(),
    ];
    for (case, reply) in replies.into_iter().enumerate() {
        let server = ScriptedUpstream::start(move |_| reply.clone());
        let client = client(&[&server]);
        let answer = client.send(order()).await.unwrap();
        assert!(body(answer).await.is_err(), "case {case}");
        assert_eq!(server.executions("X-Key", "k"), 1, "case {case}");
    }
}

#[tokio::test]
async fn a_malformed_body_is_an_error_and_no_answer_where_it_comes_with_its_head() {
    let gate = Gate::new();
    let hold = gate.clone();
    let server = ScriptedUpstream::start(move |request| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        match request.connection {
            1 => Reply::raw(format!("{head}xyz\r\n")).then_hang(),
            _ => Reply::raw(head).then_wait(&hold).then_send("xyz\r\n").then_hang(),
        }
    });
    let client = client(&[&server]);
    unknown(&client).await;
    let answer = client.send(order()).await.unwrap();
    gate.open();
    assert!(body(answer).await.is_err());
}

#[tokio::test]
async fn a_body_broken_by_a_reset_is_an_error() {
    let gate = Gate::new();
    let midway = gate.clone();
    let server = ScriptedUpstream::start(move |_| {
        Reply::raw("HTTP/1.1 200 OK\r\n\r\nthe first half").then_wait(&midway).then_reset()
    });
    let mut answer = client(&[&server]).send(order()).await.unwrap().into_body();
    let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "the first half");
    gate.open();
    assert!(answer.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "x".repeat(1024 * 1024));
    let server = ScriptedUpstream::start(move |_| Reply::raw(long.clone()).then_hang());
    unknown(&client(&[&server])).await;
}

// Proof of not sent.

#[tokio::test]
async fn a_refused_connection_proves_that_nothing_was_sent() {
    let port = DeadPort::refusing();
    assert_eq!(not_sent(&Upstream::new(settings(&[port.address()]))).await, Reason::Connect);
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_proves_it_too() {
    let port = DeadPort::silent();
    let mut settings = settings(&[port.address()]);
    settings.connect_timeout = Duration::from_millis(50);
    assert_eq!(not_sent(&Upstream::new(settings)).await, Reason::Timeout);
}

#[tokio::test]
async fn a_name_without_address_proves_it_too() {
    let mut settings = settings(&[]);
    settings.servers.push(Server { host: "no name at all".to_owned(), port: 80 });
    assert_eq!(not_sent(&Upstream::new(settings)).await, Reason::Dns);
}

#[tokio::test]
async fn no_server_at_all_proves_it_too() {
    assert_eq!(not_sent(&Upstream::new(settings(&[]))).await, Reason::NoServer);
}

#[tokio::test]
async fn a_server_that_closes_unread_got_no_request() {
    let server = ScriptedUpstream::start_picky(|_| Accept::Close, created);
    let failed = client(&[&server]).send(order()).await;
    // Which one depends on whether the close was seen before the first byte left.
    assert!(matches!(failed, Err(Failure::NotSent(_) | Failure::Unknown(_))), "{failed:?}");
    assert_eq!((server.requests().len(), server.connections()), (0, 1));
}

// No proof.

#[tokio::test]
async fn a_reset_after_the_request_was_read_leaves_it_unknown() {
    let server = ScriptedUpstream::start(|_| Reply::reset());
    unknown(&client(&[&server])).await;
    assert_eq!(server.executions("X-Key", "k"), 1);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_request_that_broke_on_a_used_connection_is_not_sent_again() {
    for ending in [Reply::reset(), Reply::close(), Reply::raw("HTTP/1.1 200 O").then_close()] {
        let server = ScriptedUpstream::start(move |seen| if seen.number == 1 { created(seen) } else { ending.clone() });
        let client = client(&[&server]);
        ordered(&client).await;
        unknown(&client).await;
        assert_eq!((server.executions("X-Key", "k"), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_http_leaves_it_unknown() {
    let server = ScriptedUpstream::start(|_| Reply::raw("SSH-2.0-what\r\n\r\n").then_hang());
    unknown(&client(&[&server])).await;
    assert_eq!(server.executions("X-Key", "k"), 1);
}

// Connections.

#[tokio::test]
async fn connections_are_used_again() {
    let server = ScriptedUpstream::start(|seen| match seen.target().as_str() {
        "/chunked" => Reply::chunked(200, &[], &[b"a", b"b"]),
        "/nothing" => Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => Reply::whole(200, &[], ""),
    });
    let client = client(&[&server]);
    for target in ["/chunked", "/nothing", "/empty", "/chunked"] {
        body(client.send(request(Method::GET, target, b"")).await.unwrap()).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (4, 1));
}

#[tokio::test]
async fn a_busy_connection_is_not_shared() {
    let gate = Gate::new();
    let wait_here = gate.clone();
    let server = ScriptedUpstream::start(move |seen| match seen.connection {
        1 => created(seen).after(&wait_here),
        _ => created(seen),
    });
    let client = std::sync::Arc::new(client(&[&server]));
    let slow = std::sync::Arc::clone(&client);
    let slow = tokio::spawn(async move { ordered(&slow).await });
    wait(&server, |server| server.wait_for_requests(1)).await;
    ordered(&client).await;
    gate.open();
    assert_eq!(slow.await.unwrap(), "made");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_idled_too_long_is_not_used() {
    let server = ScriptedUpstream::start(created);
    let mut settings = settings(&[server.address()]);
    settings.idle_timeout = Duration::ZERO;
    let client = Upstream::new(settings);
    for _ in 0..3 {
        ordered(&client).await;
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_costs_nothing() {
    let server =
        ScriptedUpstream::start(|seen| if seen.connection == 1 { created(seen).then_close() } else { created(seen) });
    let client = client(&[&server]);
    ordered(&client).await;
    wait(&server, |server| server.wait_for_closed(1)).await;
    assert_eq!(ordered(&client).await, "made");
    assert_eq!((server.executions("X-Key", "k"), server.connections()), (2, 2));
}

#[tokio::test]
async fn a_close_that_the_event_loop_has_not_heard_of_is_found_before_sending() {
    let gate = Gate::new();
    for ending in [
        Reply::whole(201, &[], "made").then_wait(&gate).then_close(),
        Reply::whole(201, &[], "made").then_wait(&gate).then_reset(),
        Reply::whole(201, &[], "made").then_wait(&gate).then_send("HTTP/1.1 408 Request Timeout\r\n\r\n").then_close(),
    ] {
        let server =
            ScriptedUpstream::start(move |seen| if seen.connection == 1 { ending.clone() } else { created(seen) });
        let client = client(&[&server]);
        ordered(&client).await;
        gate.open();
        // This blocks the only thread there is: no event reaches the runtime before the next request is sent.
        server.wait_for_closed(1);
        assert_eq!(ordered(&client).await, "made");
        assert_eq!((server.executions("X-Key", "k"), server.connections()), (2, 2));
        assert!(server.fragments().is_empty());
    }
}

#[tokio::test]
async fn a_streaming_body_survives_a_closed_idle_connection() {
    let server =
        ScriptedUpstream::start(|seen| if seen.connection == 1 { created(seen).then_close() } else { created(seen) });
    let client = client(&[&server]);
    let stream = streamed(&[b"one,", b"two"], Ok(()));
    ordered(&client).await;
    server.wait_for_closed(1);
    let answer = client.send(order().map(|_| stream)).await.unwrap();
    assert_eq!(body(answer).await.unwrap(), "made");
    assert_eq!(server.requests().pop().unwrap().body, b"one,two");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let server = ScriptedUpstream::start(|_| Reply::silence());
    let client = std::sync::Arc::new(client(&[&server]));
    let sending = std::sync::Arc::clone(&client);
    let sending = tokio::spawn(async move { sending.send(order()).await.map(|_| ()) });
    wait(&server, |server| server.wait_for_requests(1)).await;
    sending.abort();
    wait(&server, |server| server.wait_for_closed(1)).await;
    assert_eq!(server.executions("X-Key", "k"), 1);
}

#[tokio::test]
async fn a_dropped_answer_closes_its_connection() {
    let server = ScriptedUpstream::start(|seen| match seen.connection {
        1 => Reply::sized(200, &[], 100, "some").then_hang(),
        _ => created(seen),
    });
    let client = client(&[&server]);
    let mut answer = client.send(order()).await.unwrap().into_body();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "some");
    drop(answer);
    wait(&server, |server| server.wait_for_closed(1)).await;
    assert_eq!(ordered(&client).await, "made");
    assert_eq!(server.connections(), 2);
}
