//! One client connection: from the accepted socket to its end.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::strict::Strict;
use super::{Doorway, turn};
use crate::wire::Client;

/// Serves one connection to its end, or until the doorway closes and its present request is answered.
pub(super) async fn drive<H, F, B>(stream: TcpStream, peer: IpAddr, doorway: Doorway, handle: H)
where
    H: Fn(Request<Incoming>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let client = Arc::new(Client::new(peer, false));
    let service = service_fn(|mut request| {
        turn::begin(&mut request, &client);
        let answer = handle(request, Arc::clone(&client));
        let client = Arc::clone(&client);
        async move { Ok::<_, std::convert::Infallible>(turn::answer(answer.await, client)) }
    });
    // The limits are kept below hyper; its own are only there to be no smaller.
    let heads = doorway.heads;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(doorway.header_timeout)
        .max_header_size(heads.head + 1)
        .max_headers(heads.fields)
        .preserve_header_case(doorway.preserve_header_case)
        .serve_connection(TokioIo::new(Strict::new(stream, Arc::clone(&client), heads)), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = doorway.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
