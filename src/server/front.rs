//! What a client connection goes through before its first request: PROXY header, TLS, the choice of HTTP. The steps
//! only; their order is in `connection`.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Connections, FAREWELL, http2, proxy_header};
use crate::telemetry::{Handshake, Metrics, Timeout};
use crate::tls;
use crate::wire::{Ahead, Certificate, Network, Phase, Watch};

/// What an HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What a TLS connection begins with: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// What client connections go through before their first request, as the configuration states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontSettings {
    /// TLS; none: plain.
    pub tls: Option<TlsSettings>,
    /// HTTP/2; none: HTTP/1.1 only.
    pub http2: Option<http2::Settings>,
    /// Peers that begin each connection with a PROXY header.
    pub proxies: Vec<Network>,
}

/// TLS in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificates and rules.
    pub certificates: tls::Settings,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
}

/// What client connections go through before their first request. By default nothing: HTTP/1.1 at once.
#[derive(Default)]
pub struct Front {
    /// Peers that begin each connection with a PROXY header.
    pub proxies: Vec<Network>,
    /// TLS; none: plain.
    pub tls: Option<Tls>,
    /// HTTP/2; none: HTTP/1.1 only.
    pub http2: Option<http2::Settings>,
    /// Where failures are counted, if anywhere.
    pub metrics: Option<Arc<Metrics>>,
}

/// TLS in front, ready for use.
pub struct Tls {
    /// Certificates and rules.
    pub server: Arc<tls::Server>,
    /// How long a handshake may take.
    pub timeout: Duration,
    /// What a client is told that does not speak TLS: a whole HTTP answer.
    pub plain: Bytes,
}

/// Why a connection never came to a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("too slow")]
    Slow,
    #[error("nothing came")]
    Idle,
    #[error("what came is no TLS")]
    NotTls,
    #[error(transparent)]
    Proxy(#[from] proxy_header::Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Failure {
    /// Whether the client has only left, as a balancer's probe of the port does, or had to make room.
    fn is_leave(&self) -> bool {
        match self {
            Self::Io(error) | Self::Proxy(proxy_header::Fault::Broken(error)) => {
                matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
            }
            Self::Idle => true,
            Self::Slow | Self::NotTls | Self::Proxy(_) => false,
        }
    }
}

impl Front {
    /// Whether a peer begins with a PROXY header. From all others it is not taken: they could name any address.
    pub(super) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// Takes the PROXY header; what it says of the client's address, if anything.
    pub(super) async fn proxied<IO: AsyncRead + Unpin>(
        &self,
        stream: &mut Ahead<IO>,
        limit: Duration,
    ) -> Result<Option<IpAddr>, Failure> {
        self.counted(Handshake::Proxy, within(limit, proxy_header::take(stream)).await)
    }

    /// Whether a plain connection speaks HTTP/2 from its first byte. Waits for as much as it takes to know.
    pub(super) async fn begins_http2<IO: AsyncRead + Unpin>(
        &self,
        stream: &mut Ahead<IO>,
        limit: Duration,
    ) -> Result<bool, Failure> {
        if self.http2.is_none() {
            return Ok(false);
        }
        within(limit, async {
            loop {
                let both = stream.seen().len().min(PREFACE.len());
                if stream.seen()[..both] != PREFACE[..both] {
                    return Ok::<_, io::Error>(false);
                }
                if both == PREFACE.len() {
                    return Ok(true);
                }
                // A connection that ends here is HTTP/1.1's to end.
                if !stream.more().await? {
                    return Ok(false);
                }
            }
        })
        .await
    }

    /// Shakes hands. As long as the client has not begun, its connection rests.
    pub(super) async fn encrypted<IO>(
        &self,
        tls: &Tls,
        mut stream: Ahead<IO>,
        connections: &Connections,
    ) -> Result<TlsStream<Ahead<IO>>, Failure>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let shaken = async {
            first_byte(&mut stream, connections).await?;
            tls.accept(stream).await
        };
        self.counted(Handshake::Tls, within(tls.timeout, shaken).await)
    }

    fn counted<T>(&self, step: Handshake, done: Result<T, Failure>) -> Result<T, Failure> {
        if let (Err(failure), Some(metrics)) = (&done, &self.metrics)
            && !failure.is_leave()
        {
            metrics.handshake_failed(step);
            if matches!((step, failure), (Handshake::Tls, Failure::Slow)) {
                metrics.timed_out(Timeout::TlsHandshake);
            }
        }
        done
    }
}

impl Tls {
    async fn accept<IO>(&self, mut stream: Ahead<IO>) -> Result<TlsStream<Ahead<IO>>, Failure>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        if stream.seen().is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if stream.seen().first() != Some(&HANDSHAKE_RECORD) {
            // Best effort, as for a connection over the limit.
            let words = async {
                stream.write_all(&self.plain).await?;
                stream.shutdown().await
            };
            let _ = tokio::time::timeout(FAREWELL, words).await;
            return Err(Failure::NotTls);
        }
        Ok(TlsAcceptor::from(self.server.config()).accept(stream).await?)
    }
}

/// Waits for a connection's first byte, or its end. Until then it rests, and may have to make room.
pub(super) async fn first_byte<IO>(stream: &mut Ahead<IO>, connections: &Connections) -> Result<(), Failure>
where
    IO: AsyncRead + Unpin,
{
    if !stream.seen().is_empty() {
        return Ok(());
    }
    let watch = Arc::new(Watch::new(Version::HTTP_11));
    connections.watch(&watch);
    let dismissed = poll_fn(|cx| match watch.waits(cx.waker()) {
        Phase::Leaving => Poll::Ready(()),
        Phase::Rest(_) | Phase::Head(_) | Phase::Busy => Poll::Pending,
    });
    tokio::select! {
        came = stream.more() => Ok(came.map(drop)?),
        () = dismissed => Err(Failure::Idle),
    }
}

/// The certificate by which the client has proven who it is.
pub(super) fn certificate<IO>(stream: &TlsStream<IO>) -> Option<Certificate> {
    stream.get_ref().1.peer_certificates()?.first().map(Certificate::of)
}

/// Whether HTTP/2 was agreed on.
pub(super) fn agreed_http2<IO>(stream: &TlsStream<IO>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

async fn within<T, E: Into<Failure>>(limit: Duration, step: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    match tokio::time::timeout(limit, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_elapsed) => Err(Failure::Slow),
    }
}
