//! Sends one request, at most once. Which answers count, and what a failure means, is decided above.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;

use super::outcome::{Tried, judge};
use super::pool::{Connection, Pool};
use super::{Failure, Host, Incoming, NotSent, Outgoing, Reason, Settings};

/// The way to one API. Each worker has its own, with its own connections.
#[derive(Debug)]
pub struct Upstream {
    settings: Settings,
    pools: Vec<Arc<Pool>>,
    turn: AtomicUsize,
}

impl Upstream {
    /// A way without connections yet: they are made as requests need them.
    pub fn new(settings: Settings) -> Self {
        let Settings { connect_timeout, idle_timeout, preserve_header_case, .. } = settings;
        let pool = |server| Arc::new(Pool::new(server, connect_timeout, idle_timeout, preserve_header_case));
        let pools = settings.servers.iter().map(pool).collect();
        Self { settings, pools, turn: AtomicUsize::new(0) }
    }

    /// What it was built from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends one request and waits for the head of its answer; no deadline but that of connecting.
    ///
    /// The servers take turns. A request goes to a second connection or a second server only with proof that nothing
    /// of it was sent, so the upstream gets it at most once. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`Failure::NotSent`] when it is proven that nothing was sent, else [`Failure::Unknown`].
    pub async fn send(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, Failure> {
        let mut request = for_the_wire(request);
        let mut why = NotSent::new(Reason::NoServer, "the upstream has no servers");
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.pools.len().max(1);
        let (after, before) = self.pools.split_at(first);
        for pool in before.iter().chain(after) {
            self.address(&mut request, pool);
            match through(pool, request).await {
                Ok(answer) => return Ok(answer),
                Err(Tried::Failed(failure)) => return Err(failure),
                Err(Tried::Returned(unsent, reason)) => (request, why) = (*unsent, reason),
            }
        }
        Err(Failure::NotSent(why))
    }

    /// Says `Host` as the settings want it. HTTP/1.1 needs one, so a request without any gets the server's.
    fn address(&self, request: &mut Request<Outgoing>, pool: &Pool) {
        let given = self.settings.host == Host::Preserve && request.headers().contains_key(HOST);
        if let (false, Some(authority)) = (given, &pool.authority) {
            request.headers_mut().insert(HOST, authority.clone());
        }
    }
}

/// Tries one server: an idle connection first, then a new one. The idle one may turn out to be closed.
async fn through(pool: &Arc<Pool>, mut request: Request<Outgoing>) -> Result<Response<Incoming>, Tried> {
    if let Some(idle) = pool.take() {
        match exchange(pool, idle, request).await {
            Err(Tried::Returned(unsent, _)) => request = *unsent,
            done => return done,
        }
    }
    match pool.connect().await {
        Ok(connection) => exchange(pool, connection, request).await,
        Err(reason) => Err(Tried::Returned(Box::new(request), reason)),
    }
}

async fn exchange(
    pool: &Arc<Pool>,
    mut connection: Connection,
    request: Request<Outgoing>,
) -> Result<Response<Incoming>, Tried> {
    let asked = request.headers().get(UPGRADE).cloned();
    let answer = connection.send(request).await.map_err(|error| judge(error, connection.line()))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer.map(|body| Incoming::new(body, connection, Arc::clone(pool))));
    }
    let told = answer.headers().get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
    if asked.is_none_or(|asked| !asked.as_bytes().eq_ignore_ascii_case(told)) {
        // This answers nothing that was asked; nor is it an end of the request.
        return Err(Tried::Failed(Failure::Unknown("the upstream switched protocols unasked".to_owned())));
    }
    // The connection is the new protocol's, for whoever takes it out of the answer.
    Ok(answer.map(Incoming::bare))
}

/// The request as HTTP/1.1 sends it to a server: target in origin form, byte for byte, and a body that is framed.
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
