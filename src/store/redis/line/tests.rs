//! A line against servers that are written out here: pieces, cuts, delays, and more calls than there is room for.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;
use crate::clock::Clock;

/// Long enough for every reply on a busy machine.
const AMPLE: Duration = Duration::from_secs(20);

/// How much the streams of these tests hold.
const HELD: usize = 64 << 10;

fn ample() -> Deadline {
    Deadline::within(AMPLE)
}

fn connected() -> (Line, DuplexStream) {
    let (ours, theirs) = duplex(HELD);
    (Line::over(ours), theirs)
}

async fn ask(line: &Line, word: &[u8], deadline: Deadline) -> Result<Value, Lost> {
    line.send([&words::command(&[b"ECHO", word])], deadline).await.map(|[reply]| reply)
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

fn cause(lost: Lost) -> String {
    super::super::faults::cause(&lost.into())
}

/// The next command that has come.
async fn command(server: &mut DuplexStream) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for _ in 0..number(server, b'*').await {
        let mut word = vec![0; number(server, b'$').await];
        server.read_exact(&mut word).await.unwrap();
        assert_eq!((server.read_u8().await.unwrap(), server.read_u8().await.unwrap()), (b'\r', b'\n'));
        words.push(word);
    }
    words
}

async fn number(server: &mut DuplexStream, sign: u8) -> usize {
    assert_eq!(server.read_u8().await.unwrap(), sign);
    let mut number = 0;
    loop {
        match server.read_u8().await.unwrap() {
            b'\r' => break,
            digit => number = 10 * number + usize::from(digit - b'0'),
        }
    }
    assert_eq!(server.read_u8().await.unwrap(), b'\n');
    number
}

/// Answers each command with its last word, until the other side goes.
async fn echo(mut server: DuplexStream, count: usize) {
    for _ in 0..count {
        let word = command(&mut server).await.pop().unwrap();
        server.write_all(format!("${}\r\n", word.len()).as_bytes()).await.unwrap();
        server.write_all(&word).await.unwrap();
        server.write_all(b"\r\n").await.unwrap();
    }
}

#[tokio::test]
async fn thousands_of_calls_at_once_get_each_its_own_reply() {
    const CALLS: usize = 10_000;
    let (line, server) = connected();
    let server = tokio::spawn(echo(server, CALLS));
    let words: Vec<_> = (0..CALLS).map(|number| format!("word {number} {}", "x".repeat(number % 50))).collect();
    let replies = join_all(words.iter().map(|word| ask(&line, word.as_bytes(), ample()))).await;
    for (word, reply) in words.iter().zip(replies) {
        assert_eq!(reply.unwrap(), bulk(word.as_bytes()));
    }
    server.await.unwrap();
    assert!(line.shared.queue().is_at_rest());
}

#[tokio::test]
async fn what_is_asked_within_one_turn_goes_out_at_once() {
    let (line, mut server) = connected();
    let asked = async { join_all((0..50).map(|_| ask(&line, b"x", ample()))).await };
    let script = async {
        let mut first = vec![0; HELD];
        let count = server.read(&mut first).await.unwrap();
        server.write_all(&b":1\r\n".repeat(50)).await.unwrap();
        count
    };
    let (replies, count) = tokio::join!(asked, script);
    assert!(replies.into_iter().all(|reply| matches!(reply, Ok(Value::Int(1)))));
    assert_eq!(count, 50 * b"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n".len());
}

#[tokio::test]
async fn replies_in_pieces_errors_amid_values_and_rows() {
    let (line, mut server) = connected();
    let all = b"$2\r\na\r\r\n-OOM command not allowed\r\n$-1\r\n*2\r\n:1\r\n$1\r\nb\r\n+OK\r\n:3\r\n";
    for size in 1..=all.len() {
        let script = async {
            for piece in all.chunks(size) {
                server.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let one = || ask(&line, b"x", ample());
        let row = line.send([b"*1\r\n$1\r\nA\r\n", b"*1\r\n$1\r\nB\r\n"], ample());
        let (first, error, none, row, last, ()) = tokio::join!(one(), one(), one(), row, one(), script);
        assert_eq!((first.unwrap(), none.unwrap(), last.unwrap()), (bulk(b"a\r"), Value::Nil, Value::Int(3)));
        assert!(matches!(error.unwrap(), Value::ServerError(error) if error.code() == "OOM"));
        assert_eq!(row.unwrap(), [Value::Array(vec![Value::Int(1), bulk(b"b")]), Value::Okay]);
    }
}

#[tokio::test]
async fn a_server_that_closes_midway_fails_all_who_wait() {
    let (line, mut server) = connected();
    let one = || ask(&line, b"x", ample());
    let script = async {
        command(&mut server).await;
        server.write_all(b"$2\r\nok\r\n$10\r\nhalf").await.unwrap();
        drop(server);
    };
    let (whole, half, none, ()) = tokio::join!(one(), one(), one(), script);
    assert_eq!(whole.unwrap(), bulk(b"ok"));
    for lost in [half, none, one().await] {
        let lost = lost.unwrap_err();
        assert!(matches!(lost, Lost::Broken(_)), "{lost:?}");
        assert_eq!(cause(lost), "the server closed the connection");
    }
}

#[tokio::test]
async fn what_is_no_reply_breaks_the_connection() {
    for (bytes, told) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "no reply"),
        (b"$-5\r\n", "no reply"),
        (b"*99999999999\r\n", "too long"),
        (b":1\r\n:2\r\n", "without being asked"),
    ] {
        let (line, mut server) = connected();
        server.write_all(bytes).await.unwrap();
        let mut last = ask(&line, b"x", ample()).await;
        while last.is_ok() {
            last = ask(&line, b"x", ample()).await;
        }
        let told_us = cause(last.unwrap_err());
        assert!(told_us.contains(told), "{told_us}");
    }
}

