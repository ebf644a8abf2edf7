//! The connection: made when needed, looked over before its first use, given up when it breaks or falls silent.
//! It carries commands and replies and knows nothing of records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value};

use super::faults::{is_broken, is_demoted, translate, unavailable};
use super::server::{self, Report};
use super::{Settings, StoreError};
use crate::clock::Clock;

/// The least that connecting may take: a lost SYN is sent again after a second.
const CONNECT_AT_LEAST: Duration = Duration::from_millis(1_500);

/// How many commands may wait to be written to the connection.
const QUEUE: usize = 1_024;

pub(super) struct Link {
    dial: Arc<Dial>,
    slot: Mutex<Slot>,
}

/// What a connection is made from.
struct Dial {
    client: Client,
    address: String,
    allow_eviction: bool,
    timeout: Duration,
    clock: Clock,
    /// Whether a line has found the server fit before. A policy that changes while the gateway runs is counted and
    /// logged; refusing it then would stop the lines that happen to connect anew, and no others.
    accepted: AtomicBool,
}

/// The present connection, or the attempt to make it. The number tells it from the ones before.
#[derive(Default)]
struct Slot {
    generation: u64,
    attempt: Option<Attempt>,
}

/// Everybody who needs the connection waits for the same attempt.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Live>, StoreError>>>;

struct Live {
    connection: MultiplexedConnection,
    report: Report,
}

impl Link {
    pub(super) fn new(settings: &Settings, command_timeout: Duration, clock: Clock) -> Result<Self, RedisError> {
        let dial = Dial {
            client: Client::open(settings.url.as_str())?,
            address: settings.address(),
            allow_eviction: settings.allow_eviction,
            timeout: command_timeout.max(CONNECT_AT_LEAST),
            clock,
            accepted: AtomicBool::new(false),
        };
        Ok(Self { dial: Arc::new(dial), slot: Mutex::default() })
    }

    /// Another line to the same server.
    pub(super) fn sibling(&self) -> Self {
        Self { dial: Arc::clone(&self.dial), slot: Mutex::default() }
    }

    /// Sends a command and returns the reply, which may be an error of the server's. A connection that turns out to be
    /// broken is replaced, and the command sent again, once.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        let mut again = true;
        loop {
            let (generation, live) = self.live().await?;
            if let Some(refusal) = &live.report.refusal {
                // The operator may have put it right: the next call looks again.
                self.give_up(generation, refusal);
                return Err(unavailable(refusal));
            }
            match live.connection.clone().req_packed_command(command).await {
                Ok(reply) => {
                    if is_demoted(&reply) {
                        self.give_up(generation, "the server is a replica");
                    }
                    return Ok(reply);
                }
                Err(error) if is_broken(&error) => {
                    self.give_up(generation, &error.to_string());
                    if !again {
                        return Err(translate(&error));
                    }
                    again = false;
                }
                Err(error) => return Err(translate(&error)),
            }
        }
    }

    /// What the server says of itself now.
    pub(super) async fn report(&self) -> Result<Report, StoreError> {
        let (generation, live) = self.live().await?;
        let answer = server::ask(&mut live.connection.clone(), self.dial.allow_eviction, &self.dial.clock).await;
        answer.map_err(|error| {
            if is_broken(&error) {
                self.give_up(generation, &error.to_string());
            }
            translate(&error)
        })
    }

    /// Which connection is in use.
    pub(super) fn generation(&self) -> u64 {
        self.slot().generation
    }

    /// Lets go of a connection, so that the next call makes a new one. Who still waits on it may go on waiting. An
    /// attempt to connect is left to its end, and a newer connection than the one that failed is left alone.
    pub(super) fn give_up(&self, generation: u64, cause: &str) {
        let mut slot = self.slot();
        let made = slot.attempt.as_ref().is_some_and(|attempt| matches!(attempt.peek(), Some(Ok(_))));
        if made && slot.generation == generation {
            slot.attempt = None;
            drop(slot);
            tracing::warn!(address = self.dial.address, cause, "store connection given up");
        }
    }

    async fn live(&self) -> Result<(u64, Arc<Live>), StoreError> {
        let (generation, attempt) = self.attempt();
        attempt.await.map(|live| (generation, live))
    }

    /// The connection or the attempt under way; a fresh one when there is none or it has failed.
    fn attempt(&self) -> (u64, Attempt) {
        let mut slot = self.slot();
        if let Some(attempt) = &slot.attempt
            && !matches!(attempt.peek(), Some(Err(_)))
        {
            return (slot.generation, attempt.clone());
        }
        let attempt = Arc::clone(&self.dial).connect().boxed().shared();
        // On its own feet: it goes on when the call that began it is dropped.
        tokio::spawn(attempt.clone());
        slot.generation += 1;
        slot.attempt = Some(attempt.clone());
        (slot.generation, attempt)
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dial {
    async fn connect(self: Arc<Self>) -> Result<Arc<Live>, StoreError> {
        let opened = tokio::time::timeout(self.timeout, self.open()).await;
        let outcome = opened.unwrap_or_else(|_| Err(unavailable(format!("no answer within {:?}", self.timeout))));
        let live = outcome.map_err(|error| match error {
            StoreError::Unavailable(cause) => unavailable(format!("cannot connect to {}: {cause}", self.address)),
            unreadable @ StoreError::Unreadable(_) => unreadable,
        })?;
        tracing::info!(address = self.address, version = live.report.version, "store connected");
        Ok(Arc::new(live))
    }

    async fn open(&self) -> Result<Live, StoreError> {
        // Our own limits hold for calls and for connecting.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let opened = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = opened.map_err(|error| translate(&error))?;
        let allow_eviction = self.allow_eviction || self.accepted.load(Ordering::Relaxed);
        let report = server::ask(&mut connection, allow_eviction, &self.clock).await;
        let report = report.map_err(|error| translate(&error))?;
        if report.refusal.is_none() {
            self.accepted.store(true, Ordering::Relaxed);
        }
        Ok(Live { connection, report })
    }
}
