//! A server that closes each of its connections after a few answers, without a word and at a moment that its seed gives:
//! as servers do whose keep-alive time ends. It counts executions by the value of one header.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncegate::clock::Clock;

/// Numbers that look random and follow from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// The server. It runs until the process ends.
pub(crate) struct Closing {
    pub(crate) address: SocketAddr,
    header: &'static str,
    executed: Mutex<HashMap<String, usize>>,
    connections: AtomicUsize,
}

impl Closing {
    pub(crate) fn start(seed: u64, header: &'static str) -> Arc<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (executed, connections) = Default::default();
        let server = Arc::new(Self { address, header, executed, connections });
        let accepting = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = accepting.connections.fetch_add(1, Ordering::SeqCst) as u64;
                let (server, dice) = (Arc::clone(&accepting), Dice::new(seed ^ (number << 20)));
                std::thread::spawn(move || server.serve(&stream, dice));
            }
        });
        server
    }

    /// How often a request with this value was read to its end.
    pub(crate) fn executions(&self, value: &str) -> usize {
        self.executed.lock().unwrap().get(value).copied().unwrap_or(0)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn serve(&self, stream: &TcpStream, mut dice: Dice) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        let mut sure = 1 + dice.roll(4);
        loop {
            // The first few requests are waited for; then the connection closes after a time that no client knows.
            let patience = if sure > 0 { 30_000_000 } else { dice.roll(6_000) };
            sure = sure.saturating_sub(1);
            if !comes_within(stream, Duration::from_micros(patience)) || self.execute(&mut reader).is_none() {
                return;
            }
            let mut writer = stream;
            if writer.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nmade").is_err() {
                return;
            }
        }
    }

    fn execute(&self, reader: &mut BufReader<&TcpStream>) -> Option<()> {
        let (mut length, mut key) = (0, None);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.strip_suffix("\r\n")?;
            if line.is_empty() {
                break;
            }
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok()?;
                }
                Some((name, value)) if name.eq_ignore_ascii_case(self.header) => key = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        *self.executed.lock().unwrap().entry(key?).or_default() += 1;
        Some(())
    }
}

/// Whether anything is there to be read before the time is over. A socket's own time-out would round it up to ticks of the
/// kernel.
fn comes_within(stream: &TcpStream, patience: Duration) -> bool {
    let end = Clock::instant() + patience;
    let _ = stream.set_nonblocking(true);
    let comes = loop {
        match stream.peek(&mut [0]) {
            Ok(read) => break read > 0,
            Err(error) if error.kind() != ErrorKind::WouldBlock => break false,
            Err(_) if Clock::instant() >= end => break false,
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    };
    let _ = stream.set_nonblocking(false);
    comes
}
