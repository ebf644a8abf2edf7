//! An HTTP/2 server that keeps to the rules, on the `h2` crate and a thread of its own. What breaks them is in `frames`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{Request, Response, request};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) head: Arc<request::Parts>,
    pub(crate) body: Vec<u8>,
}

/// What is answered, and when; none is never.
pub(crate) type Script = Arc<dyn Fn(Arrived) -> BoxFuture<'static, Option<Bytes>> + Send + Sync>;

/// What happened so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) arrived: Vec<Arrived>,
    pub(crate) connections: usize,
    /// Requests that the client gave up.
    pub(crate) given_up: usize,
}

pub(crate) struct Http2Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Http2Server {
    pub(crate) fn start(script: Script) -> Self {
        Self::start_with(script, 1000, None)
    }

    /// A server that allows so many streams on a connection, over TLS or not.
    pub(crate) fn start_with(script: Script, streams: u32, tls: Option<ServerConfig>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let sink = Arc::clone(&seen);
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((socket, _)) = listener.accept().await {
                    sink.lock().unwrap().connections += 1;
                    tokio::spawn(welcome(socket, acceptor.clone(), streams, Arc::clone(&script), Arc::clone(&sink)));
                }
            });
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

async fn welcome(
    socket: TcpStream,
    acceptor: Option<TlsAcceptor>,
    streams: u32,
    script: Script,
    seen: Arc<Mutex<Seen>>,
) {
    let Some(acceptor) = acceptor else { return serve(socket, streams, script, seen).await };
    if let Ok(stream) = acceptor.accept(socket).await {
        serve(stream, streams, script, seen).await;
    }
}

async fn serve(io: impl AsyncRead + AsyncWrite + Unpin, streams: u32, script: Script, seen: Arc<Mutex<Seen>>) {
    let Ok(mut requests) = Builder::new().max_concurrent_streams(streams).handshake::<_, Bytes>(io).await else {
        return;
    };
    while let Some(Ok((request, respond))) = requests.accept().await {
        tokio::spawn(answer(request, respond, Arc::clone(&script), Arc::clone(&seen)));
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    script: Script,
    seen: Arc<Mutex<Seen>>,
) {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let Ok(data) = data else {
            seen.lock().unwrap().given_up += 1;
            return;
        };
        body.extend_from_slice(&data);
        let _ = stream.flow_control().release_capacity(data.len());
    }
    let arrived = Arrived { head: Arc::new(head), body };
    seen.lock().unwrap().arrived.push(arrived.clone());
    let said = tokio::select! {
        said = script(arrived) => said,
        _ = std::future::poll_fn(|cx| respond.poll_reset(cx)) => None,
    };
    let Some(bytes) = said else {
        let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
        seen.lock().unwrap().given_up += 1;
        return;
    };
    let head = Response::builder().status(201).header("x-line", "1").body(()).unwrap();
    if let Ok(mut body) = respond.send_response(head, false) {
        let _ = body.send_data(bytes, true);
        // Kept until it is read or given up.
        let _ = std::future::poll_fn(|cx| body.poll_reset(cx)).await;
    }
}

/// Says this to everybody at once.
pub(crate) fn saying(bytes: &'static str) -> Script {
    Arc::new(move |_| Box::pin(async move { Some(Bytes::from_static(bytes.as_bytes())) }))
}
