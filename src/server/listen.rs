//! Listening sockets: bound, taken over, and closed without losing a connection. What becomes of connections is not
//! their matter.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream as StdStream};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;

/// Connections waiting to be accepted, per listener.
const BACKLOG: i32 = 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: TcpListener,
    /// Somebody else keeps the socket open, such as systemd: it outlives us, and what waits in it is not ours to end.
    pub(super) lent: bool,
}

impl Listener {
    /// A socket that this process was started with; one handle for each worker.
    ///
    /// # Errors
    /// When it cannot be had so often.
    pub fn lent(socket: &TcpListener, workers: usize) -> io::Result<Vec<Self>> {
        socket.set_nonblocking(true)?;
        (0..workers.max(1)).map(|_| Ok(Self { socket: socket.try_clone()?, lent: true })).collect()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// One listener for each worker, all on the same address: the kernel spreads connections over them. With `shared`,
/// listeners of other processes of the same user may be there too.
///
/// # Errors
/// When the address cannot be had.
pub fn bind(address: SocketAddr, workers: usize, shared: bool) -> io::Result<Vec<Listener>> {
    if shared {
        return together(address, workers);
    }
    // Alone first: sharing a port is for the workers of one gateway. Another gateway that listens there, with a store
    // of its own, would run its half of the duplicates.
    let alone = listener(address, false)?;
    if workers <= 1 {
        return Ok(vec![alone]);
    }
    let address = alone.local_addr()?;
    drop(alone);
    together(address, workers)
}

fn together(address: SocketAddr, workers: usize) -> io::Result<Vec<Listener>> {
    let first = listener(address, true)?;
    // Where any port will do, it is the same for all.
    let address = first.local_addr()?;
    let others = (1..workers).map(|_| listener(address, true));
    std::iter::once(Ok(first)).chain(others).collect()
}

fn listener(address: SocketAddr, shared: bool) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(Listener { socket: socket.into(), lent: false })
}

/// From now on the kernel passes over whoever wants to begin a connection, while those who have begun get to its end.
///
/// A listening socket that is closed resets every connection that waits in it, and nobody can look and close in one
/// step. A client whose first packet is passed over sends it again after a second: then it is refused, which is proof
/// that nothing was sent, or meets another gateway that shares the port.
#[cfg(target_os = "linux")]
pub(super) fn pass_over_newcomers(socket: &SockRef<'_>) -> io::Result<()> {
    use socket2::SockFilter;
    // Classic BPF over the TCP header: of SYN and ACK in byte 13, only SYN is set? Then nothing of the packet is kept.
    const SYN_ALONE: [SockFilter; 5] = [
        SockFilter::new(0x30, 0, 0, 13),
        SockFilter::new(0x54, 0, 0, 0x12),
        SockFilter::new(0x15, 0, 1, 0x02),
        SockFilter::new(0x06, 0, 0, 0),
        SockFilter::new(0x06, 0, 0, u32::MAX),
    ];
    socket.attach_filter(&SYN_ALONE)
}

/// Elsewhere the kernel cannot be told.
#[cfg(not(target_os = "linux"))]
pub(super) fn pass_over_newcomers(_: &SockRef<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The connections that wait in a listener at this moment.
pub(super) fn waiting(listener: &TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let ready = |stream: StdStream| stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)).ok();
    std::iter::from_fn(|| listener.accept().ok()).filter_map(move |(stream, peer)| Some((ready(stream)?, peer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_an_address_and_others_do_not() {
        let first = bind(([127, 0, 0, 1], 0).into(), 2, false).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(first[1].local_addr().unwrap(), address);
        for workers in [1, 2] {
            assert_eq!(bind(address, workers, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn newcomers_are_passed_over_and_whoever_has_come_is_not() {
        use std::io::{Read, Write};
        let listener = bind(([127, 0, 0, 1], 0).into(), 1, false).unwrap().pop().unwrap().socket;
        let address = listener.local_addr().unwrap();
        let mut early = StdStream::connect(address).unwrap();
        pass_over_newcomers(&(&listener).into()).unwrap();
        let refusal = |patience| StdStream::connect_timeout(&address, patience).unwrap_err().kind();
        assert_eq!(refusal(std::time::Duration::from_millis(200)), io::ErrorKind::TimedOut);
        let (mut taken, _) = listener.accept().unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "somebody else waits");
        early.write_all(b"still here").unwrap();
        let mut heard = [0; 10];
        taken.set_nonblocking(false).unwrap();
        taken.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"still here");
        drop(listener);
        assert_eq!(refusal(std::time::Duration::from_secs(9)), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_shares_lets_others_share_and_nobody_else() {
        let first = bind(([127, 0, 0, 1], 0).into(), 1, true).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(bind(address, 2, true).unwrap().len(), 2);
        assert_eq!(bind(address, 1, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
