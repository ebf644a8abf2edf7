//! What a connection is doing: resting, bringing a request, being served. It knows no limits, and closes nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use http::Version;

use crate::clock::Clock;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is asked or answered, since then.
    Rest(Instant),
    /// The head of a request has been coming since then.
    Head(Instant),
    /// Requests are served.
    Busy,
    /// It makes room for another: nothing more is taken from it.
    Leaving,
}

/// One connection, as those who serve it see it together.
#[derive(Debug)]
pub struct Watch {
    state: Mutex<State>,
    /// Between `works` and `rests`: nobody tells the connection to leave, so who reads from it need not be known.
    working: AtomicBool,
    /// Whether the first byte after a rest begins a request; on HTTP/2 it may be anything.
    heads: bool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    turns: usize,
    /// The last request's body was not read to its end.
    unread: bool,
    /// What was written waits for the client to take it.
    stuck: bool,
    reader: Option<Waker>,
}

/// A request that is served. Its connection is busy until all that belongs to it has been dropped.
#[derive(Debug)]
pub struct Turn(Arc<Watch>);

impl Watch {
    /// A connection of this protocol that was just opened.
    pub fn new(version: Version) -> Self {
        let state = State { phase: Phase::Rest(Clock::instant()), turns: 0, unread: false, stuck: false, reader: None };
        Self { state: Mutex::new(state), working: AtomicBool::new(false), heads: version < Version::HTTP_2 }
    }

    /// Bytes came. False when they come too late: the connection has been told to leave.
    pub fn heard(&self) -> bool {
        let mut state = self.state();
        if let (Phase::Rest(_), true) = (state.phase, self.heads) {
            state.phase = Phase::Head(Clock::instant());
        }
        state.phase != Phase::Leaving
    }

    /// A request's head is there.
    pub fn begin(self: &Arc<Self>) -> Turn {
        let mut state = self.state();
        state.turns += 1;
        state.phase = Phase::Busy;
        state.unread = false;
        Turn(Arc::clone(self))
    }

    /// A request's head is there, and nothing of the next one before `rests` is called. What speaks another protocol
    /// after it stays busy.
    pub fn works(&self) {
        self.working.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.phase = Phase::Busy;
        state.unread = false;
    }

    /// The request is answered; `begun` says that bytes of the next one are there.
    pub fn rests(&self, begun: bool) {
        let now = Clock::lately();
        self.working.store(false, Ordering::Relaxed);
        self.state().phase = if begun { Phase::Head(now) } else { Phase::Rest(now) };
    }

    /// The client may be sending what nobody is going to read.
    pub fn leaves_unread(&self) {
        self.state().unread = true;
    }

    /// Whether written bytes wait for the client.
    pub fn stuck(&self, stuck: bool) {
        self.state().stuck = stuck;
    }

    /// What the connection is doing while nothing comes from it; `reader` is woken when it is told to leave. While an
    /// answer is on its way to the client, the connection is busy.
    pub fn waits(&self, reader: &Waker) -> Phase {
        if self.working.load(Ordering::Relaxed) {
            return Phase::Busy;
        }
        let mut state = self.state();
        if !state.reader.as_ref().is_some_and(|known| known.will_wake(reader)) {
            state.reader = Some(reader.clone());
        }
        match state.phase {
            // HTTP/2 says goodbye before it ends a rest.
            Phase::Rest(_) if !self.heads => Phase::Busy,
            _ if state.stuck => Phase::Busy,
            phase => phase,
        }
    }

    /// The gateway closes the connection. Says whether the client may be sending still.
    pub fn closes(&self) -> bool {
        self.working.store(false, Ordering::Relaxed);
        let mut state = self.state();
        let sending = state.unread || matches!(state.phase, Phase::Head(_));
        if state.phase != Phase::Leaving {
            state.phase = Phase::Rest(Clock::lately());
        }
        sending
    }

    /// Since when the connection has been resting, if it is.
    pub fn resting(&self) -> Option<Instant> {
        match *self.state() {
            State { phase: Phase::Rest(since), stuck: false, .. } => Some(since),
            _ => None,
        }
    }

    /// Tells a resting connection to leave. False when it rests no longer.
    pub fn dismiss(&self) -> bool {
        let mut state = self.state();
        let rests = matches!(state.phase, Phase::Rest(_)) && !state.stuck;
        if rests {
            state.phase = Phase::Leaving;
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
        rests
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The request's body is not going to be read to its end.
    pub(super) fn leaves_unread(&self) {
        self.0.state().unread = true;
    }
}

/// The same turn.
impl Clone for Turn {
    fn clone(&self) -> Self {
        self.0.state().turns += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.turns -= 1;
        if state.turns == 0 {
            state.phase = Phase::Rest(Clock::lately());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(watch: &Watch) -> Phase {
        watch.waits(Waker::noop())
    }

    #[test]
    fn a_request_is_a_head_then_a_turn_then_rest() {
        let watch = Arc::new(Watch::new(Version::HTTP_11));
        assert!(matches!(phase(&watch), Phase::Rest(_)));
        assert!(watch.heard());
        let Phase::Head(since) = phase(&watch) else { panic!("no head") };
        assert!(watch.heard());
        assert_eq!(phase(&watch), Phase::Head(since), "its time runs from the first byte");
        let turn = watch.begin();
        let body = turn.clone();
        drop(turn);
        assert!(watch.heard());
        assert_eq!(phase(&watch), Phase::Busy, "the body is still being read");
        drop(body);
        assert!(matches!(phase(&watch), Phase::Rest(_)));
    }

    #[test]
    fn frames_of_http_2_are_no_heads() {
        let watch = Watch::new(Version::HTTP_2);
        assert!(watch.heard());
        assert!(watch.resting().is_some());
        assert_eq!(phase(&watch), Phase::Busy, "its reader ends no rest: a goodbye comes first");
    }

    #[test]
    fn another_protocol_has_neither_rest_nor_head() {
        let watch = Arc::new(Watch::new(Version::HTTP_11));
        watch.works();
        assert!(watch.heard());
        assert_eq!(phase(&watch), Phase::Busy);
    }

    #[test]
    fn one_that_closes_at_work_can_be_told_to_leave() {
        let watch = Watch::new(Version::HTTP_11);
        watch.works();
        assert!(!watch.dismiss());
        watch.closes();
        assert!(watch.dismiss());
        assert_eq!(phase(&watch), Phase::Leaving);
    }

    #[test]
    fn only_a_connection_at_rest_can_be_told_to_leave() {
        let watch = Arc::new(Watch::new(Version::HTTP_11));
        let turn = watch.begin();
        assert!(!watch.dismiss() && watch.resting().is_none());
        drop(turn);
        watch.stuck(true);
        assert!(!watch.dismiss(), "its answer is not out yet");
        assert_eq!(phase(&watch), Phase::Busy);
        watch.stuck(false);
        assert!(watch.heard());
        assert!(!watch.dismiss(), "a request is coming");
        drop(watch.begin());
        assert!(watch.resting().is_some() && watch.dismiss());
        assert_eq!(phase(&watch), Phase::Leaving);
        assert!(!watch.heard(), "what comes now is not taken");
        assert!(!watch.dismiss(), "nobody is told twice");
    }

    #[test]
    fn a_client_may_be_sending_still_when_its_head_or_body_was_not_read() {
        let watch = Arc::new(Watch::new(Version::HTTP_11));
        assert!(!watch.closes());
        watch.heard();
        assert!(watch.closes());
        assert!(!watch.closes());
        watch.begin().leaves_unread();
        assert!(watch.closes());
        drop(watch.begin());
        assert!(!watch.closes());
    }
}
