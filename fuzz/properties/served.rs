//! hyper's own view of a connection's bytes: the requests that it hands to a service. There is no socket and no runtime.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::stream::Message;

/// A request as a service sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Served {
    method: String,
    target: String,
    http_10: bool,
    /// Sorted by name; equal names keep their order.
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Served {
    /// What a service should see of a message.
    pub(super) fn of(message: &Message<'_>, body: &[u8]) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = message.fields.iter().map(|(name, value)| (text(name).to_ascii_lowercase(), value.to_vec()));
        let served = Self {
            method: text(message.start[0]),
            target: Uri::try_from(message.start[1]).map(|uri| uri.to_string()).unwrap_or_default(),
            http_10: message.is_http_10(),
            fields: fields.collect(),
            body: body.to_vec(),
        };
        served.sorted()
    }

    fn sorted(mut self) -> Self {
        self.fields.sort_by(|a, b| a.0.cmp(&b.0));
        self
    }
}

/// The requests that hyper finds in these bytes, apart from one whose body breaks off.
pub(super) fn serve(bytes: &[u8]) -> Vec<Served> {
    let served = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let served = Rc::clone(&served);
        async move {
            // Answered otherwise, hyper would make a tunnel of it.
            let refused = request.method() == http::Method::CONNECT;
            let (head, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                let fields = head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
                let served_now = Served {
                    method: head.method.to_string(),
                    target: head.uri.to_string(),
                    http_10: head.version == Version::HTTP_10,
                    fields: fields.collect(),
                    body: body.to_bytes().to_vec(),
                };
                served.borrow_mut().push(served_now.sorted());
            }
            let mut response = Response::new(Empty::<Bytes>::new());
            if refused {
                *response.status_mut() = StatusCode::BAD_REQUEST;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let wire = Wire { bytes: bytes.to_vec(), at: 0 };
    // The client's end is seen before its requests are answered.
    let mut connection = pin!(http1::Builder::new().half_close(true).serve_connection(wire, service));
    let mut cx = Context::from_waker(Waker::noop());
    // It never waits for anybody; that it yields now and then is for others' sake.
    for _ in 0..10_000 {
        if connection.as_mut().poll(&mut cx).is_ready() {
            return served.take();
        }
    }
    panic!("hyper waits, with {:?}", String::from_utf8_lossy(bytes));
}

/// A client that has sent everything, closed its side, and takes whatever comes.
struct Wire {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let some = buf.remaining().min(self.bytes.len() - self.at);
        buf.put_slice(&self.bytes[self.at..self.at + some]);
        self.at += some;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
