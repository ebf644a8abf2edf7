//! Asking the upstream about operations in doubt. When that is done is kept in the arbiter; what an answer means is the
//! rules' matter.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::body::{Gathered, count};
use super::limits::{Budget, Hold, Slot};
use super::settings::{Guard, Probing};
use super::{Gateway, Guarded};
use crate::arbiter::{Arbiter, Asking, Probes, Resolved, Terms, Turn};
use crate::clock::Clock;
use crate::machine::{Answer, Arrival, Finding, NamespaceTag, OperationId, Probe, Record, Recorded, Witness, probed};
use crate::store::StoreError;
use crate::telemetry::{AUDIT, Metrics, ProbeFinding, UpstreamMetrics};
use crate::upstream::{Outgoing, Upstream, headers};

/// How long asking is put off while the store does not answer, or no request has a place.
const PUT_OFF: Duration = Duration::from_secs(5);
/// How long duplicates of an operation that cannot be asked about are not looked at again.
const HOPELESS: Duration = Duration::from_hours(1);

/// Everything that asking needs; nothing of a client's connection.
struct Prober {
    arbiter: Arc<Arbiter>,
    upstream: Arc<Upstream>,
    upstream_metrics: Arc<UpstreamMetrics>,
    guard: Arc<Guard>,
    terms: Arc<Terms>,
    metrics: Arc<Metrics>,
    buffers: Budget,
    /// Its place among the requests under way.
    _slot: Slot,
}

/// What became of one asking.
enum Asked {
    /// The operation is in doubt no more.
    Ended,
    /// It still is.
    Open(Box<Record>),
    /// It is, and cannot be asked about.
    Hopeless,
    /// The store does not say.
    PutOff(StoreError),
}

impl Gateway {
    /// Begins to ask about the doubts whose time has come; one step of a background task. Each ends by itself: an upstream
    /// that is silent holds up nobody else's.
    pub fn probe_due(&self) -> impl Iterator<Item = impl Future<Output = ()> + use<>> + use<> {
        let due = Probes::due(self.arbiter.shared());
        let begin = |(namespace, asking): (_, Asking)| {
            let route = self.shared.probed.get(&namespace);
            if let Some((prober, probing)) = route.and_then(|index| self.prober(*index)) {
                return Some(prober.run(asking, probing));
            }
            // Its route is gone or asks no more; or all places for requests are taken.
            let now = self.arbiter.shared().clock.now();
            asking.end(route.map(|_| now.plus(PUT_OFF)), now);
            None
        };
        due.into_iter().filter_map(begin).collect::<Vec<_>>().into_iter()
    }

    /// Asks about the doubt that a duplicate has met. Of two operations that were held together it is the first that the
    /// upstream knows, and its answer settles both.
    pub(super) async fn probe_taken(&self, guarded: &Guarded, index: usize, arrival: &Arrival<'_>, taken: OperationId) {
        if taken == arrival.operation {
            return self.probe_now(guarded, index, taken, arrival.namespace).await;
        }
        match self.arbiter.holder(&taken).await {
            Ok(Some((holder, namespace))) if namespace == arrival.namespace => {
                self.probe_now(guarded, index, holder, namespace).await;
            }
            // Of another route's operation this one's upstream knows nothing.
            Ok(_) => {}
            Err(error) => tracing::debug!(operation = %taken.short(), %error, "not probed: the store is away"),
        }
    }

    /// Asks about a doubt because a duplicate does, or waits for whoever does already.
    async fn probe_now(&self, guarded: &Guarded, index: usize, id: OperationId, namespace: NamespaceTag) {
        let shared = self.arbiter.shared();
        if guarded.guard.probing.is_none() {
            return;
        }
        let Some(_place) = shared.lines.join(id) else { return };
        let waiting = match Probes::turn(shared, id, namespace) {
            Turn::Leave => return,
            Turn::Wait(waiting) => waiting,
            Turn::Ask(asking, waiting) => {
                let Some((prober, probing)) = self.prober(index) else { return };
                // A task of its own: the others that wait want its end, whether this client stays or leaves.
                shared.tasks.spawn(prober.run(asking, probing));
                waiting
            }
        };
        let patience = self.upstream(&self.shared.settings.routes[index]).0.settings().response_timeout;
        // When it is over, the store knows.
        let _ = tokio::time::timeout(patience, waiting.over()).await;
    }

    fn prober(&self, index: usize) -> Option<(Prober, Probing)> {
        let guarded = self.guards[index].as_ref()?;
        let probing = guarded.guard.probing.clone()?;
        let (upstream, upstream_metrics) = self.upstream(&self.shared.settings.routes[index]);
        let prober = Prober {
            arbiter: Arc::clone(&self.arbiter),
            upstream: Arc::clone(upstream),
            upstream_metrics: Arc::clone(upstream_metrics),
            guard: Arc::clone(&guarded.guard),
            terms: Arc::clone(&guarded.terms),
            metrics: Arc::clone(&self.shared.metrics),
            buffers: self.buffers.clone(),
            _slot: self.shared.slots.take(&self.slots, index).ok()?,
        };
        Some((prober, probing))
    }
}

