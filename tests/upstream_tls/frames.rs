//! An HTTP/2 server written frame by frame, on threads: it can refuse, reset, go away and cut where no library would. It
//! reads of a request only where it ends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::gate::Gate;

/// A request, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    pub(crate) stream: u32,
}

/// What the server does when a request is whole.
#[derive(Clone)]
pub(crate) enum Step {
    Frame(Vec<u8>),
    /// Nothing until the test says so; it waits until the rest is done.
    Wait,
    Close,
}

pub(crate) struct FrameServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Whole>>>,
    gate: Arc<Gate>,
}

type Script = dyn Fn(Whole) -> Vec<Step> + Send + Sync;

impl FrameServer {
    pub(crate) fn start(script: impl Fn(Whole) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Gate::default());
        let (sink, latch, script): (_, _, Arc<Script>) = (Arc::clone(&seen), Arc::clone(&gate), Arc::new(script));
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let (sink, script, latch) = (Arc::clone(&sink), Arc::clone(&script), Arc::clone(&latch));
                std::thread::spawn(move || serve(&socket.unwrap(), number + 1, &sink, &*script, &latch));
            }
        });
        Self { address, seen, gate }
    }

    /// Every request so far, in the order of their ends.
    pub(crate) fn seen(&self) -> Vec<Whole> {
        self.seen.lock().unwrap().clone()
    }

    /// Lets the server go on, and blocks until it has done the rest. On a runtime's only thread, the event loop hears
    /// nothing of it.
    pub(crate) fn go_on(&self) {
        self.gate.go_on();
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Also the flag of an acknowledgement.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;

/// None when the connection ends.
fn serve(
    mut socket: &TcpStream,
    connection: usize,
    seen: &Mutex<Vec<Whole>>,
    script: &Script,
    gate: &Gate,
) -> Option<()> {
    socket.read_exact(&mut [0; 24]).ok()?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).ok()?;
        let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        socket.read_exact(&mut payload).ok()?;
        let (kind, flags, stream) = (head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()));
        match kind {
            SETTINGS | PING if flags & END_STREAM == 0 => {
                let echoed = if kind == PING { payload.as_slice() } else { &[] };
                socket.write_all(&frame(kind, END_STREAM, 0, echoed)).ok()?;
            }
            HEADERS | DATA if flags & END_STREAM != 0 => {
                let whole = Whole { connection, stream };
                seen.lock().unwrap().push(whole);
                carry_out(socket, script(whole), gate)?;
            }
            _ => {}
        }
    }
}

fn carry_out(mut socket: &TcpStream, steps: Vec<Step>, gate: &Gate) -> Option<()> {
    let (mut waited, mut ended) = (false, None);
    for step in steps {
        ended = match step {
            Step::Frame(bytes) => socket.write_all(&bytes).err().map(drop),
            Step::Wait => {
                gate.pass();
                waited = true;
                None
            }
            Step::Close => socket.shutdown(Shutdown::Both).ok(),
        };
    }
    if waited {
        gate.done();
    }
    if ended.is_some() { None } else { Some(()) }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of an answer: `:status` as a literal, by its place in the table of HPACK.
pub(crate) fn head(stream: u32, status: &str) -> Step {
    let block = [&[8, 3], status.as_bytes()].concat();
    Step::Frame(frame(HEADERS, END_HEADERS, stream, &block))
}

/// Bytes of a body, perhaps the last.
pub(crate) fn data(stream: u32, bytes: &str, last: bool) -> Step {
    Step::Frame(frame(DATA, u8::from(last), stream, bytes.as_bytes()))
}

pub(crate) fn reset(stream: u32, code: u32) -> Step {
    Step::Frame(frame(RST_STREAM, 0, stream, &code.to_be_bytes()))
}

/// The server goes away; it processed, or may have, the streams up to `last`.
pub(crate) fn go_away(last: u32, code: u32) -> Step {
    Step::Frame(frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat()))
}

/// A whole answer.
pub(crate) fn made(stream: u32) -> Vec<Step> {
    vec![head(stream, "201"), data(stream, "made", true)]
}
