//! The clients of the bench, over kept-alive connections with one request at a time on each. Closed loop: each sends when
//! it has its answer. Paced: requests are due at a steady rate, and latency counts from then, however late they are sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use oncegate::clock::Clock;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::requests::{Expect, Looks, Requests, Workload};
use crate::upstream::read_message;

/// A load that takes so much longer than it should ends the run.
const LONGEST: Duration = Duration::from_mins(1);
/// What a stall is.
const STALL: Duration = Duration::from_millis(20);

/// A load on one server.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) port: u16,
    pub(crate) connections: usize,
    /// How many requests may be under way at once, where that is fewer than there are connections.
    pub(crate) outstanding: usize,
    pub(crate) workload: Workload,
    pub(crate) looks: Looks,
    /// What its keys begin with, and the number of its first own one.
    pub(crate) prefix: String,
    pub(crate) first: u64,
    pub(crate) pace: Pace,
}

/// When requests are sent, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// A closed loop, so many requests.
    Count(u64),
    /// A closed loop, so long.
    During(Duration),
    /// So many a second, so long.
    Rate(u32, Duration),
}

/// What came of a load.
pub(crate) struct Sent {
    pub(crate) requests: u64,
    /// Requests that had to be executed.
    pub(crate) fresh: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds to the last byte of the answer: from the first byte sent, or paced, from when it was due.
    pub(crate) latency: Histogram<u64>,
}

impl Sent {
    /// Microseconds within which this share of the requests was answered.
    #[expect(clippy::cast_precision_loss, reason = "latencies are far from the limits of a double")]
    pub(crate) fn micros(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1e3
    }

    /// How many were answered later than a stall takes.
    pub(crate) fn stalls(&self) -> u64 {
        self.latency.count_between(u64::try_from(STALL.as_nanos()).unwrap_or(u64::MAX), u64::MAX)
    }

    pub(crate) fn nothing() -> Result<Self> {
        Ok(Self { requests: 0, fresh: 0, elapsed: Duration::ZERO, latency: Histogram::new(3)? })
    }

    pub(crate) fn add(&mut self, other: &Self) -> Result<()> {
        self.requests += other.requests;
        self.fresh += other.fresh;
        self.elapsed += other.elapsed;
        Ok(self.latency.add(&other.latency)?)
    }
}

/// Whose turn it is, and what came of the turns before.
struct Turns {
    load: Load,
    start: Instant,
    next: AtomicU64,
    /// Requests that may be sent now: those that are due, or in a closed loop those that are not under way.
    due: Semaphore,
    sent: Mutex<Sent>,
}

struct Turn<'a> {
    number: u64,
    begun: Instant,
    _under_way: Option<SemaphorePermit<'a>>,
}

impl Load {
    /// Sends it all from this thread.
    pub(crate) fn run(self) -> Result<Sent> {
        self.run_watched(|| Ok(()))
    }

    /// The same. `look` is called when the connections are there, and when all is answered and they still are.
    pub(crate) fn run_watched(self, look: impl FnMut() -> Result<()>) -> Result<Sent> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let span = match self.pace {
            Pace::Count(_) => Duration::from_mins(10),
            Pace::During(span) | Pace::Rate(_, span) => span,
        };
        runtime.block_on(async {
            tokio::time::timeout(span + LONGEST, self.send(look)).await.context("answers did not come in time")?
        })
    }

    async fn send(self, mut look: impl FnMut() -> Result<()>) -> Result<Sent> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            connections.push(TcpStream::connect(("127.0.0.1", self.port)).await?);
        }
        look()?;
        let turns = Arc::new(Turns::new(self)?);
        let pacer = turns.pacer();
        let mut clients = JoinSet::new();
        for connection in connections {
            clients.spawn(client(connection, Arc::clone(&turns)));
        }
        let mut connections = Vec::new();
        while let Some(connection) = clients.join_next().await {
            connections.push(connection??);
        }
        let elapsed = turns.start.elapsed();
        look()?;
        drop(connections);
        if let Some(pacer) = pacer {
            pacer.join().ok();
        }
        let turns = Arc::into_inner(turns).context("a client has not ended")?;
        Ok(Sent { elapsed, ..turns.sent.into_inner().unwrap_or_else(PoisonError::into_inner) })
    }

    /// How many requests after an order it is repeated: some seconds later.
    fn lag(&self) -> u64 {
        match self.pace {
            Pace::Rate(rate, _) => 10 * u64::from(rate),
            Pace::Count(_) | Pace::During(_) => u64::MAX,
        }
    }
}

