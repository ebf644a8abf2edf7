//! Listeners and connections: accepting, driving, and letting go in order. It does not know what is served.

mod answer;
mod connection;
mod front;
mod http1;
pub mod http2;
mod listen;
mod pace;
mod places;
mod proxy_header;
mod taken;
pub mod turn;

pub use front::{Front, FrontSettings, Tls, TlsSettings};
pub use listen::{Listener, bind};
use listen::{pass_over_newcomers, waiting};
pub use places::Connections;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::telemetry::Metrics;
use crate::wire::{AnswerBody, Client, Closing, Inbound, framing};
use places::Place;

/// Why an answer's body ends before its end.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How to listen and how to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Whether other gateways may listen there too.
    pub listen_shared: bool,
    /// How many single-threaded runtimes; by default one per core.
    pub workers: usize,
    /// How a stop goes.
    pub drain: Drain,
    /// What client connections go through before their first request.
    pub front: FrontSettings,
    /// What one client's connection may cost.
    pub limits: Limits,
    /// Whether requests go on with the case of their field names.
    pub preserve_header_case: bool,
}

/// How a stop goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long connections are still taken after the gateway has said that it is not ready.
    pub delay: Duration,
    /// How long what is under way may take after that.
    pub timeout: Duration,
}

/// Pause after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection over the limit is kept for its answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// The longest that a listener which closes waits for connections that have begun to be made.
const LAST_HANDSHAKES: Duration = Duration::from_millis(250);

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

impl Limits {
    /// How much of a request's head is taken.
    fn heads(&self) -> framing::Limits {
        framing::Limits {
            target: self.target,
            head: self.header_bytes,
            fields: self.headers,
            ..framing::Limits::REQUEST
        }
    }
}

/// What a listener is served with. A connection keeps the doorway that it came through.
pub struct Doorway {
    /// What each connection goes through before its first request.
    pub front: Arc<Front>,
    /// The connections that are open.
    pub connections: Connections,
    /// What each of them may cost, and how many there may be.
    pub limits: Limits,
    /// What a connection over the limit is told, without being read: a whole HTTP answer, or nothing.
    pub turned_away: Bytes,
    /// What a client is told whose head did not come in time: the same.
    pub too_slow: Bytes,
    /// Whether the case of field names is kept.
    pub preserve_header_case: bool,
    /// Where it is counted who took too long.
    pub metrics: Arc<Metrics>,
    /// How long a connection without a request stays when the doorway has closed.
    pub linger: Duration,
    /// Whether it closes.
    pub closing: Closing,
}

/// Serves a listener until its doorway closes and every connection has ended. Whoever had connected by then is served.
/// `doorway` gives the doorway as it is now; its closing is always the same.
///
/// # Errors
/// When the listener cannot be used at all.
pub async fn serve<D, H, F, B>(listener: Listener, doorway: D, handle: H) -> io::Result<()>
where
    D: Fn() -> Arc<Doorway>,
    H: Fn(Request<Inbound>, Arc<Client>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    let Listener { socket, lent } = listener;
    let listener = TcpListener::from_std(socket)?;
    let open = TaskTracker::new();
    let take = |stream, peer: SocketAddr| admit(&open, stream, peer, doorway(), handle.clone());
    let closing = doorway().closing.clone();
    tokio::select! {
        () = accept(&listener, take) => {}
        () = closing.begun.taken() => {}
    }
    if !lent {
        if let Err(error) = pass_over_newcomers(&(&listener).into()) {
            tracing::debug!(%error, "newcomers are not passed over");
        }
        let grace = doorway().linger.min(LAST_HANDSHAKES);
        // It does not end by itself.
        let _ = tokio::time::timeout(grace, accept(&listener, take)).await;
        let listener = listener.into_std()?;
        waiting(&listener).for_each(|(stream, peer)| take(stream, peer));
    }
    open.close();
    open.wait().await;
    Ok(())
}

/// Takes connections for ever.
async fn accept(listener: &TcpListener, take: impl Fn(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => take(stream, peer),
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection in a task of its own, if it may be open.
fn admit<H, F, B>(open: &TaskTracker, stream: TcpStream, peer: SocketAddr, doorway: Arc<Doorway>, handle: H)
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    match doorway.connections.take(doorway.limits.connections) {
        None => {
            if let Some(place) = doorway.connections.farewell() {
                open.spawn(turn_away(stream, doorway.turned_away.clone(), place));
            }
        }
        Some(place) => {
            open.spawn(async move {
                connection::drive(stream, peer.ip(), doorway, handle).await;
                drop(place);
            });
        }
    }
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
