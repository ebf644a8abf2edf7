//! Requests that pass without a guard: streamed through in both directions, gone when the client leaves.

use http::{Response, request};

use super::body::Body;
use super::problem::Problem;
use super::tally::Tally;
use super::{Answer, Gateway, Routed};
use crate::clock::Clock;
use crate::telemetry::Verdict;
use crate::upstream::{Failure, Outgoing, headers};

impl Gateway {
    /// Forwards a request as it is; `verdict` is what it counts as when the upstream answers.
    pub(super) async fn pass(
        &self,
        routed: &Routed<'_>,
        head: request::Parts,
        body: Outgoing,
        verdict: Verdict,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        tally.if_left(verdict);
        let slot = self.shared.slots.take(1).ok_or(Problem::Overloaded("requests under way"))?;
        let (upstream, metrics) = self.upstream(routed.route);
        let request = self.outbound(routed, head, body);
        let started = Clock::instant();
        let answer = tokio::time::timeout(upstream.settings().response_timeout, upstream.send(request)).await;
        metrics.answered(started.elapsed());
        match answer {
            Ok(Ok(response)) => {
                let (mut head, body) = response.into_parts();
                headers::inbound(&mut head.headers);
                Ok((Response::from_parts(head, Body::upstream(body, slot)), verdict))
            }
            Ok(Err(Failure::NotSent(why))) => {
                Err(Problem::UpstreamUnreachable { shortage: why.reason.is_shortage(), in_doubt: false })
            }
            Ok(Err(Failure::Unknown(why))) => {
                tracing::warn!(route = %routed.route.name, why, "upstream failed");
                Err(Problem::UpstreamFailed { guarded: false })
            }
            Err(_elapsed) => Err(Problem::UpstreamTimeout { guarded: false }),
        }
    }
}
