//! Timers that are lent: setting one anew costs more than using one that another has used before. When they ring, and for
//! what, is their users' matter.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use super::patience::Alarm;

/// How many are kept when nobody uses them.
const KEPT: usize = 1_024;

/// The timers of one runtime.
#[derive(Debug, Clone, Default)]
pub struct Alarms(Arc<Mutex<Vec<Alarm>>>);

/// A timer, for as long as it is needed.
#[derive(Debug)]
pub struct Lent {
    alarm: Alarm,
    owner: Alarms,
}

impl Alarms {
    /// One of them.
    pub fn lend(&self) -> Lent {
        let alarm = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        Lent { alarm, owner: self.clone() }
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
        let mut kept = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            self.alarm.forget();
            kept.push(std::mem::take(&mut self.alarm));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[tokio::test]
    async fn a_timer_that_is_kept_holds_no_task() {
        let (alarms, task) = (Alarms::default(), Arc::new(Task));
        let waker = Arc::clone(&task).into();
        let mut lent = alarms.lend();
        let late = Clock::instant() + Duration::from_mins(1);
        assert!(lent.poll_until(&mut Context::from_waker(&waker), late).is_pending());
        drop(waker);
        assert!(Arc::strong_count(&task) > 1);
        drop(lent);
        assert_eq!((Arc::strong_count(&task), alarms.0.lock().unwrap().len()), (1, 1));
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
        assert!(alarms.0.lock().unwrap().is_empty(), "it is the same one");
        poll_fn(|cx| third.poll_until(cx, until(40))).await;
        assert!(Clock::instant() >= until(40) && Clock::instant() < until(60_000));
    }
}
