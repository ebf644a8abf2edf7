//! The requests of an HTTP/2 connection as tasks, each under a clock while its client takes nothing of the answer. The
//! connection's own writes are `pace`'s matter.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::Executor;

use crate::clock::Clock;
use crate::telemetry::{Metrics, Timeout};
use crate::wire::Alarm;

tokio::task_local! {
    /// Since when the client has not taken what it was handed last; none while it is the one who waits.
    static HANDED: Cell<Option<Instant>>;
}

/// Runs each request as a task, and ends one whose client takes too long: its stream is then reset, and no other one.
#[derive(Clone)]
pub(super) struct Taken {
    pub(super) limit: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// Tells the present request's clock that its client was handed something, or waits for more.
pub(super) fn handed(something: bool) {
    // Outside of such a task there is no clock.
    let _ = HANDED.try_with(|since| since.set(something.then(Clock::instant)));
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Taken {
    fn execute(&self, request: F) {
        let Self { limit, metrics } = self.clone();
        let timed = async move {
            let mut request = Box::pin(request);
            let mut alarm = Alarm::default();
            let ended = poll_fn(|cx| {
                if request.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                let Some(since) = HANDED.with(Cell::get) else { return Poll::Pending };
                ready!(alarm.poll_until(cx, since + limit));
                Poll::Ready(false)
            });
            if !ended.await {
                metrics.timed_out(Timeout::ClientWrite);
            }
        };
        tokio::spawn(HANDED.scope(Cell::new(None), timed));
    }
}
