//! What a running attempt and others tell each other while it waits for its upstream. One task at a time listens.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::machine::Time;

/// Its record is not in the store.
const MISSED: u8 = 1;
/// The gateway stops and has no time left: once said, it stays so.
const GIVEN_UP: u8 = 2;
/// Its outcome is on its way into the store, and others may know it before this gateway does: it stays so.
const ENDS: u8 = 4;

/// What an attempt is told, and until when others need not ask the store for it.
#[derive(Default)]
pub struct Told {
    said: AtomicU8,
    listener: AtomicWaker,
    /// In the store's time; 0 while nothing is known.
    granted: AtomicU64,
}

impl Told {
    /// Until then it is taken for granted that the store has the attempt on record, and that its lease holds.
    pub(super) fn grant(&self, until: Time) {
        self.granted.store(until.0, Ordering::Relaxed);
    }

    /// Until when that is taken for granted.
    pub(super) fn granted(&self) -> Time {
        if self.said.load(Ordering::Acquire) & ENDS == 0 { Time(self.granted.load(Ordering::Relaxed)) } else { Time(0) }
    }

    /// From now on nothing is taken for granted.
    pub(super) fn ends(&self) {
        self.said.fetch_or(ENDS, Ordering::AcqRel);
    }

    pub(super) fn is_missed(&self) {
        self.say(MISSED);
    }

    pub(super) fn is_given_up(&self) {
        self.say(GIVEN_UP);
    }

    fn say(&self, what: u8) {
        self.said.fetch_or(what, Ordering::AcqRel);
        self.listener.wake();
    }

    /// Ready when its record was missed since this was last asked.
    pub(super) fn poll_missed(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Before the look, so that nothing is missed that is said after it.
        self.listener.register(cx.waker());
        if self.said.load(Ordering::Acquire) & MISSED == 0 {
            return Poll::Pending;
        }
        self.said.fetch_and(!MISSED, Ordering::AcqRel);
        Poll::Ready(())
    }

    /// Until the gateway has no time left.
    pub async fn given_up(&self) {
        poll_fn(|cx| {
            self.listener.register(cx.waker());
            if self.said.load(Ordering::Acquire) & GIVEN_UP == 0 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_missed_record_is_told_once_and_the_end_for_good() {
        let (told, mut cx) = (Told::default(), Context::from_waker(Waker::noop()));
        assert!(told.poll_missed(&mut cx).is_pending());
        told.is_missed();
        assert!(told.poll_missed(&mut cx).is_ready());
        assert!(told.poll_missed(&mut cx).is_pending());
        told.is_given_up();
        assert!(told.poll_missed(&mut cx).is_pending());
        for _ in 0..2 {
            assert!(pin!(told.given_up()).poll(&mut cx).is_ready());
        }
    }

    #[tokio::test]
    async fn who_listens_is_woken() {
        let told = std::sync::Arc::new(Told::default());
        let listener = tokio::spawn({
            let told = std::sync::Arc::clone(&told);
            async move { told.given_up().await }
        });
        tokio::task::yield_now().await;
        told.is_given_up();
        tokio::time::timeout(std::time::Duration::from_secs(10), listener).await.unwrap().unwrap();
    }
}
