//! A request's body on its way from its connection to whoever reads it, one piece at a time, when it is asked for. How
//! the connection finds the pieces, and how long they may take, is not its matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::framing::Fault;

/// The connection's end. Dropped before the body's end, it breaks the body off.
#[derive(Debug)]
pub struct Feeder(Arc<Mutex<State>>);

/// The reader's end. Dropped, it wants no more.
#[derive(Debug)]
pub struct Feed {
    state: Arc<Mutex<State>>,
    /// How much is still to come, if that is known.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    piece: Option<Bytes>,
    end: Option<Result<(), Cut>>,
    /// The reader waits for a piece; or it is gone.
    asked: bool,
    gone: bool,
    reader: Option<Waker>,
    feeder: Option<Waker>,
}

/// Why a body has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// What came is no body.
    #[error(transparent)]
    Malformed(Fault),
    /// The client sends no more.
    #[error("the client sent no more")]
    Left,
}

/// The two ends of a body of that length, if it is known.
pub fn feed(length: Option<u64>) -> (Feeder, Feed) {
    let state = Arc::<Mutex<State>>::default();
    (Feeder(Arc::clone(&state)), Feed { state, left: length })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feeder {
    /// Until a piece is asked for, or the reader is gone: whether one is.
    pub fn poll_asked(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if state.asked || state.gone {
            return Poll::Ready(!state.gone);
        }
        attend(&mut state.feeder, cx);
        Poll::Pending
    }

    /// Gives the piece that was asked for. A reader in the same task is not woken: it has its turn when this returns.
    pub fn give(&self, piece: Bytes, cx: &Context<'_>) {
        let mut state = lock(&self.0);
        state.piece = Some(piece);
        state.asked = false;
        wake(state, cx);
    }

    /// Nothing more comes. The same holds for the reader as above.
    pub fn end(self, end: Result<(), Cut>, cx: &Context<'_>) {
        let mut state = lock(&self.0);
        state.end = Some(end);
        wake(state, cx);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        if state.end.is_none() {
            state.end = Some(Err(Cut::Left));
            let reader = state.reader.take();
            drop(state);
            reader.inspect(Waker::wake_by_ref);
        }
    }
}

impl Feed {
    /// How much is still to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    pub(super) fn poll_piece(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let mut state = lock(&self.state);
        if let Some(piece) = state.piece.take() {
            let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            self.left = self.left.map(|left| left.saturating_sub(length));
            return Poll::Ready(Some(Ok(piece)));
        }
        match state.end {
            Some(Ok(())) => {
                drop(state);
                self.left = Some(0);
                Poll::Ready(None)
            }
            Some(Err(cut)) => Poll::Ready(Some(Err(cut))),
            None => {
                attend(&mut state.reader, cx);
                let feeder = if state.asked { None } else { state.feeder.take() };
                state.asked = true;
                drop(state);
                feeder.inspect(Waker::wake_by_ref);
                Poll::Pending
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.gone = true;
        let feeder = state.feeder.take();
        drop(state);
        feeder.inspect(Waker::wake_by_ref);
    }
}

/// Remembers whom to wake.
fn attend(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

fn wake(mut state: MutexGuard<'_, State>, cx: &Context<'_>) {
    let reader = state.reader.take().filter(|reader| !reader.will_wake(cx.waker()));
    drop(state);
    reader.inspect(Waker::wake_by_ref);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn piece(feed: &mut Feed) -> Option<Result<Bytes, Cut>> {
        poll_fn(|cx| feed.poll_piece(cx)).await
    }

    async fn asked(feeder: &Feeder) -> bool {
        poll_fn(|cx| feeder.poll_asked(cx)).await
    }

    async fn now<T>(act: impl FnOnce(&Context<'_>) -> T) -> T {
        let mut act = Some(act);
        poll_fn(|cx| Poll::Ready(act.take().unwrap()(cx))).await
    }

    #[tokio::test]
    async fn a_piece_comes_when_it_is_asked_for() {
        let (feeder, mut feed) = feed(Some(4));
        assert!(now(|cx| feeder.poll_asked(cx).is_pending()).await, "nobody asks yet");
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(piece) = piece(&mut feed).await {
                seen.extend_from_slice(&piece.unwrap());
                seen.push(b'|');
            }
            (seen, feed.left())
        });
        for part in ["ab", "cd"] {
            assert!(asked(&feeder).await);
            now(|cx| feeder.give(Bytes::from_static(part.as_bytes()), cx)).await;
        }
        assert_eq!(reader.await.unwrap(), (b"ab|cd|".to_vec(), Some(0)), "of a known length, the end needs no word");
        assert!(!asked(&feeder).await, "the reader is gone");
    }

    #[tokio::test]
    async fn a_body_without_an_end_is_cut() {
        for known in [None, Some(9)] {
            let (feeder, mut feed) = feed(known);
            now(|cx| feeder.give(Bytes::from_static(b"ab"), cx)).await;
            drop(feeder);
            assert_eq!(piece(&mut feed).await, Some(Ok(Bytes::from_static(b"ab"))));
            assert_eq!(piece(&mut feed).await, Some(Err(Cut::Left)));
        }
        let (feeder, mut feed) = feed(None);
        assert!(now(|cx| feed.poll_piece(cx)).await.is_pending());
        let ended = tokio::spawn(async move { (piece(&mut feed).await, feed.left()) });
        tokio::task::yield_now().await;
        now(|cx| feeder.end(Ok(()), cx)).await;
        assert_eq!(ended.await.unwrap(), (None, Some(0)));
    }
}
