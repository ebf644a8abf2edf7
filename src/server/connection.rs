//! One client connection, from the accepted socket to its end: who is there, and which HTTP is spoken.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::front::{self, Failure};
use super::pace::Cut;
use super::{BoxError, Doorway, http1, http2};
use crate::telemetry::Timeout;
use crate::wire::{Ahead, AnswerBody, Client, Inbound};

/// A connection that has come as far as its first request.
enum Arrived {
    Plain { stream: Ahead<TcpStream>, http2: bool },
    Encrypted { stream: Box<TlsStream<Ahead<TcpStream>>>, http2: bool },
}

/// Serves one connection to its end. When the doorway closes, its next answer is its last.
pub(super) async fn drive<H, F, B>(stream: TcpStream, peer: IpAddr, doorway: Arc<Doorway>, handle: H)
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    bound_unsent(&stream);
    let mut client = Client::new(peer, false);
    let arrived = tokio::select! {
        // A request that is there already is answered, also when the doorway closes.
        biased;
        arrived = arrive(Ahead::new(stream), &mut client, &doorway) => arrived,
        () = doorway.lingered() => return,
    };
    let ended = match arrived {
        Ok(Arrived::Plain { stream, http2 }) => serve(stream, http2, client, &doorway, handle).await,
        Ok(Arrived::Encrypted { stream, http2 }) => serve(*stream, http2, client, &doorway, handle).await,
        Err(failure) => {
            tracing::debug!(%peer, %failure, "connection not taken");
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Lets little of an answer wait in the system for a client that does not read: the rest waits where its time is looked
/// at. Else a slow reader is noticed only when megabytes are waiting.
#[cfg(target_os = "linux")]
fn bound_unsent(stream: &TcpStream) {
    const BYTES: u32 = 128 * 1024;
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(BYTES) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT");
    }
}

#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &TcpStream) {}

/// From the socket to the first request: the PROXY header is before everything, then TLS.
async fn arrive(mut stream: Ahead<TcpStream>, client: &mut Client, doorway: &Doorway) -> Result<Arrived, Failure> {
    let (front, limit) = (&doorway.front, doorway.limits.header_timeout);
    if front.is_proxy(client.peer)
        && let Some(address) = front.proxied(&mut stream, limit).await?
    {
        client.peer = address;
    }
    let Some(tls) = &front.tls else {
        if front.http2.is_some() {
            rest(&mut stream, doorway).await?;
        }
        let http2 = front.begins_http2(&mut stream, limit).await.inspect_err(|failure| {
            if matches!(failure, Failure::Slow) {
                doorway.metrics.timed_out(Timeout::Header);
            }
        })?;
        return Ok(Arrived::Plain { stream, http2 });
    };
    let stream = Box::new(front.encrypted(tls, stream, &doorway.connections).await?);
    client.secure = true;
    client.certificate = front::certificate(&stream);
    let http2 = front::agreed_http2(&stream);
    Ok(Arrived::Encrypted { stream, http2 })
}

/// A connection rests until its first byte comes.
async fn rest(stream: &mut Ahead<TcpStream>, doorway: &Doorway) -> Result<(), Failure> {
    tokio::select! {
        came = front::first_byte(stream, &doorway.connections) => came,
        () = tokio::time::sleep(doorway.limits.keep_alive_timeout) => {
            doorway.metrics.timed_out(Timeout::KeepAlive);
            Err(Failure::Idle)
        }
    }
}

async fn serve<IO, H, F, B>(io: IO, speaks_http2: bool, client: Client, doorway: &Doorway, handle: H) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Cut + Unpin + Send + 'static,
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    match doorway.front.http2.as_ref().filter(|_| speaks_http2) {
        Some(settings) => http2::serve(io, client, settings, doorway, handle).await.map_err(io::Error::other),
        None => http1::serve(io, client, doorway, handle).await,
    }
}

impl Doorway {
    /// Whether the answer to a connection of this age is its last: it is old, or the doorway closes.
    pub(super) fn is_last(&self, age: Duration) -> bool {
        let old = age > self.limits.connection_age;
        if old {
            self.metrics.timed_out(Timeout::ConnectionAge);
        }
        old || self.closing.announced.is_taken()
    }

    /// Until a connection without a request has been given its time after the closing. A client that was told nothing
    /// may have a request on its way, and would see it fail.
    pub(super) async fn lingered(&self) {
        self.closing.begun.taken().await;
        tokio::time::sleep(self.linger).await;
    }
}
