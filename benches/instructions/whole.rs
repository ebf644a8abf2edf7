//! A whole gateway on one thread, from a client's socket to an upstream's and back, over loopback and with its records in
//! memory. It measures nothing itself; `tests/allocations` uses it too.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use oncegate::arbiter::{self, Arbiter};
use oncegate::clock::Clock;
use oncegate::config::{self, Settings};
use oncegate::gateway::{Gateway, Shared};
use oncegate::server::{self, Connections, Doorway, Front};
use oncegate::store::filter::Filter;
use oncegate::store::memory::MemoryStore;
use oncegate::telemetry::Metrics;
use oncegate::telemetry::access::AccessLog;
use oncegate::upstream::{Fleet, SystemResolver};
use oncegate::wire::{AnswerBody, Client, Closing, Inbound};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::TaskTracker;

use super::orders;

/// What every request and every answer here ends with, and has nowhere else.
const END: &[u8] = b"end\"}";

/// A client with a connection to its server.
pub(crate) struct Whole {
    runtime: Runtime,
    client: TcpStream,
}

impl Whole {
    /// Through the gateway.
    pub(crate) fn gateway(config: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async {
            let upstream = upstream().await;
            let settings = config::parse("bench", &config.replace("UPSTREAM", &upstream), &|_| None).unwrap().settings;
            connect(&serve(&settings)).await
        });
        Self { runtime, client }
    }

    /// Straight to the upstream: what client and upstream cost by themselves.
    pub(crate) fn straight() -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async { connect(&upstream().await).await });
        Self { runtime, client }
    }

    /// To a server whose answer is the request's body: what serving a connection costs, without what is served.
    pub(crate) fn echo() -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async {
            let settings = config::parse("bench", &orders::config("0").replace("UPSTREAM", "127.0.0.1:9"), &|_| None);
            connect(&listen(&settings.unwrap().settings, Arc::new(Metrics::new().unwrap()), |request, _| echo(request)))
                .await
        });
        Self { runtime, client }
    }

    /// Sends requests one after another, each after the answer to the one before, which must have this status.
    pub(crate) fn ask(&mut self, requests: &[Vec<u8>], status: &str) {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let mut answer = [0; 4096];
            for request in requests {
                client.write_all(request).await.unwrap();
                let mut length = 0;
                while !answer[..length].ends_with(END) {
                    let more = client.read(&mut answer[length..]).await.unwrap();
                    assert!(more > 0, "{}", String::from_utf8_lossy(&answer[..length]));
                    length += more;
                }
                let is = answer[..length].get(9..12) == Some(status.as_bytes());
                assert!(is, "{}", String::from_utf8_lossy(&answer[..length]));
            }
        });
    }
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connect(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).await.unwrap();
    client.set_nodelay(true).unwrap();
    client
}

/// An API that gives every request the same answer.
pub(crate) async fn upstream() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, orders::answer()));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, answer: Vec<u8>) {
    stream.set_nodelay(true).unwrap();
    let (mut request, mut length) = ([0; 4096], 0);
    while let Ok(more @ 1..) = stream.read(&mut request[length..]).await {
        length += more;
        if request[..length].ends_with(END) {
            stream.write_all(&answer).await.unwrap();
            length = 0;
        }
    }
}

/// One worker, as the process has them.
fn serve(settings: &Settings) -> String {
    let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new().unwrap()));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let filter = Filter::new(settings.filter, clock.clone()).unwrap();
    let shared = arbiter::Shared::new(settings.arbiter, filter, None, Arc::clone(&metrics), clock);
    let arbiter = Arc::new(Arbiter::new(store, Arc::new(shared)));
    let fleet = |upstream: &oncegate::upstream::Settings| {
        Arc::new(Fleet::new(upstream.clone(), 1, Arc::new(SystemResolver), TaskTracker::new()))
    };
    let fleets = settings.upstreams.iter().map(fleet).collect();
    let log = settings.access_log.clone().map(|settings| {
        let log = AccessLog::new(1, Arc::clone(&metrics));
        log.turn(settings.open().unwrap()).unwrap();
        Arc::new(log)
    });
    let gateway = Shared::new(settings.gateway.clone(), fleets, Arc::clone(&metrics)).logged(log);
    let gateway = Arc::new(Gateway::new(Arc::new(gateway), arbiter, 0));
    listen(settings, metrics, move |request, client| {
        let gateway = Arc::clone(&gateway);
        gateway.handle(request, client)
    })
}

async fn echo(request: Request<Inbound>) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Response::builder().header("content-type", "application/json").body(Full::new(body)).unwrap()
}

/// A listener that is served with this.
fn listen<H, F, B>(settings: &Settings, metrics: Arc<Metrics>, handle: H) -> String
where
    H: Fn(Request<Inbound>, Arc<Client>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: AnswerBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let doorway = Arc::new(Doorway {
        front: Arc::new(Front::default()),
        connections: Connections::default(),
        limits: settings.server.limits,
        turned_away: Bytes::new(),
        too_slow: Bytes::new(),
        preserve_header_case: settings.server.preserve_header_case,
        metrics,
        linger: Duration::ZERO,
        closing: Closing::default(),
    });
    let listener = server::bind((Ipv4Addr::LOCALHOST, 0).into(), 1, false).unwrap().pop().unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(server::serve(listener, move || Arc::clone(&doorway), handle));
    address
}
