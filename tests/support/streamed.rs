//! A request's body of unknown length that streams in, as a client's does. Nobody sends it over a wire.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use oncegate::telemetry::Metrics;
use oncegate::upstream::Outgoing;
use oncegate::wire::{Cut, Inbound, feed};

/// A body of these pieces, each of which comes when it is asked for, and this end.
pub(crate) fn streamed(pieces: &'static [&'static [u8]], end: Result<(), Cut>) -> Outgoing {
    let (feeder, feed) = feed(None);
    tokio::spawn(async move {
        for piece in pieces {
            poll_fn(|cx| feeder.poll_asked(cx)).await;
            poll_fn(|cx| {
                feeder.give(Bytes::from_static(piece), cx);
                Poll::Ready(())
            })
            .await;
        }
        feeder.end(end, &Context::from_waker(Waker::noop()));
    });
    let body = Inbound::fed(feed, Duration::from_mins(1), &Arc::new(Metrics::new().unwrap()));
    assert_eq!(body.size_hint().exact(), None);
    Outgoing::Streaming(body)
}