#[tokio::test]
async fn a_late_reply_is_nobody_elses() {
    let (line, mut server) = connected();
    let late = ask(&line, b"late", Deadline::within(Duration::from_millis(20))).await.unwrap_err();
    assert!(matches!(late, Lost::Late(_)), "{late:?}");
    assert_eq!(cause(late), "no answer within 20ms");
    // Dropped before its reply, as if its caller had gone.
    let gone = tokio::time::timeout(Duration::from_millis(1), ask(&line, b"gone", ample())).await;
    assert!(gone.is_err());
    let script = async {
        for expected in [b"late", b"gone", b"next"] {
            assert_eq!(command(&mut server).await[1], expected);
        }
        server.write_all(b"+late\r\n+gone\r\n+next\r\n").await.unwrap();
    };
    let (next, ()) = tokio::join!(ask(&line, b"next", ample()), script);
    assert_eq!(next.unwrap(), Value::SimpleString("next".to_owned()));
    assert!(line.shared.queue().is_at_rest());
}

/// Of calls with unlike limits, each has its own.
#[tokio::test]
async fn the_shortest_limit_is_kept_too() {
    let (line, _server) = connected();
    let begun = Clock::instant();
    let within = |millis| Deadline::within(Duration::from_millis(millis));
    let long = ask(&line, b"x", within(60_000));
    let (mut long, short) = (Box::pin(long), ask(&line, b"x", within(30)));
    tokio::select! {
        biased;
        _ = &mut long => panic!("nobody answers"),
        lost = short => assert!(matches!(lost, Err(Lost::Late(_)))),
    }
    let later = ask(&line, b"x", within(30)).await;
    assert!(matches!(later, Err(Lost::Late(_))));
    assert!(begun.elapsed() < AMPLE);
}

/// A server that reads nothing: what waits is bounded, and waits no longer than it may.
#[tokio::test]
async fn a_server_that_does_not_read_costs_bounded_memory() {
    let (line, server) = connected();
    let long = vec![b'x'; 1 << 20];
    let calls = (0..20).map(|_| ask(&line, &long, Deadline::within(Duration::from_millis(100))));
    assert!(join_all(calls).await.into_iter().all(|reply| matches!(reply, Err(Lost::Late(_)))));
    assert!(line.shared.queue().bytes() < 8 << 20, "{}", line.shared.queue().bytes());
    drop(server);
}

/// A server that answers only when it has everything: no reply wakes the driver in between.
#[tokio::test]
async fn what_is_asked_while_a_rest_is_to_be_written_goes_out_behind_it() {
    let (line, mut server) = connected();
    let long = vec![b'x'; 2 * HELD];
    let sent = [words::command(&[b"ECHO", &long]), words::command(&[b"ECHO", b"next"])].concat();
    let begun = Notify::new();
    let next = async {
        begun.notified().await;
        ask(&line, b"next", ample()).await
    };
    let script = async {
        // By then the stream holds as much as it can.
        let mut received = vec![server.read_u8().await.unwrap()];
        begun.notify_one();
        while line.shared.queue().bytes() == 0 {
            tokio::task::yield_now().await;
        }
        received.resize(sent.len(), 0);
        server.read_exact(&mut received[1..]).await.unwrap();
        server.write_all(b":1\r\n:2\r\n").await.unwrap();
        received
    };
    let (first, next, received) = tokio::join!(ask(&line, &long, ample()), next, script);
    assert_eq!((first.unwrap(), next.unwrap()), (Value::Int(1), Value::Int(2)));
    assert!(received == sent);
}

/// Those who wait for room are told, too, when there will be none.
#[tokio::test]
async fn a_line_that_ends_is_no_longer_waited_for() {
    let (line, server) = connected();
    let long = vec![b'x'; 1 << 20];
    let calls = join_all((0..20).map(|_| ask(&line, &long, ample())));
    let ends = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(server);
    };
    let (replies, ()) = tokio::join!(calls, ends);
    assert!(replies.into_iter().all(|reply| matches!(reply, Err(Lost::Broken(_)))));
}

#[tokio::test]
async fn a_dropped_line_is_closed() {
    let (line, mut server) = connected();
    let waiting = ask(&line, b"x", Deadline::within(Duration::from_millis(5))).await;
    assert!(waiting.is_err());
    drop(line);
    command(&mut server).await;
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
}
