//! Reading a request's body whole, within bounds of bytes and time.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::body::Gathered;
use super::limits::{Budget, Hold};
use super::problem::Problem;
use crate::wire::{Inbound, InboundError};

/// A body read whole, and the bytes that it holds of the gateway's budget.
pub(super) struct Read {
    pub bytes: Bytes,
    pub hold: Hold,
}

/// A body that could not be read whole: why, and what there is of it, for routes that pass it on all the same.
pub(super) struct Unread {
    pub problem: Problem,
    pub begun: Bytes,
    pub rest: Inbound,
}

/// Reads a request's body whole: at most `limit` bytes, within `timeout`, within the gateway's budget.
pub(super) async fn read_whole(
    mut body: Inbound,
    limit: usize,
    timeout: Duration,
    budget: &Budget,
) -> Result<Read, Unread> {
    let announced = body.size_hint().exact();
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(Unread { problem: Problem::BodyTooLarge { limit }, begun: Bytes::new(), rest: body });
    }
    let mut gathered = Gathered::of(&body.size_hint());
    let mut hold = budget.hold();
    body.within(timeout);
    match fill(&mut gathered, &mut body, limit, &mut hold).await {
        Ok(()) => Ok(Read { bytes: gathered.into_bytes(), hold }),
        Err(problem) => Err(Unread { problem, begun: gathered.into_bytes(), rest: body }),
    }
}

async fn fill(gathered: &mut Gathered, body: &mut Inbound, limit: usize, hold: &mut Hold) -> Result<(), Problem> {
    while let Some(frame) = body.frame().await {
        // Trailers carry nothing that a key or a fingerprint looks at, and are not passed on.
        let Ok(bytes) = frame.map_err(|error| unfinished(&error))?.into_data() else { continue };
        gathered.push(bytes);
        let fits = hold.cover(gathered.held());
        if gathered.len() > limit {
            return Err(Problem::BodyTooLarge { limit });
        }
        if !fits {
            return Err(Problem::Overloaded("buffered bodies"));
        }
    }
    Ok(())
}

fn unfinished(error: &InboundError) -> Problem {
    match error {
        InboundError::Slow => Problem::BodyTimeout { forwarded: false },
        InboundError::Broken(_) => Problem::BodyAborted { forwarded: false },
    }
}
