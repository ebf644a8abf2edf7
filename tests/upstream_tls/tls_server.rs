//! A scripted HTTP/1.1 server over TLS, on threads. Each request is answered alike; what then happens to the connection
//! is for the script to say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::gate::Gate;

/// What happens after an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// The next request is read.
    Next,
    /// TLS renews its keys: bytes that are none of HTTP's wait for whoever comes next.
    RenewKeys,
    /// The server says goodbye and closes.
    SayGoodbye,
    /// It closes without a word.
    Vanish,
    /// It says 408 unasked, and closes.
    SayTimeout,
}

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    pub(crate) request: String,
    /// The name that was asked for.
    pub(crate) sni: Option<String>,
    /// How many certificates the client showed.
    pub(crate) shown: usize,
}

pub(crate) struct TlsServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    gate: Arc<Gate>,
}

impl TlsServer {
    /// Answers every request with 201; `then` knows the connection's number.
    pub(crate) fn start(config: ServerConfig, then: impl Fn(usize) -> Then + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Gate::default());
        let (config, then, sink, latch) = (Arc::new(config), Arc::new(then), Arc::clone(&seen), Arc::clone(&gate));
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                let stream = StreamOwned::new(session, socket.unwrap());
                let (then, sink, latch) = (Arc::clone(&then), Arc::clone(&sink), Arc::clone(&latch));
                std::thread::spawn(move || serve(stream, then(number + 1), number + 1, &sink, &latch));
            }
        });
        Self { address, seen, gate }
    }

    /// Everything that was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Lets the server do what comes after an answer, and blocks until it has. On a runtime's only thread, the event loop
    /// hears nothing of it.
    pub(crate) fn go_on(&self) {
        self.gate.go_on();
    }
}

type Secured = StreamOwned<ServerConnection, TcpStream>;

fn serve(mut stream: Secured, then: Then, connection: usize, seen: &Mutex<Vec<Seen>>, gate: &Gate) {
    while let Some(request) = read_request(&mut stream) {
        let sni = stream.conn.server_name().map(ToOwned::to_owned);
        let shown = stream.conn.peer_certificates().map_or(0, <[_]>::len);
        seen.lock().unwrap().push(Seen { connection, request, sni, shown });
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade").unwrap();
        if matches!(then, Then::Next) {
            continue;
        }
        gate.pass();
        match then {
            Then::Next | Then::Vanish => {}
            Then::RenewKeys => stream.conn.refresh_traffic_keys().unwrap(),
            Then::SayGoodbye => stream.conn.send_close_notify(),
            Then::SayTimeout => {
                stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n").unwrap();
                stream.conn.send_close_notify();
            }
        }
        stream.flush().unwrap();
        if matches!(then, Then::SayGoodbye | Then::Vanish | Then::SayTimeout) {
            drop(stream);
            return gate.done();
        }
        gate.done();
    }
    // A client that was turned down may still be writing: a reset would overtake what it was told.
    let _ = stream.sock.shutdown(std::net::Shutdown::Write);
    let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
}

/// None when the connection ends, or never came to be.
fn read_request(stream: &mut Secured) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}
