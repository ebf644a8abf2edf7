//! One request's stay at a server: chosen, under way, over. What became of it is what the server's health is judged by.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::NotSent;
use super::balance::{Balance, Candidate, best};
use super::endpoint::Endpoint;
use super::fleet::Fleet;
use super::health::Health;
use super::pool::Pool;
use crate::clock::Clock;
use crate::wire::Upload;

/// One worker's way to servers that all workers share. Its requests count their references to it, not to those.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) fleet: Arc<Fleet>,
    pub(super) worker: usize,
}

/// The servers that one request may go to, one after the other.
pub(super) struct Choice<'a> {
    way: &'a Arc<Way>,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    asked: Asked,
    /// Whose turn it is, of servers that are equally good.
    turn: usize,
    /// Those that had it; the last one of them, `present`, may have it still.
    tried: Vec<usize>,
    present: Option<usize>,
}

/// A request under way at a server. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Run {
    way: Arc<Way>,
    endpoint: Arc<Endpoint>,
    asked: Asked,
    /// It tries out an ejected server, which takes no other request meanwhile.
    trial: bool,
    /// Nothing has been seen of it yet: no answer's head, no failure.
    open: bool,
    /// The right to use a connection, until the answer has ended.
    _place: Option<Arc<OwnedSemaphorePermit>>,
}

/// What a server is asked: how long it has kept its client waiting, and whether that client keeps its word.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// When the request came to be sent.
    since: Instant,
    /// The body, where its client is still sending it.
    upload: Option<Upload>,
}

impl Asked {
    /// A request that comes to be sent now.
    pub(super) fn now(upload: Option<Upload>) -> Self {
        Self { since: Clock::lately(), upload }
    }

    /// How long the client has been waiting. While it is sending itself, it is not.
    fn waiting(&self) -> Duration {
        self.upload.as_ref().map_or_else(|| self.since.elapsed(), Upload::turn)
    }

    /// Whether the client left the request without an end: no server can see that through.
    fn is_cut_off(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.fault().is_some())
    }
}

impl<'a> Choice<'a> {
    /// For this request.
    pub(super) async fn of(way: &'a Arc<Way>, asked: Asked) -> Result<Self, NotSent> {
        let endpoints = way.fleet.endpoints().await?;
        // A server that is alone needs no turn, whose number all workers share.
        let turn = if endpoints.len() > 1 { way.fleet.turn() } else { 0 };
        Ok(Self { way, endpoints, asked, turn, tried: Vec::new(), present: None })
    }

    /// The next server to try; none when all have been tried that can be.
    pub(super) fn next(&mut self, place: Option<&Arc<OwnedSemaphorePermit>>) -> Option<Run> {
        self.tried.extend(self.present.take());
        loop {
            let now = Clock::lately();
            let Candidate { place: at, standing, .. } = self.best(now)?;
            let endpoint = &self.endpoints[at];
            let Some(trial) = endpoint.health_unfailed(|health| health.begin(standing, now)) else { continue };
            self.present = Some(at);
            endpoint.pool(self.way.worker).enter();
            return Some(Run {
                way: Arc::clone(self.way),
                endpoint: Arc::clone(endpoint),
                asked: self.asked.clone(),
                trial,
                open: true,
                _place: place.cloned(),
            });
        }
    }

    fn best(&self, now: Instant) -> Option<Candidate> {
        let balance = self.way.fleet.settings().balance;
        // Otherwise it is not looked at how many there are, in what all workers write.
        let weighs = balance == Balance::LeastRequests && self.endpoints.len() > 1;
        let untried = self.endpoints.iter().enumerate().filter(|(place, _)| !self.tried.contains(place));
        let mut candidates = untried.map(|(place, endpoint)| {
            let standing = endpoint.health_unfailed(|health| health.standing(now));
            Candidate { place, standing, running: if weighs { endpoint.running() } else { 0 } }
        });
        let first = candidates.next()?;
        match candidates.next() {
            // The usual case needs no memory.
            None => best(balance, self.turn, &[first]),
            Some(second) => {
                best(balance, self.turn, &[first, second].into_iter().chain(candidates).collect::<Vec<_>>())
            }
        }
    }
}

impl Run {
    /// The connections of this worker to the server.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        self.endpoint.pool(self.way.worker)
    }

    /// Where that server is.
    pub(super) fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// The answer's head is here.
    pub(super) fn answered(&mut self) {
        self.open = false;
        if self.endpoint.health_unfailed(Health::answered) {
            let upstream = &self.way.fleet.settings().name;
            tracing::info!(upstream, address = %self.endpoint.address, "server taken back");
        }
    }

    /// The answer has come to its end.
    pub(super) fn succeeded(self) {
        self.endpoint.health_unfailed(Health::succeeded);
    }

    /// The server could not be reached, or broke off. Where it was the client that broke off, nothing was seen of the
    /// server: clients must not be able to talk one out of service.
    pub(super) fn failed(mut self) {
        if !self.asked.is_cut_off() {
            self.fail();
        }
    }

    fn fail(&mut self) {
        self.open = false;
        self.way.fleet.failed(&self.endpoint, Clock::instant());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.open && self.asked.waiting() >= self.way.fleet.settings().response_timeout {
            // Whoever asked has waited long enough for an answer.
            self.fail();
        } else if self.open && self.trial {
            self.endpoint.health(Health::trial_given_up);
        }
        self.pool().leave();
    }
}
