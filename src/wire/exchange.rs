//! What the reader of a connection, the service under it and the doors above tell each other about the request that is
//! being answered. HTTP/1.1 alone has such talk: on other connections nobody listens, and nothing comes of it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

use super::framing::Fault;

/// The talk about one connection. Requests are numbered from 1.
#[derive(Debug, Default)]
pub struct Exchange(Mutex<Talk>);

#[derive(Debug, Default)]
struct Talk {
    /// The connection's task, for when somebody else has news for it.
    task: Option<Waker>,
    /// Requests that the reader has passed on to their end.
    whole: u64,
    /// The request that stands for one whose head was refused, and why that was.
    refused: Option<(u64, Fault)>,
    /// Why a body broke off.
    broken: Option<Fault>,

    /// Requests that the service was asked, had answers for, and whose answers it saw to their end.
    asked: u64,
    answered: u64,
    said: u64,
    /// Answers that were written to their end.
    written: u64,
    /// The last request of which an answer's byte was written.
    begun: u64,
    /// Something was written that may not be whole.
    midway: bool,

    /// The present request takes interim answers.
    takes_interim: bool,
    interim: VecDeque<Bytes>,
    /// The present request's body is in chunks that its handler may not have read.
    unread: bool,
    end: End,
    upgrade: Upgrade,
}

/// The client's end: whether it sends no more.
#[derive(Debug, Default)]
struct End {
    came: bool,
    /// It is to end the present request.
    minded: bool,
    /// It waits for the present request's answer.
    held: bool,
}

/// What becomes of a request to change the protocol.
#[derive(Debug, Default)]
struct Upgrade {
    /// The last answer changed it.
    granted: bool,
    /// The reader waits to hear whether the next one does.
    awaited: bool,
}

/// What the service is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether the request takes interim answers: HTTP/1.1 does.
    pub takes_interim: bool,
    /// Whether it has a body of unknown length.
    pub chunked: bool,
}

// For the doors.
impl Exchange {
    /// The present request's body was read whole.
    pub fn read_whole(&self) {
        self.talk().unread = false;
    }

    /// From here on the present request ends when the client sends no more. Without this it is answered all the same: the
    /// client may only have closed its half, and the two cannot be told apart.
    pub fn mind_end(&self) {
        let mut talk = self.talk();
        talk.end.minded = true;
        if talk.end.held {
            talk.wake();
        }
    }

    /// Sends a whole interim answer's head (1xx) before the present request's answer. It is left out where it cannot be
    /// sent: to HTTP/1.0, or amid another message.
    pub fn interim(&self, head: Bytes) {
        let mut talk = self.talk();
        if talk.takes_interim && talk.answered < talk.asked {
            talk.interim.push_back(head);
            talk.wake();
        }
    }

    /// Why the present request's body broke off, when it was malformed.
    pub fn broken(&self) -> Option<Fault> {
        self.talk().broken
    }

    /// Whether an answer now would leave parts of the request's body unread.
    pub fn leaves_body(&self) -> bool {
        let talk = self.talk();
        talk.unread || talk.whole < talk.asked
    }
}

// For the service.
impl Exchange {
    /// A request is handed to the service. Why it must be refused, if it stands for one that was malformed.
    pub fn asked(&self, what: Asked) -> Option<Fault> {
        let mut talk = self.talk();
        talk.asked += 1;
        talk.takes_interim = what.takes_interim;
        talk.unread = what.chunked;
        talk.end.minded = false;
        talk.interim.clear();
        talk.refused.filter(|(number, _)| *number == talk.asked).map(|(_, fault)| fault)
    }

    /// The service has the answer's head; `upgraded` says that another protocol begins behind it. Whether the connection
    /// must end with this answer: not all of the request was read, or the client says no more.
    pub fn answered(&self, upgraded: bool) -> bool {
        let mut talk = self.talk();
        talk.answered = talk.asked;
        talk.upgrade.granted = upgraded;
        if std::mem::take(&mut talk.upgrade.awaited) {
            talk.wake();
        }
        !upgraded && (talk.whole < talk.asked || talk.end.came && talk.whole == talk.asked)
    }

    /// The answer's body came to its end.
    pub fn said(&self) {
        let mut talk = self.talk();
        talk.said = talk.answered;
    }
}

