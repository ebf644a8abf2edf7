//! One worker: a single-threaded runtime with a listener, a way to the store and upstream connections of its own.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::Request;
use tokio_util::task::TaskTracker;

use super::metronome::Metronome;
use super::state::Live;
use super::systemd::Pulse;
use super::{LAST_WRITES, Parts};
use crate::arbiter::Arbiter;
use crate::boxed::in_box;
use crate::gateway::Gateway;
use crate::server::{self, Listener};
use crate::store::Store;
use crate::wire::{Client, Inbound};

/// The worker's door, under the configuration in force.
struct Door {
    live: Arc<Live>,
    gateway: ArcSwap<Gateway>,
}

impl Door {
    /// The door as it is now. The first who asks after a reload makes the new one, with the old one's connections where
    /// their upstream is the same. Only this worker's thread asks.
    fn now(&self) -> Arc<Gateway> {
        let (state, gateway) = (self.live.peek(), self.gateway.load_full());
        if gateway.is_over(&state.gateway) {
            return gateway;
        }
        let fresh = Arc::new(gateway.succeeded_by(Arc::clone(&state.gateway)));
        self.gateway.store(Arc::clone(&fresh));
        fresh
    }

    /// Lets go of what a reload has replaced, also where no request comes.
    async fn follow(&self) {
        let mut exchanges = self.live.exchanges();
        while exchanges.changed().await.is_ok() {
            self.now();
        }
    }
}

/// What a worker is given to do.
pub(super) struct Work {
    pub(super) parts: Parts,
    pub(super) listener: Listener,
    pub(super) pulse: Pulse,
}

/// Serves until the gateway stops and everything under way has ended, or `drain_timeout` has passed.
pub(super) async fn run(work: Work, index: usize, store: Arc<dyn Store>) {
    let Work { parts, listener, pulse } = work;
    let arbiter = Arc::new(Arbiter::new(store, Arc::clone(&parts.arbiter)));
    let gateway = Gateway::new(Arc::clone(&parts.live.now().gateway), arbiter, index);
    let attempts = gateway.attempts().clone();
    let metronome = Arc::new(Metronome::default());
    let door = Arc::new(Door { live: Arc::clone(&parts.live), gateway: ArcSwap::from_pointee(gateway) });
    let serving = async {
        tokio::select! {
            () = serve(&parts, &door, &metronome, listener) => {}
            () = door.follow() => {}
            () = metronome.beat() => {}
            () = pulse.beat() => {}
        }
        over(&attempts, &parts).await;
    };
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return,
        () = parts.overdue() => {}
    }
    tracing::warn!("drain_timeout passed: what is still under way is given up, in doubt");
    parts.arbiter.give_up();
    // Connections may still hang; the attempts' doubts are what has to be written.
    let _ = tokio::time::timeout(LAST_WRITES, async {
        tokio::select! { () = serving => {}, () = over(&attempts, &parts) => {} }
    })
    .await;
}

/// Until the worker's attempts have ended, and then what all workers have begun, by attempts too.
async fn over(attempts: &TaskTracker, parts: &Parts) {
    for tasks in [attempts, &parts.arbiter.tasks] {
        tasks.close();
        tasks.wait().await;
    }
}

async fn serve(parts: &Parts, door: &Arc<Door>, metronome: &Arc<Metronome>, listener: Listener) {
    let (door, metronome) = (Arc::clone(door), Arc::clone(metronome));
    let handle = move |request: Request<Inbound>, client: Arc<Client>| {
        metronome.hear();
        let gateway = door.now();
        // Boxed: what serves the connection has no room for it of its own.
        in_box(|| gateway.handle(request, client))
    };
    let doorway = || Arc::clone(&parts.live.now().doorway);
    if let Err(error) = server::serve(listener, doorway, handle).await {
        tracing::error!(%error, "listener lost");
    }
}
