//! Bytes on bare sockets, on both sides of the gateway: for what is no plain exchange of a request and an answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use crate::client::{PATIENCE, connect};

/// Serves every connection with `serve`, on a free port, until the process ends.
pub(crate) fn serve(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads a head to its end, and not a byte more.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {}", head.escape_ascii()));
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Reads exactly these bytes.
pub(crate) fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    stream.read_exact(&mut read).unwrap_or_else(|error| panic!("{error} instead of {}", bytes.escape_ascii()));
    assert_eq!(read.escape_ascii().to_string(), bytes.escape_ascii().to_string());
}

/// Sends bytes on a new connection and reads all that comes until it closes.
pub(crate) fn talk(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(to).expect("a connection");
    stream.write_all(bytes).expect("sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap_or_else(|error| panic!("{error} after {}", all.escape_ascii()));
    String::from_utf8_lossy(&all).into_owned()
}

/// The lines of a head that have this name, in lower case.
pub(crate) fn fields(head: &str, name: &str) -> Vec<String> {
    let (head, _) = head.split_once("\r\n\r\n").unwrap_or((head, ""));
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).collect()
}
