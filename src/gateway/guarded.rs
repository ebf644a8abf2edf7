//! A request on a guarded route: name the operation, ask the arbiter, then run, wait, replay or refuse.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, request};

use super::again;
use super::aside::{Instead, begun, given_back, unguarded, unnamed, whole};
use super::asker::Asker;
use super::attempt::{Attempt, Delivery};
use super::attended::{Attended, Listener, Panicked, Pipe};
use super::body::takes_lines;
use super::duplicate::{Hearer, Key, tell};
use super::limits::Hold;
use super::problem::Problem;
use super::queue::Queue;
use super::read::{Read, read_whole};
use super::settings::{ForwardedKey, Guard, Mode, OnInFlight, SafeMethods, StoreFailure};
use super::tally::Tally;
use super::{Answer, Gateway, Guarded, Routed};
use crate::arbiter::{Admitted, Permit};
use crate::clock::Clock;
use crate::keys::{self, Caller, Head, Named};
use crate::machine::{Arrival, Duplicate, Salt};
use crate::store::StoreError;
use crate::telemetry::{Timeout, Verdict};
use crate::upstream::Outgoing;
use crate::upstream::headers::{self, Added};
use crate::wire::{Inbound, Lent};

/// What the arbiter's answer leads to.
enum Ruling {
    Act {
        permit: Permit,
        /// Not where the store is away, and it may act all the same.
        seen: bool,
    },
    Duplicate(Duplicate, Key),
}

