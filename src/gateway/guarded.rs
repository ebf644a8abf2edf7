//! A request on a guarded route: name the operation, ask the arbiter, then run, wait, replay or refuse.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::{Request, request};

use super::again;
use super::asker::Asker;
use super::attempt::{Attempt, Delivery};
use super::attended::{Attended, Listener, Panicked, Pipe};
use super::duplicate::{Key, tell};
use super::limits::Hold;
use super::problem::Problem;
use super::queue::Queue;
use super::read::{Read, Unread, read_whole};
use super::settings::{ForwardedKey, Guard, Mode, OnInFlight, SafeMethods, StoreFailure};
use super::tally::Tally;
use super::{Answer, Gateway, Guarded, Routed, marks};
use crate::arbiter::{Admitted, Permit};
use crate::clock::Clock;
use crate::keys::{Caller, Head, Named, Refusal};
use crate::machine::{Arrival, Duplicate};
use crate::store::StoreError;
use crate::telemetry::{Timeout, Verdict};
use crate::upstream::Outgoing;
use crate::upstream::headers::{self, Added};
use crate::wire::{Inbound, Lent};

/// What the arbiter's answer leads to.
enum Ruling {
    Act(Permit),
    /// The store is away, and it may act all the same.
    Unseen(Permit),
    Duplicate(Duplicate, Key),
}

impl Gateway {
    pub(super) async fn guarded(
        &self,
        guarded: &Guarded,
        routed: &Routed<'_>,
        mut head: request::Parts,
        body: Inbound,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let guard = &*guarded.guard;
        let instead = guard.instead();
        let (caller, shown) = match (self.check_head(guarded, routed, &head).await, instead) {
            (Ok(checked), _) => checked,
            (Err(_), Some(verdict)) => {
                return Box::pin(self.pass(routed, head, Outgoing::Streaming(body), verdict, tally)).await;
            }
            (Err(refusal), None) => return Err(refusal),
        };
        tally.if_left(Verdict::BodyAborted);
        let timeout = self.shared.settings.limits.body_timeout;
        let read = match read_whole(body, guard.request_body_limit, timeout, &self.shared.buffers).await {
            Ok(read) => read,
            Err(Unread { problem: problem @ Problem::BodyAborted { .. }, .. }) => {
                return Err(routed.client.exchange.broken().map_or(problem, Problem::from));
            }
            Err(Unread { problem, begun, rest }) => {
                let Some(verdict) = instead else { return Err(problem) };
                return Box::pin(self.pass(routed, head, Outgoing::Resumed { begun, rest }, verdict, tally)).await;
            }
        };
        let room = match (self.room(guard, &head, &read), instead) {
            (Some(room), _) => room,
            (None, Some(verdict)) => return self.pass_whole(routed, head, read, verdict, tally).await,
            (None, None) => return Err(Problem::Overloaded("buffered bodies")),
        };
        let request = Arc::new(routed.target.request(&mut head, read.bytes.clone(), caller));
        let arrival = match arrival(guarded.naming.identify_after(shown, Arc::clone(&request)), instead)? {
            Ok(arrival) => arrival,
            Err(verdict) => {
                head.headers = Arc::unwrap_or_clone(request).headers;
                return self.pass_whole(routed, head, read, verdict, tally).await;
            }
        };
        if guard.mode == Mode::Enforce {
            tally.named(arrival.operation);
        }
        let ruling = self.rule(guarded, routed.index, &arrival, tally).await;
        // A key that would give no right to act, were nothing known of it, has no better one while nobody can tell.
        let open = guard.store_failure == StoreFailure::Open && self.is_timely(guard, &arrival);
        drop((arrival, room));
        head.headers = Arc::unwrap_or_clone(request).headers;
        match ruling {
            Ok(Ruling::Act(permit)) => self.act(guarded, routed, head, read, permit, tally).await,
            Ok(Ruling::Unseen(permit)) => self.act(guarded, routed, head, read, permit, tally).await.map(unguarded),
            Ok(Ruling::Duplicate(duplicate, key)) => {
                match (self.told(guard, routed, (duplicate, key), &head), instead) {
                    (Ok(answer), None | Some(Verdict::Passed)) => Ok(answer),
                    (_, Some(verdict)) => self.pass_whole(routed, head, read, verdict, tally).await,
                    (Err(problem), None) => Err(problem),
                }
            }
            Err(problem) => match (problem, instead) {
                (_, Some(verdict)) => self.pass_whole(routed, head, read, verdict, tally).await,
                (Problem::StoreUnavailable, None) if open => {
                    self.pass_whole(routed, head, read, Verdict::Unguarded, tally).await.map(unguarded)
                }
                (problem, None) => Err(problem),
            },
        }
    }

    /// What a duplicate is told; it is counted.
    fn told(
        &self,
        guard: &Guard,
        routed: &Routed<'_>,
        taken: (Duplicate, Key),
        head: &request::Parts,
    ) -> Result<Answer, Problem> {
        routed.metrics.duplicate();
        if taken.1 == Key::Second {
            routed.metrics.also_refused();
        }
        let origin = headers::origin(&head.headers, routed.kinds);
        let told = tell(guard, taken, origin, &self.outlook(guard, routed.metrics));
        told.map(|response| (response, Verdict::Replayed))
    }

