//! One client connection: from the accepted socket to its end.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::Doorway;
use crate::wire::Client;

/// How long a request's head may be, in bytes: a connection that says no more than a head holds no more memory.
const HEAD_LIMIT: usize = 64 * 1024;

/// Serves one connection to its end. When the doorway closes, its next answer is its last.
pub(super) async fn drive<H, F, B>(stream: TcpStream, peer: IpAddr, doorway: Arc<Doorway>, handle: H)
where
    H: Fn(Request<Incoming>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let client = Arc::new(Client { peer, secure: false });
    let service = service_fn(|request: Request<Incoming>| {
        let version = request.version();
        let answer = handle(request, Arc::clone(&client));
        let doorway = &doorway;
        async move {
            let mut answer = answer.await;
            doorway.say_goodbye(version, &mut answer);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(doorway.header_timeout)
        .max_header_size(HEAD_LIMIT)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        // A request that has arrived goes before the end of an idle connection.
        biased;
        ended = connection.as_mut() => ended,
        () = doorway.lingered() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

impl Doorway {
    /// Tells the client of a doorway that closes that this connection ends with this answer.
    fn say_goodbye<B>(&self, version: Version, answer: &mut Response<B>) {
        let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        if self.closing.announced.is_cancelled() && version < Version::HTTP_2 && !switched {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Until a connection without a request has been given its time after the closing. A client that was told nothing
    /// may have a request on its way, and would see it fail.
    async fn lingered(&self) {
        self.closing.begun.cancelled().await;
        tokio::time::sleep(self.linger).await;
    }
}
