//! A request on one HTTP/1 connection, up to the head of its answer. What a failure means is judged in `outcome`; how bytes
//! come and go is `exchange`'s matter.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::UPGRADE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::ext::ReasonPhrase;

use super::behalf::{self, Behalf};
use super::connection::Connection;
use super::exchange::Exchange;
use super::outcome::{Broken, Tried, judge};
use super::pool::Pool;
use super::received::Received;
use super::sending::Stopped;
use super::stream::closed;
use super::{Incoming, Outgoing};
use crate::wire::framing::{Answer, Answers, Follow, Limits};
use crate::wire::heads::{self, Spelling};
use crate::wire::upgrade;

impl Connection {
    /// Puts a request on the connection and waits for the head of its answer. When the answer is whole, the connection
    /// goes back to its pool, if it has one. A request that comes back is as it was.
    pub(super) async fn send(
        self,
        request: &mut Request<Outgoing>,
        behalf: &dyn Behalf,
        home: Option<&Arc<Pool>>,
    ) -> Result<Response<Incoming>, Tried> {
        let mut exchange = Exchange::new(self, request, behalf);
        let mut answers = Answers::new(Limits::ANSWER);
        answers.asked(request.method() == Method::HEAD);
        let mut came = BytesMut::new();
        match poll_fn(|cx| exchange.poll_head(request.body_mut(), behalf, &mut answers, &mut came, cx)).await {
            Ok(answer) => match Heard::of(answer, answers, came) {
                Ok(heard) if heard.answer.status == StatusCode::SWITCHING_PROTOCOLS => {
                    exchange.switch(request, heard, home)
                }
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
        let spelling = spelled.then(|| Spelling::of(self.head.clone(), &self.answer.spans));
        let mut response = Response::new(body.spelled(spelling));
        *response.status_mut() = self.answer.status;
        *response.version_mut() = self.answer.version;
        *response.headers_mut() = self.fields;
        // Words in an unknown charset say nothing.
        let reason = self.head.slice(self.answer.reason);
        let reason = if reason.is_ascii() { reason } else { Bytes::new() };
        if self.answer.status.canonical_reason().map(str::as_bytes) != Some(&reason)
            && let Ok(reason) = ReasonPhrase::try_from(reason)
        {
            response.extensions_mut().insert(reason);
        }
        response
    }
}

/// Whether answers keep the spelling of their fields' names.
fn keeps_case(home: Option<&Arc<Pool>>) -> bool {
    home.is_some_and(|pool| pool.preserve_header_case)
}

impl Exchange {
    /// Until the answer's head is whole; what came behind it is left.
    fn poll_head(
        &mut self,
        body: &mut Outgoing,
        behalf: &dyn Behalf,
        answers: &mut Answers,
        came: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, Broken>> {
        loop {
            if ready!(self.poll_more(body, came, cx))? == 0 {
                return Poll::Ready(Err(Stopped::Wire(closed()).into()));
            }
            while let Some(answer) = answers.head(came)? {
                if !answer.status.is_informational() || answer.status == StatusCode::SWITCHING_PROTOCOLS {
                    return Poll::Ready(Ok(answer));
                }
                let head = came.split_to(answer.length).freeze();
                behalf::tell(behalf, answer.status, heads::fields(&head, &answer.spans).ok_or(Broken::Field)?);
            }
        }
    }

    /// An answer whose body owns the connection until that is whole.
    fn hand_over(
        self,
        request: &mut Request<Outgoing>,
        mut heard: Heard,
        home: Option<&Arc<Pool>>,
    ) -> Response<Incoming> {
        let (answers, came) = (heard.answers.clone(), std::mem::take(&mut heard.body));
        let inward = self.inward(request.body_mut(), home, heard.answer.keep_alive);
        let body = if heard.whole {
            inward.end(heard.clean);
            Received::whole(came, answers)
        } else {
            let inward = inward.awaiting(answers.left());
            Received::begun(came, answers, inward)
        };
        heard.response(Incoming::http1(body), keeps_case(home))
    }

    /// The connection is the new protocol's, for whoever takes it out of the answer. A change that answers nothing that
    /// was asked is no answer; nor is it an end of the request.
    fn switch(
        self,
        request: &mut Request<Outgoing>,
        heard: Heard,
        home: Option<&Arc<Pool>>,
    ) -> Result<Response<Incoming>, Tried> {
        let told = heard.fields.get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
        let asked = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
        if !self.sending.is_over() || asked.is_none_or(|asked| !asked.eq_ignore_ascii_case(told)) {
            return Err(self.give_up(request, &Broken::Switched));
        }
        let (handover, upgraded) = upgrade();
        handover.give(self.connection.stream, heard.body.clone());
        let mut response = heard.response(Incoming::upgraded(), keeps_case(home));
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

#[cfg(test)]
mod tests;
