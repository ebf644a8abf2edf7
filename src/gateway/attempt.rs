//! One attempt, from its permit to its outcome. It runs to its end whoever still listens: the client holds only one end
//! of a pipe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, response};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::asker::Asker;
use super::attended::Pipe;
use super::body::{Body, Gathered, Piece, count};
use super::exchange::{Exchange, Head, ending};
use super::limits::{Budget, Hold, Slot};
use super::problem::Problem;
use super::settings::{Guard, SafeMethods};
use super::word::hear;
use super::{Gateway, again, marks, reads};
use crate::arbiter::{Permit, Renewal};
use crate::boxed::in_box;
use crate::clock::Clock;
use crate::machine::{Ending, Judgement, OperationId, Settled, Word};
use crate::telemetry::{Metrics, Timeout};
use crate::upstream::{self, BodyError, Failure, Outgoing, Reason, Upstream, headers};
use crate::wire::Lent;

/// Pieces of a streamed answer that wait for a slow client.
const PIPE: usize = 4;

/// Everything an attempt needs; of the client's connection a pipe, and a word about interim answers.
pub(super) struct Attempt {
    pub permit: Permit,
    /// The door that it began at.
    pub gateway: Arc<Gateway>,
    /// The place of its route.
    pub route: usize,
    pub guard: Arc<Guard>,
    pub request: Request<Outgoing>,
    /// Which page asks, if one does.
    pub origin: Option<HeaderValue>,
    /// Whether the answer carries the gateway's marks: not in shadow mode.
    pub marked: bool,
    /// Rings when the lease wants to be renewed.
    pub alarm: Lent,
    pub client: Pipe<Delivery>,
    /// On whose behalf it runs.
    pub asker: Asker,
    /// What the attempt holds of the gateway's limits while it runs: its place,
    pub slot: Slot,
    /// and its request's body.
    pub body: Hold,
}

/// What the client gets.
pub(super) type Delivery = Result<Response<Body>, Problem>;

impl Attempt {
    /// Runs the attempt to its end: forward, record, then answer. What comes back is the answer, unless the client has
    /// got it before.
    ///
    /// What it is made of stays where it is, so it is no `async fn`: that would have all of it twice.
    pub(super) fn run(mut self) -> impl Future<Output = Option<Delivery>> + Send {
        // Shadow mode refuses nothing: there it is the client's request that goes on, not the attempt.
        let may_begin = !self.marked || self.permit.may_begin();
        let started = Clock::lately();
        let reads = self.guard.safe_methods == SafeMethods::Collapse;
        async move {
            let shared = &*self.gateway.shared;
            let (upstream, upstream_metrics) = self.gateway.upstream(&shared.settings.routes[self.route]);
            let (route, metrics) = (&*shared.route_metrics[self.route], &*shared.metrics);
            let patience = upstream.settings().response_timeout;
            let mut pipe = Some(self.client);
            let ended = if may_begin {
                let attempt_timeout = upstream.settings().attempt_timeout;
                let operation = *self.permit.operation();
                let wire = Wire {
                    upstream,
                    limit: self.guard.response_body_limit,
                    patience,
                    client_until: started + attempt_timeout / 2,
                    buffers: &self.gateway.buffers,
                    answered: &|took| upstream_metrics.answered(took),
                    heard: &|headers| {
                        if reads {
                            return reads::word(&self.guard, headers);
                        }
                        hear(self.guard.outcome_headers, headers, &operation, route)
                    },
                    metrics,
                    asker: &self.asker,
                };
                let (told, end) = (Arc::clone(self.permit.told()), started + attempt_timeout);
                tokio::select! {
                    biased;
                    ended = wire.run(&mut self.request, &mut pipe) => ended,
                    () = told.given_up() => Exchange::Abandoned,
                    () = keep_alive(&mut self.permit, &mut self.alarm, end) => Exchange::TimedOut(Timeout::Attempt),
                }
            } else {
                Exchange::NotSent { why: "the lease ended before anything was sent".to_owned(), shortage: false }
            };
            // The request is over; its outcome may have to wait for a store that is away.
            drop((self.request, self.slot, self.body, self.alarm));
            let took = Clock::lately().saturating_duration_since(started);
            let late = self.permit.is_lost() || (pipe.is_some() && took > patience);
            ended.count(metrics, route, late);
            let ending = ending(&ended, &self.guard, self.origin.as_ref());
            let ending = if reads { reads::without_doubt(ending) } else { ending };
            let again = self.marked.then(|| again::in_doubt(self.guard.policy.in_doubt, Duration::ZERO));
            conclude(self.permit, ended, ending, pipe, again).await
        }
    }
}

