//! Bodies on their way: a request's outwards, an answer's inwards. An answer's body owns what it comes on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;
use super::http2;
use super::received::Received;
use super::run::Run;
use crate::wire::heads::Spelling;
use crate::wire::{Inbound, InboundError, Patience, Upload};

/// A request's body.
#[derive(Debug)]
pub enum Outgoing {
    /// All of it, in one piece.
    Whole(Bytes),
    /// As the client sends it.
    Streaming(Inbound),
    /// What was read of it before it was decided to stream, and the rest as the client sends it.
    Resumed {
        /// The bytes read so far.
        begun: Bytes,
        /// What is still to come.
        rest: Inbound,
    },
}

impl Outgoing {
    /// The part that its client is still sending.
    fn inbound(&self) -> Option<&Inbound> {
        match self {
            Self::Whole(_) => None,
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => Some(body),
        }
    }

    /// Gives its client this long for the rest of it. Its progress, if there is a rest.
    pub fn within(&mut self, total: Duration) -> Option<Upload> {
        match self {
            Self::Whole(_) => None,
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => {
                body.within(total);
                body.follow()
            }
        }
    }

    /// Its progress, if somebody follows it.
    pub(super) fn upload(&self) -> Option<Upload> {
        self.inbound()?.upload().cloned()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = InboundError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Resumed { begun, .. } if !begun.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(begun)))))
            }
            Self::Streaming(body) | Self::Resumed { rest: body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Streaming(body) => body.is_end_stream(),
            Self::Resumed { begun, rest } => begun.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = |bytes: &Bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(length(bytes)),
            Self::Streaming(body) => body.size_hint(),
            Self::Resumed { begun, rest } => match rest.size_hint().exact() {
                Some(left) => SizeHint::with_exact(left.saturating_add(length(begun))),
                None => SizeHint::default(),
            },
        }
    }
}

/// An answer's body. A body that is cut short ends in an error, never in an end.
#[derive(Debug)]
pub struct Incoming {
    source: Source,
    /// The request's stay at its server, until the body has ended. In a box, since answers are handed on by value.
    run: Option<Box<Run>>,
    /// None without a limit of time.
    patience: Option<Box<Patience>>,
    /// How the fields were spelled that it came with, if that is kept.
    spelling: Option<Spelling>,
}

#[derive(Debug)]
enum Source {
    Http1(Received),
    Http2(http2::Body),
    Upgraded,
}

impl Incoming {
    pub(super) fn http1(body: Received) -> Self {
        Self { source: Source::Http1(body), run: None, patience: None, spelling: None }
    }

    pub(super) fn http2(body: http2::Body) -> Self {
        Self { source: Source::Http2(body), run: None, patience: None, spelling: None }
    }

    /// None: the connection speaks another protocol from here on. What it holds is held for as long as that lasts.
    pub(super) fn upgraded() -> Self {
        Self { source: Source::Upgraded, run: None, patience: None, spelling: None }
    }

    /// The same, whose head was spelled so.
    pub(super) fn spelled(self, spelling: Option<Spelling>) -> Self {
        Self { spelling, ..self }
    }

    /// How the fields were spelled that it came with, for whoever passes them on.
    pub fn take_spelling(&mut self) -> Option<Spelling> {
        self.spelling.take()
    }

    /// The same, with so much patience between two bytes.
    pub(super) fn patient(mut self, idle: Option<Duration>) -> Self {
        if idle.is_some() && !self.is_here() {
            self.patience.get_or_insert_default().between_bytes(idle);
        }
        self
    }

    /// The same; its end is the end of this stay.
    pub(super) fn during(mut self, run: Run) -> Self {
        if self.is_here() {
            run.succeeded();
        } else {
            self.run = Some(Box::new(run));
        }
        self
    }

    /// Whether all of it is here, and nothing is waited for.
    fn is_here(&self) -> bool {
        match &self.source {
            Source::Http1(body) => body.is_here(),
            Source::Http2(body) => body.is_end_stream(),
            Source::Upgraded => false,
        }
    }

    /// It must have come whole by then.
    pub fn until(&mut self, end: Instant) {
        if self.is_here() {
            return;
        }
        self.patience.get_or_insert_default().in_all(end);
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match &mut this.source {
            Source::Http1(body) => body.poll_data(cx).map_ok(Frame::data),
            Source::Http2(body) => body.poll_frame(cx),
            Source::Upgraded => Poll::Ready(None),
        };
        let frame = match (polled, &mut this.patience) {
            (Poll::Ready(Some(Ok(frame))), Some(patience)) => {
                Some(patience.moved().map(|()| frame).map_err(BodyError::from))
            }
            (Poll::Ready(frame), _) => frame,
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(patience)) => Some(Err(ready!(patience.poll_lapse(cx)).into())),
        };
        let broken = matches!(frame, Some(Err(_)));
        if let (true, Source::Http1(body)) = (broken, &mut this.source) {
            body.close();
        }
        if (broken || frame.is_none() || this.is_end_stream())
            && let Some(run) = this.run.take()
        {
            match &frame {
                Some(Err(BodyError::Broken(_) | BodyError::Idle)) => run.failed(),
                // What takes too long in all may have waited for its reader: that is no word about the server.
                Some(Err(BodyError::Overtime)) => drop(run),
                Some(Ok(_)) | None => run.succeeded(),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Http1(body) => body.is_end_stream(),
            Source::Http2(body) => body.is_end_stream(),
            Source::Upgraded => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Http1(body) => body.size_hint(),
            Source::Http2(body) => body.size_hint(),
            Source::Upgraded => SizeHint::with_exact(0),
        }
    }
}
