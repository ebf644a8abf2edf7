//! Fields on their way, as raw bytes on both sides: what is added, what stays behind, what is refused.

use std::sync::{Arc, OnceLock};

use crate::client::{Answer, Call, exchange, raw_exchange};
use crate::gateway::Gateway;
use crate::upstream::{Recorded, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

fn quiet() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

/// A POST with these lines, which end in CRLF, to this path.
fn post(gateway: &Gateway, path: &str, lines: &[u8]) -> Answer {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n");
    exchange(gateway.address, &[head.as_bytes(), lines, b"\r\nx"].concat()).unwrap()
}

/// The lines of a request but for those that every request gets.
fn own_lines(request: &Recorded) -> Vec<&[u8]> {
    const EVERY: [&[u8]; 6] =
        [b"x-forwarded-for:", b"x-forwarded-proto:", b"x-forwarded-host:", b"traceparent:", b"x-request-id:", b"via:"];
    let every = |line: &[u8]| EVERY.iter().any(|name| line.to_ascii_lowercase().starts_with(name));
    request.headers.iter().map(Vec::as_slice).filter(|line| !every(line)).collect()
}

#[test]
fn lines_keep_their_case_bytes_and_order_in_both_directions() {
    let upstream = ScriptedUpstream::start(|_| {
        Reply::raw(
            b"HTTP/1.1 200 OK\r\nX-SHOUT: a\r\nx-Mixed-cAse: caf\xe9 \xff\r\nset-COOKIE: a=1\r\nSet-Cookie: b=2\r\n\
              X-Gone: 1\r\nConnection: x-gone\r\nContent-LENGTH: 2\r\n\r\nok"
                .to_vec(),
        )
    });
    let gateway = gateway(&upstream, "");
    let request =
        b"GET /things HTTP/1.1\r\nhOST: a\r\nX-SHOUT: 1\r\nx-Many: b, a\r\nX-many:\r\nX-Drop: 1\r\nX-MANY: a\r\n\
        x-Bytes: M\xfcller \x80\r\nConnection: close, X-Drop\r\n\r\n";
    let answer = raw_exchange(gateway.address, request).unwrap();
    let came = upstream.wait_for_requests(1).remove(0);
    let expected: [&[u8]; 6] =
        [b"hOST: a", b"X-SHOUT: 1", b"x-Many: b, a", b"X-many:", b"X-MANY: a", b"x-Bytes: M\xfcller \x80"];
    assert_eq!(own_lines(&came), expected);
    let lines: Vec<_> = answer.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    let expected: [&[u8]; 6] = [
        b"HTTP/1.1 200 OK",
        b"X-SHOUT: a",
        b"x-Mixed-cAse: caf\xe9 \xff",
        b"set-COOKIE: a=1",
        b"Set-Cookie: b=2",
        b"Content-LENGTH: 2",
    ];
    assert_eq!(lines[..6], expected, "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_guarded_request_keeps_its_lines_too_and_bytes_above_ascii_survive_the_record() {
    let upstream = ScriptedUpstream::start(|_| {
        Reply::raw(
            b"HTTP/1.1 201 Created\r\nX-Name: \xe9\xff\r\nX-Two: b\r\nX-Two: a\r\nContent-Length: 0\r\n\r\n".to_vec(),
        )
    });
    let gateway = gateway(&upstream, "");
    let lines = b"iDEMPOTENCY-kEY: k\r\nX-Bytes: \xe9\xff\r\nx-two: 2\r\nX-TWO: 1\r\nConnection: close\r\n";
    let answers = [post(&gateway, "/orders", lines), post(&gateway, "/orders", lines)];
    let came = upstream.wait_for_requests(1).remove(0);
    let own = own_lines(&came);
    for line in [&b"iDEMPOTENCY-kEY: k"[..], b"X-Bytes: \xe9\xff", b"x-two: 2", b"X-TWO: 1"] {
        assert!(own.contains(&line), "{}", String::from_utf8_lossy(line));
    }
    assert_eq!(came.all("x-two"), [b"2".to_vec(), b"1".to_vec()]);
    for (answer, replayed) in answers.iter().zip([false, true]) {
        let all = |name: &str| -> Vec<&[u8]> {
            answer.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_slice()).collect()
        };
        assert_eq!((all("x-name"), all("x-two")), (vec![&b"\xe9\xff"[..]], vec![&b"b"[..], b"a"]));
        assert_eq!(answer.is_replay(), replayed);
    }
}

#[test]
fn without_preserve_header_case_names_are_in_lower_case() {
    let upstream =
        ScriptedUpstream::start(|_| Reply::raw("HTTP/1.1 200 OK\r\nX-SHOUT: a\r\nContent-Length: 0\r\n\r\n"));
    let gateway = Gateway::start(&yaml(&upstream, "", "preserve_header_case: false"));
    let request = b"GET /things HTTP/1.1\r\nHost: a\r\nX-SHOUT: A\r\nConnection: close\r\n\r\n";
    let answer = raw_exchange(gateway.address, request).unwrap();
    assert_eq!(own_lines(&upstream.wait_for_requests(1)[0]), [&b"host: a"[..], b"x-shout: A"]);
    assert!(String::from_utf8_lossy(&answer).contains("\r\nx-shout: a\r\n"));
}

#[test]
fn fields_of_one_hop_end_there() {
    let upstream = ScriptedUpstream::start(|_| {
        let fields = "Connection: X-One\r\nconnection: ,, \"x\" , x-TWO\r\nX-One: 1\r\nX-Two: 1\r\nKeep-Alive: timeout=9\r\n\
                      Proxy-Authenticate: Basic\r\nTrailer: X-T\r\nX-Stays: 1\r\n";
        Reply::raw(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n"))
    });
    let gateway = gateway(&upstream, "");
    let lines = b"Connection: close, X-One\r\nConnection: \"quoted\", @, x-two;q=1,, x-TWO\r\nX-One: 1\r\nX-Two: 1\r\n\
        Keep-Alive: timeout=9\r\nProxy-Connection: close\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nTrailer: X-T\r\n\
        X-Stays: 1\r\n";
    let answer = post(&gateway, "/things", lines);
    assert_eq!(own_lines(&upstream.wait_for_requests(1)[0]), [&b"Host: a"[..], b"Content-Length: 1", b"X-Stays: 1"]);
    let mut names: Vec<_> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["connection", "content-length", "date", "via", "x-stays"], "{:?}", answer.headers);
}

#[test]
fn connection_cannot_take_away_what_a_route_relies_on() {
    let upstream = quiet();
    let guard = "scope: { cookie: sid }\nreplay: { require_same: [X-Same] }\nfingerprint: { headers: [X-Counts] }";
    let gateway = gateway(&upstream, guard);
    let fields = "Idempotency-Key: k\r\nCookie: sid=1\r\nX-Same: 1\r\nX-Counts: 1\r\nContent-Type: text/plain\r\n";
    for (name, plain, guarded) in [
        ("Host", 400, "bad-request"),
        ("content-length", 400, "bad-request"),
        ("AUTHORIZATION", 400, "bad-request"),
        ("X-Forwarded-For", 400, "bad-request"),
        ("Forwarded", 400, "bad-request"),
        ("Via", 400, "bad-request"),
        ("Content-Type", 201, "bad-request"),
        ("Content-Encoding", 201, "bad-request"),
        ("X-Counts", 201, "bad-request"),
        ("X-Same", 201, "bad-request"),
        ("Cookie", 201, "key-invalid"),
        ("Idempotency-Key", 201, "key-invalid"),
    ] {
        let lines = format!("{fields}Connection: close\r\nConnection: x-a,{name} \r\n");
        assert_eq!(post(&gateway, "/things", lines.as_bytes()).status, plain, "{name}");
        let answer = post(&gateway, "/orders", lines.as_bytes());
        assert_eq!((answer.status, answer.code().as_deref()), (400, Some(guarded)), "{name}");
    }
    assert!(upstream.requests().iter().all(|request| request.target() == "/things"));
}

#[test]
fn underscores_in_names_are_dropped_refused_or_passed() {
    let upstream = quiet();
    let lines = b"X_Under: 1\r\nX-Hyphen: 1\r\nConnection: close\r\n";
    let twin = b"Idempotency-Key: a\r\nIdempotency_Key: b\r\nConnection: close\r\n";
    for (setting, status, passed, twin_is) in [
        ("", 201, false, "key-invalid"),
        ("underscore_headers: drop", 201, false, "key-invalid"),
        ("underscore_headers: pass", 201, true, "key-invalid"),
        ("underscore_headers: refuse", 400, false, "bad-request"),
    ] {
        let gateway = Gateway::start(&yaml(&upstream, "", setting));
        let before = upstream.requests().len();
        assert_eq!(post(&gateway, "/things", lines).status, status, "{setting}");
        let request = upstream.requests().get(before).cloned();
        assert_eq!(request.is_some(), status == 201, "{setting}");
        if let Some(request) = request {
            assert_eq!((request.header("x_under").is_some(), request.header("x-hyphen").is_some()), (passed, true));
        }
        assert_eq!(post(&gateway, "/orders", twin).code().as_deref(), Some(twin_is), "{setting}");
    }
}

#[test]
fn forwarding_fields_are_appended_to_for_trusted_peers_and_replaced_for_others() {
    let upstream = quiet();
    let lines = b"X-Forwarded-For: 10.0.0.1\r\nx-forwarded-for: 10.0.0.2\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-Host: shop.example\r\nX-Forwarded-Port: 443\r\nForwarded: for=10.0.0.1\r\nConnection: close\r\n";
    for (proxies, expected) in [
        ("[10.0.0.0/8]", ["127.0.0.1", "http", "a", "", "for=127.0.0.1;host=\"a\";proto=http"]),
        (
            "[127.0.0.0/8]",
            [
                "10.0.0.1, 10.0.0.2, 127.0.0.1",
                "https",
                "shop.example",
                "443",
                "for=10.0.0.1, for=127.0.0.1;host=\"a\";proto=http",
            ],
        ),
    ] {
        let gateway = Gateway::start(&yaml(&upstream, "", &format!("trusted_proxies: {proxies}")));
        let before = upstream.requests().len();
        post(&gateway, "/things", lines);
        let request = &upstream.wait_for_requests(before + 1)[before];
        let names = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded"];
        assert_eq!(names.map(|name| request.text(name)), expected, "{proxies}");
    }
}

#[test]
fn a_trusted_header_counts_only_where_it_comes_from_a_trusted_proxy() {
    let upstream = quiet();
    let guard = "scope: { all: [ { cookie: sid }, { trusted_header: X-Customer-Id } ] }";
    let call = Call::post("/orders").key("k").header("Cookie", "sid=1").header("X-Customer-Id", "42").body("x");
    for (setting, status) in [("", 201), ("trusted_proxies: [127.0.0.1]", 201), ("trusted_proxies: [10.0.0.0/8]", 400)]
    {
        let gateway = Gateway::start(&yaml(&upstream, guard, setting));
        let answer = gateway.send(&call);
        assert_eq!(answer.status, status, "{setting}");
        if status == 400 {
            assert_eq!(answer.code().as_deref(), Some("scope-missing"));
            assert!(answer.text().contains("trusted proxies"), "{}", answer.text());
        }
    }
    assert_eq!(upstream.requests().len(), 2);
}

/// The names that gateways have signed with, in order.
fn signed(lines: &[Vec<u8>]) -> Vec<String> {
    let lines = lines.iter().map(|line| String::from_utf8_lossy(line).into_owned());
    lines.filter(|line| line.contains("gate-")).collect()
}

#[test]
fn via_names_every_gateway_of_a_chain_and_ends_a_circle() {
    let upstream = ScriptedUpstream::start(|_| {
        Reply::raw("HTTP/1.0 201 Created\r\nVia: 1.1 behind\r\nContent-Length: 2\r\n\r\nok").then_close()
    });
    let back = Gateway::start(&yaml(&upstream, "", "via: mygate"));
    let front_yaml =
        yaml(&upstream, "", "via: mygate").replace(&upstream.address().to_string(), &back.address.to_string());
    let front = Gateway::start(&front_yaml);
    let call = Call::post("/orders").key("k").header("Via", "1.0 first").body("x");
    let answer = front.send(&call);
    let request = upstream.wait_for_requests(1).remove(0);
    let lines = request.all("via");
    assert_eq!(lines[0], b"1.0 first");
    let names = signed(&lines);
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("1.1 mygate-")), "{names:?}");
    assert_ne!(names[0], names[1], "gateways of one configuration have names of their own");
    let own = |answer: &Answer| {
        answer.headers.iter().filter(|(name, _)| name == "via").map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let ways = own(&answer);
    assert_eq!(ways[0], b"1.1 behind");
    let back_name = names[1].trim_start_matches("1.1 ");
    assert_eq!(signed(&ways), [format!("1.0 {back_name}"), names[0].clone()], "answers pass the other way round");

    let replay = front.send(&call);
    assert!(replay.is_replay());
    assert_eq!(own(&replay), [names[0].as_bytes()], "a replay was not behind this gateway again");

    let circle = front.send(&Call::new("GET", "/things").header("Via", format!("1.1 p, {} (a, b)", names[0])));
    assert_eq!((circle.status, circle.code().as_deref()), (508, Some("loop-detected")));
    assert_eq!(own(&circle), Vec::<Vec<u8>>::new());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_request_that_comes_round_again_frees_its_key() {
    let way_back = Arc::new(OnceLock::new());
    let gateway_address = Arc::clone(&way_back);
    let upstream = ScriptedUpstream::start(move |request: &Recorded| {
        let raw = String::from_utf8_lossy(&request.raw).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let answer = gateway_address.get().map(|address| raw_exchange(*address, raw.as_bytes()).unwrap());
        Reply::raw(answer.unwrap()).then_close()
    });
    let gateway = gateway(&upstream, "");
    way_back.set(gateway.address).unwrap();
    for _ in 0..2 {
        let answer = gateway.send(&Call::post("/orders").key("k").body("x"));
        assert_eq!((answer.status, answer.is_replay()), (508, false));
        assert!(answer.text().contains("loop-detected"), "{}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 2);
    assert_eq!(gateway.metric(r#"oncegate_requests_total{route="create-order",verdict="bad_request"}"#), 2.0);
    assert_eq!(gateway.metric(r#"oncegate_outcomes_total{outcome="released",route="create-order"}"#), 2.0);
}

#[test]
fn via_can_be_left_out_and_tells_the_versions_apart() {
    let upstream = quiet();
    let gateway = Gateway::start(&yaml(&upstream, "", "via: none"));
    let answer = gateway.send(&Call::new("GET", "/things"));
    assert_eq!((answer.header("via"), upstream.wait_for_requests(1)[0].header("via")), (None, None));
    let gateway = Gateway::start(&yaml(&upstream, "", ""));
    exchange(gateway.address, b"GET /things HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let line = upstream.wait_for_requests(2)[1].text("via");
    assert!(line.starts_with("1.0 oncegate-"), "{line}");
}

#[test]
fn an_answer_in_an_older_version_goes_on_in_the_gateways_own() {
    let upstream = ScriptedUpstream::start(|_| Reply::raw("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").then_close());
    let gateway = gateway(&upstream, "");
    let request = b"GET /things HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = raw_exchange(gateway.address, request).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("via: 1.0 oncegate-"), "{answer}");
}

#[test]
fn via_is_no_part_of_a_request() {
    let upstream = quiet();
    let gateway = gateway(&upstream, "");
    let call = |via: &str| Call::post("/orders").key("k").header("Via", via).header("X-Forwarded-For", via).body("x");
    assert_eq!(gateway.send(&call("1.1 a")).status, 201);
    assert!(gateway.send(&call("1.1 b")).is_replay());
}