impl Gateway {
    pub(super) async fn guarded(
        self: &Arc<Self>,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: &mut request::Parts,
        body: Inbound,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let guard = &*guarded.guard;
        let instead = guard.instead();
        let goes_on: Instead = 'instead: {
            let (caller, shown) = match self.check_head(guarded, routed, head).await {
                Ok(checked) => checked,
                Err(refusal) => {
                    let verdict = instead.ok_or(refusal)?;
                    break 'instead (Outgoing::Streaming(body), None, verdict);
                }
            };
            tally.if_left(Verdict::BodyAborted);
            let timeout = self.shared.settings.limits.body_timeout;
            let read = match read_whole(body, guard.request_body_limit, timeout, &self.buffers).await {
                Ok(read) => read,
                Err(unread) => break 'instead begun(unread, routed.client, instead)?,
            };
            let Some(room) = self.room(guard, head, &read) else {
                break 'instead whole(read, instead.ok_or(Problem::Overloaded("buffered bodies"))?);
            };
            let request = routed.target.request(head, read.bytes.clone(), caller);
            let salt = Salt(rand::random::<u64>().to_be_bytes());
            let arrival = match guarded.naming.identify_after(shown, &request, salt) {
                Ok(Named::Operation(arrival)) => arrival,
                named => {
                    let verdict = unnamed(named, instead)?;
                    head.headers = fields_of(request);
                    break 'instead whole(read, verdict);
                }
            };
            if guard.mode == Mode::Enforce {
                tally.named(arrival.operation);
            }
            let ruling = self.rule(guarded, routed.index, &arrival, tally).await;
            // A key that would give no right to act, were nothing known of it, has no better one while nobody can tell.
            let open = guard.store_failure == StoreFailure::Open && self.is_timely(guard, &arrival);
            drop(arrival);
            drop(room);
            head.headers = fields_of(request);
            let verdict = match ruling {
                Ok(Ruling::Act { permit, seen }) => {
                    let answer = self.act(guarded, routed, head, read, permit, tally).await;
                    return if seen { answer } else { answer.map(unguarded) };
                }
                Ok(Ruling::Duplicate(duplicate, key)) => {
                    let told = self.told(guard, routed, (duplicate, key), head);
                    match instead {
                        Some(verdict) if verdict != Verdict::Passed || told.is_err() => verdict,
                        _ => return told,
                    }
                }
                Err(problem) => {
                    let passes = open && problem == Problem::StoreUnavailable;
                    instead.or(passes.then_some(Verdict::Unguarded)).ok_or(problem)?
                }
            };
            whole(read, verdict)
        };
        self.pass_instead(routed, head, goes_on, tally).await
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
        let hearer = Hearer { origin, takes_lines: takes_lines(head.version) };
        let told = tell(guard, taken, hearer, &self.outlook(guard, routed.metrics));
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
        arrival: &Arrival<'_>,
        tally: &mut Tally,
    ) -> Result<Ruling, Problem> {
        let guard = &*guarded.guard;
        let waits = guard.in_flight == OnInFlight::Wait && guard.mode == Mode::Enforce;
        let mut queue = waits.then(|| Queue::new(guard.patience));
        let mut asks = guard.probing.is_some();
        loop {
            let admitted = match self.arbiter.admit(arrival, &guarded.terms).await {
                Ok(Admitted::Proceed(permit)) => return Ok(Ruling::Act { permit, seen: true }),
                Ok(told) => told,
                Err(error) => Box::pin(self.admit_unseen(guarded, arrival, &error)).await?,
            };
            let (duplicate, key) = match admitted {
                Admitted::Proceed(permit) => return Ok(Ruling::Act { permit, seen: false }),
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
                    Box::pin(queue.wait(&self.arbiter.shared().lines, taken)).await?;
                }
                _ => return Ok(Ruling::Duplicate(duplicate, key)),
            }
        }
    }

    /// The store has not answered. On a route that says so, what was surely not seen may act all the same.
    async fn admit_unseen(
        &self,
        guarded: &Guarded,
        arrival: &Arrival<'_>,
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
        self.buffers.take(guard.keys.decoded_limit(&head.headers, read.bytes.len()))
    }

    /// Whether the arrival's key gives a right to act at this moment, if nothing is known of it.
    fn is_timely(&self, guard: &Guard, arrival: &Arrival<'_>) -> bool {
        arrival.untimely(&guard.policy, self.arbiter.shared().clock.now_lately()).is_none()
    }

    /// Runs the operation. The attempt does not end with the client: it goes on by itself when that leaves, or has waited
    /// for as long as it may.
    async fn act(
        self: &Arc<Self>,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: &mut request::Parts,
        read: Read,
        permit: Permit,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let slot = match self.shared.slots.take(&self.slots, routed.index) {
            Ok(slot) => slot,
            Err(what) => return Err(given_back(permit, what).await),
        };
        tally.if_left(Verdict::Executed);
        let marked = guarded.guard.marks();
        let (client, listener) = Pipe::new();
        let origin = headers::origin(&head.headers, routed.kinds).cloned();
        let (request, added) = self.guarded_request(guarded, routed, head, read.bytes, &permit);
        let attempt = || Attempt {
            gateway: Arc::clone(self),
            route: routed.index,
            guard: Arc::clone(&guarded.guard),
            origin,
            request,
            marked,
            alarm: self.alarms.lend(),
            client,
            asker: Asker::of(routed, added),
            slot,
            body: read.hold,
            permit,
        };
        let attempt = Attended::new(|| attempt().run(), &self.attempts);
        let patience = self.upstream(routed.route).0.settings().response_timeout;
        let until = Clock::lately() + patience;
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
                Err(Problem::UpstreamTimeout { again: marked.then(|| outlook.running_for(patience)) })
            }
        }
    }

    fn guarded_request(
        &self,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: &mut request::Parts,
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
}

/// The request's fields, which its names were found in. The rest of it ends here.
fn fields_of(request: keys::Request) -> HeaderMap {
    request.headers
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
    mut attempt: Attended<'_, Option<Delivery>>,
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

fn refused(arrival: &Arrival<'_>, error: &StoreError) -> Problem {
    tracing::warn!(operation = %arrival.operation.short(), %error, "not admitted");
    Problem::from(error)
}
