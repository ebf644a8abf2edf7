//! How far a stop has come. Every request looks at it, and workers look at the same one: so a look writes nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use tokio_util::sync::CancellationToken;

/// How far a stop has come. Clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// Connections are still taken, and end with the answer to their next request.
    pub announced: Step,
    /// No further connection is taken, and idle ones end too.
    pub begun: Step,
}

/// One step of a stop, which is taken once. Clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Beside the token, whose own answer takes a lock.
    taken: Arc<AtomicBool>,
    token: CancellationToken,
}

impl Step {
    /// The stop has come this far.
    pub fn take(&self) {
        // First: whoever the token wakes has to see it.
        self.taken.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it has.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Until it has. Asked again by the task that waits already, it looks and takes no lock.
    pub async fn taken(&self) {
        let mut cancelled = pin!(self.token.cancelled());
        let mut waiting: Option<Waker> = None;
        poll_fn(|cx| {
            if self.is_taken() {
                return Poll::Ready(());
            }
            if waiting.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            waiting = Some(cx.waker().clone());
            cancelled.as_mut().poll(cx)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_task_that_asked_last_is_woken_once_however_often_it_has_asked() {
        let (step, earlier, later) = (Step::default(), Arc::new(Task::default()), Arc::new(Task::default()));
        let mut taken = pin!(step.taken());
        for task in [&earlier, &earlier, &later, &later] {
            let waker = Arc::clone(task).into();
            assert!(taken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert!(!step.is_taken());
        step.clone().take();
        let woken = |task: &Task| task.0.load(Ordering::Relaxed);
        assert_eq!((step.is_taken(), woken(&earlier), woken(&later)), (true, 0, 1));
        assert!(taken.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[tokio::test]
    async fn a_step_that_was_taken_is_waited_for_no_longer() {
        let step = Step::default();
        step.take();
        step.taken().await;
    }
}
