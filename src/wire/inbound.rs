//! A request's body as it comes from its client, within bounds of time. How large it may be is for its readers to say.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{Feed, Lapse, Patience, Turn, Unfinished, Upload};
use crate::clock::Clock;
use crate::telemetry::{Metrics, Timeout};

/// A request's body.
#[derive(Debug)]
pub struct Inbound(Kind);

#[derive(Debug)]
enum Kind {
    /// All of it, if nobody took it yet.
    Whole(Bytes),
    /// Some of it is still on its way. In a box, since requests are handed on by value.
    Coming(Box<Coming>),
}

#[derive(Debug)]
struct Coming {
    source: Source,
    patience: Patience,
    /// Who counts a client that is too slow.
    metrics: Arc<Metrics>,
    upload: Option<Upload>,
    ended: bool,
}

#[derive(Debug)]
enum Source {
    Http1(Feed),
    /// With its connection's turn, for as long as the body lasts.
    Http2(Incoming, Option<Turn>),
}

/// Why a body came to no end.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    /// The client took too long.
    #[error("the client's body did not come in time")]
    Slow,
    /// The client left, or sent what is no body.
    #[error("the client's body broke off: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Inbound {
    /// A body that came with its head.
    pub fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(bytes))
    }

    /// A body that comes piece by piece, whose client may be silent for `idle`.
    pub fn fed(feed: Feed, idle: Duration, metrics: &Arc<Metrics>) -> Self {
        Self::coming(Source::Http1(feed), idle, metrics)
    }

    /// The same over HTTP/2.
    pub fn http2(turn: &Turn, body: Incoming, idle: Duration, metrics: &Arc<Metrics>) -> Self {
        if body.is_end_stream() {
            return Self::whole(Bytes::new());
        }
        Self::coming(Source::Http2(body, Some(turn.clone())), idle, metrics)
    }

    fn coming(source: Source, idle: Duration, metrics: &Arc<Metrics>) -> Self {
        let mut patience = Patience::default();
        patience.between_bytes(Some(idle));
        let metrics = Arc::clone(metrics);
        Self(Kind::Coming(Box::new(Coming { source, patience, metrics, upload: None, ended: false })))
    }

    /// All of it must be there this long from now.
    pub fn within(&mut self, total: Duration) {
        if let Kind::Coming(coming) = &mut self.0 {
            coming.patience.in_all(Clock::lately() + total);
        }
    }

    /// Its progress, for one who waits for what it leads to; none when all of it is there.
    pub fn follow(&mut self) -> Option<Upload> {
        match &mut self.0 {
            Kind::Coming(coming) if !coming.ended => Some(coming.upload.get_or_insert_with(Upload::new).clone()),
            Kind::Whole(_) | Kind::Coming(_) => None,
        }
    }

    /// Its progress, if somebody follows it.
    pub fn upload(&self) -> Option<&Upload> {
        match &self.0 {
            Kind::Whole(_) => None,
            Kind::Coming(coming) => coming.upload.as_ref(),
        }
    }
}

impl Coming {
    fn note(&self, note: impl FnOnce(&Upload)) {
        if let Some(upload) = &self.upload {
            note(upload);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        if let Source::Http2(_, turn) = &mut self.source {
            *turn = None;
        }
    }

    fn lapsed(&self, lapse: Lapse) -> InboundError {
        self.metrics.timed_out(match lapse {
            Lapse::Idle => Timeout::BodyIdle,
            Lapse::Total => Timeout::BodyTotal,
        });
        self.note(|upload| upload.failed(Unfinished::Slow));
        InboundError::Slow
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        match self.source.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Err(lapse) = self.patience.moved() {
                    return Poll::Ready(Some(Err(self.lapsed(lapse))));
                }
                self.note(Upload::handed_on);
                if self.source.is_at_end() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.note(Upload::handed_on);
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.note(|upload| upload.failed(Unfinished::Broken));
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => {
                let lapse = self.patience.poll_lapse(cx);
                if lapse.is_pending() {
                    self.note(Upload::awaited);
                }
                lapse.map(|lapse| Some(Err(self.lapsed(lapse))))
            }
        }
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        match self {
            Self::Http1(feed) => feed
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(|cut| InboundError::Broken(cut.into())))),
            Self::Http2(body, _) => Pin::new(body).poll_frame(cx).map_err(|error| InboundError::Broken(error.into())),
        }
    }

    fn is_at_end(&self) -> bool {
        match self {
            Self::Http1(feed) => feed.left() == Some(0),
            Self::Http2(body, _) => body.is_end_stream(),
        }
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = InboundError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Coming(coming) => coming.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Coming(coming) => coming.source.is_at_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Kind::Coming(coming) => match &coming.source {
                Source::Http1(feed) => feed.left().map_or_else(SizeHint::default, SizeHint::with_exact),
                Source::Http2(body, _) => body.size_hint(),
            },
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Source::Http2(_, Some(turn)) = &self.source {
            turn.leaves_unread();
        }
    }
}
