//! One worker: a single-threaded runtime with a listener, a way to the store and upstream connections of its own.

use std::net::TcpListener;
use std::sync::Arc;

use http::Request;

use super::{LAST_WRITES, Parts};
use crate::arbiter::Arbiter;
use crate::gateway::Gateway;
use crate::server::{self, Doorway};
use crate::store::Store;
use crate::upstream::Upstream;
use crate::wire::{Client, Inbound};

/// Serves until the gateway stops and everything under way has ended, or `drain_timeout` has passed.
pub(super) async fn run(parts: Parts, store: Arc<dyn Store>, listener: TcpListener, doorway: Doorway) {
    let arbiter = Arc::new(Arbiter::new(store, Arc::clone(&parts.arbiter)));
    let upstreams = parts.settings.upstreams.iter().map(|settings| Arc::new(Upstream::new(settings.clone()))).collect();
    let gateway = Arc::new(Gateway::new(Arc::clone(&parts.gateway), arbiter, upstreams));
    let handle = move |request: Request<Inbound>, client: Arc<Client>| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.handle(request, &client).await }
    };
    let serving = async {
        if let Err(error) = server::serve(listener, doorway, handle).await {
            tracing::error!(%error, "listener lost");
        }
        parts.arbiter.tasks.close();
        parts.arbiter.tasks.wait().await;
    };
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return,
        () = parts.overdue() => {}
    }
    tracing::warn!("drain_timeout passed: what is still under way is given up, in doubt");
    parts.arbiter.tasks.close();
    parts.arbiter.give_up.cancel();
    // Connections may still hang; the attempts' doubts are what has to be written.
    let _ = tokio::time::timeout(LAST_WRITES, async {
        tokio::select! { () = serving => {}, () = parts.arbiter.tasks.wait() => {} }
    })
    .await;
}
