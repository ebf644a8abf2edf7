//! Sends one request, at most once. Which answers count, and what a failure means, is decided above.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body;
use tokio_util::task::TaskTracker;

use super::behalf::Behalf;
use super::connection::Connection;
use super::fleet::Fleet;
use super::headers::take_away;
use super::outcome::Tried;
use super::pool::Pool;
use super::resolve::SystemResolver;
use super::run::{Asked, Choice, Way};
use super::{Failure, Host, Incoming, NotSent, Outgoing, Reason, Settings};
use crate::wire::Upload;

/// One worker's way to an API, with its own connections.
#[derive(Debug)]
pub struct Upstream(Arc<Way>);

impl Upstream {
    /// A worker's way to these servers. Connections are made as requests need them.
    pub fn of(fleet: &Arc<Fleet>, worker: usize) -> Self {
        Self(Arc::new(Way { fleet: Arc::clone(fleet), worker }))
    }

    /// A way of its own to servers that it shares with nobody, and that nobody looks after: names are asked for once,
    /// and nothing is checked.
    pub fn new(settings: Settings) -> Self {
        Self::of(&Arc::new(Fleet::new(settings, 1, Arc::new(SystemResolver), TaskTracker::new())), 0)
    }

    /// What it was built from.
    pub fn settings(&self) -> &Settings {
        self.0.fleet.settings()
    }

    /// Sends one request and waits for the head of its answer; no deadline but those of getting a connection. It goes on
    /// somebody's behalf, who hears of its way.
    ///
    /// A request goes to a second connection or a second server only with proof that nothing of it was sent, or none of
    /// it processed, so the upstream acts on it at most once. Dropping the future closes the connection, or its stream on
    /// a shared one. What is left of the request is of no more use, unless it was not sent.
    ///
    /// # Errors
    /// [`Failure::NotSent`] when it is proven that nothing was sent, else [`Failure::Unknown`].
    pub async fn send_for(
        &self,
        request: &mut Request<Outgoing>,
        behalf: &dyn Behalf,
    ) -> Result<Response<Incoming>, Failure> {
        let asked = Asked::now(request.body().upload());
        for_the_wire(request);
        let place = self.0.fleet.place().await.map_err(Failure::NotSent)?.map(Arc::new);
        let mut choice = Choice::of(&self.0, asked).await.map_err(Failure::NotSent)?;
        let mut why = None;
        while let Some(mut run) = choice.next(place.as_ref()) {
            behalf.goes_to(run.address());
            self.address(request, run.pool());
            match through(run.pool(), request, behalf, self.settings()).await {
                Ok(answer) => {
                    run.answered();
                    let idle = self.settings().answer_idle_timeout;
                    return Ok(answer.map(|body| body.patient(idle).during(run)));
                }
                Err(tried) => {
                    run.failed();
                    match tried {
                        Tried::Failed(failure) => return Err(failure),
                        Tried::Returned(reason) => why = Some(reason),
                    }
                }
            }
        }
        let none = || NotSent::new(Reason::NoServer, "no server of the upstream is healthy");
        Err(Failure::NotSent(why.unwrap_or_else(none)))
    }

    /// The same, where nobody hears of its way.
    ///
    /// # Errors
    /// The same.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>, Failure> {
        self.send_for(&mut request, &()).await
    }

    /// Says `Host` as the settings want it. HTTP/1.1 needs one, so a request without any gets the server's.
    fn address(&self, request: &mut Request<Outgoing>, pool: &Pool) {
        let given = self.settings().host == Host::Preserve && request.headers().contains_key(HOST);
        if let (false, Some(authority)) = (given, &pool.authority) {
            request.headers_mut().insert(HOST, authority.clone());
        }
    }
}

/// Tries one server. Where connections are not shared, idle ones come first, then a new one: an idle one may turn out to be
/// closed.
async fn through(
    pool: &Arc<Pool>,
    request: &mut Request<Outgoing>,
    behalf: &dyn Behalf,
    settings: &Settings,
) -> Result<Response<Incoming>, Tried> {
    let limit = settings.first_byte_timeout;
    if let Some(shared) = &pool.shared {
        let upload = request.body().upload();
        return heard(Box::pin(shared.send(request, behalf.added())), upload, limit).await;
    }
    loop {
        let (connection, idle) = match pool.take() {
            Some(connection) => (connection, true),
            None => (Box::pin(connect(pool)).await.map_err(Tried::Returned)?, false),
        };
        let upload = request.body().upload();
        match heard(connection.send(request, behalf, Some(pool)), upload, limit).await {
            Err(Tried::Returned(_)) if idle => {}
            done => return done,
        }
    }
}

async fn connect(pool: &Pool) -> Result<Connection, NotSent> {
    let made = pool.connect().await;
    if let Err(why) = &made {
        tracing::warn!(%why, "no connection to an upstream");
    }
    made
}

/// The answer, unless its server says nothing for too long.
async fn heard(
    answer: impl Future<Output = Result<Response<Incoming>, Tried>>,
    upload: Option<Upload>,
    limit: Option<Duration>,
) -> Result<Response<Incoming>, Tried> {
    tokio::select! {
        biased;
        answer = answer => answer,
        () = silence(upload, limit) => Err(Tried::Failed(Failure::Late)),
    }
}

/// Until an upstream that has its request has said nothing for too long.
async fn silence(upload: Option<Upload>, limit: Option<Duration>) {
    match (limit, upload) {
        (None, _) => std::future::pending().await,
        (Some(limit), None) => tokio::time::sleep(limit).await,
        (Some(limit), Some(upload)) => upload.overdue(limit).await,
    }
}

/// Makes a request one that a server can be sent: target in origin form, byte for byte, and a body that is framed.
fn for_the_wire(request: &mut Request<Outgoing>) {
    *request.version_mut() = Version::HTTP_11;
    if request.uri().authority().is_some() {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
    let length = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
    let Some(length) = length else {
        take_away(request.headers_mut(), &CONTENT_LENGTH);
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        return;
    };
    take_away(request.headers_mut(), &TRANSFER_ENCODING);
    // Where a body is expected, its absence is said (RFC 9110, 8.6). A chunked body of no bytes ends up here too.
    let expected = length > 0 || matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let said = request.headers().get(CONTENT_LENGTH);
    let is_true = |said: &HeaderValue| said.to_str().is_ok_and(|said| said.parse() == Ok(length));
    if said.map_or(expected, |said| !is_true(said)) {
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_can_share_what_tasks_hold() {
        fn crosses_threads<T: Send + Sync>() {}
        crosses_threads::<Upstream>();
        crosses_threads::<Incoming>();
        crosses_threads::<Failure>();
    }

    #[test]
    fn framing_that_goes_moves_no_other_field() {
        let request = Request::post("/").header("transfer-encoding", "chunked").header("x-a", "1").header("x-b", "2");
        let mut request = request.body(Outgoing::Whole(bytes::Bytes::from_static(b"abc"))).unwrap();
        for_the_wire(&mut request);
        let names: Vec<_> = request.headers().keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["x-a", "x-b", "content-length"]);
    }
}
