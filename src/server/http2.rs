//! HTTP/2 on one connection, to its end. Whoever answers the requests sees them in the words of HTTP/1.1.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{COOKIE, HOST};
use http::{HeaderMap, HeaderValue, Request, Response, Version, request};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::answer::Answer;
use super::pace::{Cut, Pace};
use super::taken::{Taken, handed};
use super::{BoxError, Doorway};
use crate::telemetry::Timeout;
use crate::wire::{Client, Inbound, Watch, fields};

/// How much of an answer waits for a client that does not read, in bytes, for each of its requests.
const SEND_BUFFER: usize = 64 * 1024;
/// How much of an answer is handed over at once, in bytes. A request is open until the last of it is, so that whatever a
/// slow client has not taken yet when it counts as idle is no more than this.
const PIECE: usize = 16 * 1024;
/// How long a client may take to leave after the goodbye, with no request open.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a client may ask of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests at once.
    pub streams: u32,
    /// The size of a request's fields, in bytes, as HTTP/2 counts them.
    pub header_list: u32,
    /// How much of a request's body may be on its way before it is read, in bytes.
    pub stream_window: u32,
    /// The same for all requests of a connection together.
    pub connection_window: u32,
    /// How long a connection may be silent before it is asked whether it is still there.
    pub ping_interval: Duration,
    /// How long it may take to say so.
    pub ping_timeout: Duration,
    /// How many more requests than it sees through a client may take back unanswered; then the connection is closed.
    pub resets: usize,
}

/// Serves until the client leaves, has been idle for too long or floods, or until the doorway closes and the present
/// requests are answered.
pub(super) async fn serve<IO, H, F, B>(
    io: IO,
    client: Client,
    settings: &Settings,
    doorway: &Doorway,
    handle: H,
) -> hyper::Result<()>
where
    IO: AsyncRead + AsyncWrite + Cut + Unpin + Send + 'static,
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let client = Arc::new(client);
    let (streams, traffic) = watch::channel(Traffic::default());
    let streams = Arc::new(streams);
    let watch = Arc::new(Watch::new(Version::HTTP_2));
    doorway.connections.watch(&watch);
    let service = service_fn(|request: Request<Incoming>| {
        super::turn::begins();
        let turn = watch.begin();
        let mut stream = Stream::open(&streams);
        let (mut head, body) = request.into_parts();
        let well_formed = is_well_formed(&head);
        in_words_of_http1(&mut head);
        let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
        if let Err(fault) = doorway.limits.heads().judge(target, head.headers.len()) {
            head.extensions.insert(fault);
        }
        let body = Inbound::http2(&turn, body, doorway.limits.body_idle_timeout, &doorway.metrics);
        let answer = well_formed.then(|| handle(Request::from_parts(head, body), Arc::clone(&client)));
        async move {
            // As the library does with all else that is malformed: the stream is reset.
            let answer = answer.ok_or(h2::Error::from(h2::Reason::PROTOCOL_ERROR))?.await;
            stream.answered = true;
            Ok::<_, h2::Error>(answer.map(|body| {
                let body = Answer::new(body, turn);
                Counted { body, rest: Bytes::new(), _stream: stream }
            }))
        }
    });
    let paced = Pace::new(io, Arc::clone(&watch), doorway);
    let connection = builder(settings, doorway).serve_connection(TokioIo::new(paced), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = flooded(traffic.clone(), settings.resets) => {
            tracing::debug!(peer = %client.peer, "connection closed: too many requests were taken back");
            return Ok(());
        }
        () = idle(traffic.clone(), doorway.limits.keep_alive_timeout) => doorway.metrics.timed_out(Timeout::KeepAlive),
        () = doorway.closing.begun.taken() => {}
        () = tokio::time::sleep(doorway.limits.connection_age) => doorway.metrics.timed_out(Timeout::ConnectionAge),
    }
    connection.as_mut().graceful_shutdown();
    // A client that does not react, or is in the middle of a request's head, would hold it for ever.
    tokio::select! {
        ended = connection => ended,
        () = flooded(traffic.clone(), settings.resets) => Ok(()),
        () = idle(traffic, GOODBYE) => Ok(()),
    }
}

fn builder(settings: &Settings, doorway: &Doorway) -> http2::Builder<Taken> {
    let requests = Taken { limit: doorway.limits.send_timeout, metrics: Arc::clone(&doorway.metrics) };
    let mut builder = http2::Builder::new(requests);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.streams)
        .max_header_list_size(settings.header_list)
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(settings.connection_window)
        .keep_alive_interval(settings.ping_interval)
        .keep_alive_timeout(settings.ping_timeout)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(settings.resets)
        .max_local_error_reset_streams(settings.resets);
    builder
}

/// Whether what came is a request at all, where the library does not look (RFC 9113, 8.2.1 and 8.3.1).
fn is_well_formed(head: &request::Parts) -> bool {
    let begins_with_query = head.uri.path_and_query().is_some_and(|path| path.as_str().starts_with('?'));
    !begins_with_query && fields::are_well_formed(&head.headers)
}

/// Says in fields what HTTP/2 says otherwise (RFC 9113, 8.2.3 and 8.3.1). A `Host` that is there already stays: whether
/// it agrees with the authority is for the reader to judge.
fn in_words_of_http1(head: &mut request::Parts) {
    if let (Some(authority), false) = (head.uri.authority(), head.headers.contains_key(HOST))
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    join_cookies(&mut head.headers);
}

