//! Sends one request, at most once. Which answers count, and what a failure means, is decided above.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;

use super::connection::Connection;
use super::fleet::Fleet;
use super::outcome::{Tried, judge};
use super::pool::Pool;
use super::resolve::SystemResolver;
use super::run::{Asked, Choice};
use super::{Failure, Host, Incoming, NotSent, Outgoing, Reason, Settings};
use crate::wire::Upload;

/// One worker's way to an API, with its own connections.
#[derive(Debug)]
pub struct Upstream {
    fleet: Arc<Fleet>,
    worker: usize,
}

impl Upstream {
    /// A worker's way to these servers. Connections are made as requests need them.
    pub fn of(fleet: &Arc<Fleet>, worker: usize) -> Self {
        Self { fleet: Arc::clone(fleet), worker }
    }

    /// A way of its own to servers that it shares with nobody, and that nobody looks after: names are asked for once,
    /// and nothing is checked.
    pub fn new(settings: Settings) -> Self {
        Self::of(&Arc::new(Fleet::new(settings, 1, Arc::new(SystemResolver))), 0)
    }

    /// What it was built from.
    pub fn settings(&self) -> &Settings {
        self.fleet.settings()
    }

    /// Sends one request and waits for the head of its answer; no deadline but those of getting a connection. `told` hears
    /// of every server that it is to go to.
    ///
    /// A request goes to a second connection or a second server only with proof that nothing of it was sent, or none of
    /// it processed, so the upstream acts on it at most once. Dropping the future closes the connection, or its stream on
    /// a shared one.
    ///
    /// # Errors
    /// [`Failure::NotSent`] when it is proven that nothing was sent, else [`Failure::Unknown`].
    pub async fn send_telling(
        &self,
        request: Request<Outgoing>,
        told: impl Fn(SocketAddr) + Send + Sync,
    ) -> Result<Response<Incoming>, Failure> {
        let asked = Asked::now(request.body().upload());
        // Boxed: it goes down several steps, and back up where it was not sent.
        let mut request = Box::new(for_the_wire(request));
        let place = self.fleet.place().await.map_err(Failure::NotSent)?.map(Arc::new);
        let mut choice = Choice::of(&self.fleet, asked).await.map_err(Failure::NotSent)?;
        let mut why = NotSent::new(Reason::NoServer, "no server of the upstream is healthy");
        while let Some(mut run) = choice.next(place.as_ref()) {
            told(run.address());
            let pool = Arc::clone(run.pool(self.worker));
            self.address(&mut request, &pool);
            match through(&pool, request, self.settings()).await {
                Ok(answer) => {
                    run.answered();
                    let idle = self.settings().answer_idle_timeout;
                    return Ok(answer.map(|body| body.patient(idle).during(run)));
                }
                Err(tried) => {
                    run.failed();
                    match tried {
                        Tried::Failed(failure) => return Err(failure),
                        Tried::Returned(unsent, reason) => (request, why) = (unsent, reason),
                    }
                }
            }
        }
        Err(Failure::NotSent(why))
    }

    /// The same, where nobody asks for the server.
    ///
    /// # Errors
    /// The same.
    pub fn send(&self, request: Request<Outgoing>) -> impl Future<Output = Result<Response<Incoming>, Failure>> + Send {
        self.send_telling(request, |_| {})
    }

    /// Says `Host` as the settings want it. HTTP/1.1 needs one, so a request without any gets the server's.
    fn address(&self, request: &mut Request<Outgoing>, pool: &Pool) {
        let given = self.settings().host == Host::Preserve && request.headers().contains_key(HOST);
        if let (false, Some(authority)) = (given, &pool.authority) {
            request.headers_mut().insert(HOST, authority.clone());
        }
    }
}

/// Tries one server: an idle connection first, then a new one. The idle one may turn out to be closed.
async fn through(
    pool: &Arc<Pool>,
    mut request: Box<Request<Outgoing>>,
    settings: &Settings,
) -> Result<Response<Incoming>, Tried> {
    if let Some(shared) = &pool.shared {
        let upload = request.body().upload();
        return tokio::select! {
            biased;
            answer = Box::pin(shared.send(*request)) => answer,
            () = silence(upload, settings.first_byte_timeout) => Err(Tried::Failed(Failure::Late)),
        };
    }
    if let Some(idle) = pool.take() {
        match exchange(pool, idle, request, settings).await {
            Err(Tried::Returned(unsent, _)) => request = unsent,
            done => return done,
        }
    }
    match Box::pin(pool.connect()).await {
        Ok(connection) => exchange(pool, connection, request, settings).await,
        Err(why) => {
            tracing::warn!(%why, "no connection to an upstream");
            Err(Tried::Returned(request, why))
        }
    }
}

async fn exchange(
    pool: &Arc<Pool>,
    mut connection: Connection,
    request: Box<Request<Outgoing>>,
    settings: &Settings,
) -> Result<Response<Incoming>, Tried> {
    let asked = request.headers().get(UPGRADE).cloned();
    let upload = request.body().upload();
    let answer = tokio::select! {
        biased;
        answer = connection.send(*request) => answer.map_err(|error| judge(error, connection.line()))?,
        () = silence(upload, settings.first_byte_timeout) => return Err(Tried::Failed(Failure::Late)),
    };
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer.map(|body| Incoming::http1(body, connection, Arc::clone(pool))));
    }
    let told = answer.headers().get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
    if asked.is_none_or(|asked| !asked.as_bytes().eq_ignore_ascii_case(told)) {
        // This answers nothing that was asked; nor is it an end of the request.
        return Err(Tried::Failed(Failure::Unknown("the upstream switched protocols unasked".to_owned())));
    }
    // The connection is the new protocol's, for whoever takes it out of the answer.
    Ok(answer.map(|_| Incoming::upgraded()))
}

/// Until an upstream that has its request has said nothing for too long.
async fn silence(upload: Option<Upload>, limit: Option<Duration>) {
    match (limit, upload) {
        (None, _) => std::future::pending().await,
        (Some(limit), None) => tokio::time::sleep(limit).await,
        (Some(limit), Some(upload)) => upload.overdue(limit).await,
    }
}

/// The request as it is sent to a server: target in origin form, byte for byte, and a body that is framed.
fn for_the_wire(mut request: Request<Outgoing>) -> Request<Outgoing> {
    *request.version_mut() = Version::HTTP_11;
    if request.uri().authority().is_some() {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
    let endless = request.body().size_hint().exact().is_none();
    let empty = request.body().is_end_stream();
    if endless && !empty {
        // Unasked, hyper would send a GET or HEAD without its body.
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    } else if empty && matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        // A chunked body of no bytes ends up here. Where a body is expected, its absence is said (RFC 9110, 8.6).
        request.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from_static("0"));
    }
    request
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
}
