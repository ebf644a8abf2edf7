//! One client's connection while requests come and answers go: what happens beside the answer, and in which order bytes
//! go out. What is asked and answered is not looked at.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::BufMut;
use http::{Request, Response, Version};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::answer::{self, Saying};
use super::reader::{Body, Came, Reader, Step};
use super::request::{self, Asked};
use crate::server::{BoxError, Doorway, pace, turn};
use crate::wire::framing::{Fault, Limits};
use crate::wire::{AnswerBody, Client, Cut, Feeder, Framing, Inbound, Watch, Writer, feed};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The connection, and how far the present request has come.
pub(super) struct Conversation<S> {
    io: S,
    client: Arc<Client>,
    watch: Arc<Watch>,
    reader: Reader,
    writer: Writer,
    /// The request's body, while somebody may read it.
    upload: Option<Feeder>,
    /// Parts of it have not come yet.
    unread: bool,
    /// Its client waits for a word before it sends it.
    expects: bool,
    /// Who asked for news last, and whether the client had gone by then.
    asked: Option<(Waker, bool)>,
}

impl<S: AsyncRead + AsyncWrite + pace::Cut + Unpin> Conversation<S> {
    pub(super) fn new(io: S, client: Arc<Client>, watch: Arc<Watch>, limits: Limits) -> Self {
        let (reader, writer) = (Reader::new(limits), Writer::default());
        Self { io, client, watch, reader, writer, upload: None, unread: false, expects: false, asked: None }
    }

    /// The next request's head; none when the client sends no more. Dropped before that, it has lost nothing.
    pub(super) async fn next(&mut self) -> io::Result<Option<Came>> {
        poll_fn(|cx| self.reader.poll_head(&mut self.io, cx)).await
    }

    /// The request, whose turn begins. One that is refused gets its answer from the doors, too.
    pub(super) fn begin(&mut self, came: Came, doorway: &Doorway) -> (Request<Inbound>, Asked) {
        turn::begins();
        self.watch.works();
        let read = match came {
            Came::Good(head, bytes, body) => {
                let body = self.inbound(body, head.expects, doorway);
                request::read(&head, bytes, body, doorway.preserve_header_case)
            }
            Came::Refused(fault) => Err(fault),
        };
        let (request, mut asked) = match read {
            Ok(read) => read,
            Err(fault) => self.refuse(fault),
        };
        let takes_interim = asked.version == Version::HTTP_11;
        self.client.exchange.begins(takes_interim, self.unread, asked.spelling.take());
        (request, asked)
    }

    /// What stands for a request that is not read; nor is its body.
    #[cold]
    fn refuse(&mut self, fault: Fault) -> (Request<Inbound>, Asked) {
        tracing::debug!(%fault, "request refused");
        self.reader.refuse();
        (self.upload, self.unread, self.expects) = (None, false, false);
        (request::refused(fault), Asked::refused())
    }

    fn inbound(&mut self, body: Body, expects: bool, doorway: &Doorway) -> Inbound {
        match body {
            Body::Whole(bytes) => Inbound::whole(bytes),
            Body::Coming(length) => {
                let (feeder, feed) = feed(length);
                (self.upload, self.unread, self.expects) = (Some(feeder), true, expects);
                Inbound::fed(feed, doorway.limits.body_idle_timeout, &doorway.metrics)
            }
        }
    }

