//! Requests that pass without a guard: streamed through in both directions, gone when the client leaves.

use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode, request};

use super::asker::Asker;
use super::body::Body;
use super::problem::Problem;
use super::tally::Tally;
use super::{Answer, Gateway, Routed, upgrade};
use crate::clock::Clock;
use crate::telemetry::{Timeout, Verdict};
use crate::upstream::{Failure, Incoming, Outgoing, Reason, Upstream, headers};
use crate::wire::{OnUpgrade, Unfinished, Upload};

/// Why there is no answer.
enum Missing {
    Failed(Failure),
    TimedOut(Timeout),
}

impl Gateway {
    /// Forwards a request as it is; `verdict` is what it counts as when the upstream answers.
    pub(super) async fn pass(
        &self,
        routed: &Routed<'_>,
        head: &mut request::Parts,
        mut body: Outgoing,
        verdict: Verdict,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        tally.if_left(verdict);
        routed.client.exchange.mind_end();
        let slot = self.shared.slots.take(&self.slots, routed.index).map_err(Problem::Overloaded)?;
        let (upstream, metrics) = self.upstream(routed.route);
        let wish = head.extensions.remove::<OnUpgrade>();
        let started = Clock::instant();
        let end = upstream.settings().total_timeout.map(|total| started + total);
        let upload = body.within(self.shared.settings.limits.upload_timeout);
        let (mut request, added) = self.outbound(routed, head, body);
        if wish.is_some() {
            upgrade::set(request.headers_mut());
        }
        let answer = exchange(upstream, &mut request, &Asker::of(routed, added), upload.as_ref(), end).await;
        metrics.answered(started.elapsed());
        match answer {
            Ok(response) => {
                let (mut head, mut body) = response.into_parts();
                headers::inbound(&mut head.headers);
                if let Some(end) = end {
                    body.until(end);
                }
                let body = match wish.filter(|_| head.status == StatusCode::SWITCHING_PROTOCOLS) {
                    Some(client) => {
                        let spelling = body.take_spelling();
                        self.tunnel(client, &mut head, (slot, body));
                        Body::empty().spelled(spelling)
                    }
                    None => Body::upstream(body, slot, &self.shared.metrics),
                };
                Ok((Response::from_parts(head, body), verdict))
            }
            Err(missing) => Err(self.failed(routed, missing, upload.and_then(|upload| upload.fault()))),
        }
    }

    /// What a client is told that gets no answer. Where its own body came to no end, that is the reason.
    fn failed(&self, routed: &Routed<'_>, missing: Missing, fault: Option<Unfinished>) -> Problem {
        let metrics = &self.shared.metrics;
        let forwarded = !matches!(missing, Missing::Failed(Failure::NotSent(_)));
        // What was sent of a body that broke off has no end, so the upstream has no request.
        if let Some(fault) = routed.client.exchange.broken() {
            return fault.into();
        }
        match (fault, missing) {
            (Some(Unfinished::Slow), _) => Problem::BodyTimeout { forwarded },
            (Some(Unfinished::Broken), _) => Problem::BodyAborted { forwarded },
            (None, Missing::Failed(Failure::NotSent(why))) => {
                if why.reason == Reason::Timeout {
                    metrics.timed_out(Timeout::UpstreamConnect);
                }
                Problem::UpstreamUnreachable { shortage: why.reason.is_shortage(), in_doubt: false }
            }
            (None, Missing::Failed(Failure::Unknown(why))) => {
                tracing::warn!(route = %routed.route.name, why, "upstream failed");
                Problem::UpstreamFailed { again: None }
            }
            (None, Missing::Failed(Failure::Late)) => {
                metrics.timed_out(Timeout::FirstByte);
                Problem::UpstreamTimeout { again: None }
            }
            (None, Missing::TimedOut(kind)) => {
                metrics.timed_out(kind);
                Problem::UpstreamTimeout { again: None }
            }
        }
    }
}

/// Sends the request, and waits for the head of its answer as long as its client may have to wait.
async fn exchange(
    upstream: &Upstream,
    request: &mut Request<Outgoing>,
    asker: &Asker,
    upload: Option<&Upload>,
    end: Option<Instant>,
) -> Result<Response<Incoming>, Missing> {
    tokio::select! {
        biased;
        answer = upstream.send_for(request, asker) => answer.map_err(Missing::Failed),
        () = overdue(upload, upstream.settings().response_timeout) => Err(Missing::TimedOut(Timeout::Response)),
        () = passed(end) => Err(Missing::TimedOut(Timeout::Total)),
    }
}

/// The time in which a client is still sending is its own.
async fn overdue(upload: Option<&Upload>, limit: Duration) {
    match upload {
        Some(upload) => upload.overdue(limit).await,
        None => tokio::time::sleep(limit).await,
    }
}

async fn passed(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}
