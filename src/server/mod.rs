//! Listeners and connections: accepting, driving, and letting go in order. It does not know what is served.

mod connection;
mod listen;
mod strict;
mod turn;

pub use listen::bind;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::wire::Client;
use crate::wire::framing::Limits;

/// How to listen and how to stop.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// How many single-threaded runtimes; by default one per core.
    pub workers: usize,
    /// How long a stop may take.
    pub drain_timeout: Duration,
    /// Whether requests go on with the case of their field names.
    pub preserve_header_case: bool,
}

/// Pause after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection over the limit is kept for its answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Connections over the limit that are being told so, at once; any more are closed without a word.
const FAREWELLS: usize = 256;

/// Connections that may be open at once, over all workers.
#[derive(Debug, Clone)]
pub struct Connections {
    open: Arc<AtomicUsize>,
    most: usize,
    leaving: Arc<AtomicUsize>,
}

/// One open connection.
struct Open(Arc<AtomicUsize>);

impl Connections {
    /// At most this many.
    pub fn new(most: usize) -> Self {
        Self { open: Arc::default(), most, leaving: Arc::default() }
    }

    fn open(&self) -> Option<Open> {
        Open::below(self.most, &self.open)
    }

    fn leave(&self) -> Option<Open> {
        Open::below(FAREWELLS, &self.leaving)
    }
}

impl Open {
    fn below(most: usize, count: &Arc<AtomicUsize>) -> Option<Self> {
        let open = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a listener is served with.
#[derive(Clone)]
pub struct Doorway {
    /// How many connections may be open.
    pub connections: Connections,
    /// How long a request's head may take; also the idle limit of a kept-alive connection.
    pub header_timeout: Duration,
    /// How much of a request's head is taken.
    pub heads: Limits,
    /// What a connection over the limit is told, without being read: a whole HTTP answer, or nothing.
    pub turned_away: Bytes,
    /// Whether the case of field names is kept.
    pub preserve_header_case: bool,
    /// When this is cancelled, no further connection is taken and each open one ends after its request.
    pub stop: CancellationToken,
}

/// Serves a listener until it is told to stop and every connection has ended.
///
/// # Errors
/// When the listener cannot be used at all.
pub async fn serve<H, F, B>(listener: StdListener, doorway: Doorway, handle: H) -> io::Result<()>
where
    H: Fn(Request<Incoming>, Arc<Client>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::from_std(listener)?;
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = doorway.stop.cancelled() => break,
        };
        match accepted {
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Ok((stream, peer)) => match doorway.connections.open() {
                None => {
                    if let Some(place) = doorway.connections.leave() {
                        open.spawn(turn_away(stream, doorway.turned_away.clone(), place));
                    }
                }
                Some(place) => {
                    let connection = connection::drive(stream, peer.ip(), doorway.clone(), handle.clone());
                    open.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
            },
        }
    }
    drop(listener);
    open.close();
    open.wait().await;
    Ok(())
}

/// Says so and closes. Best effort: a client that has sent much already may see a reset instead.
async fn turn_away(mut stream: TcpStream, words: Bytes, place: Open) {
    tracing::debug!("connection turned away: limit reached");
    let farewell = async {
        stream.write_all(&words).await?;
        stream.shutdown().await
    };
    // Whether it was heard changes nothing here.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let connections = Connections::new(1);
        let first = connections.open();
        assert!(first.is_some());
        assert!(connections.open().is_none());
        drop(first);
        assert!(connections.open().is_some());
    }
}
