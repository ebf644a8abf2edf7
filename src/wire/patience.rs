//! How long somebody's bytes are waited for: between two of them, and in all. Whose bytes they are is not its matter.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;
use tokio::time::{Sleep, sleep_until};

use crate::clock::Clock;

/// What tells a task from all others while the timer knows whom to wake: it keeps the task's memory, so that no other task
/// comes to stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sign {
    data: usize,
    table: usize,
}

impl Sign {
    fn of(task: &Waker) -> Self {
        Self { data: task.data().addr(), table: std::ptr::from_ref(task.vtable()).addr() }
    }
}

/// A timer that is set anew with every poll, and costs next to nothing while it is set to later times.
#[derive(Debug, Default)]
pub struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Who is woken by it. Telling the timer the same again would take it several locked steps.
    task: Option<Sign>,
}

impl Alarm {
    /// Ready when `at` has passed. Until then the task is woken in time, perhaps also earlier.
    pub fn poll_until(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let wanted = at.into();
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(wanted)));
        if sleep.deadline() > wanted {
            sleep.as_mut().reset(wanted);
            self.task = None;
        }
        if !sleep.is_elapsed() && self.task == Some(Sign::of(cx.waker())) {
            return Poll::Pending;
        }
        // A timer that is asked keeps the task, also one that rings.
        self.task = Some(Sign::of(cx.waker()));
        while ring(sleep, cx).is_ready() {
            if Clock::instant() >= at {
                return Poll::Ready(());
            }
            // It was set to an earlier time, which nobody waits for any longer.
            sleep.as_mut().reset(wanted);
        }
        Poll::Pending
    }

    /// Lets go of the task that would be woken. Until then its memory stays, also when it has long ended.
    pub fn forget(&mut self) {
        if let (Some(sleep), Some(_)) = (&mut self.sleep, self.task.take()) {
            let _ = ring(sleep, &mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Asks a timer, which then knows whom to wake, also where the task has had its turn: then a timer would wake it at once,
/// and know nobody.
fn ring(sleep: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    pin!(unconstrained(sleep.as_mut())).poll(cx)
}

/// What was waited for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// The next byte.
    Idle,
    /// The whole.
    Total,
}

/// The patience with one stream of bytes. Without limits it is endless.
#[derive(Debug, Default)]
pub struct Patience {
    idle: Option<Duration>,
    until: Option<Instant>,
    /// Since when the next byte is waited for.
    waiting: Option<Instant>,
    alarm: Alarm,
}

impl Patience {
    /// Waits this long for each next byte.
    pub fn between_bytes(&mut self, idle: Option<Duration>) {
        self.idle = idle;
    }

    /// Waits until then for the whole.
    pub fn in_all(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Bytes came. An error when it is too late for the whole.
    pub fn moved(&mut self) -> Result<(), Lapse> {
        self.waiting = None;
        match self.until {
            Some(until) if Clock::instant() >= until => Err(Lapse::Total),
            _ => Ok(()),
        }
    }

    /// No byte is there. Only the time in which somebody asks for one counts.
    pub fn poll_lapse(&mut self, cx: &mut Context<'_>) -> Poll<Lapse> {
        let idle = self.idle.map(|idle| *self.waiting.get_or_insert_with(Clock::lately) + idle);
        let (at, lapse) = match (idle, self.until) {
            (Some(idle), Some(until)) if until < idle => (until, Lapse::Total),
            (Some(idle), _) => (idle, Lapse::Idle),
            (None, Some(until)) => (until, Lapse::Total),
            (None, None) => return Poll::Pending,
        };
        self.alarm.poll_until(cx, at).map(|()| lapse)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn an_alarm_follows_its_time_in_both_directions() {
        let mut alarm = Alarm::default();
        let start = Clock::instant();
        let set = |alarm: &mut Alarm, cx: &mut Context<'_>, after| alarm.poll_until(cx, start + after);
        poll_fn(|cx| {
            assert!(set(&mut alarm, cx, LONG).is_pending());
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| set(&mut alarm, cx, SHORT)).await;
        assert!(start.elapsed() >= SHORT);
        poll_fn(|cx| {
            assert!(set(&mut alarm, cx, LONG).is_pending(), "it rang for a time that has passed");
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| set(&mut alarm, cx, 3 * SHORT)).await;
        assert!(start.elapsed() >= 3 * SHORT && start.elapsed() < LONG);
    }

    #[tokio::test]
    async fn an_alarm_wakes_who_asked_last() {
        let (mut alarm, at) = (Alarm::default(), Clock::instant() + SHORT);
        for _ in 0..2 {
            assert!(alarm.poll_until(&mut Context::from_waker(Waker::noop()), at).is_pending());
        }
        poll_fn(|cx| alarm.poll_until(cx, at)).await;
        alarm.forget();
        assert!(Clock::instant() >= at);
    }

    /// A task that has done much in one turn is to rest; its timers ring all the same.
    #[tokio::test]
    async fn an_alarm_rings_that_was_set_at_the_end_of_a_tasks_turn() {
        let rung = tokio::spawn(async {
            let (mut alarm, at) = (Alarm::default(), Clock::instant() + SHORT);
            let worked_off = poll_fn(|cx| {
                while has_budget_remaining() {
                    let _ = pin!(consume_budget()).poll(cx);
                }
                Poll::Ready(alarm.poll_until(cx, at).is_pending())
            });
            assert!(worked_off.await);
            poll_fn(|cx| alarm.poll_until(cx, at)).await;
        });
        tokio::time::timeout(LONG, rung).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn bytes_renew_the_patience_between_them_and_not_that_with_the_whole() {
        let mut patience = Patience::default();
        patience.between_bytes(Some(SHORT));
        patience.in_all(Clock::instant() + LONG);
        assert_eq!(poll_fn(|cx| patience.poll_lapse(cx)).await, Lapse::Idle);
        assert_eq!(patience.moved(), Ok(()));
        let pending = poll_fn(|cx| Poll::Ready(patience.poll_lapse(cx).is_pending()));
        assert!(pending.await, "the wait for the next byte has only begun");
        patience.between_bytes(Some(LONG));
        patience.in_all(Clock::instant());
        assert_eq!(poll_fn(|cx| patience.poll_lapse(cx)).await, Lapse::Total);
        assert_eq!(patience.moved(), Err(Lapse::Total));
    }
}
