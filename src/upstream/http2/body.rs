//! Bodies on an HTTP/2 stream: an answer's inwards, within its window; a streamed request's outwards, as the server
//! takes it.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio_util::task::AbortOnDropHandle;

use super::super::{BodyError, Outgoing};
use super::connection::Slot;

/// The rest of a request that is still on its way out; dropped, it stops.
pub(super) type Rest = Option<AbortOnDropHandle<()>>;

/// An answer's body. Dropped before its end, it resets its stream and leaves the others alone.
#[derive(Debug)]
pub(in crate::upstream) struct Body {
    stream: RecvStream,
    /// Bytes still to come, where the answer says how many.
    left: Option<u64>,
    rest: Rest,
    _slot: Slot,
}

impl Body {
    pub(super) fn new(stream: RecvStream, headers: &HeaderMap, rest: Rest, slot: Slot) -> Self {
        let length = |value: &HeaderValue| value.to_str().ok()?.parse().ok();
        let left = if stream.is_end_stream() { Some(0) } else { headers.get(CONTENT_LENGTH).and_then(length) };
        let mut body = Self { stream, left, rest, _slot: slot };
        body.let_go();
        body
    }

    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(data) = ready!(self.stream.poll_data(cx)) {
            return Poll::Ready(Some(self.take(data).map(Frame::data).map_err(|error| BodyError::new(&error))));
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        self.let_go();
        match trailers {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(Some(Err(BodyError::new(&error)))),
        }
    }

    /// Hands bytes on, which lets the server send as many more.
    fn take(&mut self, data: Result<Bytes, h2::Error>) -> Result<Bytes, h2::Error> {
        let bytes = data?;
        self.stream.flow_control().release_capacity(bytes.len())?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left = self.left.map(|left| left.saturating_sub(length));
        self.let_go();
        Ok(bytes)
    }

    /// Once the server has said all, a request that it did not wait for may go on to its end without us.
    fn let_go(&mut self) {
        if let Some(rest) = self.rest.take_if(|_| self.stream.is_end_stream()) {
            rest.detach();
        }
    }

    pub(in crate::upstream) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    pub(in crate::upstream) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Sends a request's body as it comes in and as fast as the server takes it; ends early when the server wants no more. A
/// body that breaks off resets the stream: its end is never said.
pub(super) async fn pass(mut body: Outgoing, mut stream: SendStream<Bytes>) {
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
        };
        let sent = match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(bytes))) => send(&mut stream, bytes).await,
            Some(Ok(Err(_trailers))) => Some(()),
            Some(Err(_)) => {
                stream.send_reset(Reason::CANCEL);
                None
            }
            None => {
                // If the stream is over, so is the answer; whoever waits for that one hears of it.
                let _ = stream.send_data(Bytes::new(), true);
                // The connection writes it in its own next turn, which a stop that waits for this task may not give it.
                tokio::task::yield_now().await;
                None
            }
        };
        if sent.is_none() {
            return;
        }
    }
}

/// None when the stream takes no more.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Option<()> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await?.ok()?;
        stream.send_data(bytes.split_to(room.min(bytes.len())), false).ok()?;
    }
    Some(())
}
