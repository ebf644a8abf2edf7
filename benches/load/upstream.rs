//! A tiny API for the bench: answers every order with 201 and 400 bytes, and counts how often it saw each.
//! It speaks only as much HTTP as the proxies under test send.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use foldhash::fast::FixedState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::requests::{DIGITS, HELD_BEGIN, POOL_BEGINS, id, length, write_answer};

/// The API on a thread of its own.
pub(crate) struct Upstream {
    port: u16,
    seen: Arc<Seen>,
}

/// How often each order came, by a hash of its key: so that millions of them fit.
struct Seen {
    counts: Mutex<HashMap<u64, u32, FixedState>>,
    /// Whether orders that are to be held are answered.
    released: watch::Sender<bool>,
}

/// What reached the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Executions {
    /// Different keys.
    pub(crate) keys: u64,
    /// Requests in all.
    pub(crate) requests: u64,
}

impl Upstream {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = runtime.block_on(async { listen() })?;
        let port = listener.local_addr()?.port();
        let seen = Arc::new(Seen { counts: Mutex::default(), released: watch::Sender::new(true) });
        let shared = Arc::clone(&seen);
        std::thread::Builder::new()
            .name("upstream".to_owned())
            .spawn(move || runtime.block_on(serve(listener, shared)))?;
        Ok(Self { port, seen })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn forget(&self) {
        self.seen.counts().clear();
    }

    pub(crate) fn executions(&self) -> Executions {
        let counts = self.seen.counts();
        Executions { keys: counts.len() as u64, requests: counts.values().map(|&count| u64::from(count)).sum() }
    }

    /// From now on orders that are to be held are not answered, or are again.
    pub(crate) fn hold(&self, hold: bool) {
        self.seen.released.send_replace(!hold);
    }
}

impl Seen {
    fn counts(&self) -> MutexGuard<'_, HashMap<u64, u32, FixedState>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, id: &[u8]) {
        let hash = FixedState::default().hash_one(id);
        *self.counts().entry(hash).or_default() += 1;
    }
}

/// A backlog that takes thousands of connections at once.
fn listen() -> Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    Ok(socket.listen(4096)?)
}

async fn serve(listener: TcpListener, seen: Arc<Seen>) {
    while let Ok((connection, _)) = listener.accept().await {
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            // A proxy that closes its connection ends the task; that is no fault.
            talk(connection, &seen).await.ok();
        });
    }
}

async fn talk(mut connection: TcpStream, seen: &Seen) -> Result<()> {
    connection.set_nodelay(true)?;
    let (mut buffer, mut answer) = (Vec::with_capacity(4 * 1024), Vec::new());
    loop {
        let Some(head) = read_message(&mut connection, &mut buffer).await? else { return Ok(()) };
        let id = id(&buffer[head..]).context("an order without a key")?;
        seen.count(id);
        write_answer(&mut answer, id);
        if is_held(id) {
            seen.released.subscribe().wait_for(|&released| released).await?;
        }
        connection.write_all(&answer).await?;
        buffer.clear();
    }
}

fn is_held(id: &[u8]) -> bool {
    let number = id.len().checked_sub(DIGITS).and_then(|at| std::str::from_utf8(&id[at..]).ok()?.parse::<u64>().ok());
    number.is_some_and(|number| (HELD_BEGIN..POOL_BEGINS).contains(&number))
}

/// Reads one whole message into an empty buffer, and tells how long its head is; none when the peer has closed before.
pub(crate) async fn read_message(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>> {
    let mut known = None;
    loop {
        if known.is_none() {
            known = length(buffer)?;
        }
        if let Some((head, body)) = known
            && buffer.len() >= head + body
        {
            anyhow::ensure!(buffer.len() == head + body, "more came than the length says");
            return Ok(Some(head));
        }
        if connection.read_buf(buffer).await? == 0 {
            anyhow::ensure!(buffer.is_empty(), "the message was cut short");
            return Ok(None);
        }
    }
}
