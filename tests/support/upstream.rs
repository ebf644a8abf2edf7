//! A scripted HTTP/1.1 server on bare sockets and threads: it records what arrives byte for byte, and answers, breaks
//! off, resets or falls silent as told. It is no HTTP library: it reads what the gateway may send, and no more.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oncegate::clock::Clock;
use socket2::{Domain, SockRef, Socket, Type};

/// How long anything is waited for. Reaching it is a failed test.
const DEADLINE: Duration = Duration::from_secs(10);

/// One request, as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    /// Its number on that connection, from 1.
    pub(crate) number: usize,
    /// The request line, without its line end.
    pub(crate) line: Vec<u8>,
    /// The header lines in order, without their line ends.
    pub(crate) headers: Vec<Vec<u8>>,
    /// The body, without chunk framing.
    pub(crate) body: Vec<u8>,
    /// All bytes, framing included.
    pub(crate) raw: Vec<u8>,
}

impl Recorded {
    /// The method.
    pub(crate) fn method(&self) -> String {
        self.word(0)
    }

    /// The request target. Bytes that are not UTF-8 are shown as replacement characters; compare `line` for these.
    pub(crate) fn target(&self) -> String {
        self.word(1)
    }

    /// The values of all lines of one field, in order, trimmed; names match in any case.
    pub(crate) fn all(&self, name: &str) -> Vec<Vec<u8>> {
        let value = |line: &Vec<u8>| {
            let (found, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
            found.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii().to_vec())
        };
        self.headers.iter().filter_map(value).collect()
    }

    /// The value of a field; none when it is missing. More than one line fails the test.
    pub(crate) fn header(&self, name: &str) -> Option<Vec<u8>> {
        let mut all = self.all(name);
        assert!(all.len() < 2, "{name} is on {} lines", all.len());
        all.pop()
    }

    /// The value of a field as text; empty when it is missing.
    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.header(name).unwrap_or_default()).into_owned()
    }

    fn word(&self, index: usize) -> String {
        let word = self.line.split(|byte| *byte == b' ').nth(index).unwrap_or_default();
        String::from_utf8_lossy(word).into_owned()
    }
}

/// Something that a test opens when the upstream may go on.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub(crate) fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Waits, but not for ever: a test that failed leaves its gates closed.
    pub(crate) fn pass(&self) {
        let closed = lock(&self.0.0);
        drop(self.0.1.wait_timeout_while(closed, DEADLINE, |open| !*open));
    }
}

/// What happens on the connection after a request was read. At the end of its steps the next request is read.
#[derive(Clone)]
pub(crate) struct Reply(Vec<Step>);

#[derive(Clone)]
enum Step {
    /// Bytes that clones of a reply share.
    Send(Bytes),
    Wait(Gate),
    Hang,
    Close,
    Reset,
}

impl Reply {
    /// These bytes and no others.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self(vec![Step::Send(Bytes::from(bytes.into()))])
    }

    /// An answer with `Content-Length`.
    pub(crate) fn whole(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        Self::sized(status, headers, body.as_ref().len(), body)
    }

    /// An answer in chunks, one for each piece; empty pieces are left out.
    pub(crate) fn chunked(status: u16, headers: &[(&str, &str)], pieces: &[&[u8]]) -> Self {
        Self::raw(head(status, headers, "Transfer-Encoding: chunked\r\n")).then_chunks(pieces).then_send("0\r\n\r\n")
    }

    /// An answer in chunks whose last chunk never comes: the connection closes instead.
    pub(crate) fn chunked_cut_short(status: u16, headers: &[(&str, &str)], pieces: &[&[u8]]) -> Self {
        Self::raw(head(status, headers, "Transfer-Encoding: chunked\r\n")).then_chunks(pieces).then_close()
    }

    /// An answer that ends where the connection ends.
    pub(crate) fn until_close(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        Self::raw([head(status, headers, "").as_slice(), body.as_ref()].concat()).then_close()
    }

    /// An answer that promises `length` bytes, sends `body` and closes.
    pub(crate) fn cut_short(status: u16, headers: &[(&str, &str)], length: usize, body: impl AsRef<[u8]>) -> Self {
        Self::sized(status, headers, length, body).then_close()
    }

    /// An answer that promises `length` bytes and sends `body`; what then is for the next step to say.
    pub(crate) fn sized(status: u16, headers: &[(&str, &str)], length: usize, body: impl AsRef<[u8]>) -> Self {
        let framing = format!("Content-Length: {length}\r\n");
        Self::raw([head(status, headers, &framing).as_slice(), body.as_ref()].concat())
    }

    /// No answer, ever; the connection stays open until the other side closes it.
    pub(crate) fn silence() -> Self {
        Self(vec![Step::Hang])
    }

    /// No answer; the connection is closed.
    pub(crate) fn close() -> Self {
        Self(vec![Step::Close])
    }

    /// No answer; the connection is reset.
    pub(crate) fn reset() -> Self {
        Self(vec![Step::Reset])
    }

    /// The same, but not before the gate is open.
    pub(crate) fn after(mut self, gate: &Gate) -> Self {
        self.0.insert(0, Step::Wait(gate.clone()));
        self
    }

    /// The same, after an interim answer such as 100 or 103.
    pub(crate) fn after_interim(mut self, status: u16, headers: &[(&str, &str)]) -> Self {
        self.0.insert(0, Step::Send(head(status, headers, "").into()));
        self
    }

    /// Then these bytes.
    pub(crate) fn then_send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Send(Bytes::from(bytes.into())))
    }

    /// Then nothing until the gate is open.
    pub(crate) fn then_wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then nothing more, with the connection left open.
    pub(crate) fn then_hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// Then the connection is closed.
    pub(crate) fn then_close(self) -> Self {
        self.then(Step::Close)
    }

    /// Then the connection is reset. Bytes on their way may be lost with it.
    pub(crate) fn then_reset(self) -> Self {
        self.then(Step::Reset)
    }

    fn then_chunks(self, pieces: &[&[u8]]) -> Self {
        let chunk = |piece: &&[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        pieces.iter().filter(|piece| !piece.is_empty()).fold(self, |reply, piece| reply.then_send(chunk(piece)))
    }

    fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }
}

