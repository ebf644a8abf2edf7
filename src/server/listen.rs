//! Listening sockets. What becomes of connections is not their matter.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections waiting to be accepted, per listener.
const BACKLOG: i32 = 1024;

/// One listener for each worker, all on the same address: the kernel spreads connections over them.
///
/// # Errors
/// When the address cannot be had.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // Alone first: sharing a port is for the workers of one gateway. Another gateway that listens there, with a store
    // of its own, would run its half of the duplicates.
    let alone = listener(address, false)?;
    if workers <= 1 {
        return Ok(vec![alone]);
    }
    let address = alone.local_addr()?;
    drop(alone);
    (0..workers).map(|_| listener(address, true)).collect()
}

fn listener(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_an_address_and_others_do_not() {
        let first = bind(([127, 0, 0, 1], 0).into(), 2).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(first[1].local_addr().unwrap(), address);
        for workers in [1, 2] {
            assert_eq!(bind(address, workers).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }
}
