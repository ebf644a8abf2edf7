//! HTTP/1.1 on one connection, to its end.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Doorway;
use crate::wire::Client;

/// How long a request's head may be, in bytes: a connection that says no more than a head holds no more memory.
const HEAD_LIMIT: usize = 64 * 1024;

/// Serves until the client leaves. When the doorway closes, its next answer is its last.
pub(super) async fn serve<IO, H, F, B>(io: IO, client: Client, doorway: &Doorway, handle: H) -> hyper::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let client = Arc::new(client);
    let service = service_fn(|request| {
        let answer = handle(request, Arc::clone(&client));
        async move {
            let mut answer = answer.await;
            doorway.say_goodbye(&mut answer);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(doorway.header_timeout)
        .max_header_size(HEAD_LIMIT)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // A request that has arrived goes before the end of an idle connection.
        biased;
        ended = connection.as_mut() => ended,
        () = doorway.lingered() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}