    /// Waits for the answer. An error when the client has left, and nobody else is to be served by it.
    pub(super) async fn answer_of<A: Future>(&mut self, mut answer: Pin<&mut A>) -> io::Result<A::Output> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(Ok(answer));
                }
                ready!(self.poll_beside(cx))?;
            }
        })
        .await
    }

    /// Whatever goes on beside the answer. Ready when there is something new for whoever reads the request's body, who may
    /// be the one that answers.
    fn poll_beside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let fed = self.poll_upload(cx);
        if let Poll::Ready(Err(error)) = self.reader.poll_end(&mut self.io, cx) {
            return Poll::Ready(Err(error));
        }
        let gone = self.reader.has_ended() && !self.unread;
        // Interim answers are taken when what went before them has left: else they would gather here without end.
        if let Poll::Ready(Err(error)) = self.writer.poll_send(&mut self.io, cx) {
            return Poll::Ready(Err(error));
        }
        if !self.client.exchange.has_news() && self.has_asked(gone, cx) {
            return fed.map(Ok);
        }
        let news = self.client.exchange.news(gone, self.writer.is_empty(), cx);
        self.asked = Some((cx.waker().clone(), gone));
        if gone && news.minds_end {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        for interim in news.interim {
            self.writer.lines().put_slice(&interim);
        }
        if let Poll::Ready(Err(error)) = self.writer.poll_send(&mut self.io, cx) {
            return Poll::Ready(Err(error));
        }
        fed.map(Ok)
    }

    /// Whether this task would be woken by news, and the doors know already that the client has gone, if it has.
    fn has_asked(&self, gone: bool, cx: &Context<'_>) -> bool {
        self.asked.as_ref().is_some_and(|(task, known)| *known == gone && task.will_wake(cx.waker()))
    }

    /// Reads on in the request's body, as far as that is asked for.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(feeder) = &self.upload else { return Poll::Pending };
        if !ready!(feeder.poll_asked(cx)) {
            self.upload = None;
            return Poll::Pending;
        }
        if std::mem::take(&mut self.expects) {
            self.writer.lines().put_slice(CONTINUE);
        }
        let end = match ready!(self.reader.poll_body(&mut self.io, cx)) {
            Step::Data(data) => {
                feeder.give(data, cx);
                return Poll::Ready(());
            }
            Step::Last(data) => {
                if !data.is_empty() {
                    feeder.give(data, cx);
                }
                self.unread = false;
                self.client.exchange.came_whole();
                Ok(())
            }
            Step::Malformed(fault) => {
                self.client.exchange.break_off(fault);
                Err(Cut::Malformed(fault))
            }
            Step::Left => Err(Cut::Left),
        };
        if let Some(feeder) = self.upload.take() {
            feeder.end(end, cx);
        }
        Poll::Ready(())
    }

    /// Sends the answer. Whether another request may follow: not when it says that it is the last, which it does when
    /// `last`, or when what comes next could not be told from what is left of this request.
    pub(super) async fn say<B>(&mut self, answer: Response<B>, asked: &Asked, last: bool) -> io::Result<bool>
    where
        B: AnswerBody,
        B::Error: Into<BoxError>,
    {
        if answer.status().is_informational() {
            return Err(io::Error::other("an interim answer where there has to be an answer"));
        }
        let gone = self.reader.has_ended() && !self.reader.holds_bytes();
        let (body, framing, again) = self.say_head(answer, asked, last || self.unread || gone);
        let mut saying = Saying::new(body, framing);
        // What ends with the connection has no other end: whatever breaks it off, its client must see that.
        let until_close = framing == Framing::UntilClose;
        if until_close {
            self.io.cut(true);
        }
        poll_fn(|cx| self.poll_say(&mut saying, cx)).await?;
        if until_close {
            self.io.cut(false);
        }
        self.writer = Writer::default();
        if again {
            self.watch.rests(self.reader.holds_bytes());
        }
        Ok(again)
    }

    fn say_head<B: AnswerBody>(&mut self, answer: Response<B>, asked: &Asked, last: bool) -> (B, Framing, bool) {
        // Who has the answer needs no word any more.
        self.expects = false;
        for interim in self.client.exchange.answered() {
            self.writer.lines().put_slice(&interim);
        }
        let (head, mut body) = answer.into_parts();
        let written = body.take_written();
        let (framing, again) = answer::head(&head, &body, written.as_ref(), asked, last, self.writer.lines());
        (body, framing, again)
    }

    fn poll_say<B>(&mut self, saying: &mut Saying<B>, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        B: AnswerBody,
        B::Error: Into<BoxError>,
    {
        loop {
            let more = saying.poll_more(&mut self.writer, cx);
            let sent = self.writer.poll_send(&mut self.io, cx)?;
            match (more, sent) {
                (Poll::Ready(true), Poll::Ready(())) => {}
                (Poll::Ready(false), Poll::Ready(())) => return Poll::Ready(saying.end()),
                (Poll::Pending, _) | (_, Poll::Pending) => ready!(self.poll_beside(cx))?,
            }
        }
    }

    /// Sends the answer behind which another protocol begins, and gives the connection away.
    pub(super) async fn switch<B>(mut self, answer: Response<B>, mut asked: Asked) -> io::Result<()>
    where
        S: Send + 'static,
        B: AnswerBody,
    {
        let handover = asked.handover.take();
        drop(self.say_head(answer, &asked, true));
        poll_fn(|cx| self.writer.poll_send(&mut self.io, cx)).await?;
        if let Some(handover) = handover {
            handover.give(self.io, self.reader.into_rest());
        }
        Ok(())
    }

    /// Closes the connection. What a client still sends is read on for a while: closing on unread bytes resets a connection,
    /// and a reset can overtake the answer.
    pub(super) async fn end(mut self) -> io::Result<()> {
        self.upload = None;
        if self.reader.leaves_unread() {
            self.watch.leaves_unread();
        }
        self.io.shutdown().await
    }
}
