//! The way to one server: connections made when needed, looked over before their first use, given up when they break or
//! fall silent. It carries commands and replies and knows nothing of records.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::Value;

use super::StoreError;
use super::deadline::Deadline;
use super::dial;
use super::faults::{is_demoted, unavailable};
use super::line::{Digits, Line, Lost, Ticket, command};
use super::request::{Answer, Request};
use super::sentinel::Sentinels;
use super::server::{self, Report};
use super::settings::{Access, Node};
use super::terms::Terms;
use crate::clock::Clock;

/// The least that connecting may take: a lost SYN is sent again after a second.
const CONNECT_AT_LEAST: Duration = Duration::from_millis(1_500);

/// How far apart attempts to connect begin, at most: a server that is away is not stormed, and is found soon.
const SPACING: Duration = Duration::from_millis(100);

/// Asks a node of a cluster also for a key that it is still being given.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// Which server it is.
#[derive(Clone)]
pub(super) enum Place {
    /// This one.
    Fixed(Node),
    /// The one that the sentinels call the primary.
    Named(Arc<Sentinels>),
}

pub(super) struct Link {
    terms: Arc<Terms>,
    place: Place,
    /// Whether the store's time is this server's.
    sets_clock: bool,
    lanes: Vec<Lane>,
}

/// A connection's place, and how many calls are under way on it.
#[derive(Default)]
struct Lane {
    slot: Mutex<Slot>,
    calls: AtomicUsize,
}

/// The present connection, or the attempt to make it. The number tells it from the ones before.
#[derive(Default)]
struct Slot {
    generation: u64,
    attempt: Option<Attempt>,
    /// When the next attempt may begin.
    next: Option<Instant>,
}

/// Everybody who needs the connection waits for the same attempt.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Live>, StoreError>>>;

pub(super) struct Live {
    line: Line,
    report: Report,
    node: Node,
    /// How often the sentinels had named another primary by then.
    switches: u64,
}

/// A command that went out at once.
pub(super) struct Sent<'a> {
    /// It keeps the connection until the reply comes, also where the lane has let go of it.
    ticket: Ticket<Arc<Live>>,
    call: Call<'a>,
    generation: u64,
}

