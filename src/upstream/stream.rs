//! What bytes go over to a server: a socket, or TLS on it. It knows nothing of HTTP.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rustls::ProtocolVersion;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A way for bytes. Under TLS, what counts as written may still wait here.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The TLS that was agreed on, if there is any.
    pub(super) fn tls(&self) -> Option<ProtocolVersion> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.protocol_version(),
        }
    }

    /// What the event loop has heard of a connection on which nothing is awaited: nothing is the only good answer. Ready
    /// says why the connection is over. It asks the system nothing unless there is something to read.
    pub(super) fn news(&mut self) -> Poll<io::Error> {
        let mut byte = [0];
        over(match self {
            Self::Plain(socket) => socket.try_read(&mut byte),
            Self::Tls(stream) => {
                let mut byte = ReadBuf::new(&mut byte);
                match Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut byte) {
                    Poll::Ready(read) => read.map(|()| byte.filled().len()),
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        })
    }

    /// The same without the event loop, which may not have heard of the end yet.
    pub(super) fn look(&mut self) -> Poll<io::Error> {
        over(match self {
            Self::Plain(socket) => SockRef::from(&*socket).peek(&mut [MaybeUninit::uninit()]),
            Self::Tls(stream) => look_through_tls(stream),
        })
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("tls", &self.tls()).finish_non_exhaustive()
    }
}

/// Under TLS, a server is told that nothing more comes, as far as that goes without waiting.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Self::Tls(stream) = self {
            let (socket, session) = stream.get_mut();
            session.send_close_notify();
            let _ = session.write_tls(&mut &*SockRef::from(&*socket));
        }
    }
}

/// What a read of a byte says of a connection on which nothing is awaited.
fn over(read: io::Result<usize>) -> Poll<io::Error> {
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Poll::Pending,
        Err(error) => Poll::Ready(error),
        Ok(0) => Poll::Ready(closed()),
        Ok(_) => Poll::Ready(unasked()),
    }
}

/// Takes in what waits on the socket. What is TLS's own, such as tickets for later sessions, tells nothing.
fn look_through_tls(stream: &mut TlsStream<TcpStream>) -> io::Result<usize> {
    let (socket, session) = stream.get_mut();
    let socket = SockRef::from(&*socket);
    loop {
        let read = session.read_tls(&mut &*socket)?;
        let state = session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if state.plaintext_bytes_to_read() > 0 {
            return Ok(state.plaintext_bytes_to_read());
        }
        if read == 0 || state.peer_has_closed() {
            return Ok(0);
        }
    }
}

/// The server has ended the connection.
pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

/// Some servers say 408 before they close an idle connection. Whatever it is, it answers no request of ours.
fn unasked() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "unasked bytes on an idle connection")
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
}