    /// Who sends it, and what its head shows, unless that alone shows that it is refused.
    async fn check_head<'a>(
        &self,
        guarded: &'a Guarded,
        routed: &Routed<'_>,
        head: &request::Parts,
    ) -> Result<(Caller, Head<'a>), Problem> {
        let parameters = routed.parameters.clone();
        let caller = self.caller(&guarded.guard, &head.headers, routed.client, routed.trusted, parameters).await?;
        let shown = guarded.naming.check_head(&head.headers, routed.kinds, head.uri.query(), &caller)?;
        Ok((caller, shown))
    }

    /// Asks the arbiter, and stands in line while the route says so. A doubt is asked about once, where the route does that.
    async fn rule(
        &self,
        guarded: &Guarded,
        index: usize,
        arrival: &Arrival,
        tally: &mut Tally,
    ) -> Result<Ruling, Problem> {
        let guard = &*guarded.guard;
        let waits = guard.in_flight == OnInFlight::Wait && guard.mode == Mode::Enforce;
        let mut queue = waits.then(|| Queue::new(guard.patience));
        let mut asks = guard.probing.is_some();
        loop {
            // Boxed: else every request's future would be moved about with room for it.
            let admitted = match Box::pin(self.arbiter.admit(arrival, &guarded.terms)).await {
                Ok(Admitted::Proceed(permit)) => return Ok(Ruling::Act(permit)),
                Ok(told) => told,
                Err(error) => Box::pin(self.admit_unseen(guarded, arrival, &error)).await?,
            };
            let (duplicate, key) = match admitted {
                Admitted::Proceed(permit) => return Ok(Ruling::Unseen(permit)),
                Admitted::Duplicate(duplicate) => (duplicate, Key::First),
                Admitted::Also(duplicate) => (duplicate, Key::Second),
                Admitted::Untimely(untimely) => return Err(untimely.into()),
            };
            let taken = match (key, &arrival.also) {
                (Key::Second, Some(also)) => also.operation,
                (Key::First | Key::Second, _) => arrival.operation,
            };
            if asks && matches!(duplicate, Duplicate::InDoubt { .. }) {
                asks = false;
                tally.if_left(Verdict::InDoubt);
                Box::pin(self.probe_taken(guarded, index, arrival, taken)).await;
                continue;
            }
            match queue.as_mut().filter(|queue| !queue.is_over()) {
                Some(queue) if matches!(duplicate, Duplicate::InFlight { .. }) => {
                    tally.if_left(Verdict::InFlight);
                    queue.wait(&self.arbiter.shared().lines, taken).await?;
                }
                _ => return Ok(Ruling::Duplicate(duplicate, key)),
            }
        }
    }

    /// The store has not answered. On a route that says so, what was surely not seen may act all the same.
    async fn admit_unseen(
        &self,
        guarded: &Guarded,
        arrival: &Arrival,
        error: &StoreError,
    ) -> Result<Admitted, Problem> {
        let away = matches!(error, StoreError::Unavailable(_)) && guarded.guard.mode == Mode::Enforce;
        if away && guarded.guard.store_failure == StoreFailure::OpenIfUnseen {
            let admitted = self.arbiter.admit_unseen(arrival, &guarded.terms).await;
            if let Some(admitted) = admitted.map_err(|error| refused(arrival, &error))? {
                return Ok(admitted);
            }
        }
        Err(refused(arrival, error))
    }

    /// Room for what the body may decode to: that counts as long as somebody may decode it.
    fn room(&self, guard: &Guard, head: &request::Parts, read: &Read) -> Option<Hold> {
        self.shared.buffers.take(guard.keys.decoded_limit(&head.headers, read.bytes.len()))
    }

    /// Whether the arrival's key gives a right to act at this moment, if nothing is known of it.
    fn is_timely(&self, guard: &Guard, arrival: &Arrival) -> bool {
        arrival.untimely(&guard.policy, self.arbiter.shared().clock.now_lately()).is_none()
    }

    /// Runs the operation. The attempt does not end with the client: it goes on by itself when that leaves, or has waited
    /// for as long as it may.
    async fn act(
        &self,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: request::Parts,
        read: Read,
        permit: Permit,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let slot = match self.shared.slots.take(routed.index) {
            Ok(slot) => slot,
            Err(what) => {
                if let Err(error) = permit.free().await {
                    tracing::error!(%error, "a key was not freed");
                }
                return Err(Problem::Overloaded(what));
            }
        };
        tally.if_left(Verdict::Executed);
        let marked = guarded.guard.marks();
        let (client, listener) = Pipe::new();
        let (upstream, upstream_metrics) = self.upstream(routed.route);
        let origin = headers::origin(&head.headers, routed.kinds).cloned();
        let (request, added) = self.guarded_request(guarded, routed, head, read.bytes, &permit);
        let attempt = Attempt {
            origin,
            request,
            upstream: Arc::clone(upstream),
            upstream_metrics: Arc::clone(upstream_metrics),
            guard: Arc::clone(&guarded.guard),
            route: Arc::clone(routed.metrics),
            metrics: Arc::clone(&self.shared.metrics),
            buffers: self.shared.buffers.clone(),
            marked,
            alarm: self.alarms.lend(),
            client,
            asker: Asker::of(routed, added),
            slot,
            body: read.hold,
            permit,
        };
        let attempt = Attended::new(attempt.run(), &self.arbiter.shared().tasks);
        let until = Clock::lately() + upstream.settings().response_timeout;
        match heard_of(attempt, listener, self.alarms.lend(), until).await {
            Ok(answer) => answer.map(|response| (response, Verdict::Executed)),
            // The permit that it dropped means doubt.
            Err(Unheard::Lost) => {
                let again = marked.then(|| again::in_doubt(guarded.guard.policy.in_doubt, Duration::ZERO));
                Err(Problem::UpstreamFailed { again })
            }
            Err(Unheard::Late) => {
                self.shared.metrics.timed_out(Timeout::Response);
                let outlook = self.outlook(&guarded.guard, routed.metrics);
                let running = upstream.settings().response_timeout;
                Err(Problem::UpstreamTimeout { again: marked.then(|| outlook.running_for(running)) })
            }
        }
    }

    fn guarded_request(
        &self,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: request::Parts,
        body: bytes::Bytes,
        permit: &Permit,
    ) -> (Request<Outgoing>, Added) {
        let (request, mut added) = self.outbound(routed, head, Outgoing::Whole(body));
        if guarded.guard.marks() {
            let claim = (guarded.guard.forwarded_key == ForwardedKey::Window).then(|| permit.attempt());
            let fields = request.headers();
            headers::mark_attempt(fields, &mut added, routed.kinds, permit.operation(), claim, permit.number());
        }
        (request, added)
    }

    async fn pass_whole(
        &self,
        routed: &Routed<'_>,
        head: request::Parts,
        read: Read,
        verdict: Verdict,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let Read { bytes, hold } = read;
        let answer = Box::pin(self.pass(routed, head, Outgoing::Whole(bytes), verdict, tally)).await;
        drop(hold);
        answer
    }
}

