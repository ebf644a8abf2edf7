//! Requests that pass without a guard: streamed through in both directions, gone when the client leaves.

use http::{Response, StatusCode, request};
use hyper::upgrade::OnUpgrade;

use super::body::Body;
use super::problem::Problem;
use super::tally::Tally;
use super::{Answer, Gateway, Routed, upgrade};
use crate::clock::Clock;
use crate::telemetry::Verdict;
use crate::upstream::{Failure, Outgoing, headers};

impl Gateway {
    /// Forwards a request as it is; `verdict` is what it counts as when the upstream answers.
    pub(super) async fn pass(
        &self,
        routed: &Routed<'_>,
        mut head: request::Parts,
        body: Outgoing,
        verdict: Verdict,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        tally.if_left(verdict);
        routed.client.exchange.mind_end();
        let slot = self.shared.slots.take(1).ok_or(Problem::Overloaded("requests under way"))?;
        let upstream = self.upstream(routed.route);
        let wish = head.extensions.remove::<OnUpgrade>();
        let mut request = self.outbound(routed, head, body);
        if wish.is_some() {
            upgrade::set(request.headers_mut());
        }
        let started = Clock::instant();
        let answer = tokio::time::timeout(upstream.settings().response_timeout, upstream.send(request)).await;
        self.shared.metrics.upstream_answered(routed.route.upstream, started.elapsed());
        match answer {
            Ok(Ok(response)) => {
                let (mut head, body) = response.into_parts();
                headers::inbound(&mut head.headers);
                let body = match wish.filter(|_| head.status == StatusCode::SWITCHING_PROTOCOLS) {
                    Some(client) => {
                        self.tunnel(client, &mut head, slot);
                        Body::empty()
                    }
                    None => Body::upstream(body, slot),
                };
                Ok((Response::from_parts(head, body), verdict))
            }
            // The client's own body broke off; what was sent of it has no end, so the upstream has no request.
            Ok(Err(_)) if let Some(fault) = routed.client.exchange.broken() => Err(fault.into()),
            Ok(Err(Failure::NotSent(_))) => Err(Problem::UpstreamUnreachable { in_doubt: false }),
            Ok(Err(Failure::Unknown(why))) => {
                tracing::warn!(route = %routed.route.name, why, "upstream failed");
                Err(Problem::UpstreamFailed { guarded: false })
            }
            Err(_elapsed) => Err(Problem::UpstreamTimeout { guarded: false }),
        }
    }
}
