//! What the clients send, and what must come back: orders of 1 KiB JSON that carry their key in the body too, so that the
//! upstream knows each of them whatever a gateway does with their headers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::training;

/// Keys that loads of repetitions send again and again; their numbers begin here.
pub(crate) const POOL: u64 = 1_000;
pub(crate) const POOL_BEGINS: u64 = 9_000_000_000;
/// Operations that the upstream does not answer until it is told to; their numbers begin here.
pub(crate) const HELD: u64 = 64;
pub(crate) const HELD_BEGIN: u64 = 8_000_000_000;
/// Digits of a request's number.
pub(crate) const DIGITS: usize = 10;

const BODY_BYTES: usize = 1024;
const ANSWER_BYTES: usize = 400;
/// What a body begins with; the key follows, up to the next quote.
const BODY_BEGINS: &[u8] = b"{\"order\":\"";

/// What the clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Every request is an operation of its own, named by its key.
    Unique,
    /// The same, named by its fingerprint: there is no key.
    Fingerprint,
    /// Every request repeats a completed operation.
    Replay,
    /// One unique, one replay in turn.
    Mix,
    /// Every request repeats an operation that is under way.
    InFlight,
    /// A route without idempotency.
    Plain,
    /// Of ten requests four orders, four of those again some seconds later, one by fingerprint, one plain.
    All,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    Orders,
    /// The same order in other words, where there are such.
    Respelled,
    Prints,
    Plain,
}

/// What requests look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// As they are measured.
    Measured,
    /// As they are while a build is trained: other fields, other bodies.
    Training,
}

/// What must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Done,
    Replayed,
    InFlight,
}

/// One request of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    route: Route,
    number: u64,
    pub(crate) expect: Expect,
}

impl Workload {
    /// The `n`-th request. `lag`: how many requests after an order its repetition comes, where there is no pool.
    pub(crate) fn asked(self, n: u64, first: u64, lag: u64) -> Asked {
        let own = |route| Asked { route, number: first + n, expect: Expect::Done };
        let again = |number: u64| {
            let route = if number.is_multiple_of(2) { Route::Orders } else { Route::Respelled };
            Asked { route, number, expect: Expect::Replayed }
        };
        match self {
            Self::Fingerprint => own(Route::Prints),
            Self::Plain => own(Route::Plain),
            Self::Replay => again(POOL_BEGINS + n % POOL),
            Self::Mix if n.is_multiple_of(2) => again(POOL_BEGINS + n / 2 % POOL),
            Self::Unique | Self::Mix => own(Route::Orders),
            Self::InFlight => Asked { route: Route::Orders, number: HELD_BEGIN + n % HELD, expect: Expect::InFlight },
            Self::All => match n % 10 {
                8 => own(Route::Prints),
                9 => own(Route::Plain),
                4..=7 if n >= lag => again(first + n - 4 - lag / 10 * 10),
                _ => own(Route::Orders),
            },
        }
    }
}

/// A connection's requests, written once: only the key changes, in place.
pub(crate) struct Requests {
    prefix: String,
    key: Vec<u8>,
    routes: [(Vec<u8>, Vec<Range<usize>>); 4],
}

impl Requests {
    pub(crate) fn new(prefix: &str, looks: Looks) -> Self {
        let key = "k".repeat(prefix.len() + 1 + DIGITS);
        let routes = [Route::Orders, Route::Respelled, Route::Prints, Route::Plain];
        let routes = routes.map(|route| {
            let request = match looks {
                Looks::Measured => request(route, &key),
                Looks::Training => training::request(route, &key),
            };
            let places = request.match_indices(&key).map(|(at, _)| at..at + key.len()).collect();
            (request.into_bytes(), places)
        });
        Self { prefix: prefix.to_owned(), key: Vec::new(), routes }
    }

