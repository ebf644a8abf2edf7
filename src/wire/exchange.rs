//! What the doors and the connection tell each other about the request that is being answered. HTTP/1.1 alone has such
//! talk: on other connections nobody listens, and nothing comes of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

use super::framing::Fault;
use super::heads::Spelling;

/// How many bytes of interim answers wait for a client at most.
const INTERIM: usize = 64 * 1024;

/// The talk about one connection's present request.
#[derive(Debug, Default)]
pub struct Exchange {
    talk: Mutex<Talk>,
    /// Something was said that the connection has not heard.
    unheard: AtomicBool,
}

#[derive(Debug, Default)]
struct Talk {
    /// The connection's task, while it waits for news.
    task: Option<Waker>,
    /// Which request of the connection it is.
    turn: u64,
    /// How its fields were spelled, until somebody takes it on or answers it.
    spelling: Option<Spelling>,
    /// Interim answers may be sent: the client takes them, and the answer has not begun.
    takes_interim: bool,
    interim: VecDeque<Bytes>,
    /// How many bytes these have.
    waiting: usize,
    end: End,
    /// Parts of the request's body have not come yet.
    unread: bool,
    /// Why its body broke off.
    broken: Option<Fault>,
}

/// The client's end: whether it sends no more.
#[derive(Debug, Default)]
struct End {
    came: bool,
    /// It ends the present request.
    minded: bool,
}

/// What the connection has to do beside waiting for the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Interim answers that are to be sent.
    pub interim: VecDeque<Bytes>,
    /// Whether the request ends when the client sends no more.
    pub minds_end: bool,
}

// For the doors.
impl Exchange {
    /// From here on the present request ends when the client sends no more. Without this it is answered all the same: the
    /// client may only have closed its half, and the two cannot be told apart.
    pub fn mind_end(&self) {
        let mut talk = self.talk();
        self.unheard.store(true, Ordering::Release);
        talk.end.minded = true;
        if talk.end.came {
            talk.wake();
        }
    }

    /// The present request, for whoever takes it on: its number, by which interim answers go to it, and how its fields were
    /// spelled, if that is kept.
    pub fn present(&self) -> (u64, Option<Spelling>) {
        let mut talk = self.talk();
        (talk.turn, talk.spelling.take())
    }

    /// Sends a whole interim answer's head (1xx) before the answer to the request of this number. It is left out where it
    /// cannot be sent: when that request is no longer the present one, to HTTP/1.0, behind the answer's beginning, or faster
    /// than the client reads.
    pub fn interim(&self, turn: u64, head: Bytes) {
        let mut talk = self.talk();
        if talk.turn == turn && talk.takes_interim && talk.waiting.saturating_add(head.len()) <= INTERIM {
            talk.waiting += head.len();
            talk.interim.push_back(head);
            self.unheard.store(true, Ordering::Release);
            talk.wake();
        }
    }

    /// Why the present request's body broke off, when it was malformed.
    pub fn broken(&self) -> Option<Fault> {
        self.talk().broken
    }

    /// Whether an answer now would leave parts of the request's body unread.
    pub fn leaves_body(&self) -> bool {
        self.talk().unread
    }
}

// For the connection.
impl Exchange {
    /// A request begins: whether it takes interim answers, as HTTP/1.1 does, whether it came without all of its body, and how
    /// its fields were spelled, if that is to be kept.
    pub fn begins(&self, takes_interim: bool, unread: bool, spelling: Option<Spelling>) {
        let mut talk = self.talk();
        talk.turn += 1;
        talk.spelling = spelling;
        talk.takes_interim = takes_interim;
        talk.unread = unread;
        talk.end.minded = false;
        talk.broken = None;
    }

    /// The last of the request's body came.
    pub fn came_whole(&self) {
        self.talk().unread = false;
    }

    /// The request's body is malformed from here on.
    pub fn break_off(&self, fault: Fault) {
        self.talk().broken = Some(fault);
    }

    /// Whether there may be news. While there are none, the task that asked for them last will be woken by the next.
    pub fn has_news(&self) -> bool {
        self.unheard.load(Ordering::Acquire)
    }

