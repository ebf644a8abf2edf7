//! One request's stay at a server: chosen, under way, over. What became of it is what the server's health is judged by.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::NotSent;
use super::balance::{Candidate, best};
use super::endpoint::Endpoint;
use super::fleet::Fleet;
use super::pool::Pool;
use crate::clock::Clock;

/// The servers that one request may go to, one after the other.
pub(super) struct Choice {
    fleet: Arc<Fleet>,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    /// When the request came to be sent.
    asked: Instant,
    turn: usize,
    tried: Vec<usize>,
}

/// A request under way at a server. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Run {
    fleet: Arc<Fleet>,
    endpoint: Arc<Endpoint>,
    asked: Instant,
    /// It tries out an ejected server, which takes no other request meanwhile.
    trial: bool,
    /// Nothing has been seen of it yet: no answer's head, no failure.
    open: bool,
    /// The right to use a connection, until the answer has ended.
    _place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Choice {
    /// For a request that came to be sent at this time.
    pub(super) async fn of(fleet: &Arc<Fleet>, asked: Instant) -> Result<Self, NotSent> {
        let endpoints = fleet.endpoints().await?;
        Ok(Self { fleet: Arc::clone(fleet), endpoints, asked, turn: fleet.turn(), tried: Vec::new() })
    }

    /// The next server to try; none when all have been tried that can be.
    pub(super) fn next(&mut self, place: Option<&Arc<OwnedSemaphorePermit>>) -> Option<Run> {
        loop {
            let now = Clock::instant();
            let Candidate { place: at, standing, .. } =
                best(self.fleet.settings().balance, self.turn, &self.candidates(now))?;
            let endpoint = &self.endpoints[at];
            let Some(trial) = endpoint.health().begin(standing, now) else { continue };
            self.tried.push(at);
            endpoint.enter();
            return Some(Run {
                fleet: Arc::clone(&self.fleet),
                endpoint: Arc::clone(endpoint),
                asked: self.asked,
                trial,
                open: true,
                _place: place.cloned(),
            });
        }
    }

    fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let untried = self.endpoints.iter().enumerate().filter(|(place, _)| !self.tried.contains(place));
        let candidate = |(place, endpoint): (usize, &Arc<Endpoint>)| {
            let standing = endpoint.health().standing(now);
            Candidate { place, standing, running: endpoint.running() }
        };
        untried.map(candidate).collect()
    }
}

impl Run {
    /// The connections of this worker to the server.
    pub(super) fn pool(&self, worker: usize) -> &Arc<Pool> {
        self.endpoint.pool(worker)
    }

    /// The answer's head is here.
    pub(super) fn answered(&mut self) {
        self.open = false;
        if self.endpoint.health().answered() {
            let upstream = &self.fleet.settings().name;
            tracing::info!(upstream, address = %self.endpoint.address, "server taken back");
        }
    }

    /// The answer has come to its end.
    pub(super) fn succeeded(self) {
        self.endpoint.health().succeeded();
    }

    /// The server could not be reached, or broke off.
    pub(super) fn failed(mut self) {
        self.fail();
    }

    fn fail(&mut self) {
        self.open = false;
        self.fleet.failed(&self.endpoint, Clock::instant());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.open && self.asked.elapsed() >= self.fleet.settings().response_timeout {
            // Whoever asked has waited long enough for an answer.
            self.fail();
        } else if self.open && self.trial {
            self.endpoint.health().trial_given_up();
        }
        self.endpoint.leave();
    }
}
