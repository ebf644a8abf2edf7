//! How a server's name becomes addresses. When it is asked again, and what the answer changes, is decided elsewhere.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

/// Something that knows the addresses of names.
pub trait Resolver: Debug + Send + Sync {
    /// All addresses of a host, with this port. An error and an empty answer are the same: none is known.
    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's own resolver: hosts file, DNS, whatever this machine is set to ask.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let (tell, told) = oneshot::channel();
        let host = host.to_owned();
        // A thread of its own, not one of the runtime's: a runtime would wait at its end for a lookup that hangs.
        let asked = std::thread::Builder::new().name("oncegate-lookup".to_owned()).spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Whoever asked may have given up waiting.
            let _ = tell.send(found);
        });
        Box::pin(async move {
            asked?;
            told.await.unwrap_or_else(|_| Err(io::Error::other("the lookup broke off")))
        })
    }
}
