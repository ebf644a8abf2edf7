//! A request and its answer on one HTTP/1 connection, driven by whoever waits for the answer: nothing here runs by itself.
//! What a failure means is judged in `outcome`.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::UPGRADE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::connection::Connection;
use super::interim::Ear;
use super::outcome::{Tried, judge};
use super::pool::Pool;
use super::received::{Received, Rest};
use super::sending::{Sending, Stopped};
use super::stream::{Stream, closed};
use super::{Incoming, Outgoing};
use crate::wire::framing::{Answer, Answers, Fault, Follow, Limits};
use crate::wire::heads::{self, Spelling};
use crate::wire::upgrade;

/// How much is read at a time, at first and at most, in bytes.
const READ: usize = 8 * 1024;
const READ_MOST: usize = 128 * 1024;

/// A connection in use by one request. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Connection,
    sending: Sending,
    /// The server began to answer before it had the whole request. Such a server may take what came later for another
    /// request and answer that too: nobody's next answer on this connection can be trusted.
    overtaken: bool,
    /// How much is read next.
    appetite: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Sending(#[from] Stopped),
    #[error(transparent)]
    Answer(#[from] Fault),
    #[error("a field of the answer is none")]
    Field,
    #[error("the upstream switched protocols unasked")]
    Switched,
}

impl Connection {
    /// Puts a request on the connection and waits for the head of its answer. When the answer is whole, the connection
    /// goes back to its pool, if it has one. A request that comes back is as it was.
    pub(super) async fn send(
        self,
        request: &mut Request<Outgoing>,
        home: Option<&Arc<Pool>>,
    ) -> Result<Response<Incoming>, Tried> {
        let sending = Sending::of(request, self.stream.tls().is_some());
        let mut exchange = Exchange { connection: self, sending, overtaken: false, appetite: READ };
        let mut answers = Answers::new(Limits::ANSWER);
        answers.asked(request.method() == Method::HEAD);
        let mut came = BytesMut::new();
        match poll_fn(|cx| exchange.poll_head(request, &mut answers, &mut came, cx)).await {
            Ok(answer) => match Heard::of(answer, answers, came) {
                Ok(heard) if heard.answer.status == StatusCode::SWITCHING_PROTOCOLS => exchange.switch(request, heard),
                Ok(heard) => Ok(exchange.hand_over(request, heard, home)),
                Err(broken) => Err(exchange.give_up(request, &broken)),
            },
            Err(broken) => Err(exchange.give_up(request, &broken)),
        }
    }
}

/// An answer's head, and what came of its body along with it.
struct Heard {
    answer: Answer,
    head: Bytes,
    fields: HeaderMap,
    /// Where the reading of the body stands, and what came of it.
    answers: Answers,
    body: Bytes,
    /// All of it came.
    whole: bool,
    /// Nothing came behind it.
    clean: bool,
}

impl Heard {
    /// An answer that is whole goes to whom it belongs, whatever comes after it. Of a broken one nothing more is needed:
    /// where its head came along with the fault, its client gets an error rather than half an answer.
    fn of(answer: Answer, answers: Answers, came: BytesMut) -> Result<Self, Broken> {
        let mut body = came.freeze();
        let fields = heads::fields(&body, &answer.spans).ok_or(Broken::Field)?;
        let head = body.split_to(answer.length);
        let mut ahead = answers.clone();
        let (good, done) = ahead.follow(&body);
        let whole = ahead.is_idle();
        if whole {
            body.truncate(good);
        } else {
            done?;
        }
        Ok(Self { answer, head, fields, answers, body, whole, clean: done.is_ok() })
    }

    fn response(self, body: Incoming, spelled: bool) -> Response<Incoming> {
        let mut response = Response::new(body);
        *response.status_mut() = self.answer.status;
        *response.version_mut() = self.answer.version;
        *response.headers_mut() = self.fields;
        if spelled {
            response.extensions_mut().insert(Spelling::of(self.head, &self.answer.spans));
        }
        response
    }
}

impl Exchange {
    /// Until the answer's head is whole; what came behind it is left.
    fn poll_head(
        &mut self,
        request: &mut Request<Outgoing>,
        answers: &mut Answers,
        came: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, Broken>> {
        loop {
            if ready!(self.poll_more(request.body_mut(), came, cx))? == 0 {
                return Poll::Ready(Err(Stopped::Wire(closed()).into()));
            }
            while let Some(answer) = answers.head(came)? {
                if !answer.status.is_informational() || answer.status == StatusCode::SWITCHING_PROTOCOLS {
                    return Poll::Ready(Ok(answer));
                }
                let head = came.split_to(answer.length).freeze();
                if let Some(ear) = request.extensions().get::<Ear>() {
                    ear.hear(answer.status, heads::fields(&head, &answer.spans).ok_or(Broken::Field)?);
                }
            }
        }
    }

    /// Reads more of the answer, sending the request on meanwhile: how many bytes came; none when the server has closed
    /// the connection.
    pub(super) fn poll_more(
        &mut self,
        body: &mut Outgoing,
        into: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Stopped>> {
        if !self.sending.has_begun() {
            // What comes before a byte of the request was written answers nothing.
            if let Poll::Ready(over) = self.connection.stream.news() {
                return Poll::Ready(Err(over.into()));
            }
        } else if let Poll::Ready(read) = self.poll_read(into, cx) {
            return Poll::Ready(read.map_err(Stopped::Wire));
        } else if self.sending.is_over() {
            return Poll::Pending;
        }
        if let Poll::Ready(Err(stopped)) = self.sending.poll(&mut self.connection.stream, body, cx) {
            return Poll::Ready(Err(stopped));
        }
        if self.sending.has_begun() { self.poll_read(into, cx).map_err(Stopped::Wire) } else { Poll::Pending }
    }

    fn poll_read(&mut self, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(poll_read(&mut self.connection.stream, self.appetite, into, cx))?;
        self.appetite = if read >= self.appetite { (2 * read).min(READ_MOST) } else { READ };
        self.overtaken |= !self.sending.is_over();
        Poll::Ready(Ok(read))
    }

    /// An answer whose body owns the connection until that is whole.
    fn hand_over(
        mut self,
        request: &mut Request<Outgoing>,
        heard: Heard,
        home: Option<&Arc<Pool>>,
    ) -> Response<Incoming> {
        let (answers, came) = (heard.answers.clone(), heard.body.clone());
        let keep_alive = heard.answer.keep_alive && heard.clean;
        let upload = if self.sending.is_over() {
            Outgoing::Whole(Bytes::new())
        } else {
            std::mem::replace(request.body_mut(), Outgoing::Whole(Bytes::new()))
        };
        let body = if heard.whole {
            self.end(upload, home, keep_alive);
            Received::whole(came, answers)
        } else {
            // What is known to come is read in pieces that fit.
            let left = answers.left().and_then(|left| usize::try_from(left).ok()).unwrap_or(READ);
            self.appetite = left.clamp(READ, READ_MOST);
            Received::begun(came, answers, Rest { exchange: self, upload, home: home.cloned(), keep_alive })
        };
        heard.response(Incoming::http1(body), home.is_some_and(|pool| pool.preserve_header_case))
    }

    /// The answer is whole. A request that is not, because its answer overtook it, is seen off: its server may want it.
    pub(super) fn end(mut self, mut upload: Outgoing, home: Option<&Arc<Pool>>, keep_alive: bool) {
        let Some(home) = home else { return };
        if !self.sending.is_over() {
            let rest = home.idle_timeout;
            tokio::spawn(tokio::time::timeout(rest, async move {
                poll_fn(|cx| self.sending.poll(&mut self.connection.stream, &mut upload, cx)).await
            }));
        } else if keep_alive && !self.overtaken && !self.sending.is_unheard() {
            home.put(self.connection.answered());
        }
    }

    /// The connection is the new protocol's, for whoever takes it out of the answer. A change that answers nothing that
    /// was asked is no answer; nor is it an end of the request.
    fn switch(self, request: &mut Request<Outgoing>, heard: Heard) -> Result<Response<Incoming>, Tried> {
        let told = heard.fields.get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
        let asked = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
        if !self.sending.is_over() || asked.is_none_or(|asked| !asked.eq_ignore_ascii_case(told)) {
            return Err(self.give_up(request, &Broken::Switched));
        }
        let (handover, upgraded) = upgrade();
        handover.give(self.connection.stream, heard.body.clone());
        let mut response = heard.response(Incoming::upgraded(), false);
        response.extensions_mut().insert(upgraded);
        Ok(response)
    }

    /// What becomes of a request that got no answer here.
    fn give_up(mut self, request: &mut Request<Outgoing>, why: &Broken) -> Tried {
        if !self.sending.has_begun() {
            self.sending.give_back(request.body_mut());
        }
        judge(why, self.sending.has_begun(), self.connection.is_before_admission())
    }
}

/// Reads so much. A little is read aside and copied, so that what is kept of an answer is no larger than it is.
fn poll_read(stream: &mut Stream, most: usize, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    if most > READ {
        into.reserve(most);
        return pin!(stream.read_buf(into)).poll(cx);
    }
    let mut aside = [const { MaybeUninit::uninit() }; READ];
    let mut aside = ReadBuf::uninit(&mut aside);
    ready!(Pin::new(stream).poll_read(cx, &mut aside))?;
    into.extend_from_slice(aside.filled());
    Poll::Ready(Ok(aside.filled().len()))
}

#[cfg(test)]
mod tests;