    /// What has become known; more of it wakes this task. `ended` says that the client sends no more, `room` that interim
    /// answers can be sent now: else they wait.
    pub fn news(&self, ended: bool, room: bool, cx: &Context<'_>) -> News {
        let mut talk = self.talk();
        talk.end.came = ended;
        if !talk.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            talk.task = Some(cx.waker().clone());
        }
        let interim = if room { talk.take_interim() } else { VecDeque::new() };
        self.unheard.store(!talk.interim.is_empty(), Ordering::Release);
        News { interim, minds_end: talk.end.minded }
    }

    /// The answer begins: the interim answers that have to go before it, and none from now on.
    pub fn answered(&self) -> VecDeque<Bytes> {
        let mut talk = self.talk();
        talk.takes_interim = false;
        talk.spelling = None;
        talk.take_interim()
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Talk {
    fn take_interim(&mut self) -> VecDeque<Bytes> {
        self.waiting = 0;
        std::mem::take(&mut self.interim)
    }

    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINTS: Bytes = Bytes::from_static(b"HTTP/1.1 103 Early Hints\r\n\r\n");

    fn news(exchange: &Exchange) -> News {
        exchange.news(false, true, &Context::from_waker(Waker::noop()))
    }

    fn hint(exchange: &Exchange) {
        exchange.interim(exchange.present().0, HINTS);
    }

    #[test]
    fn interim_answers_go_before_the_answer_or_not_at_all() {
        let exchange = Exchange::default();
        hint(&exchange);
        assert_eq!(news(&exchange), News::default(), "nothing is asked");
        exchange.begins(true, false, None);
        hint(&exchange);
        assert_eq!(news(&exchange).interim, [HINTS]);
        hint(&exchange);
        assert_eq!(exchange.answered(), [HINTS]);
        hint(&exchange);
        exchange.begins(false, false, None);
        hint(&exchange);
        assert_eq!((news(&exchange), exchange.answered().len()), (News::default(), 0));
    }

    #[test]
    fn who_heard_everything_need_not_ask() {
        let exchange = Exchange::default();
        exchange.begins(true, false, None);
        assert!(!exchange.has_news());
        hint(&exchange);
        assert!(exchange.has_news());
        exchange.news(false, false, &Context::from_waker(Waker::noop()));
        assert!(exchange.has_news(), "one waits for room");
        news(&exchange);
        assert!(!exchange.has_news());
        exchange.mind_end();
        assert!(exchange.has_news() && news(&exchange).minds_end && !exchange.has_news());
    }

    #[test]
    fn interim_answers_wait_for_room_and_only_so_many() {
        let exchange = Exchange::default();
        exchange.begins(true, false, None);
        for _ in 0..=INTERIM {
            hint(&exchange);
        }
        let full = exchange.news(false, false, &Context::from_waker(Waker::noop()));
        assert_eq!(full, News::default(), "there is no room");
        assert_eq!(news(&exchange).interim.len(), INTERIM / HINTS.len());
        hint(&exchange);
        assert_eq!(exchange.answered(), [HINTS], "and there is room again");
    }

    #[test]
    fn what_is_said_of_a_request_does_not_hold_for_the_next() {
        let exchange = Exchange::default();
        exchange.begins(true, true, None);
        exchange.mind_end();
        exchange.break_off(Fault { kind: crate::wire::framing::Kind::Malformed, detail: "" });
        assert!(exchange.leaves_body() && exchange.broken().is_some() && news(&exchange).minds_end);
        exchange.begins(true, false, None);
        assert!(!exchange.leaves_body() && exchange.broken().is_none() && !news(&exchange).minds_end);
    }

    #[test]
    fn an_interim_answer_to_an_earlier_request_is_left_out() {
        let exchange = Exchange::default();
        exchange.begins(true, false, None);
        let (earlier, _) = exchange.present();
        exchange.answered();
        exchange.begins(true, false, None);
        exchange.interim(earlier, HINTS);
        assert_eq!(news(&exchange), News::default());
        hint(&exchange);
        assert_eq!(news(&exchange).interim, [HINTS]);
    }

    #[test]
    fn a_spelling_is_kept_for_one_and_no_longer_than_the_request() {
        let exchange = Exchange::default();
        let begins = || exchange.begins(true, false, Some(Spelling::of(Bytes::new(), &[])));
        begins();
        assert!(exchange.present().1.is_some() && exchange.present().1.is_none());
        begins();
        exchange.answered();
        assert!(exchange.present().1.is_none(), "an idle connection holds no memory");
    }
}
