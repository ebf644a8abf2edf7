//! One HTTP/2 connection: its beginning, its streams counted, and whether its server is still there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};

use super::super::stream::Stream;
use crate::clock::Clock;

/// How many requests share a connection at most; fewer if the server says so.
const MOST_STREAMS: u32 = 100;
/// How much of an answer a server may send before its reader has taken it, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same for all answers together: as much as all streams may send, so that readers who stand still, even all but
/// one, never hold up that one.
const CONNECTION_WINDOW: u32 = MOST_STREAMS * STREAM_WINDOW;
/// How long the head of an answer may be, in bytes.
const ANSWER_HEAD_LIMIT: u32 = 64 * 1024;
/// How much of a streamed request waits in a connection, in bytes.
const SEND_BUFFER: usize = 64 * 1024;
/// How often a server with requests under way is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// How long a new connection is kept, at least, for the request that it was made for.
const FIRST_USE: Duration = Duration::from_secs(1);

/// An open connection. It closes when the last clone of it and the last of its streams are gone.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    made: Instant,
    streams: Arc<Streams>,
}

/// How many streams are open.
#[derive(Debug)]
struct Streams(Mutex<Count>);

#[derive(Debug)]
struct Count {
    open: u32,
    /// Whether there was ever one.
    used: bool,
    /// When one was closed last; at first, when the connection was made.
    idle_since: Instant,
}

/// Room for one stream on a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<Streams>);

impl Connection {
    /// Makes sure that the server speaks HTTP/2, before any request is sent, and learns how many streams it allows: a
    /// ping is answered only after the server's settings.
    pub(super) async fn begin(stream: Stream) -> Result<Self, String> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(ANSWER_HEAD_LIMIT)
            .max_send_buffer_size(SEND_BUFFER);
        let no_http2 = |error: h2::Error| format!("no HTTP/2: {error}");
        let (sender, mut driver) = builder.handshake(stream).await.map_err(no_http2)?;
        let mut pings = driver.ping_pong().ok_or("no pings")?;
        tokio::select! {
            ended = &mut driver => return Err(ended.map_or_else(no_http2, |()| "closed by the server".to_owned())),
            answered = pings.ping(Ping::opaque()) => answered.map_err(no_http2)?,
        };
        if sender.current_max_send_streams() == 0 {
            return Err("the server allows no streams".to_owned());
        }
        let streams = Arc::new(Streams(Mutex::new(Count { open: 0, used: false, idle_since: Clock::instant() })));
        let watched = Arc::clone(&streams);
        tokio::spawn(async move {
            tokio::select! {
                ended = driver => tracing::debug!(?ended, "connection to an upstream ended"),
                () = silence(pings, &watched, KEEP_ALIVE, PONG_WITHIN) => tracing::warn!("an upstream's connection gave no sign of life"),
            }
        });
        Ok(Self { sender, made: Clock::instant(), streams })
    }

    /// Whether it takes requests: neither closed nor closing.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.sender.clone().ready().now_or_never(), Some(Ok(_)))
    }

    /// Whether it is not too old, and in use, or was a short while ago.
    pub(super) fn is_fresh(&self, now: Instant, idle_timeout: Duration, age: Duration) -> bool {
        if now.saturating_duration_since(self.made) >= age {
            return false;
        }
        let count = self.streams.count();
        let limit = if count.used { idle_timeout } else { idle_timeout.max(FIRST_USE) };
        count.open > 0 || now.saturating_duration_since(count.idle_since) < limit
    }

    /// Room for one more request, if there is some.
    pub(super) fn slot(&self) -> Option<Slot> {
        let allowed = u32::try_from(self.sender.current_max_send_streams()).unwrap_or(u32::MAX);
        let mut count = self.streams.count();
        if count.open >= allowed.min(MOST_STREAMS) {
            return None;
        }
        count.open += 1;
        count.used = true;
        Some(Slot(Arc::clone(&self.streams)))
    }

    /// What opens streams.
    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// Whether it is the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.streams, &other.streams)
    }
}

/// Ends when a server with requests under way gives no sign of life.
async fn silence(mut pings: PingPong, streams: &Streams, every: Duration, within: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if streams.count().open == 0 {
            continue;
        }
        let Ok(Ok(_)) = tokio::time::timeout(within, pings.ping(Ping::opaque())).await else { return };
    }
}

impl Streams {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Whether no other request is under way on the connection.
    pub(super) fn is_alone(&self) -> bool {
        self.0.count().open == 1
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.0.count();
        count.open -= 1;
        count.idle_since = Clock::instant();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_left_only_by_those_who_wait_for_it() {
        const SHORT: Duration = Duration::from_millis(20);
        let (near, far) = tokio::io::duplex(1024);
        let (handshake, server) = tokio::join!(h2::client::handshake(near), h2::server::handshake(far));
        let ((_sender, mut driver), mut server): (_, h2::server::Connection<_, Bytes>) =
            (handshake.unwrap(), server.unwrap());
        let streams = Arc::new(Streams(Mutex::new(Count { open: 0, used: false, idle_since: Clock::instant() })));
        let silence = silence(driver.ping_pong().unwrap(), &streams, SHORT, SHORT * 50);
        tokio::spawn(driver);
        tokio::pin!(silence);
        let alive = async { server.accept().await.is_none() };
        let none = tokio::time::timeout(SHORT * 10, async { tokio::join!(silence.as_mut(), alive) }).await;
        assert!(none.is_err(), "a server that answers is there");
        // From here on, nobody speaks for the server.
        let idle = tokio::time::timeout(SHORT * 10, silence.as_mut()).await;
        assert!(idle.is_err(), "nobody asks while nobody waits");
        streams.count().open = 1;
        tokio::time::timeout(Duration::from_secs(20), silence).await.expect("it is still waited for");
    }
}
