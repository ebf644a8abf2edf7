//! A request's body as it comes from its client, within bounds of time. How large it may be is for its readers to say.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{Lapse, Patience, Turn, Unfinished, Upload};
use crate::clock::Clock;
use crate::telemetry::{Metrics, Timeout};

/// A request's body.
#[derive(Debug)]
pub struct Inbound {
    body: Incoming,
    patience: Patience,
    /// Its connection's turn, and who counts a client that is too slow.
    served: Option<(Turn, Arc<Metrics>)>,
    upload: Option<Upload>,
    ended: bool,
}

/// Why a body came to no end.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    /// The client took too long.
    #[error("the client's body did not come in time")]
    Slow,
    /// The client left, or sent what is no body.
    #[error("the client's body broke off: {0}")]
    Broken(#[from] hyper::Error),
}

/// A body without bounds, of nobody's turn.
impl From<Incoming> for Inbound {
    fn from(body: Incoming) -> Self {
        let ended = body.is_end_stream();
        Self { body, patience: Patience::default(), served: None, upload: None, ended }
    }
}

impl Inbound {
    /// A body of a served request, whose client may be silent for `idle`.
    pub fn of(turn: &Turn, body: Incoming, idle: Duration, metrics: &Arc<Metrics>) -> Self {
        let mut inbound = Self::from(body);
        if !inbound.ended {
            inbound.patience.between_bytes(Some(idle));
            inbound.served = Some((turn.clone(), Arc::clone(metrics)));
        }
        inbound
    }

    /// All of it must be there this long from now.
    pub fn within(&mut self, total: Duration) {
        self.patience.in_all(Clock::instant() + total);
    }

    /// Its progress, for one who waits for what it leads to; none when it has ended.
    pub fn follow(&mut self) -> Option<Upload> {
        (!self.ended).then(|| self.upload.get_or_insert_with(Upload::new).clone())
    }

    /// Its progress, if somebody follows it.
    pub fn upload(&self) -> Option<&Upload> {
        self.upload.as_ref()
    }

    fn note(&self, note: impl FnOnce(&Upload)) {
        if let Some(upload) = &self.upload {
            note(upload);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.served = None;
    }

    fn lapsed(&self, lapse: Lapse) -> InboundError {
        if let Some((_, metrics)) = &self.served {
            metrics.timed_out(match lapse {
                Lapse::Idle => Timeout::BodyIdle,
                Lapse::Total => Timeout::BodyTotal,
            });
        }
        self.note(|upload| upload.failed(Unfinished::Slow));
        InboundError::Slow
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = InboundError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, InboundError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Err(lapse) = this.patience.moved() {
                    return Poll::Ready(Some(Err(this.lapsed(lapse))));
                }
                this.note(Upload::handed_on);
                if this.body.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.note(Upload::handed_on);
                this.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                this.note(|upload| upload.failed(Unfinished::Broken));
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Pending => {
                let lapse = this.patience.poll_lapse(cx);
                if lapse.is_pending() {
                    this.note(Upload::awaited);
                }
                lapse.map(|lapse| Some(Err(this.lapsed(lapse))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        if let Some((turn, _)) = &self.served {
            turn.leaves_unread();
        }
    }
}