fn head(status: u16, headers: &[(&str, &str)], framing: &str) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Odd");
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} {reason}\r\n{}{framing}\r\n", lines.concat()).into_bytes()
}

/// What happens to a connection that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accept {
    /// Its requests are read and answered.
    Serve,
    /// It is closed, and nothing is read.
    Close,
    /// It stays open, and nothing is read.
    Ignore,
}

/// The server. Clones are the same server; it stops with the last of them.
#[derive(Clone)]
pub(crate) struct ScriptedUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: Arc<Stop>,
}

type Script = dyn Fn(&Recorded) -> Reply + Send + Sync;
type OnAccept = dyn Fn(usize) -> Accept + Send + Sync;

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    stopped: AtomicBool,
}

/// What happened so far.
#[derive(Default)]
struct Seen {
    requests: Vec<Recorded>,
    /// What came of requests that never came to their end.
    fragments: Vec<Vec<u8>>,
    accepted: usize,
    closed: usize,
    open: Vec<Weak<TcpStream>>,
}

struct Stop {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        for stream in lock(&self.shared.seen).open.iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

impl ScriptedUpstream {
    /// Starts on a free port. The script is asked for each request, after the request has been recorded.
    pub(crate) fn start(script: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_picky(|_| Accept::Serve, script)
    }

    /// Starts on a free port. `accept` is asked for each connection, with its number from 1.
    pub(crate) fn start_picky(
        accept: impl Fn(usize) -> Accept + Send + Sync + 'static,
        script: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let (accept, script): (Box<OnAccept>, Arc<Script>) = (Box::new(accept), Arc::new(script));
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept_all(&listener, &accepting, &accept, &script));
        Self { address, shared: Arc::clone(&shared), _stop: Arc::new(Stop { address, shared }) }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests that were read to their end, in the order of their ends.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.seen).requests.clone()
    }

    /// The bytes of requests that broke off.
    pub(crate) fn fragments(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.seen).fragments.clone()
    }

    /// How often a request with this value of this field was executed: read to its end and handed to the script.
    pub(crate) fn executions(&self, header: &str, value: impl AsRef<[u8]>) -> usize {
        let mine = |request: &&Recorded| request.all(header).iter().any(|found| found == value.as_ref());
        lock(&self.shared.seen).requests.iter().filter(mine).count()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        lock(&self.shared.seen).accepted
    }

    /// Waits until so many requests were read, and gives them all. It blocks its thread: in async tests, wait in
    /// `spawn_blocking`.
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        self.wait(&format!("{count} requests"), |seen| seen.requests.len() >= count);
        self.requests()
    }

    /// Waits until so many connections were made.
    pub(crate) fn wait_for_connections(&self, count: usize) {
        self.wait(&format!("{count} connections"), |seen| seen.accepted >= count);
    }

    /// Waits until so many connections were closed, by either side.
    pub(crate) fn wait_for_closed(&self, count: usize) {
        self.wait(&format!("{count} closed connections"), |seen| seen.closed >= count);
    }

    fn wait(&self, what: &str, enough: impl Fn(&Seen) -> bool) {
        let deadline: Instant = Clock::instant() + DEADLINE;
        let mut seen = lock(&self.shared.seen);
        while !enough(&seen) {
            let left = deadline.saturating_duration_since(Clock::instant());
            assert!(
                !left.is_zero(),
                "waited in vain for {what}: {} requests, {} connections, {} of them closed",
                seen.requests.len(),
                seen.accepted,
                seen.closed
            );
            seen = self.shared.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut lock(&self.seen));
        self.changed.notify_all();
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, accept: &OnAccept, script: &Arc<Script>) {
    for number in 1.. {
        let Ok((stream, _)) = listener.accept() else { return };
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        shared.note(|seen| {
            seen.accepted += 1;
            seen.open.push(Arc::downgrade(&stream));
        });
        let (shared, script, on_accept) = (Arc::clone(shared), Arc::clone(script), accept(number));
        thread::spawn(move || {
            match on_accept {
                Accept::Serve => serve(&stream, number, &shared, &*script),
                Accept::Close => {}
                Accept::Ignore => wait_for_end(&stream),
            }
            // The socket closes here, and only then is it counted.
            drop(stream);
            shared.note(|seen| seen.closed += 1);
        });
    }
}