// For the connection's reader and writer.
impl Exchange {
    /// So many requests were passed on to their end.
    pub fn passed_on(&self, whole: u64) {
        self.talk().whole = whole;
    }

    /// The request of this number is refused: another stands for it.
    pub fn refuse(&self, number: u64, fault: Fault) {
        let mut talk = self.talk();
        talk.refused = Some((number, fault));
        talk.whole = number;
    }

    /// The present request's body is malformed from here on.
    pub fn break_off(&self, fault: Fault) {
        self.talk().broken = Some(fault);
    }

    /// The client sends no more. Whether that has to wait, for a request that is whole and has no whole answer yet.
    pub fn end(&self, cx: &Context<'_>) -> bool {
        let mut talk = self.talk();
        talk.attend(cx);
        talk.end.came = true;
        talk.end.held = talk.whole > talk.written && !talk.end.minded;
        talk.end.held
    }

    /// Whether the answer to the request of this number changed the protocol; none before there is one.
    pub fn decision(&self, number: u64, cx: &Context<'_>) -> Option<bool> {
        let mut talk = self.talk();
        talk.attend(cx);
        let decided = talk.answered >= number;
        talk.upgrade.awaited = !decided;
        decided.then_some(talk.upgrade.granted)
    }

    /// Everything that hyper had to write was written, if perhaps not sent yet. The next interim answer, if there is one
    /// that may go now; more of them can come, and wake this task.
    pub fn flushing(&self, cx: &Context<'_>) -> Option<Bytes> {
        let mut talk = self.talk();
        talk.midway = false;
        talk.written = talk.said;
        talk.attend(cx);
        talk.next_interim()
    }

    /// hyper is about to write. The next interim answer, if there is one that may go before that.
    pub fn writing(&self) -> Option<Bytes> {
        self.talk().next_interim()
    }

    /// Bytes of hyper's were written.
    pub fn wrote(&self) {
        let mut talk = self.talk();
        talk.midway = true;
        talk.begun = talk.answered;
    }

    /// They all left. An end that had to wait for the answer need not wait any longer.
    pub fn flushed(&self) {
        let mut talk = self.talk();
        if talk.end.held && talk.written >= talk.whole {
            talk.end.held = false;
            talk.wake();
        }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Talk {
    /// Remembers whom to wake.
    fn attend(&mut self, cx: &Context<'_>) {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }

    /// Only where no other message's bytes are before or around it: all earlier answers were written, and nothing of the
    /// present one.
    fn next_interim(&mut self) -> Option<Bytes> {
        let between = !self.midway && self.begun < self.asked && self.written + 1 == self.asked;
        if between { self.interim.pop_front() } else { None }
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINTS: Bytes = Bytes::from_static(b"HTTP/1.1 103 Early Hints\r\n\r\n");

    fn ask(exchange: &Exchange) {
        assert_eq!(exchange.asked(Asked { takes_interim: true, chunked: false }), None);
        exchange.interim(HINTS);
    }

    fn flush(exchange: &Exchange) -> Option<Bytes> {
        exchange.flushing(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_interim_answer_waits_until_nothing_is_midway() {
        let exchange = Exchange::default();
        ask(&exchange);
        // A part of `100 Continue`.
        exchange.wrote();
        assert_eq!(exchange.writing(), None);
        assert_eq!(flush(&exchange), Some(HINTS));
        assert_eq!(flush(&exchange), None);
    }

    #[test]
    fn an_interim_answer_waits_for_the_answers_before_it() {
        let exchange = Exchange::default();
        ask(&exchange);
        exchange.answered(false);
        assert_eq!(exchange.writing(), Some(HINTS), "right before the answer's first byte");
        exchange.said();
        // The next request is asked while nothing of the first answer has gone out.
        ask(&exchange);
        assert_eq!(exchange.writing(), None);
        exchange.wrote();
        assert_eq!(exchange.writing(), None);
        assert_eq!(flush(&exchange), Some(HINTS));
    }

    #[test]
    fn an_interim_answer_is_left_out_once_the_answer_has_begun() {
        let exchange = Exchange::default();
        ask(&exchange);
        exchange.wrote();
        exchange.answered(false);
        exchange.wrote();
        assert_eq!((exchange.writing(), flush(&exchange)), (None, None));
        exchange.interim(HINTS);
        exchange.said();
        assert_eq!(flush(&exchange), None);
    }
}
