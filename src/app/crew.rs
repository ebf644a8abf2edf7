//! The gateway's threads: they begin while the rest is still made, each with its runtime and its way to the store, and
//! wait for their work. What that is, they are told.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::{StartError, house, runtime, worker};
use crate::store::{Opened, Store};

/// The house, which asks the store whether it may be used.
pub(super) struct Asking {
    house: Hand<house::Work>,
    refusal: oneshot::Receiver<Option<String>>,
}

/// A thread that waits for its work. One that is given none ends, and is waited for.
pub(super) struct Hand<W> {
    work: Option<oneshot::Sender<W>>,
    /// Says that it has all it needs.
    ready: mpsc::Receiver<()>,
    thread: Option<Thread>,
}

/// Fails only before it is ready.
type Thread = JoinHandle<io::Result<()>>;

impl Asking {
    /// Begins the house's thread, which asks at once.
    pub(super) fn begin(store: &Arc<Opened>) -> Result<Self, StartError> {
        let (asked, refusal) = oneshot::channel();
        let (opened, line) = (Arc::clone(store), store.for_worker());
        // Nobody hears it where the start has failed meanwhile.
        let ask = async move { asked.send(opened.refusal().await).unwrap_or_default() };
        let house = Hand::hire("oncegate-house", ask, |work| house::run(work, line))?;
        Ok(Self { house, refusal })
    }

    /// Waits for the answer: the house, unless the store says already that it must not be used.
    pub(super) fn end(mut self) -> Result<Hand<house::Work>, StartError> {
        match self.refusal.blocking_recv() {
            Ok(None) => Ok(self.house),
            Ok(Some(reason)) => Err(StartError::Refused(reason)),
            Err(_) => Err(self.house.fault()),
        }
    }
}

/// Begins the workers' threads, which make their way to the store at once.
pub(super) fn workers(store: &Opened, count: usize) -> Result<Vec<Hand<worker::Work>>, StartError> {
    let worker = |index| {
        let line = store.for_worker();
        let meeting = meet(Arc::clone(&line));
        Hand::hire("oncegate-worker", meeting, move |work| worker::run(work, index, line))
    };
    (0..count).map(worker).collect()
}

/// Has a way to the store before the first request needs one. Whoever needs the store says what is wrong with it.
async fn meet(store: Arc<dyn Store>) {
    let _ = store.time().await;
}

impl<W: Send + 'static> Hand<W> {
    /// Begins a thread. What it prepares goes on beside its work.
    fn hire<F: Future<Output = ()> + Send>(
        name: &str,
        preparation: impl Future<Output = ()> + Send + 'static,
        run: impl FnOnce(W) -> F + Send + 'static,
    ) -> Result<Self, StartError> {
        let (work, given) = oneshot::channel();
        let (has_all, ready) = mpsc::channel();
        let live = move || {
            let runtime = runtime()?;
            // Nobody hears it where the start has failed meanwhile.
            has_all.send(()).unwrap_or_default();
            runtime.block_on(async move {
                tokio::spawn(preparation);
                if let Ok(work) = given.await {
                    run(work).await;
                }
            });
            Ok(())
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(live).map_err(StartError::Thread)?;
        Ok(Self { work: Some(work), ready, thread: Some(thread) })
    }

    /// Gives it its work, once it is ready: what it was given before it failed would be lost in silence.
    pub(super) fn set_to(mut self, work: W) -> Result<Thread, StartError> {
        let taken = self.ready.recv().is_ok() && self.work.take().is_some_and(|hand| hand.send(work).is_ok());
        match self.thread.take() {
            Some(thread) if taken => Ok(thread),
            thread => Err(why_it_ended(thread)),
        }
    }

    /// Why a thread that should wait for its work does not.
    fn fault(&mut self) -> StartError {
        why_it_ended(self.thread.take())
    }
}

fn why_it_ended(thread: Option<Thread>) -> StartError {
    let ended = thread.and_then(|thread| thread.join().ok());
    StartError::Thread(ended.and_then(Result::err).unwrap_or_else(|| io::Error::other("it ended by a panic")))
}

impl<W> Drop for Hand<W> {
    fn drop(&mut self) {
        self.work = None;
        // How it ended is of no interest: it did nothing.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