/// One line of all cookies: HTTP/2 may send each on a line of its own.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() < 2 {
        return;
    }
    if let Ok(line) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, line);
    }
}

/// What goes on on a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    /// Requests whose answer is not at its end.
    open: usize,
    /// Requests that were taken back before their answer began, less those that were answered.
    taken_back: usize,
}

/// One request, until its answer ends or its client takes it back.
struct Stream {
    traffic: Arc<watch::Sender<Traffic>>,
    answered: bool,
}

impl Stream {
    fn open(traffic: &Arc<watch::Sender<Traffic>>) -> Self {
        traffic.send_modify(|traffic| traffic.open += 1);
        Self { traffic: Arc::clone(traffic), answered: false }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.traffic.send_modify(|traffic| {
            traffic.open -= 1;
            traffic.taken_back =
                if self.answered { traffic.taken_back.saturating_sub(1) } else { traffic.taken_back + 1 };
        });
    }
}

/// Until no request has been open for this long.
async fn idle(mut traffic: watch::Receiver<Traffic>, limit: Duration) {
    loop {
        let open = traffic.borrow_and_update().open > 0;
        let changed = traffic.changed();
        if open {
            if changed.await.is_err() {
                return;
            }
        } else if tokio::time::timeout(limit, changed).await.is_err() {
            return;
        }
    }
}

/// Until the client has taken back too many requests. Each of them is work for nothing, and none counts as open.
async fn flooded(mut traffic: watch::Receiver<Traffic>, most: usize) {
    if traffic.wait_for(|traffic| traffic.taken_back > most).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// An answer's body in small pieces, whose request is open for as long as it is there.
struct Counted<B> {
    body: B,
    /// What is left of the frame that the body gave last.
    rest: Bytes,
    _stream: Stream,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        handed(false);
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => self.rest = bytes,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.len().min(PIECE);
        handed(true);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        self.body.size_hint().exact().map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + rest))
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body;
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn head(build: request::Builder) -> request::Parts {
        let mut head = build.body(()).unwrap().into_parts().0;
        in_words_of_http1(&mut head);
        head
    }

    #[test]
    fn the_authority_becomes_the_host() {
        let named = head(Request::get("https://api.test:8443/a?b=c"));
        assert_eq!(named.headers[HOST], "api.test:8443");
        assert_eq!(named.uri.path_and_query().unwrap(), "/a?b=c");
        assert_eq!(head(Request::get("https://api.test/").header(HOST, "b.test")).headers[HOST], "b.test");
        assert!(!head(Request::get("/")).headers.contains_key(HOST));
    }

    #[test]
    fn a_path_is_one_or_no_request_is_there() {
        let judge = |path: &str| {
            let uri = http::Uri::builder().scheme("https").authority("api.test").path_and_query(path).build().unwrap();
            is_well_formed(&Request::get(uri).body(()).unwrap().into_parts().0)
        };
        assert!(["/", "/a?b", "/?a=1", "*"].into_iter().all(judge));
        assert!(!judge("?a=1"));
        assert!(is_well_formed(&head(Request::connect("api.test:443"))));
    }

    #[test]
    fn cookies_come_on_one_line() {
        let crumbs = Request::get("/").header(COOKIE, "a=b").header("x", "y").header(COOKIE, "c=\u{e9}; d");
        let joined: Vec<_> = head(crumbs).headers.get_all(COOKIE).iter().cloned().collect();
        assert_eq!(joined, [HeaderValue::from_bytes("a=b; c=\u{e9}; d".as_bytes()).unwrap()]);
        assert_eq!(head(Request::get("/").header(COOKIE, "a=b")).headers[COOKIE], "a=b");
    }

    #[tokio::test]
    async fn a_connection_is_idle_when_no_request_is_open() {
        let (streams, traffic) = watch::channel(Traffic::default());
        let streams = Arc::new(streams);
        let stream = Stream::open(&streams);
        let (limit, long) = (Duration::from_millis(1), Duration::from_millis(50));
        assert!(tokio::time::timeout(long, idle(traffic.clone(), limit)).await.is_err());
        drop(stream);
        idle(traffic, limit).await;
    }

    #[tokio::test]
    async fn an_answer_is_handed_over_in_pieces() {
        let (streams, _traffic) = watch::channel(Traffic::default());
        let whole: Vec<u8> = (0..=255).cycle().take(2 * PIECE + 1).collect();
        let body = Full::new(Bytes::from(whole.clone()));
        let mut body = Counted { body, rest: Bytes::new(), _stream: Stream::open(&Arc::new(streams)) };
        let mut seen = Vec::new();
        for length in [PIECE, PIECE, 1] {
            assert!(!body.is_end_stream());
            assert_eq!(body.size_hint().exact(), Some(u64::try_from(whole.len() - seen.len()).unwrap()));
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(piece.len(), length);
            seen.extend_from_slice(&piece);
        }
        assert!(body.is_end_stream());
        assert_eq!(seen, whole);
    }

    #[tokio::test]
    async fn what_is_seen_through_weighs_against_what_is_taken_back() {
        let (streams, traffic) = watch::channel(Traffic::default());
        let streams = Arc::new(streams);
        let take_back = || drop(Stream::open(&streams));
        let see_through = || Stream::open(&streams).answered = true;
        take_back();
        see_through();
        take_back();
        take_back();
        assert_eq!(traffic.borrow().taken_back, 2);
        flooded(traffic.clone(), 1).await;
        let patient = flooded(traffic.clone(), 2);
        assert!(tokio::time::timeout(Duration::from_millis(1), patient).await.is_err());
    }
}
