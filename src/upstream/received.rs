//! An answer's body on an HTTP/1 connection: what came of it, and the connection until all has come. It ends where its
//! framing ends, or in an error.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http_body::SizeHint;

use super::inward::Inward;
use super::outcome::BodyError;
use super::stream::closed;
use crate::wire::framing::Answers;

/// The body. When it has come whole, the connection goes back to the pool; dropped before that, it is closed.
#[derive(Debug)]
pub(super) struct Received {
    /// What came, and was not handed out yet.
    came: Bytes,
    answers: Answers,
    /// Where more comes from.
    rest: Option<Box<Inward>>,
}

impl Received {
    /// A body that is all there.
    pub(super) fn whole(came: Bytes, answers: Answers) -> Self {
        Self { came, answers, rest: None }
    }

    /// One that has only begun.
    pub(super) fn begun(came: Bytes, answers: Answers, rest: Inward) -> Self {
        Self { came, answers, rest: Some(Box::new(rest)) }
    }

    /// Whether nothing more is waited for.
    pub(super) fn is_here(&self) -> bool {
        self.rest.is_none()
    }

    /// Closes the connection: nothing more of it is wanted.
    pub(super) fn close(&mut self) {
        self.rest = None;
    }

    /// The next run of its data; none at its end.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            let (part, done) = self.answers.body(&self.came);
            if let Err(fault) = done {
                self.close();
                return Poll::Ready(Some(Err(BodyError::new(&fault))));
            }
            self.came.advance(part.read - part.data);
            let data = self.came.split_to(part.data);
            if self.answers.is_idle() {
                self.end();
            }
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(data)));
            }
            if self.answers.is_idle() {
                return Poll::Ready(None);
            }
            if part.read == 0
                && let Err(error) = ready!(self.poll_more(cx))
            {
                self.close();
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Waits for more behind what is there.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(Err(BodyError::new(&closed()))) };
        let mut more = BytesMut::new();
        if ready!(rest.poll_read(&mut more, cx)).map_err(|error| BodyError::new(&error))? == 0 {
            return Poll::Ready(if self.answers.closed() { Ok(()) } else { Err(BodyError::new(&closed())) });
        }
        self.came = if self.came.is_empty() { more.freeze() } else { [&self.came[..], &more].concat().into() };
        Poll::Ready(Ok(()))
    }

    /// The body is whole; what came behind it belongs to nobody.
    fn end(&mut self) {
        if let Some(rest) = self.rest.take() {
            rest.end(self.came.is_empty());
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.answers.is_idle()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.answers.left().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
