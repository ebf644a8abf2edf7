//! HTTP/2 by hand: frames as bytes, sent whether or not they are allowed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::client::connect;

/// What a connection begins with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A connection of bare frames.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self(connect(to).unwrap())
    }

    /// Connects and says hello.
    pub(crate) fn open(to: SocketAddr) -> Self {
        let mut raw = Self::connect(to);
        raw.send(PREFACE);
        raw.send(&Self::settings());
        raw
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    pub(crate) fn settings() -> Vec<u8> {
        Self::frame(SETTINGS, 0, 0, &[])
    }

    pub(crate) fn data(stream: u32, payload: &[u8], last: bool) -> Vec<u8> {
        Self::frame(DATA, if last { END_STREAM } else { 0 }, stream, payload)
    }

    /// A whole head, without compression.
    pub(crate) fn head(stream: u32, method: &str, path: &str, last: bool) -> Vec<u8> {
        let flags = END_HEADERS | if last { END_STREAM } else { 0 };
        Self::frame(HEADERS, flags, stream, &Self::fields(method, path))
    }

    /// The head of a guarded order without body.
    pub(crate) fn order(stream: u32, key: &str) -> Vec<u8> {
        let name = "idempotency-key";
        let sized = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let field = [vec![0], sized(name), sized(key)].concat();
        let fields = [Self::fields("POST", "/orders"), field].concat();
        Self::frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields)
    }

    /// The beginning of a head whose end does not come.
    pub(crate) fn torn_head(stream: u32) -> Vec<u8> {
        Self::frame(HEADERS, END_STREAM, stream, &Self::fields("GET", "/plain"))
    }

    fn fields(method: &str, path: &str) -> Vec<u8> {
        // Literals without indexing, named by the static table: method 2, path 4, scheme 6, authority 1.
        let literal =
            |index: u8, value: &str| [&[index, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
        [literal(2, method), literal(6, "http"), literal(4, path), literal(1, "api.test")].concat()
    }

    /// The next frame; none at the connection's end.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], stream, payload })
    }

    /// The next frame of this kind on this stream.
    pub(crate) fn wait_for(&mut self, kind: u8, stream: u32) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("the connection ended before frame {kind}"));
            if frame.kind == kind && frame.stream == stream {
                return frame;
            }
        }
    }

    /// The status of a stream's answer, as its first field says it: from the static table, or a literal.
    pub(crate) fn status(&mut self, stream: u32) -> u16 {
        let head = self.wait_for(HEADERS, stream).payload;
        match head[0] {
            indexed @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)],
            // Huffman coded digits, five bits each for 0, 1 and 2, six for the others.
            0x08 | 0x48 => huffman_digits(&head[2..2 + usize::from(head[1] & 0x7f)]),
            other => panic!("status written as {other:#x}"),
        }
    }

    /// The error of the goodbye, if there was one before the end.
    pub(crate) fn goaway(&mut self) -> Option<u32> {
        let mut error = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                error = frame.payload.get(4..8).map(|code| u32::from_be_bytes([code[0], code[1], code[2], code[3]]));
            }
        }
        error
    }

    pub(crate) fn wait_for_goaway(&mut self) {
        self.wait_for(GOAWAY, 0);
    }

    pub(crate) fn wait_for_end(&mut self) {
        while self.next().is_some() {}
        let last = self.0.read(&mut [0]);
        let timed_out = |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        assert!(!last.is_err_and(|error| timed_out(error.kind())), "still open");
    }
}

fn huffman_digits(coded: &[u8]) -> u16 {
    let bits: Vec<u8> = coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let (mut at, mut number) = (0, 0);
    while at + 5 <= bits.len() && number < 100 {
        let take = |count: usize| bits[at..at + count].iter().fold(0_u16, |all, bit| all << 1 | u16::from(*bit));
        let (digit, width) = if take(5) < 3 { (take(5), 5) } else { (take(6) - 0x19 + 3, 6) };
        number = number * 10 + digit;
        at += width;
    }
    number
}
