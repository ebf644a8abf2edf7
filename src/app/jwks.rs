//! What time brings to the keys that tokens are verified with: a loop round a step of theirs.

use super::state::Live;

/// Keeps up to date what the configuration in force names, for ever.
pub(super) async fn tend(live: &Live) {
    let mut exchanges = live.exchanges();
    loop {
        let state = live.now();
        let keeping = async {
            match state.gateway.ring() {
                Some(ring) => ring.tend().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = keeping => {}
            next = exchanges.changed() => if next.is_err() { return },
        }
    }
}
