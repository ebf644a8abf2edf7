//! The lossy proxy of the store's tests, for tests without a runtime of their own.

#[allow(dead_code, reason = "these tests use a part of it")]
#[allow(unreachable_pub, reason = "it is shared")]
#[path = "../stores/redis/proxy.rs"]
mod proxy;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

pub(crate) use proxy::Proxy;

/// A proxy that runs in a thread of its own until it is dropped.
pub(crate) struct Lossy {
    pub(crate) proxy: Proxy,
    _stop: oneshot::Sender<()>,
}

impl Lossy {
    /// In front of 127.0.0.1:`port`.
    pub(crate) fn to(port: u16) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                ready.send(Proxy::to(port).await).unwrap();
                // Ends with an error when the sender is dropped: that is the sign.
                let _ = stopped.await;
            });
        });
        Self { proxy: started.recv().unwrap(), _stop: stop }
    }
}
