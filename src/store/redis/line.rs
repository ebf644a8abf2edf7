//! A pipelined connection for what records need all the time: what is asked within one turn of the worker goes out in one
//! write, and replies are handed out in order. It carries words and replies; it neither connects again nor asks twice.

mod driver;
mod queue;
mod replies;
#[cfg(test)]
mod tests;
mod words;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::StoreError;
use super::deadline::Deadline;
use super::faults::unavailable;
use driver::Driver;
use queue::Queue;
pub use replies::{Malformed, Replies};
pub(super) use words::{Digits, Words, add, beginning, command, end};

/// A connection. Dropped, it is closed; commands that were under way may have been carried out.
pub(super) struct Line {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What callers and the driver have in common.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    room: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All who wait for replies or for room are told why there is none.
    fn finish(&self, cause: Arc<str>) {
        self.queue().finish(cause);
        self.room.notify_waiters();
    }
}

/// Why a command has no reply. It may have been carried out all the same.
#[derive(Debug, Clone)]
pub(super) enum Lost {
    /// The connection is of no more use.
    Broken(Arc<str>),
    /// Its time has passed.
    Late(Deadline),
}

impl From<Lost> for StoreError {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Broken(cause) => unavailable(&*cause),
            Lost::Late(deadline) => deadline.passed(),
        }
    }
}

impl Line {
    /// Speaks over a stream, on a task of its own.
    pub(super) fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let driver = tokio::spawn(Driver::new(stream, Arc::clone(&shared))).abort_handle();
        Self { shared, driver }
    }

    /// Sends commands in a row, with no other between them, and returns their replies, which may be errors of the
    /// server's.
    pub(super) async fn send<const N: usize>(
        &self,
        commands: [&[u8]; N],
        deadline: Deadline,
    ) -> Result<[Value; N], Lost> {
        let places = match self.admit(written(&commands), deadline)? {
            Some(places) => places,
            None => self.queue_up(commands, deadline).await?,
        };
        let tickets = places.map(|place| Ticket { line: self, place: Some(place) });
        let mut replies = [const { Value::Nil }; N];
        for (reply, ticket) in replies.iter_mut().zip(tickets) {
            *reply = ticket.await?;
        }
        Ok(replies)
    }

    /// Has so many commands written in a row, if there is room for them; they go out without anybody's waiting for it.
    fn admit<const N: usize>(
        &self,
        write: impl FnOnce(&mut Vec<u8>),
        deadline: Deadline,
    ) -> Result<Option<[u32; N]>, Lost> {
        self.shared.queue().admit(write, deadline)
    }

    /// Waits until there is room for the commands.
    async fn queue_up<const N: usize>(&self, commands: [&[u8]; N], deadline: Deadline) -> Result<[u32; N], Lost> {
        loop {
            // Before the look, so that no room is missed that comes after it.
            let room = self.shared.room.notified();
            if let Some(places) = self.admit(written(&commands), deadline)? {
                return Ok(places);
            }
            deadline.hold(room).await.map_err(|_| Lost::Late(deadline))?;
        }
    }
}

/// Adds commands as they are.
fn written(commands: &[&[u8]]) -> impl FnOnce(&mut Vec<u8>) {
    |out| commands.iter().for_each(|command| out.extend_from_slice(command))
}

impl AsRef<Self> for Line {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A claim to a reply of a line's, which it borrows or holds. Dropped, the command goes its way, and the reply is thrown
/// away.
pub(super) struct Ticket<L: AsRef<Line>> {
    line: L,
    /// None when it has been taken.
    place: Option<u32>,
}

impl<L: AsRef<Line>> Ticket<L> {
    /// A command that goes out without anybody's waiting for it, if there is room for it: it is written where it goes out.
    pub(super) fn of(line: L, write: impl FnOnce(&mut Vec<u8>), deadline: Deadline) -> Result<Option<Self>, Lost> {
        let places = line.as_ref().admit(write, deadline)?;
        Ok(places.map(|[place]| Self { line, place: Some(place) }))
    }
}

impl<L: AsRef<Line> + Unpin> Future for Ticket<L> {
    type Output = Result<Value, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(place) = self.place else { return Poll::Pending };
        let reply = self.line.as_ref().shared.queue().poll(place, context);
        if let Poll::Ready(Ok(_)) = &reply {
            self.place = None;
        }
        reply
    }
}

impl<L: AsRef<Line>> Drop for Ticket<L> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.line.as_ref().shared.queue().leave(place);
        }
    }
}
