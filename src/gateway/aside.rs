//! The ways of a request on a guarded route that few requests come to, out of the way of all others: it goes on although the
//! guard would refuse it, or the right to act is given back. When that is so is decided on the guarded way.

use std::future::Future;
use std::pin::Pin;

use http::request;

use super::limits::Hold;
use super::problem::Problem;
use super::read::{Read, Unread};
use super::tally::Tally;
use super::{Answer, Gateway, Routed, marks};
use crate::arbiter::Permit;
use crate::boxed::in_box;
use crate::keys::{Named, Refusal};
use crate::telemetry::Verdict;
use crate::upstream::Outgoing;
use crate::wire::Client;

/// How a request goes on that a guard would refuse: its body, what that holds of the gateway's budget, and what it counts
/// as.
pub(super) type Instead = (Outgoing, Option<Hold>, Verdict);

/// Work that few requests come to.
type Aside<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A body that was read whole goes on so.
#[cold]
pub(super) fn whole(Read { bytes, hold }: Read, verdict: Verdict) -> Instead {
    (Outgoing::Whole(bytes), Some(hold), verdict)
}

/// What was read of a body that could not be read whole goes on, where requests do.
///
/// # Errors
/// Why the request does not.
#[cold]
pub(super) fn begun(unread: Unread, client: &Client, instead: Option<Verdict>) -> Result<Instead, Problem> {
    match (unread, instead) {
        (Unread { problem: problem @ Problem::BodyAborted { .. }, .. }, _) => {
            Err(client.exchange.broken().map_or(problem, Problem::from))
        }
        (Unread { begun, rest, .. }, Some(verdict)) => Ok((Outgoing::Resumed { begun, rest }, None, verdict)),
        (Unread { problem, .. }, None) => Err(problem),
    }
}

/// What a request goes on as that names no operation.
///
/// # Errors
/// Why it does not.
#[cold]
pub(super) fn unnamed(named: Result<Named<'_>, Refusal>, instead: Option<Verdict>) -> Result<Verdict, Problem> {
    match (named, instead) {
        (Ok(_), _) => Ok(Verdict::Passed),
        (Err(_), Some(verdict)) => Ok(verdict),
        (Err(refusal), None) => Err(refusal.into()),
    }
}

impl Gateway {
    /// Passes a request on that the guard would refuse.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_instead<'a>(
        &'a self,
        routed: &'a Routed<'_>,
        head: &'a mut request::Parts,
        (body, hold, verdict): Instead,
        tally: &'a mut Tally,
    ) -> Aside<'a, Result<Answer, Problem>> {
        in_box(|| async move {
            let answer = self.pass(routed, head, body, verdict, tally).await;
            drop(hold);
            if verdict == Verdict::Unguarded { answer.map(unguarded) } else { answer }
        })
    }
}

/// The answer to a request that passed while the store was away.
pub(super) fn unguarded((mut response, _): Answer) -> Answer {
    response.headers_mut().insert(marks::UNGUARDED, marks::STORE_UNAVAILABLE);
    (response, Verdict::Unguarded)
}

/// The right to act is given back where there are too many of something. By the time that its client is told so, the request
/// must hold nothing.
#[cold]
#[inline(never)]
pub(super) fn given_back(permit: Permit, what: &'static str) -> Aside<'static, Problem> {
    Box::pin(async move {
        if let Err(error) = permit.free().await {
            tracing::error!(%error, "a key was not freed");
        }
        Problem::Overloaded(what)
    })
}
