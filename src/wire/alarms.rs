//! Timers that are lent: setting one anew costs more than using one that another has used before. When they ring, and for
//! what, is their users' matter.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use super::patience::Alarm;

/// How many a thread keeps when nobody uses them.
const KEPT: usize = 1_024;

thread_local! {
    /// Those that nobody uses, where they were given back last: no other thread waits for them.
    static UNUSED: RefCell<Unused> = const { RefCell::new(Unused { of: Alarms(0), alarms: Vec::new() }) };
}

/// The timers of one runtime, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarms(u64);

/// A timer, for as long as it is needed.
#[derive(Debug)]
pub struct Lent {
    alarm: Alarm,
    owner: Alarms,
}

/// Timers that a thread keeps: of one runtime, as its work is.
struct Unused {
    of: Alarms,
    alarms: Vec<Alarm>,
}

impl Default for Alarms {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Alarms {
    /// One of them.
    pub fn lend(self) -> Lent {
        let unused = |unused: &RefCell<Unused>| unused.borrow_mut().of(self).pop();
        let alarm = UNUSED.try_with(unused).ok().flatten().unwrap_or_default();
        Lent { alarm, owner: self }
    }
}

impl Unused {
    /// Those of this runtime, which takes the place of the one before.
    fn of(&mut self, owner: Alarms) -> &mut Vec<Alarm> {
        if self.of != owner {
            *self = Self { of: owner, alarms: Vec::new() };
        }
        &mut self.alarms
    }
}

impl Lent {
    /// As of an [`Alarm`].
    pub fn poll_until(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        self.alarm.poll_until(cx, at)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Before it is kept: what goes with the task may give back timers of its own.
        self.alarm.forget();
        let alarm = std::mem::take(&mut self.alarm);
        let _ = UNUSED.try_with(|unused| {
            let mut unused = unused.borrow_mut();
            let alarms = unused.of(self.owner);
            if alarms.len() < KEPT {
                alarms.push(alarm);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    fn kept(alarms: Alarms) -> usize {
        UNUSED.with_borrow_mut(|unused| unused.of(alarms).len())
    }

    #[tokio::test]
    async fn a_timer_that_is_kept_holds_no_task() {
        let now = Clock::instant();
        for (at, rings) in [(now + Duration::from_mins(1), false), (now, true)] {
            let (alarms, task) = (Alarms::default(), Arc::new(Task));
            let waker = Arc::clone(&task).into();
            let mut lent = alarms.lend();
            let mut asked = || lent.poll_until(&mut Context::from_waker(&waker), at).is_ready();
            while asked() != rings {
                tokio::task::yield_now().await;
            }
            drop(waker);
            assert!(Arc::strong_count(&task) > 1);
            drop(lent);
            assert_eq!((Arc::strong_count(&task), kept(alarms)), (1, 1), "{rings}");
        }
    }

    #[tokio::test]
    async fn a_timer_that_was_used_before_rings_at_the_time_of_its_next_user() {
        let (alarms, start) = (Alarms::default(), Clock::instant());
        let until = |after: u64| start + Duration::from_millis(after);
        let mut first = alarms.lend();
        assert!(poll_fn(|cx| Poll::Ready(first.poll_until(cx, until(60_000)).is_pending())).await);
        drop(first);
        let mut second = alarms.lend();
        poll_fn(|cx| second.poll_until(cx, until(20))).await;
        assert!(Clock::instant() >= until(20));
        drop(second);
        let mut third = alarms.lend();
        assert_eq!(kept(alarms), 0, "it is the same one");
        poll_fn(|cx| third.poll_until(cx, until(40))).await;
        assert!(Clock::instant() >= until(40) && Clock::instant() < until(60_000));
    }

    #[tokio::test]
    async fn a_runtime_uses_no_timer_of_another() {
        let (before, now) = (Alarms::default(), Alarms::default());
        drop((before.lend(), before.lend()));
        assert_eq!(kept(before), 2);
        drop(now.lend());
        assert_eq!(kept(now), 1);
    }
}
