//! Where an upstream's answer ends: one that could be read in two ways is none, and what comes after one is nobody's.

use crate::client::Call;
use crate::gateway::Gateway;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const STOLEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen";

/// A gateway with one worker, so that there is one pool of connections.
fn alone(upstream: &ScriptedUpstream) -> Gateway {
    Gateway::start(&yaml(upstream, "", "workers: 1"))
}

#[test]
fn an_answer_that_can_be_read_in_two_ways_is_a_failure_and_a_doubt() {
    let heads = [
        "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "Content-Length: 1, 1\r\n\r\nx",
        "Content-Length: +1\r\n\r\nx",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\nx",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "X : a\r\nContent-Length: 0\r\n\r\n",
        "X: a\nContent-Length: 0\r\n\r\n",
        "X: a\0b\r\nContent-Length: 0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 1\r\n\r\n",
    ];
    let answers: Vec<_> = heads.iter().map(|rest| format!("HTTP/1.1 200 OK\r\n{rest}")).collect();
    let lines = ["HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/2 200\r\n\r\n", "<html>\r\n", "\r\n\r\n"];
    let answers: Vec<_> = answers.into_iter().chain(lines.map(str::to_owned)).collect();
    let script = answers.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        let number: usize = request.text("X-Number").parse().unwrap();
        Reply::raw(script[number].as_str()).then_hang()
    });
    let gateway = gateway(&upstream, "");
    for (number, answer) in answers.iter().enumerate() {
        let call =
            |target| Call::post(target).key(&format!("k-{number}")).header("X-Number", number.to_string()).body("x");
        let guarded = gateway.send(&call("/orders"));
        assert_eq!((guarded.status, guarded.code().as_deref()), (502, Some("upstream-failed")), "{answer:?}");
        assert_eq!(guarded.header("oncegate-outcome"), Some("unknown"));
        assert_eq!(gateway.send(&call("/orders")).code().as_deref(), Some("outcome-unknown"), "{answer:?}");
        let plain = gateway.send(&call("/things"));
        assert_eq!((plain.status, plain.code().as_deref()), (502, Some("upstream-failed")), "{answer:?}");
        // The upstream keeps them open: it is the gateway that drops them.
        upstream.wait_for_closed(2 * (number + 1));
    }
    assert_eq!(upstream.requests().len(), 2 * answers.len());
}

#[test]
fn a_stream_with_a_bad_chunk_is_seen_to_be_cut() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
        Reply::raw(head).then_wait(&hold).then_send("1 \r\nx\r\n0\r\n\r\n").then_hang()
    });
    let gateway = gateway(&upstream, "");
    let mut stream = crate::client::connect(gateway.address).unwrap();
    std::io::Write::write_all(&mut stream, &Call::new("GET", "/things").bytes()).unwrap();
    let mut first = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    gate.open();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{:?}", String::from_utf8_lossy(&rest));
    upstream.wait_for_closed(1);
}

#[test]
fn what_comes_after_an_answer_reaches_nobody() {
    let own = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nown\r\n0\r\n\r\n";
    for (method, answer, body) in [("GET", own, "own"), ("GET", chunked, "own"), ("HEAD", own, "")] {
        let upstream = ScriptedUpstream::start(move |_| Reply::raw([answer, STOLEN].concat()));
        let gateway = alone(&upstream);
        for turn in 1..=5 {
            let bytes = Call::new(method, "/things").bytes();
            let mut stream = crate::client::connect(gateway.address).unwrap();
            std::io::Write::write_all(&mut stream, &bytes).unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains(body), "{text:?}");
            assert!(!text.contains("stolen"), "{method} {turn} {text:?}");
            assert_eq!(upstream.connections(), turn);
        }
        upstream.wait_for_closed(5);
        let order = Call::post("/orders").key("k").body("x");
        assert_eq!(gateway.send(&order).text(), "own");
        assert!(gateway.send(&order).is_replay());
    }
}

#[test]
fn what_comes_between_two_answers_reaches_nobody() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request| {
        let own = Reply::whole(200, &[], "own");
        if request.connection == 1 { own.then_wait(&hold).then_send(STOLEN).then_hang() } else { own }
    });
    let gateway = alone(&upstream);
    let call = Call::post("/things").body("x");
    assert_eq!(gateway.send(&call).text(), "own");
    gate.open();
    upstream.wait_for_closed(1);
    for _ in 0..3 {
        assert_eq!(gateway.send(&call).text(), "own");
    }
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn a_body_that_is_spoken_of_where_there_is_none_is_not_waited_for_on_a_kept_connection() {
    let bodies = ["Content-Length: 44\r\n", "Transfer-Encoding: chunked\r\n"];
    let heads = ["204 No Content", "304 Not Modified"]
        .into_iter()
        .flat_map(|status| bodies.map(|field| format!("HTTP/1.1 {status}\r\n{field}\r\n")));
    let heads: Vec<_> = heads.collect();
    let script = heads.clone();
    // It keeps each connection open, and would send the body later.
    let upstream = ScriptedUpstream::start(move |request| {
        let number: usize = request.text("X-Number").parse().unwrap();
        Reply::raw(script[number].as_str()).then_hang()
    });
    let gateway = alone(&upstream);
    for number in 0..heads.len() {
        let order = Call::post("/orders").key(&format!("k-{number}")).header("X-Number", number.to_string()).body("x");
        assert!(matches!(gateway.send(&order).status, 204 | 304));
        upstream.wait_for_closed(number + 1);
    }
}

#[test]
fn an_answer_may_have_many_fields() {
    let fields = "X-Field: y\r\n".repeat(250);
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 3\r\n\r\nown");
    let upstream = ScriptedUpstream::start(move |_| Reply::raw(answer.as_str()));
    let gateway = gateway(&upstream, "");
    let order = Call::post("/orders").key("k").body("x");
    for _ in 0..2 {
        let answer = gateway.send(&order);
        assert_eq!((answer.status, answer.text().as_str()), (200, "own"));
        assert_eq!(answer.headers.iter().filter(|(name, _)| name == "x-field").count(), 250);
    }
}
