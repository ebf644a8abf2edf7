//! The clients of the bench: a closed loop over kept-alive connections, one request at a time on each.
//! Every answer is checked: its status, its length, and whether it is a replay where one is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use oncegate::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::upstream::{field, read_head};
use crate::{POOL, Workload};

const BODY_BYTES: usize = 1024;
/// An answer that takes longer than this ends the run.
const LONGEST: Duration = Duration::from_secs(30);

/// A load on one server.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) port: u16,
    pub(crate) connections: usize,
    pub(crate) workload: Workload,
    /// What this load's own keys begin with.
    pub(crate) prefix: String,
    /// Whether the server replays: nginx forwards every request.
    pub(crate) replays: bool,
    pub(crate) until: Until,
}

/// When a load ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After so many requests.
    Count(u64),
    /// After so long.
    Passed(Duration),
}

/// What came of a load.
pub(crate) struct Sent {
    pub(crate) requests: u64,
    /// Requests with a key of their own.
    pub(crate) fresh: u64,
    pub(crate) elapsed: Duration,
    /// Microseconds from the first byte sent to the last byte received.
    pub(crate) latency: Histogram<u64>,
}

impl Load {
    pub(crate) fn run(self) -> Result<Sent> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.send())
    }

    async fn send(self) -> Result<Sent> {
        let next = Arc::new(AtomicU64::new(0));
        let connections = self.connections;
        let load = Arc::new(self);
        let start = Clock::instant();
        let mut clients = JoinSet::new();
        for _ in 0..connections {
            clients.spawn(client(Arc::clone(&load), start, Arc::clone(&next)));
        }
        let mut sent = Sent { requests: 0, fresh: 0, elapsed: Duration::ZERO, latency: Histogram::new(3)? };
        while let Some(client) = clients.join_next().await {
            let client = client??;
            sent.requests += client.requests;
            sent.fresh += client.fresh;
            sent.latency.add(&client.latency)?;
        }
        sent.elapsed = start.elapsed();
        Ok(sent)
    }

    /// The `n`-th request's key, and whether its operation has been done before.
    fn key(&self, n: u64) -> (String, bool) {
        let pooled = match self.workload {
            Workload::Unique => None,
            Workload::Replay => Some(n),
            Workload::Mix => n.is_multiple_of(2).then_some(n / 2),
        };
        match pooled {
            Some(n) => (format!("{}-pool-{}", self.prefix, n % POOL), true),
            None => (format!("{}-{n}", self.prefix), false),
        }
    }
}

async fn client(load: Arc<Load>, start: Instant, next: Arc<AtomicU64>) -> Result<Sent> {
    let mut connection = TcpStream::connect(("127.0.0.1", load.port)).await?;
    connection.set_nodelay(true)?;
    let body = format!("{{\"sku\":\"tea\",\"note\":\"{}\"}}", "n".repeat(BODY_BYTES - 23));
    let mut sent = Sent { requests: 0, fresh: 0, elapsed: Duration::ZERO, latency: Histogram::new(3)? };
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let over = match load.until {
            Until::Count(count) => n >= count,
            Until::Passed(span) => start.elapsed() >= span,
        };
        if over {
            return Ok(sent);
        }
        let (key, repeated) = load.key(n);
        write_request(&mut request, &key, &body);
        let begun = Clock::instant();
        let exchange = exchange(&mut connection, &request, &mut answer);
        let replayed = tokio::time::timeout(LONGEST, exchange).await.context("no answer in time")??;
        sent.latency.record(u64::try_from(begun.elapsed().as_micros())?)?;
        ensure!(replayed == (load.replays && repeated), "key {key}: replayed is {replayed}");
        sent.requests += 1;
        sent.fresh += u64::from(!repeated);
    }
}

fn write_request(request: &mut Vec<u8>, key: &str, body: &str) {
    request.clear();
    request.extend_from_slice(b"POST /orders HTTP/1.1\r\nHost: api.example.com\r\nContent-Type: application/json\r\n");
    request.extend_from_slice(b"Accept: */*\r\nUser-Agent: load\r\nIdempotency-Key: ");
    request.extend_from_slice(key.as_bytes());
    request.extend_from_slice(format!("\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body.as_bytes());
}

/// One request and its whole answer; tells whether the answer is marked as a replay.
async fn exchange(connection: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> Result<bool> {
    connection.write_all(request).await?;
    answer.clear();
    let head = read_head(connection, answer).await?.context("the server closed the connection")?;
    let length: usize = field(&answer[..head], "content-length").context("an answer without length")?.parse()?;
    while answer.len() < head + length {
        ensure!(connection.read_buf(answer).await? > 0, "the answer was cut short");
    }
    ensure!(answer.starts_with(b"HTTP/1.1 201 "), "{}", String::from_utf8_lossy(answer));
    ensure!(answer.len() == head + length, "more came than the answer's length says");
    Ok(field(&answer[..head], "idempotent-replayed") == Some("true"))
}
