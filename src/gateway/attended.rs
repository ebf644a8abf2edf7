//! Work that its client's leaving does not end: it is done where the client waits for it, and from when the client leaves
//! on a task of its own. What the work is, it does not know.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::boxed::in_box;

/// Work that somebody waits for. Dropped before its end, it goes on by itself; outside of a runtime it cannot.
pub(super) struct Attended<'a, T: Send + 'static> {
    /// None when it has ended.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    tasks: &'a TaskTracker,
    /// So that a stop waits for it, as for all that goes on by itself.
    _counts: TaskTrackerToken,
}

/// The work has panicked. What it held is dropped.
#[derive(Debug)]
pub(super) struct Panicked;

impl<'a, T: Send + 'static> Attended<'a, T> {
    /// Work that is made here, where it stays.
    pub(super) fn new<W>(work: impl FnOnce() -> W, tasks: &'a TaskTracker) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        Self { work: Some(in_box(work)), tasks, _counts: tasks.token() }
    }
}

impl<T: Send + 'static> Future for Attended<'_, T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        // The work's own fault is no fault of the connection that it is done for.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(outcome)) => {
                self.work = None;
                Poll::Ready(Ok(outcome))
            }
            Err(_) => {
                self.work = None;
                Poll::Ready(Err(Panicked))
            }
        }
    }
}

impl<T: Send + 'static> Drop for Attended<'_, T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

/// What is handed to the client before the work has ended: one end of it is the client's, the other one the work's.
pub(super) struct Pipe<T>(Arc<Within<T>>);

struct Within<T> {
    /// Whether there is something: it nearly never is, and a look takes no lock.
    is_handed: AtomicBool,
    /// Boxed: it is nearly always empty.
    handed: Mutex<Option<Box<T>>>,
    left: AtomicBool,
}

/// The client's end. Dropped, the client has left.
pub(super) struct Listener<T>(Arc<Within<T>>);

impl<T> Pipe<T> {
    pub(super) fn new() -> (Self, Listener<T>) {
        let (is_handed, handed, left) = (AtomicBool::new(false), Mutex::new(None), AtomicBool::new(false));
        let within = Arc::new(Within { is_handed, handed, left });
        (Self(Arc::clone(&within)), Listener(within))
    }

    /// Whether the client has left.
    pub(super) fn is_left(&self) -> bool {
        self.0.left.load(Ordering::Acquire)
    }

    /// Hands it over, unless the client has left. What nobody takes any more goes with the pipe.
    pub(super) fn hand(self, what: T) -> bool {
        let stays = !self.is_left();
        if stays {
            *self.0.handed() = Some(Box::new(what));
            self.0.is_handed.store(true, Ordering::Release);
        }
        stays
    }
}

impl<T> Within<T> {
    /// No step panics half-way.
    fn handed(&self) -> MutexGuard<'_, Option<Box<T>>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Listener<T> {
    /// What has been handed over. The one who asks is the one who works: nobody has to be woken for it.
    pub(super) fn take(&self) -> Option<T> {
        if !self.0.is_handed.load(Ordering::Acquire) {
            return None;
        }
        self.0.handed().take().map(|handed| *handed)
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_is_done_where_it_is_waited_for() {
        let tasks = TaskTracker::new();
        let here = tokio::task::try_id();
        let work = Attended::new(|| async move { tokio::task::try_id() == here }, &tasks);
        assert_eq!(tasks.len(), 1);
        assert!(work.await.unwrap());
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_any_more() {
        let tasks = TaskTracker::new();
        let (go, gone) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let mut work = Attended::new(
            || async move {
                gone.await.unwrap();
                done.send(()).unwrap();
            },
            &tasks,
        );
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut work).await.is_err());
        drop(work);
        assert_eq!(tasks.len(), 1);
        go.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(10), end).await.unwrap().unwrap();
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn a_panic_stays_with_the_work() {
        let tasks = TaskTracker::new();
        let held = Arc::new(());
        let within = Arc::clone(&held);
        let work = Attended::new(
            || async move {
                tokio::task::yield_now().await;
                assert!(Arc::strong_count(&within) > 5, "this is meant to panic");
            },
            &tasks,
        );
        assert!(work.await.is_err());
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(tasks.is_empty());
    }

    #[test]
    fn a_pipe_carries_one_thing_to_whoever_has_not_left() {
        let (pipe, listener) = Pipe::new();
        assert!(listener.take().is_none() && !pipe.is_left());
        assert!(pipe.hand(1));
        assert_eq!((listener.take(), listener.take()), (Some(1), None));
        let (pipe, listener) = Pipe::new();
        drop(listener);
        assert!(pipe.is_left() && !pipe.hand(2));
    }
}
