//! What a client sends: read from the connection, and kept until it is used. While nothing waits, it holds no memory.

use std::io;
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use crate::wire::framing::{Behind, Fault, Head, Limits, Requests};

/// How much is read at once, in bytes.
const STEP: usize = 16 * 1024;

/// The reading side of a connection.
pub(super) struct Reader {
    requests: Requests,
    /// What was read and not used.
    bytes: BytesMut,
    /// The client sends no more.
    ended: bool,
    /// Nothing that comes is read any more.
    refused: bool,
}

/// A request's head as it came, or why it is none.
pub(super) enum Came {
    Good(Head, Bytes, Body),
    Refused(Fault),
}

/// A request's body.
pub(super) enum Body {
    /// All of it is there.
    Whole(Bytes),
    /// It is still to be read; its length, if that is known.
    Coming(Option<u64>),
}

/// What a step through a body came to.
pub(super) enum Step {
    Data(Bytes),
    /// The body's last bytes, and what they hold of its data.
    Last(Bytes),
    /// What comes next is no body.
    Malformed(Fault),
    /// The client sends no more.
    Left,
}

impl Reader {
    pub(super) fn new(limits: Limits) -> Self {
        Self { requests: Requests::new(limits), bytes: BytesMut::new(), ended: false, refused: false }
    }

    /// Whether the client sends no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether something waits that was not used.
    pub(super) fn holds_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether the client may still be sending something that nobody reads.
    pub(super) fn leaves_unread(&self) -> bool {
        (self.refused || self.holds_bytes() || self.requests.is_in_body()) && !self.ended
    }

    /// Nothing that comes is read any more.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.bytes = BytesMut::new();
    }

    /// What was read and not used.
    pub(super) fn into_rest(self) -> Bytes {
        self.bytes.freeze()
    }

    /// The next request's head, once it is whole; none when the client sends no more.
    pub(super) fn poll_head<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<Option<Came>>>
    where
        S: AsyncRead + Unpin,
    {
        loop {
            // What begins a head may be there already, behind the last request.
            if self.holds_bytes() {
                match self.requests.head(&self.bytes) {
                    Ok(Some(head)) => return Poll::Ready(Ok(Some(self.take(head)))),
                    Ok(None) => {}
                    Err(fault) => {
                        return Poll::Ready(Ok(Some(Came::Refused(fault))));
                    }
                }
            }
            if self.ended || !ready!(self.poll_more(io, cx))? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// A good head out of the bytes, and its body, if all of that came with it.
    fn take(&mut self, head: Head) -> Came {
        let bytes = self.split(head.length);
        let body = match head.body {
            Behind::Nothing => Body::Whole(Bytes::new()),
            // Who waits for a word before it sends its body gets one.
            Behind::Length(length) if !head.expects => match usize::try_from(length) {
                Ok(whole) if whole <= self.bytes.len() => {
                    let _ = self.requests.body(&self.bytes[..whole]);
                    Body::Whole(self.split(whole))
                }
                _ => Body::Coming(Some(length)),
            },
            Behind::Length(length) => Body::Coming(Some(length)),
            Behind::Chunks => Body::Coming(None),
        };
        Came::Good(head, bytes, body)
    }

    fn split(&mut self, length: usize) -> Bytes {
        // An empty rest would hold the memory too.
        if length == self.bytes.len() { take(&mut self.bytes).freeze() } else { self.bytes.split_to(length).freeze() }
    }

    /// Goes on in a body.
    pub(super) fn poll_body<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<Step>
    where
        S: AsyncRead + Unpin,
    {
        loop {
            while self.holds_bytes() {
                let (part, done) = self.requests.body(&self.bytes);
                let mut data = self.split(part.read);
                data.advance(part.read - part.data);
                if part.last {
                    return Poll::Ready(Step::Last(data));
                }
                if !data.is_empty() {
                    return Poll::Ready(Step::Data(data));
                }
                if let Err(fault) = done {
                    self.refused = true;
                    return Poll::Ready(Step::Malformed(fault));
                }
                if part.read == 0 {
                    break;
                }
            }
            // A connection that broke has an end, too.
            if self.ended || !ready!(self.poll_more(io, cx)).unwrap_or(false) {
                self.ended = true;
                return Poll::Ready(Step::Left);
            }
        }
    }

    /// Between a request's last byte and its answer: looks whether the client sends no more. What comes of its next
    /// request is read once, and waits.
    pub(super) fn poll_end<S>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncRead + Unpin,
    {
        // An end read behind a refusal would say nothing of whether it can still be told.
        if self.refused || self.ended || self.holds_bytes() || self.requests.is_in_body() {
            return Poll::Pending;
        }
        ready!(self.poll_more(io, cx)).map_or_else(|error| Poll::Ready(Err(error)), |_| Poll::Pending)
    }

    /// Reads what is there; false at the end.
    fn poll_more<S: AsyncRead + Unpin>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // By way of the stack: so nothing is held while nothing comes, and no more than what comes.
        let mut space = [const { MaybeUninit::uninit() }; STEP];
        let mut space = ReadBuf::uninit(&mut space);
        ready!(Pin::new(io).poll_read(cx, &mut space))?;
        self.bytes.extend_from_slice(space.filled());
        self.ended = space.filled().is_empty();
        Poll::Ready(Ok(!self.ended))
    }
}