/// Why a client has no answer.
enum Unheard {
    /// There is none: the attempt has panicked.
    Lost,
    /// It waits no longer.
    Late,
}

/// Waits for an attempt's answer, and works on it meanwhile.
async fn heard_of(
    mut attempt: Attended<Option<Delivery>>,
    listener: Listener<Delivery>,
    mut alarm: Lent,
    until: Instant,
) -> Result<Delivery, Unheard> {
    poll_fn(|cx| {
        let ended = Pin::new(&mut attempt).poll(cx);
        if let Some(delivery) = listener.take() {
            return Poll::Ready(Ok(delivery));
        }
        match ended {
            Poll::Ready(Ok(Some(delivery))) => Poll::Ready(Ok(delivery)),
            Poll::Ready(Ok(None) | Err(Panicked)) => Poll::Ready(Err(Unheard::Lost)),
            Poll::Pending => alarm.poll_until(cx, until).map(|()| Err(Unheard::Late)),
        }
    })
    .await
}

impl Guard {
    /// What a request counts as that goes on although the guard would refuse it; none: it is refused.
    fn instead(&self) -> Option<Verdict> {
        match (self.mode, self.safe_methods) {
            (Mode::Shadow, _) => Some(Verdict::Shadowed),
            (Mode::Enforce, SafeMethods::Collapse) => Some(Verdict::Passed),
            (Mode::Enforce, SafeMethods::Pass | SafeMethods::Guard) => None,
        }
    }

    /// Whether the gateway says something of its own to the upstream, and to the first client.
    fn marks(&self) -> bool {
        self.instead().is_none()
    }
}

/// The operation's arrival, or what a request counts as that goes on without one.
fn arrival(named: Result<Named, Refusal>, instead: Option<Verdict>) -> Result<Result<Arrival, Verdict>, Problem> {
    match (named, instead) {
        (Ok(Named::Operation(arrival)), _) => Ok(Ok(arrival)),
        (Ok(Named::Unkeyed), _) => Ok(Err(Verdict::Passed)),
        (Err(_), Some(verdict)) => Ok(Err(verdict)),
        (Err(refusal), None) => Err(refusal.into()),
    }
}

/// The answer to a request that passed while the store was away.
fn unguarded((mut response, _): Answer) -> Answer {
    response.headers_mut().insert(marks::UNGUARDED, marks::STORE_UNAVAILABLE);
    (response, Verdict::Unguarded)
}

fn refused(arrival: &Arrival, error: &StoreError) -> Problem {
    tracing::warn!(operation = %arrival.operation.short(), %error, "not admitted");
    Problem::from(error)
}
