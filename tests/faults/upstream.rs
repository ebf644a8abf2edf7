//! An API as a process of its own, which can be stopped and killed: it writes into its ledger before it acts and before it
//! answers. The process is this test binary, started on one of its tests.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::dice::Dice;
use crate::gateway::wait_until;
use crate::history::{Name, Run};
use crate::ledger::{Ledger, answer};

/// What the process reads: where its ledger is, its port, its manner, and the number of its receipts' first.
const ORDERS: &str = "ONCEGATE_FAULTS_UPSTREAM";

/// How it behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) seed: u64,
    /// The longest that an ordinary run takes, in milliseconds.
    pub(crate) slowest: u64,
    /// How many of a hundred answers are no success.
    pub(crate) failures: u64,
    /// How many of a thousand runs take longer than a client waits.
    pub(crate) very_slow: u64,
}

/// The process, seen from the drill.
pub(crate) struct Upstream {
    ledger: PathBuf,
    port: OwnPort,
    manner: Manner,
    boots: u64,
    child: Option<Child>,
}

impl Upstream {
    pub(crate) fn start(folder: &Path, manner: Manner) -> Self {
        let ledger = folder.join("ledger");
        let mut upstream = Self { ledger, port: OwnPort::new(), manner, boots: 0, child: None };
        upstream.restart();
        upstream
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.address().port()
    }

    pub(crate) fn ledger(&self) -> &Path {
        &self.ledger
    }

    pub(crate) fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        crate::scene::signal(child.id(), name);
    }

    /// SIGKILL: whatever runs is over, and only the ledger tells of it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.boots += 1;
        let Manner { seed, slowest, failures, very_slow } = self.manner;
        let (port, first) = (self.port(), self.boots << 40);
        let orders = format!("{port} {first} {seed} {slowest} {failures} {very_slow} {}", self.ledger.display());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "upstream::serve", "--ignored", "--nocapture"])
            .env(ORDERS, orders)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        let address = self.port.address();
        wait_until("the upstream listens", || TcpStream::connect(address).is_ok());
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is a drill's own for as long as it lives: bound here without listening, so that connections are refused
/// while the process that shares it is down.
pub(crate) struct OwnPort(SocketAddr, #[expect(dead_code, reason = "held, not used")] Socket);

impl OwnPort {
    pub(crate) fn new() -> Self {
        let socket = shared_socket(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self(socket.local_addr().unwrap().as_socket().unwrap(), socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }
}

fn shared_socket(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

/// What the process is.
struct Server {
    ledger: Ledger,
    receipts: AtomicU64,
    manner: Manner,
}

#[test]
#[ignore = "the upstream's process: drills start it themselves"]
fn serve() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let words: Vec<&str> = orders.splitn(7, ' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let manner = Manner { seed: number(2), slowest: number(3), failures: number(4), very_slow: number(5) };
    let ledger = Ledger::open(Path::new(words[6]));
    ledger.boot();
    let socket = shared_socket(SocketAddr::from(([127, 0, 0, 1], u16::try_from(number(0)).unwrap())));
    socket.listen(1_024).unwrap();
    let listener: TcpListener = socket.into();
    let server = Arc::new(Server { ledger, receipts: AtomicU64::new(number(1)), manner });
    for stream in listener.incoming().flatten() {
        let server = Arc::clone(&server);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(&stream);
            while server.exchange(&mut reader).is_some() {}
        });
    }
}

/// What it reads of a request.
#[derive(Default)]
struct Request {
    scope: u8,
    key: u64,
    number: u64,
    attempt: u32,
    length: usize,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let (mut request, mut first) = (Self::default(), true);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.strip_suffix("\r\n")?;
            if line.is_empty() && !first {
                return Some(request);
            }
            if let Some((name, value)) = line.split_once(": ").filter(|_| !first) {
                request.take(&name.to_ascii_lowercase(), value)?;
            }
            first = false;
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "x-customer-id" => self.scope = value.parse().ok()?,
            "idempotency-key" => self.key = value.trim_start_matches("key-").parse().ok()?,
            "x-request-id" => self.number = value.trim_start_matches("request-").parse().ok()?,
            "oncegate-attempt" => self.attempt = value.parse().ok()?,
            "content-length" => self.length = value.parse().ok()?,
            _ => {}
        }
        Some(())
    }
}

impl Server {
    /// One request: written down, acted upon, written down, answered.
    fn exchange(&self, reader: &mut BufReader<&TcpStream>) -> Option<()> {
        let request = Request::read(reader)?;
        let mut body = vec![0; request.length];
        reader.read_exact(&mut body).ok()?;
        let variant = u8::from(String::from_utf8_lossy(&body).contains("\"variant\":1"));
        // What a request meets is settled by the seed alone.
        let mut dice = Dice::new(self.manner.seed ^ (request.number << 8));
        let (status, pause) = (self.status(&mut dice), self.pause(&mut dice));
        let receipt = self.receipts.fetch_add(1, Ordering::SeqCst);
        let name = Name { scope: request.scope, key: request.key };
        let (request, attempt) = (request.number, request.attempt);
        let run = Run { request, attempt, variant, status, receipt, began: 0, ended: None, over: None };
        self.ledger.run(&name, &run);
        std::thread::sleep(pause);
        self.ledger.end(receipt);
        reply(reader.get_ref(), status, receipt, dice.chance(30))
    }

    fn status(&self, dice: &mut Dice) -> u16 {
        const FAILURES: [u16; 7] = [402, 404, 409, 429, 500, 503, 502];
        if !dice.chance(self.manner.failures) {
            return if dice.chance(80) { 201 } else { 303 };
        }
        dice.place(FAILURES.len()).map_or(500, |place| FAILURES[place])
    }

    fn pause(&self, dice: &mut Dice) -> Duration {
        if dice.between(1, 1_000) <= self.manner.very_slow {
            return Duration::from_millis(dice.between(2_500, 5_000));
        }
        Duration::from_millis(dice.between(0, self.manner.slowest))
    }
}

fn reply(mut stream: &TcpStream, status: u16, receipt: u64, chunked: bool) -> Option<()> {
    let (fields, body) = answer(status, receipt);
    let mut head = format!("HTTP/1.1 {status} As It Is\r\nSet-Cookie: session={receipt}\r\n");
    for (name, value) in fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let bytes = if chunked {
        let (first, second) = body.split_at(body.len() / 2);
        let mut bytes = (head + "Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in [first, second].iter().filter(|chunk| !chunk.is_empty()) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    } else {
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        [head.into_bytes(), body].concat()
    };
    stream.write_all(&bytes).ok()
}
