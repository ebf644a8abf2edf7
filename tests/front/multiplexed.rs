//! An HTTP/2 client: many requests on one connection. It runs on a thread of its own, so that tests may block.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use crate::authority::Visitor;
use crate::client::{Answer, PATIENCE};

/// A connection; clones are the same one.
#[derive(Clone)]
pub(crate) struct Multiplexed {
    sender: SendRequest<Full<Bytes>>,
}

/// What is still to come.
pub(crate) struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    pub(crate) fn wait(self) -> T {
        self.0.recv_timeout(PATIENCE).expect("an end in time")
    }
}

fn start<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    let handle = RUNTIME.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    });
    let (done, waiting) = mpsc::channel();
    handle.spawn(async move {
        // A test that has failed does not wait any longer.
        let _ = done.send(work.await);
    });
    Pending(waiting)
}

impl Multiplexed {
    /// With prior knowledge, unencrypted.
    pub(crate) fn plain(to: SocketAddr) -> Self {
        start(async move { Self::over(TcpStream::connect(to).await.unwrap()).await }).wait()
    }

    /// Over TLS.
    pub(crate) fn encrypted(visitor: &Visitor, to: SocketAddr, name: &str) -> Self {
        let connector = TlsConnector::from(visitor.clone().asking_for(&["h2"]).config());
        let name = ServerName::try_from(name.to_owned()).unwrap();
        start(async move {
            let stream = TcpStream::connect(to).await.unwrap();
            Self::over(connector.connect(name, stream).await.unwrap()).await
        })
        .wait()
    }

    async fn over<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: IO) -> Self {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// Begins a request.
    pub(crate) fn begin(&self, request: Request<Full<Bytes>>) -> Pending<hyper::Result<Answer>> {
        let mut sender = self.sender.clone();
        start(async move {
            sender.ready().await?;
            whole(sender.send_request(request).await?).await
        })
    }

    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        self.begin(request).wait().unwrap()
    }

    /// Whether the server has said goodbye, or gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

async fn whole(response: Response<Incoming>) -> hyper::Result<Answer> {
    let (head, body) = response.into_parts();
    let fields = head.headers.iter();
    let headers = fields.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let body = body.collect().await?.to_bytes().to_vec();
    Ok(Answer { status: head.status.as_u16(), headers, body })
}

/// A guarded order.
pub(crate) fn order(key: &str, body: &str) -> Request<Full<Bytes>> {
    request("POST", "/orders", &[("idempotency-key", key)], body)
}

pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(format!("http://api.test{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}