impl Turns {
    fn new(load: Load) -> Result<Self> {
        let due = if matches!(load.pace, Pace::Rate(..)) { 0 } else { load.outstanding };
        let sent = Mutex::new(Sent::nothing()?);
        Ok(Self { load, start: Clock::instant(), next: AtomicU64::new(0), due: Semaphore::new(due), sent })
    }

    /// Makes requests due, from a thread of its own: the runtime's timers are too coarse.
    fn pacer(self: &Arc<Self>) -> Option<std::thread::JoinHandle<()>> {
        let Pace::Rate(rate, span) = self.load.pace else { return None };
        let turns = Arc::clone(self);
        Some(std::thread::spawn(move || {
            let all = due_after(rate, span);
            let mut made = 0;
            while made < all {
                // The first is due at once.
                let due = (due_after(rate, turns.start.elapsed()) + 1).min(all);
                turns.due.add_permits(usize::try_from(due - made).unwrap_or(0));
                made = due;
                std::thread::sleep(due_at(rate, due).saturating_sub(turns.start.elapsed()));
            }
            // So that each client learns that there is no more.
            turns.due.add_permits(turns.load.connections);
        }))
    }

    async fn next(&self) -> Result<Option<Turn<'_>>> {
        let permit = self.due.acquire().await?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(match self.load.pace {
            Pace::Rate(rate, span) => {
                permit.forget();
                let begun = self.start + due_at(rate, number);
                (number < due_after(rate, span)).then_some(Turn { number, begun, _under_way: None })
            }
            Pace::Count(count) => (number < count).then(|| Turn::now(number, permit)),
            Pace::During(span) => Some(Turn::now(number, permit)).filter(|turn| turn.begun < self.start + span),
        })
    }

    fn answered(&self, turn: &Turn<'_>, fresh: bool) -> Result<()> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.requests += 1;
        sent.fresh += u64::from(fresh);
        Ok(sent.latency.record(u64::try_from(turn.begun.elapsed().as_nanos())?)?)
    }
}

impl<'a> Turn<'a> {
    fn now(number: u64, permit: SemaphorePermit<'a>) -> Self {
        Self { number, begun: Clock::instant(), _under_way: Some(permit) }
    }
}

/// How many requests are due after so long.
fn due_after(rate: u32, span: Duration) -> u64 {
    u64::try_from(u128::from(rate) * span.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
}

/// When the `n`-th is due.
fn due_at(rate: u32, n: u64) -> Duration {
    Duration::from_nanos(u64::try_from(u128::from(n) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX))
}

async fn client(mut connection: TcpStream, turns: Arc<Turns>) -> Result<TcpStream> {
    connection.set_nodelay(true)?;
    let load = &turns.load;
    let (mut requests, mut answer) = (Requests::new(&load.prefix, load.looks), Vec::with_capacity(1024));
    while let Some(turn) = turns.next().await? {
        let asked = load.workload.asked(turn.number, load.first, load.lag());
        connection.write_all(requests.write(asked)?).await?;
        answer.clear();
        let head = read_message(&mut connection, &mut answer).await?.context("the server closed the connection")?;
        requests.check(&answer, head, asked.expect)?;
        turns.answered(&turn, asked.expect == Expect::Done)?;
    }
    Ok(connection)
}