/// Records the outcome, then answers. A store that does not take it is tried again, after the client has its answer.
/// `again` is when a doubt is worth asking for; none where the gateway says nothing of its own.
async fn conclude(
    permit: Permit,
    ended: Exchange,
    ending: Ending,
    pipe: Option<Pipe<Delivery>>,
    again: Option<Duration>,
) -> Option<Delivery> {
    let doubtful = matches!(ending, Ending::Answered { judgement: Judgement::Doubt, .. });
    let (operation, number) = (*permit.operation(), permit.number());
    // Counted for as long as the outcome waits for its store, or the answer for its client.
    let _hold = if let Exchange::Whole { hold, .. } = &ended { Some(Arc::clone(hold)) } else { None };
    let settled = permit.settle(ending).await;
    if matches!(settled, Ok(Settled::Doubted)) {
        tracing::warn!(operation = %operation.short(), attempt = number, why = ended.why(), "in doubt");
    }
    let doubt = doubtful.then_some(operation);
    let delivery = deliver(ended, settled.as_ref().ok().copied(), number == 1, doubt, again);
    let Err(unsettled) = settled else { return delivery };
    if let (Some(client), Some(delivery)) = (pipe, delivery) {
        // A client that has left gets nothing; the outcome is recorded all the same.
        client.hand(delivery);
        // Taken before the outcome is: whoever waits for the answer looks whenever this waits.
    }
    tracing::warn!(error = %unsettled.error, "outcome not recorded yet; trying again");
    Box::pin(unsettled.persist()).await;
    None
}

/// Renews the lease until then.
async fn keep_alive(permit: &mut Permit, alarm: &mut Lent, end: Instant) {
    loop {
        // One timer for both: nearly every attempt ends before either.
        permit.beat(alarm, end).await;
        let left = end.saturating_duration_since(Clock::instant());
        if left.is_zero() {
            return;
        }
        // Boxed: few attempts come to it, and all would have room for it.
        if tokio::time::timeout(left, Box::pin(permit.renew())).await == Ok(Renewal::Lost) {
            // The record no longer says that this attempt runs; its answer, if one comes, is settled as a late one.
            return tokio::time::sleep_until(end.into()).await;
        }
    }
}

/// The exchange itself.
struct Wire<'a> {
    upstream: &'a Upstream,
    /// The largest body that is kept.
    limit: usize,
    /// How long a streamed answer waits for its client to read on.
    patience: Duration,
    /// Until when it waits at all: a client that reads slowly must not use up the attempt's time.
    client_until: Instant,
    buffers: &'a Budget,
    answered: &'a (dyn Fn(Duration) + Sync),
    /// What the upstream itself says of the operation.
    heard: &'a (dyn Fn(&HeaderMap) -> Word + Sync),
    metrics: &'a Metrics,
    asker: &'a Asker,
}