impl Sent<'_> {
    /// The reply, which may be an error of the server's; none where the connection has broken, and the command may be
    /// sent once more.
    pub(super) async fn reply(self) -> Result<Option<Value>, StoreError> {
        let lane = self.call.lane;
        match lane.mind(self.generation, self.ticket.await) {
            Ok(reply) => Ok(Some(lane.heed(self.generation, reply))),
            Err(Lost::Broken(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A call under way on a lane.
struct Call<'a> {
    lane: &'a Lane,
    counts: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.lane.calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Link {
    pub(super) fn new(terms: Arc<Terms>, place: Place, sets_clock: bool) -> Self {
        let lanes = (0..terms.settings.connections.max(1)).map(|_| Lane::default()).collect();
        Self { terms, place, sets_clock, lanes }
    }

    /// Another way to the same server.
    pub(super) fn sibling(&self) -> Self {
        Self::new(Arc::clone(&self.terms), self.place.clone(), self.sets_clock)
    }

    /// Sends a request and returns the answer, which may be an error of the server's. A connection that turns out to be
    /// broken is replaced, and the request sent again, once.
    pub(super) async fn send(&self, request: Request<'_>, deadline: Deadline) -> Result<Answer, StoreError> {
        let lane = self.lane(request.wait.is_some());
        let _call = self.begin(lane);
        let mut again = request.again;
        loop {
            let (generation, live) = self.live(lane, deadline).await?;
            match lane.mind(generation, live.exchange(request, deadline).await) {
                Ok(answer) => return Ok(Answer { reply: lane.heed(generation, answer.reply), ..answer }),
                Err(Lost::Broken(_)) if again => again = false,
                Err(lost) => return Err(lost.into()),
            }
        }
    }

    /// Sends a command that waits for no replicas, if it can go out at once: nearly always. None where the long way is to
    /// be gone, which finds out what is the matter.
    pub(super) fn start(&self, write: impl FnOnce(&mut Vec<u8>), deadline: Deadline) -> Option<Sent<'_>> {
        let lane = self.lane(false);
        let (generation, live) = lane.made(&self.place)?;
        let ticket = Ticket::of(live, write, deadline).ok().flatten()?;
        Some(Sent { ticket, call: self.begin(lane), generation })
    }

    /// Sends a command whose reply depends on the run of the server, and says which run it was.
    pub(super) async fn send_to_run(&self, command: &[u8], deadline: Deadline) -> Result<(u64, Value), StoreError> {
        let lane = self.lane(false);
        let (generation, live) = self.live(lane, deadline).await?;
        let [reply] = lane.mind(generation, live.line.send([command], deadline).await)?;
        Ok((live.report.run, reply))
    }

    /// What the server says of itself now, and where it is.
    pub(super) async fn report(&self, deadline: Deadline) -> Result<(Node, Report), StoreError> {
        let lane = self.lane(false);
        let is_new = lane.slot().made().is_none();
        let (generation, live) = self.meet(lane, deadline).await?;
        // It was asked just now; whether it may be used in spite of what it said there is for others to say.
        if is_new && !live.report.may_evict {
            return Ok((live.node.clone(), live.report.clone()));
        }
        let clock = self.sets_clock.then_some(&self.terms.clock);
        let asked = server::ask(&live.line, self.terms.settings.allow_eviction, clock, deadline).await;
        let report = lane.mind(generation, asked)??;
        Ok((live.node.clone(), report))
    }

    /// The connection for a call. Those that wait for replicas hold up what comes behind them, so they have connections
    /// of their own, where there is more than one; and of those that will do, the one with the fewest calls is taken.
    fn lane(&self, waits: bool) -> &Lane {
        let (first, others) = self.lanes.split_at(1);
        let fitting = match (self.terms.settings.wait.is_some(), waits) {
            _ if others.is_empty() => return &self.lanes[0],
            (true, true) => others,
            (true, false) => first,
            (false, _) => &self.lanes[..],
        };
        let calls = |lane: &&Lane| lane.calls.load(Ordering::Relaxed);
        fitting.iter().min_by_key(calls).unwrap_or(&self.lanes[0])
    }

    /// A call begins. It counts where there is another lane that might have fewer.
    fn begin<'a>(&self, lane: &'a Lane) -> Call<'a> {
        let counts = self.lanes.len() > 1;
        if counts {
            lane.calls.fetch_add(1, Ordering::Relaxed);
        }
        Call { lane, counts }
    }

    /// A connection to a server that may be used.
    async fn live(&self, lane: &Lane, deadline: Deadline) -> Result<(u64, Arc<Live>), StoreError> {
        let (generation, live) = self.meet(lane, deadline).await?;
        if let Some(refusal) = &live.report.refusal {
            // The operator may have put it right: the next call looks again.
            lane.give_up(generation, refusal);
            return Err(unavailable(refusal));
        }
        Ok((generation, live))
    }

    async fn meet(&self, lane: &Lane, deadline: Deadline) -> Result<(u64, Arc<Live>), StoreError> {
        let (generation, attempt) = self.attempt(lane);
        // Nearly always it is there already.
        let live = match attempt.peek() {
            Some(made) => made.clone(),
            None => deadline.hold(attempt).await?,
        };
        live.map(|live| (generation, live))
    }

    /// The connection or the attempt under way; a fresh one when there is none, it has failed, or the sentinels have
    /// named another server since.
    fn attempt(&self, lane: &Lane) -> (u64, Attempt) {
        let mut slot = lane.slot();
        if let Some(attempt) = &slot.attempt {
            let stands = match attempt.peek() {
                None => true,
                Some(Ok(live)) => self.place.switches() == live.switches,
                Some(Err(_)) => false,
            };
            if stands {
                return (slot.generation, attempt.clone());
            }
        }
        let now = Clock::instant();
        let begin = slot.next.map_or(now, |next| next.max(now));
        // No call waits in vain for longer than a quarter of its time.
        slot.next = Some(begin + SPACING.min(self.terms.timeout / 4));
        let attempt = connect(Arc::clone(&self.terms), self.place.clone(), self.sets_clock, begin).boxed().shared();
        // On its own feet: it goes on when the call that began it is dropped.
        tokio::spawn(attempt.clone());
        slot.generation += 1;
        slot.attempt = Some(attempt.clone());
        (slot.generation, attempt)
    }
}

impl Lane {
    /// Gives up a connection that has lost a call. One that lets a call's time pass may be a dead one too.
    fn mind<T>(&self, generation: u64, outcome: Result<T, Lost>) -> Result<T, Lost> {
        match &outcome {
            Err(Lost::Late(_)) => self.give_up(generation, "no answer in time"),
            Err(Lost::Broken(cause)) => self.give_up(generation, cause),
            Ok(_) => {}
        }
        outcome
    }

    /// Lets go of a connection, so that the next call makes a new one. Who still waits on it may go on waiting. An
    /// attempt to connect is left to its end, and a newer connection than the one that failed is left alone.
    fn give_up(&self, generation: u64, cause: &str) {
        let mut slot = self.slot();
        let made = slot.made().map(|live| live.node.clone());
        if let Some(node) = made
            && slot.generation == generation
        {
            slot.attempt = None;
            drop(slot);
            tracing::warn!(address = %node, cause, "store connection given up");
        }
    }

    /// Gives up the connection to a server that is a replica by now.
    fn heed(&self, generation: u64, reply: Value) -> Value {
        if is_demoted(&reply) {
            self.give_up(generation, "the server is a replica");
        }
        reply
    }

    /// The connection, where there is one to a server that may be used.
    fn made(&self, place: &Place) -> Option<(u64, Arc<Live>)> {
        let slot = self.slot();
        let live = slot.made().filter(|live| live.report.refusal.is_none() && live.switches == place.switches())?;
        Some((slot.generation, Arc::clone(live)))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }
}

impl Slot {
    fn made(&self) -> Option<&Arc<Live>> {
        self.attempt.as_ref().and_then(|attempt| attempt.peek()).and_then(|made| made.as_ref().ok())
    }
}

impl AsRef<Line> for Arc<Live> {
    fn as_ref(&self) -> &Line {
        &self.line
    }
}

impl Live {
    async fn exchange(&self, request: Request<'_>, deadline: Deadline) -> Result<Answer, Lost> {
        let (line, asked) = (&self.line, request.command);
        let Some(wait) = request.wait else {
            let reply = if request.asking {
                line.send([ASKING, asked], deadline).await?.into_iter().last()
            } else {
                line.send([asked], deadline).await?.into_iter().next()
            };
            return Ok(Answer { reply: reply.unwrap_or(Value::Nil), acknowledged: None });
        };
        let millis = u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX);
        let (replicas, millis) = (Digits::of(wait.replicas.into()), Digits::of(millis));
        let wait = command(&[b"WAIT", replicas.text(), millis.text()]);
        let [reply, acknowledged] = if request.asking {
            let [_, replies @ ..] = line.send([ASKING, asked, &wait], deadline).await?;
            replies
        } else {
            line.send([asked, &wait], deadline).await?
        };
        Ok(Answer { reply, acknowledged: Some(acknowledged) })
    }
}