    /// The request's bytes.
    pub(crate) fn write(&mut self, asked: Asked) -> Result<&[u8]> {
        self.key.clear();
        write!(self.key, "{}-{:0DIGITS$}", self.prefix, asked.number)?;
        let (request, places) = &mut self.routes[asked.route as usize];
        for place in places {
            request[place.clone()].copy_from_slice(&self.key);
        }
        Ok(request)
    }

    /// Whether that is the answer to the request written last.
    pub(crate) fn check(&self, answer: &[u8], head: usize, expect: Expect) -> Result<()> {
        let told = || format!("{expect:?} for {}:\n{}", text(&self.key), text(answer));
        let status: &[u8] = if expect == Expect::InFlight { b"HTTP/1.1 409 " } else { b"HTTP/1.1 201 " };
        ensure!(answer.starts_with(status), "another status than {}", told());
        if expect == Expect::InFlight {
            let body = &answer[head..];
            let code = b"\"request-in-flight\"";
            ensure!(body.windows(code.len()).any(|part| part == code), "another refusal than {}", told());
            return Ok(());
        }
        ensure!(id(&answer[head..]) == Some(&*self.key), "the answer to another order than {}", told());
        let replayed = field(&answer[..head], b"idempotent-replayed") == Some(b"true");
        ensure!(replayed == (expect == Expect::Replayed), "replayed is {replayed}, {}", told());
        Ok(())
    }
}

impl Route {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Orders | Self::Respelled => "/orders",
            Self::Prints => "/prints",
            Self::Plain => "/plain",
        }
    }

    /// The line with the key, where there is one.
    pub(crate) fn key_line(self, key: &str) -> String {
        match self {
            Self::Prints => String::new(),
            Self::Orders | Self::Respelled | Self::Plain => format!("Idempotency-Key: {key}\r\n"),
        }
    }
}

fn request(route: Route, key: &str) -> String {
    let (path, named) = (route.path(), route.key_line(key));
    let order = String::from_utf8_lossy(BODY_BEGINS).into_owned() + key + "\",\"sku\":\"tea\",\"count\":2,\"note\":\"";
    let body = format!("{order}{}\"}}", "n".repeat(BODY_BYTES - order.len() - 2));
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: api.example.com\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         User-Agent: load\r\nX-Customer-Id: 42\r\n{named}Content-Length: {BODY_BYTES}\r\n\r\n"
    );
    head + &body
}

/// Sends one order and waits for its answer.
pub(crate) fn ask(connection: &mut TcpStream, requests: &mut Requests, number: u64) -> Result<()> {
    let asked = Asked { route: Route::Orders, number, expect: Expect::Done };
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    connection.write_all(requests.write(asked)?)?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = length(&answer)?
            && answer.len() >= head + body
        {
            return requests.check(&answer, head, asked.expect);
        }
        let read = connection.read(&mut part)?;
        ensure!(read > 0, "the server closed the connection");
        answer.extend_from_slice(&part[..read]);
    }
}

/// The upstream's answer to an order.
pub(crate) fn write_answer(answer: &mut Vec<u8>, id: &[u8]) {
    const HEAD: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /orders/1\r\n\
        Content-Length: 400\r\n\r\n";
    const NOTE: &[u8] = b"\",\"note\":\"";
    answer.clear();
    for part in [HEAD, BODY_BEGINS, id, NOTE] {
        answer.extend_from_slice(part);
    }
    answer.resize(HEAD.len() + ANSWER_BYTES - 2, b'x');
    answer.extend_from_slice(b"\"}");
}

/// The key in an order's body, or in the answer's.
pub(crate) fn id(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(BODY_BEGINS)?.split(|&byte| byte == b'"').next()
}

/// Where the head ends, once it is there.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4)
}

/// How long a message is, once its head is there.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = head_end(bytes) else { return Ok(None) };
    let body = field(&bytes[..head], b"content-length").context("a message without length")?;
    Ok(Some((head, std::str::from_utf8(body)?.parse()?)))
}

/// A header field's value.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = head.split(|&byte| byte == b'\n');
    let line =
        lines.find(|line| line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name))?;
    Some(line[name.len() + 1..].trim_ascii())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
