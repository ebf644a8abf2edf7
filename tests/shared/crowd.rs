//! 200 equal requests at the same moment, over two gateways: the upstream sees one.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::Duration;

use crate::client::{Answer, connect, read_answer};
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{pair, store};

const CLIENTS: usize = 200;
const ROUNDS: usize = 50;

/// What one request of a round was told: `ran`, `replay`, or a problem's status and code.
fn name(answer: &Answer) -> String {
    match (answer.status, answer.is_replay(), answer.code()) {
        (201, false, None) => "ran".to_owned(),
        (201, true, None) => "replay".to_owned(),
        (status, _, code) => format!("{status} {}", code.unwrap_or_default()),
    }
}

/// One client: a connection that it keeps, and one request in every round.
fn client(gateway: SocketAddr, start: &Barrier) -> Vec<String> {
    let mut stream = connect(gateway).unwrap();
    let ask = |stream: &mut TcpStream, round: usize| {
        let request = format!(
            "POST /orders HTTP/1.1\r\nHost: api.test\r\nIdempotency-Key: k-{round}\r\nContent-Length: 1\r\n\r\nx"
        );
        start.wait();
        stream.write_all(request.as_bytes())?;
        read_answer(stream)
    };
    (0..ROUNDS)
        .map(|round| {
            let told = ask(&mut stream, round).map_or_else(|error| format!("no answer: {error}"), |a| name(&a));
            // The next round begins when this one is over.
            start.wait();
            told
        })
        .collect()
}

/// What all rounds were told, counted.
fn rounds(guard: &str) -> Vec<BTreeMap<String, usize>> {
    let upstream = ScriptedUpstream::start(|_| {
        // The attempt takes a while, so that duplicates meet it running as well as done.
        std::thread::sleep(Duration::from_millis(20));
        Reply::whole(201, &[], "done")
    });
    let redis = RedisServer::start();
    // The store is well; on a busy machine it may be slow.
    let slow = format!("store: {}", store(&redis.url(), Duration::from_secs(10)));
    let gateways = pair(&upstream, &redis, guard, &slow);
    let addresses = gateways.each_ref().map(|gateway| gateway.address);
    let start = Barrier::new(CLIENTS);
    let mut rounds = vec![BTreeMap::new(); ROUNDS];
    std::thread::scope(|scope| {
        let start = &start;
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(addresses[number % 2], start))).collect();
        for told in clients.into_iter().map(|client| client.join().unwrap()) {
            for (round, told) in told.into_iter().enumerate() {
                *rounds[round].entry(told).or_insert(0) += 1;
            }
        }
    });
    for round in 0..ROUNDS {
        assert_eq!(upstream.executions("Idempotency-Key", format!("k-{round}")), 1, "round {round}");
    }
    rounds
}

#[test]
fn of_200_equal_requests_one_runs_and_the_others_are_refused_or_get_its_answer() {
    for (round, told) in rounds("in_flight: reject").into_iter().enumerate() {
        assert_eq!(told.get("ran"), Some(&1), "round {round}: {told:?}");
        let others: usize = ["replay", "409 request-in-flight"].iter().filter_map(|name| told.get(*name)).sum();
        assert_eq!(others, CLIENTS - 1, "round {round}: {told:?}");
    }
}

#[test]
fn of_200_equal_requests_that_wait_one_runs_and_all_get_its_answer() {
    for (round, told) in rounds("in_flight: wait\npatience: 15s").into_iter().enumerate() {
        let expected = BTreeMap::from([("ran".to_owned(), 1), ("replay".to_owned(), CLIENTS - 1)]);
        assert_eq!(told, expected, "round {round}");
    }
}