fn serve(stream: &TcpStream, connection: usize, shared: &Shared, script: &Script) {
    let mut reader = BufReader::new(stream);
    for number in 1.. {
        let mut request = Recorded { connection, number, ..Recorded::default() };
        if read_request(&mut reader, &mut request).is_none() {
            if !request.raw.is_empty() {
                shared.note(|seen| seen.fragments.push(request.raw));
            }
            return;
        }
        shared.note(|seen| seen.requests.push(request.clone()));
        for step in script(&request).0 {
            if carry_out(stream, step).is_none() {
                return;
            }
        }
    }
}

/// None when the connection has come to its end.
fn carry_out(mut stream: &TcpStream, step: Step) -> Option<()> {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).ok(),
        Step::Wait(gate) => {
            gate.pass();
            Some(())
        }
        Step::Hang => {
            wait_for_end(stream);
            None
        }
        Step::Close => None,
        Step::Reset => {
            // Closing a socket that lingers for no time resets the connection.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            None
        }
    }
}

/// Waits until the other side closes or resets, or the server stops.
fn wait_for_end(mut stream: &TcpStream) {
    while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
}

/// None when the connection ends before the request does.
fn read_request(reader: &mut BufReader<&TcpStream>, request: &mut Recorded) -> Option<()> {
    request.line = read_line(reader, &mut request.raw)?;
    loop {
        let line = read_line(reader, &mut request.raw)?;
        if line.is_empty() {
            break;
        }
        request.headers.push(line);
    }
    if request.text("Transfer-Encoding").eq_ignore_ascii_case("chunked") {
        loop {
            let size = read_line(reader, &mut request.raw)?;
            let size = usize::from_str_radix(std::str::from_utf8(&size).ok()?, 16).ok()?;
            let chunk = read_bytes(reader, size, &mut request.raw)?;
            request.body.extend_from_slice(&chunk);
            let end = read_line(reader, &mut request.raw)?;
            assert!(end.is_empty(), "a chunk, or the trailer section, is not as expected: {end:?}");
            if size == 0 {
                return Some(());
            }
        }
    }
    let length = request.text("Content-Length").parse().unwrap_or(0);
    request.body = read_bytes(reader, length, &mut request.raw)?;
    Some(())
}

fn read_line(reader: &mut BufReader<&TcpStream>, raw: &mut Vec<u8>) -> Option<Vec<u8>> {
    let start = raw.len();
    reader.read_until(b'\n', raw).ok()?;
    Some(raw[start..].strip_suffix(b"\r\n")?.to_vec())
}

fn read_bytes(reader: &mut BufReader<&TcpStream>, count: usize, raw: &mut Vec<u8>) -> Option<Vec<u8>> {
    let start = raw.len();
    reader.take(count as u64).read_to_end(raw).ok()?;
    (raw.len() - start == count).then(|| raw[start..].to_vec())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port on which connections are refused, or never made, and which nobody else can get meanwhile.
pub(crate) struct DeadPort {
    address: SocketAddr,
    _sockets: Vec<Socket>,
}

impl DeadPort {
    /// Connections are refused.
    pub(crate) fn refusing() -> Self {
        let socket = bound();
        Self { address: address_of(&socket), _sockets: vec![socket] }
    }

    /// Connections are neither refused nor made: the queue of the listening socket is full.
    pub(crate) fn silent() -> Self {
        let listener = bound();
        listener.listen(0).expect("a bound socket can listen");
        let address = address_of(&listener);
        let mut sockets = vec![listener];
        for _ in 0..16 {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            if filler.connect_timeout(&address.into(), Duration::from_millis(100)).is_err() {
                return Self { address, _sockets: sockets };
            }
            sockets.push(filler);
        }
        panic!("the queue never fills up");
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    socket
}

fn address_of(socket: &Socket) -> SocketAddr {
    socket.local_addr().expect("a bound socket has an address").as_socket().expect("an IP address")
}
