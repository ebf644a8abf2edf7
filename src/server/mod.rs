//! Listeners and connections: accepting, driving, and letting go in order. It does not know what is served.

mod answer;
mod connection;
mod listen;
mod pace;
mod places;

pub use listen::bind;
pub use places::Connections;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::telemetry::Metrics;
use crate::wire::{Client, Inbound};
use places::Place;

/// How to listen and how to stop.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// How many single-threaded runtimes; by default one per core.
    pub workers: usize,
    /// How long a stop may take.
    pub drain_timeout: Duration,
    /// What one client's connection may cost.
    pub limits: Limits,
}

/// Pause after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection over the limit is kept for its answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// What one client's connection may cost, and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections that may be open at once, over all workers.
    pub connections: usize,
    /// The longest request target, in bytes.
    pub target: usize,
    /// The longest head of a request, in bytes.
    pub header_bytes: usize,
    /// The most header fields of a request.
    pub headers: usize,
    /// How long a request's head may take, from its first byte to its end.
    pub header_timeout: Duration,
    /// How long a connection may rest between two requests.
    pub keep_alive_timeout: Duration,
    /// How long a client may be silent within a request's body.
    pub body_idle_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub send_timeout: Duration,
    /// How old a connection may be and still take a further request.
    pub connection_age: Duration,
}

/// What a listener is served with.
#[derive(Clone)]
pub struct Doorway {
    /// How many connections may be open.
    pub connections: Connections,
    /// What each of them may cost.
    pub limits: Limits,
    /// What a connection over the limit is told, without being read: a whole HTTP answer, or nothing.
    pub turned_away: Bytes,
    /// What a client is told whose head did not come in time: the same.
    pub too_slow: Bytes,
    /// Where it is counted who took too long.
    pub metrics: Arc<Metrics>,
    /// When this is cancelled, no further connection is taken and each open one ends after its request.
    pub stop: CancellationToken,
}

/// Serves a listener until it is told to stop and every connection has ended.
///
/// # Errors
/// When the listener cannot be used at all.
pub async fn serve<H, F, B>(listener: StdListener, doorway: Doorway, handle: H) -> io::Result<()>
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
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
            Ok((stream, peer)) => match doorway.connections.take() {
                None => {
                    if let Some(place) = doorway.connections.farewell() {
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
async fn turn_away(mut stream: TcpStream, words: Bytes, place: Place) {
    tracing::debug!("connection turned away: limit reached");
    let farewell = async {
        stream.write_all(&words).await?;
        stream.shutdown().await
    };
    // Whether it was heard changes nothing here.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    drop(place);
}