impl Prober {
    async fn run(self, asking: Asking, probing: Probing) {
        let shared = Arc::clone(self.arbiter.shared());
        let asked = tokio::select! {
            asked = self.ask(asking.operation(), probing.timeout) => asked,
            () = shared.given_up.cancelled() => return,
        };
        let now = shared.clock.now();
        match asked {
            Asked::Ended => asking.end(None, now),
            Asked::Open(doubt) => asking.end(self.terms.next_probe(&doubt, now), now.plus(probing.interval)),
            Asked::Hopeless => asking.end(None, now.plus(HOPELESS)),
            Asked::PutOff(error) => {
                tracing::debug!(operation = %asking.operation().short(), %error, "not probed: the store is away");
                asking.end(Some(now.plus(PUT_OFF)), now);
            }
        }
    }

    async fn ask(&self, id: &OperationId, timeout: Duration) -> Asked {
        let doubt = match self.arbiter.doubt(id, &self.terms.policy).await {
            Ok(Some(doubt)) => doubt,
            Ok(None) => return Asked::Ended,
            Err(error) => return Asked::PutOff(error),
        };
        let Some(probe) = &doubt.probe else { return Asked::Hopeless };
        let asked = self.arbiter.shared().clock.now();
        let told = tokio::time::timeout(timeout, self.exchange(id, probe)).await;
        let told = told.unwrap_or_else(|_elapsed| Err(format!("no whole answer within {timeout:?}")));
        let finding = told.as_ref().map_or(&Finding::Unknown, |(finding, _)| finding);
        let ending = probed(&doubt, finding, &self.terms.policy, asked);
        let counted = match (finding, &ending) {
            (Finding::Executed(_), _) => ProbeFinding::Executed,
            (Finding::Absent, Some(_)) => ProbeFinding::Absent,
            (Finding::Absent, None) => ProbeFinding::Early,
            (Finding::Unknown, _) if told.is_ok() => ProbeFinding::Unknown,
            (Finding::Unknown, _) => ProbeFinding::Failed,
        };
        self.terms.route.probed(counted);
        let why = told.as_ref().err();
        tracing::debug!(operation = %id.short(), finding = counted.label(), why, "the upstream was asked");
        let Some(ending) = ending else { return Asked::Open(Box::new(doubt)) };
        match self.arbiter.resolve(id, &doubt, &ending, &self.terms).await {
            Ok(Resolved::Done(_)) => {
                self.audit(id, &doubt, finding, "written");
                Asked::Ended
            }
            // Whoever was first is right: a late answer, an operator, another gateway.
            Ok(Resolved::NotInDoubt(_)) => Asked::Ended,
            Err(error) => {
                // The store may have carried it out all the same.
                self.audit(id, &doubt, finding, "unconfirmed");
                Asked::PutOff(error)
            }
        }
    }

    fn audit(&self, id: &OperationId, doubt: &Record, finding: &Finding, result: &str) {
        tracing::info!(
            target: AUDIT,
            operation = %id,
            route = self.terms.route.name(),
            attempt = doubt.number,
            attempt_id = %doubt.fence.attempt,
            outcome = if matches!(finding, Finding::Executed(_)) { "executed" } else { "not-executed" },
            result,
            "doubt ended by a probe"
        );
    }

    /// What the upstream says, and what that holds of the gateway's budget; or why it says nothing.
    async fn exchange(&self, id: &OperationId, probe: &Probe) -> Result<(Finding, Hold), String> {
        let started = Clock::instant();
        let answer = self.upstream.send(question(id, probe)?).await;
        self.upstream_metrics.answered(started.elapsed());
        let (mut head, mut body) = answer.map_err(|failure| failure.to_string())?.into_parts();
        headers::inbound(&mut head.headers);
        let mut gathered = Gathered::of(&body.size_hint());
        let mut hold = self.buffers.hold();
        let mut fits = true;
        while let Some(frame) = body.frame().await {
            let frame = frame.inspect_err(|error| count(error, &self.metrics)).map_err(|error| error.to_string())?;
            let Ok(bytes) = frame.into_data() else { continue };
            gathered.push(bytes);
            fits = gathered.len() <= self.guard.response_body_limit && hold.cover(gathered.held());
            if !fits {
                break;
            }
        }
        let finding = match head.status {
            StatusCode::OK if fits => {
                let kept = headers::replayable(&head.headers, &self.guard.allow_headers, None);
                let answer = Recorded::new(200, kept, &gathered.into_bytes());
                Finding::Executed(Answer::Told { by: Witness::Probe, answer })
            }
            StatusCode::OK => {
                let location = head.headers.get(LOCATION).map(|value| Bytes::copy_from_slice(value.as_bytes()));
                Finding::Executed(Answer::TooLarge { status: 200, location })
            }
            StatusCode::NOT_FOUND => Finding::Absent,
            _ => Finding::Unknown,
        };
        Ok((finding, hold))
    }
}

fn question(id: &OperationId, probe: &Probe) -> Result<Request<Outgoing>, String> {
    let mut request = Request::new(Outgoing::Whole(Bytes::new()));
    *request.uri_mut() = Uri::try_from(&probe.target[..]).map_err(|error| error.to_string())?;
    *request.headers_mut() = headers::of_probe(&probe.headers, id).ok_or("the record's probe has no fields")?;
    Ok(request)
}
