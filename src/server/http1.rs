//! HTTP/1.1 on one connection, to its end.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Answer;
use super::pace::Pace;
use super::strict::Strict;
use super::{Doorway, turn};
use crate::clock::Clock;
use crate::wire::{Client, Inbound, Watch};

/// How much of a body a connection buffers in each direction, in bytes.
const BUFFER: usize = 128 * 1024;
/// How many header fields hyper takes without help.
const USUAL_HEADERS: usize = 100;

/// Serves until the client leaves. When the doorway closes, its next answer is its last.
pub(super) async fn serve<IO, H, F, B>(io: IO, client: Client, doorway: &Doorway, handle: H) -> hyper::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let client = Arc::new(client);
    let watch = Arc::new(Watch::new(Version::HTTP_11));
    doorway.connections.watch(&watch);
    let opened = Clock::instant();
    let service = service_fn(|mut request: Request<Incoming>| {
        turn::begin(&mut request, &client);
        let turn = watch.begin();
        let idle = doorway.limits.body_idle_timeout;
        let request = request.map(|body| Inbound::of(&turn, body, idle, &doorway.metrics));
        let answer = handle(request, Arc::clone(&client));
        let (watch, client) = (&watch, Arc::clone(&client));
        async move {
            let mut response = answer.await;
            let cut_short = turn::answer(&response, &client);
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                watch.switches();
            } else if doorway.is_last(opened.elapsed()) || cut_short {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, (turn::Saying(client), turn))))
        }
    });
    // The clock is next to the socket: it has to see a head's first byte, which the strict reader holds back.
    let paced = Pace::new(io, Arc::clone(&watch), doorway);
    let strict = Strict::new(paced, Arc::clone(&client), Arc::clone(&watch), doorway.limits.heads());
    let connection = builder(doorway).serve_connection(TokioIo::new(strict), service).with_upgrades();
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

/// Heads are timed and measured outside of hyper; its own limits are only there to be no smaller.
fn builder(doorway: &Doorway) -> http1::Builder {
    let limits = &doorway.limits;
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes + 1)
        .max_buf_size(BUFFER.max(limits.header_bytes + 1))
        .preserve_header_case(doorway.preserve_header_case);
    if limits.headers > USUAL_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder
}