impl Wire<'_> {
    async fn run(&self, request: &mut Request<Outgoing>, pipe: &mut Option<Pipe<Delivery>>) -> Exchange {
        let started = Clock::lately();
        // Boxed: it is the most of what an attempt is made of, and over before the rest.
        let answer = in_box(|| self.upstream.send_for(request, self.asker)).await;
        (self.answered)(Clock::instant().saturating_duration_since(started));
        let (mut head, mut body) = match answer {
            Ok(response) => response.into_parts(),
            Err(Failure::NotSent(why)) => {
                if why.reason == Reason::Timeout {
                    self.metrics.timed_out(Timeout::UpstreamConnect);
                }
                return Exchange::NotSent { why: why.to_string(), shortage: why.reason.is_shortage() };
            }
            Err(Failure::Unknown(why)) => return Exchange::Broken(why),
            Err(Failure::Late) => return Exchange::TimedOut(Timeout::FirstByte),
        };
        let word = (self.heard)(&head.headers);
        headers::inbound(&mut head.headers);
        let length = body.size_hint().exact();
        let mut gathered = Gathered::of(&body.size_hint());
        let mut hold = self.buffers.hold();
        while let Some(frame) = body.frame().await {
            let bytes = match frame.map(http_body::Frame::into_data) {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(_trailers)) => continue,
                Err(error) => return self.broken(&error),
            };
            gathered.push(bytes);
            if gathered.len() > self.limit || !hold.cover(gathered.held()) {
                return Box::pin(self.stream(head, word, gathered.into_bytes(), body, length, pipe)).await;
            }
        }
        let spelling = body.take_spelling();
        Exchange::Whole { head, spelling, word, body: gathered.into_bytes(), hold: Arc::new(hold) }
    }

    /// Passes an answer on that is too large to keep. A client that does not read on is let go; the upstream is read
    /// to its end in any case, because only then is the operation known to be done.
    async fn stream(
        &self,
        head: response::Parts,
        word: Word,
        begun: Bytes,
        mut body: upstream::Incoming,
        length: Option<u64>,
        pipe: &mut Option<Pipe<Delivery>>,
    ) -> Exchange {
        let kept = Head::of(&head, word);
        let (tail, pieces) = mpsc::channel(PIPE);
        let response = Response::from_parts(head, Body::stream(pieces, length).spelled(body.take_spelling()));
        let listening = pipe.take_if(|client| !client.is_left());
        let delivered = listening.is_some_and(|client| client.hand(Ok(response)));
        // The client gets it now, and from here on this is a task of its own.
        tokio::task::yield_now().await;
        let mut tail = delivered.then_some(tail);
        let mut last = begun;
        while let Some(frame) = body.frame().await {
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(bytes)) if !bytes.is_empty() => self.pass(&mut tail, std::mem::replace(&mut last, bytes)).await,
                Ok(Ok(_) | Err(_)) => {}
                Err(error) => return self.broken(&error),
            }
        }
        Exchange::Streamed { head: kept, last, tail }
    }

    fn broken(&self, error: &BodyError) -> Exchange {
        count(error, self.metrics);
        Exchange::Broken(error.to_string())
    }

    async fn pass(&self, tail: &mut Option<mpsc::Sender<Piece>>, bytes: Bytes) {
        let patience = self.patience.min(self.client_until.saturating_duration_since(Clock::lately()));
        if let Some(client) = tail
            && client.send_timeout(Piece::Data(bytes), patience).await.is_err()
        {
            *tail = None;
        }
    }
}

/// What the client gets; none when it has its answer already, as a stream, whose end is now let go.
fn deliver(
    exchange: Exchange,
    settled: Option<Settled>,
    first: bool,
    doubt: Option<OperationId>,
    again: Option<Duration>,
) -> Option<Delivery> {
    match exchange {
        Exchange::Whole { head, spelling, body, hold, .. } => {
            let mut response = Response::from_parts(head, Body::held(body, hold).spelled(spelling));
            if again.is_some() {
                if let Some(Settled::Kept(expires)) = settled {
                    marks::set_expires(response.headers_mut(), expires);
                }
                if let Some(operation) = doubt {
                    response.headers_mut().insert(marks::OUTCOME, marks::UNKNOWN);
                    marks::set_operation(response.headers_mut(), &operation);
                }
            }
            Some(Ok(response))
        }
        Exchange::Streamed { last, tail, .. } => {
            if let Some(client) = tail {
                // A full pipe means a client that reads slowly: it must still see the end.
                tokio::spawn(async move {
                    client.send(Piece::Data(last)).await?;
                    client.send(Piece::End).await
                });
            }
            None
        }
        Exchange::NotSent { shortage, .. } => {
            // Where the store did not say, a first attempt that was not sent has nothing behind it; a later one has.
            let not_executed = settled.map_or(first, |settled| settled == Settled::NotSent);
            Some(Err(Problem::UpstreamUnreachable { shortage, in_doubt: !not_executed }))
        }
        Exchange::Broken(_) => Some(Err(Problem::UpstreamFailed { again })),
        Exchange::TimedOut(_) | Exchange::Abandoned => Some(Err(Problem::UpstreamTimeout { again })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;

    #[test]
    fn not_executed_is_said_only_where_nothing_can_stand_behind_it() {
        for (settled, first, expected) in [
            (Some(Settled::NotSent), true, false),
            // The store is away.
            (None, true, false),
            (None, false, true),
            (Some(Settled::Doubted), false, true),
            (Some(Settled::Superseded), true, true),
            (Some(Settled::Kept(Time(1))), true, true),
        ] {
            let exchange = Exchange::NotSent { why: "refused".to_owned(), shortage: false };
            let told = deliver(exchange, settled, first, None, Some(Duration::ZERO));
            let Some(Err(Problem::UpstreamUnreachable { in_doubt, .. })) = told else { panic!("no refusal") };
            assert_eq!(in_doubt, expected, "{settled:?} {first}");
        }
    }
}
