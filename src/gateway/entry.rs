//! A request's line in the access log: begun with its head, written when its answer's body is gone. How a line looks, and
//! where it goes, is not known here.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::header::USER_AGENT;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Version};

use super::Gateway;
use crate::clock::Clock;
use crate::machine::OperationId;
use crate::telemetry::Verdict;
use crate::telemetry::access::Line;
use crate::upstream::headers::{self, Going, Ids, Kinds};
use crate::wire::Client;
use crate::wire::framing::Fault;

/// What a request counts as, towards its line, whose client did not wait for an answer. No answer says so: it is the word
/// that nginx has for it.
const LEFT: u16 = 499;

/// What is known of a request when it comes, and what its way adds to that.
pub(super) struct Entry {
    /// Where it came to; that has the pen.
    gateway: Arc<Gateway>,
    at: u64,
    started: Instant,
    /// Who sent it, as far as the hops before are believed.
    client: IpAddr,
    peer: IpAddr,
    /// None: another request stands here for one that was refused.
    method: Option<Method>,
    target: Option<PathAndQuery>,
    version: Version,
    agent: Option<HeaderValue>,
    way: Mutex<Way>,
}

#[derive(Default)]
struct Way {
    server: Option<SocketAddr>,
    /// Copied: the first clone of a field that was made here would take memory of its own.
    request_id: Option<Id>,
    trace_id: Option<[u8; 32]>,
    end: Option<End>,
}

/// What became of a request.
struct End {
    /// Its route's place, if it found one.
    place: Option<usize>,
    verdict: Verdict,
    status: u16,
    operation: Option<OperationId>,
}

/// A request's id, of which there are so many bytes.
struct Id([u8; headers::LONGEST_ID], usize);

impl Id {
    fn of(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; headers::LONGEST_ID];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self(bytes, id.len()))
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Way {
    fn under(self, (request_id, trace_id): Ids<'_>) -> Self {
        Self { request_id: request_id.and_then(|id| Id::of(id.as_bytes())), trace_id, ..self }
    }
}

impl Entry {
    /// A request that has come just now.
    pub(super) fn of<B>(request: &Request<B>, kinds: Kinds, client: &Client, gateway: &Arc<Gateway>) -> Arc<Self> {
        let fields = request.headers();
        let refused = request.version() != Version::HTTP_2 && request.extensions().get::<Fault>().is_some();
        Arc::new(Self {
            gateway: Arc::clone(gateway),
            at: Clock::wall_lately().0,
            started: Clock::lately(),
            client: headers::believed(fields, client.peer, &gateway.shared.settings.trusted_proxies),
            peer: client.direct,
            method: (!refused).then(|| request.method().clone()),
            target: request.uri().path_and_query().filter(|_| !refused).cloned(),
            version: request.version(),
            agent: fields.get(USER_AGENT).cloned(),
            way: Mutex::new(Way::default().under(headers::ids_that_came(fields, kinds))),
        })
    }

    /// It goes on with these ids.
    pub(super) fn goes_on(&self, ids: &Going) {
        let mut way = self.way();
        way.trace_id = Some(ids.trace);
        if let Some(made) = &ids.made {
            way.request_id = Id::of(made);
        }
    }

    /// It is to go to this server.
    pub(super) fn goes_to(&self, server: SocketAddr) {
        self.way().server = Some(server);
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line that is written when this is dropped: with the body that it belongs to. Bodies are handed on by value, so all
/// that can wait with the entry does.
pub(super) struct Closing {
    entry: Arc<Entry>,
    sent: u64,
}

impl Closing {
    /// Of a request with this answer.
    pub(super) fn new(
        entry: Arc<Entry>,
        place: Option<usize>,
        verdict: Verdict,
        status: u16,
        operation: Option<OperationId>,
    ) -> Self {
        entry.way().end = Some(End { place, verdict, status, operation });
        Self { entry, sent: 0 }
    }

    /// The same, with no answer.
    pub(super) fn left(
        entry: Arc<Entry>,
        place: Option<usize>,
        verdict: Verdict,
        operation: Option<OperationId>,
    ) -> Self {
        Self::new(entry, place, verdict, LEFT, operation)
    }

    /// So many bytes of the body go to the client.
    pub(super) fn sends(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let entry = &*self.entry;
        let way = entry.way();
        let (Some(end), Some(pen)) = (&way.end, &entry.gateway.pen) else { return };
        let target = entry.target.as_ref();
        pen.write(&Line {
            at: entry.at,
            client: entry.client,
            peer: entry.peer,
            method: entry.method.as_ref().map(Method::as_str),
            path: target.map(PathAndQuery::path),
            query: target.and_then(PathAndQuery::query),
            protocol: protocol(entry.version),
            status: end.status,
            bytes: self.sent,
            took: Clock::lately().saturating_duration_since(entry.started),
            route: entry.gateway.counts_of(end.place).name(),
            upstream: way.server,
            verdict: end.verdict,
            operation: end.operation.as_ref().map(OperationId::beginning),
            request_id: way.request_id.as_ref().map(Id::as_bytes),
            trace_id: way.trace_id.as_ref().map(<[u8; 32]>::as_slice),
            user_agent: entry.agent.as_ref().map(HeaderValue::as_bytes),
        });
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}