impl Place {
    fn switches(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Named(sentinels) => sentinels.switches(),
        }
    }
}

async fn connect(terms: Arc<Terms>, place: Place, sets_clock: bool, begin: Instant) -> Result<Arc<Live>, StoreError> {
    // The runtime's timers round up to a millisecond, which the first connection has no reason to wait.
    if begin > Clock::instant() {
        tokio::time::sleep_until(begin.into()).await;
    }
    let limit = Deadline::within(terms.timeout.max(CONNECT_AT_LEAST));
    let live =
        limit.hold(open(&terms, &place, sets_clock, limit)).await.and_then(|opened| opened).map_err(|error| {
            let where_to = &terms.settings.servers;
            match (error, &place) {
                (StoreError::Unavailable(cause), Place::Fixed(node)) => {
                    unavailable(format!("cannot connect to {node}: {cause}"))
                }
                (StoreError::Unavailable(cause), Place::Named(_)) => {
                    unavailable(format!("cannot connect to {where_to}: {cause}"))
                }
                (other, _) => other,
            }
        })?;
    tracing::info!(address = %live.node, version = live.report.version, "store connected");
    Ok(Arc::new(live))
}

async fn open(terms: &Terms, place: &Place, sets_clock: bool, limit: Deadline) -> Result<Live, StoreError> {
    let access: &Access = &terms.settings.access;
    let (switches, node) = match place {
        Place::Fixed(node) => (0, node.clone()),
        Place::Named(sentinels) => sentinels.primary().await?,
    };
    let report = async {
        let line = dial::line(&node, access, limit).await?;
        let report = terms.look_over(&node, &line, sets_clock, limit).await?;
        Ok((line, report))
    };
    match (report.await, place) {
        (Ok((_, report)), Place::Named(_)) if !report.is_primary => {
            Err(unavailable(format!("{node} is a replica, though the sentinels name it")))
        }
        (Ok((line, report)), _) => Ok(Live { line, report, node, switches }),
        (Err(StoreError::Unavailable(cause)), Place::Named(_)) => Err(unavailable(format!("{node}: {cause}"))),
        (Err(error), _) => Err(error),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
