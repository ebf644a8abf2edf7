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
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Doorway;
use super::answer::Answer;
use super::pace::Pace;
use crate::clock::Clock;
use crate::telemetry::Timeout;
use crate::wire::{Client, Inbound, Watch};

/// How much of a body a connection buffers in each direction, in bytes.
const BUFFER: usize = 128 * 1024;
/// How many header fields hyper takes without help.
const USUAL_HEADERS: usize = 100;

/// Serves one connection to its end, or until the doorway closes and its present request is answered.
pub(super) async fn drive<H, F, B>(stream: TcpStream, peer: IpAddr, doorway: Doorway, handle: H)
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let client = Arc::new(Client { peer, secure: false });
    let watch = Arc::new(Watch::new(Version::HTTP_11));
    doorway.connections.watch(&watch);
    let opened = Clock::instant();
    let service = service_fn(|request: Request<Incoming>| {
        let turn = watch.begin();
        let idle = doorway.limits.body_idle_timeout;
        let request = request.map(|body| Inbound::of(&turn, body, idle, &doorway.metrics));
        let answer = handle(request, Arc::clone(&client));
        let (doorway, watch) = (&doorway, &watch);
        async move {
            let mut response = answer.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                watch.switches();
            } else if opened.elapsed() > doorway.limits.connection_age {
                doorway.metrics.timed_out(Timeout::ConnectionAge);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response.map(|body| Answer::new(body, turn)))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .max_header_size(doorway.limits.header_bytes)
        .max_buf_size(doorway.limits.header_bytes.max(BUFFER))
        .preserve_header_case(true);
    if doorway.limits.headers != USUAL_HEADERS {
        builder.max_headers(doorway.limits.headers);
    }
    let paced = Pace::new(stream, Arc::clone(&watch), &doorway);
    let connection = builder.serve_connection(TokioIo::new(paced), service);
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
