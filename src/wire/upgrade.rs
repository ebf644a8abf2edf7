//! A connection that leaves HTTP: how it gets from whoever served it to whoever takes it over. What is spoken on it then
//! is nobody's matter here.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::Ahead;

/// A way for bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that speaks another protocol now, some of which may have been read already.
pub type Upgraded = Ahead<Box<dyn Duplex>>;

/// The one who serves the connection: gives it away when the other protocol begins. Dropped, it never does.
pub struct Handover(oneshot::Sender<Upgraded>);

/// The connection, once it is given away; an error when it never will be, or was given to a clone.
#[derive(Debug, Clone)]
pub struct OnUpgrade(Arc<Mutex<Option<oneshot::Receiver<Upgraded>>>>);

/// The two ends of a connection's change to another protocol.
pub fn upgrade() -> (Handover, OnUpgrade) {
    let (give, take) = oneshot::channel();
    (Handover(give), OnUpgrade(Arc::new(Mutex::new(Some(take)))))
}

impl Handover {
    /// Gives the connection away, and what had been read behind HTTP's last byte.
    pub fn give(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, begun: Bytes) {
        // Whoever waited may have given up: then the connection ends here.
        let _ = self.0.send(Ahead::behind(begun, Box::new(io)));
    }
}

impl Future for OnUpgrade {
    type Output = io::Result<Upgraded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Upgraded>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(awaited) = &mut *taken else { return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())) };
        let given = ready!(Pin::new(awaited).poll(cx));
        *taken = None;
        Poll::Ready(given.map_err(|_| io::ErrorKind::ConnectionAborted.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_was_read_already_comes_first() {
        let (handover, awaited) = upgrade();
        let (mut near, far) = duplex(64);
        near.write_all(b"def").await.unwrap();
        handover.give(far, Bytes::from_static(b"abc"));
        let clone = awaited.clone();
        let mut upgraded = awaited.await.unwrap();
        assert!(clone.await.is_err(), "it is given away once");
        let mut read = [0; 6];
        upgraded.read_exact(&mut read).await.unwrap();
        upgraded.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!((&read, &back), (b"abcdef", b"back"));
    }

    #[tokio::test]
    async fn a_connection_that_stays_with_http_is_an_error() {
        let (handover, awaited) = upgrade();
        drop(handover);
        assert_eq!(awaited.await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
