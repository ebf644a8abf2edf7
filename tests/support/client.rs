//! A raw HTTP/1.1 client: what it sends is what the test wrote, byte for byte.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough for anything that is going to happen at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case; values as bytes.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field that is there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(own, _)| own == name);
        let value = found.next().map(|(_, value)| std::str::from_utf8(value).expect("ASCII value"));
        assert!(found.next().is_none(), "{name} is there twice: {:?}", self.headers);
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The problem's code, when this is a problem of the gateway's own.
    pub(crate) fn code(&self) -> Option<String> {
        let own = self.header("oncegate-source") == Some("gateway");
        let problem: serde_json::Value = own.then(|| serde_json::from_slice(&self.body).ok()).flatten()?;
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["status"], self.status);
        Some(problem["code"].as_str().expect("a code").to_owned())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// A request, built field by field.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        head.extend_from_slice(b"Host: api.test\r\nConnection: close\r\n");
        Self { head, body: Vec::new() }
    }

    pub(crate) fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.head.extend_from_slice(name.as_bytes());
        self.head.extend_from_slice(b": ");
        self.head.extend_from_slice(value.as_ref());
        self.head.extend_from_slice(b"\r\n");
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.header("Content-Type", "application/json").body(body)
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The whole request as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it and reads the whole answer.
    pub(crate) fn send(&self, to: SocketAddr) -> Answer {
        self.try_send(to).unwrap_or_else(|error| panic!("no answer from {to}: {error}"))
    }

    pub(crate) fn try_send(&self, to: SocketAddr) -> std::io::Result<Answer> {
        exchange(to, &self.bytes())
    }
}

/// Sends bytes on a new connection and reads the one answer to its end.
pub(crate) fn exchange(to: SocketAddr, bytes: &[u8]) -> std::io::Result<Answer> {
    let mut stream = connect(to)?;
    stream.write_all(bytes)?;
    read_answer(&mut stream)
}

/// Sends bytes on a new connection and reads all that comes until the other side closes it.
pub(crate) fn raw_exchange(to: SocketAddr, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = connect(to)?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

pub(crate) fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Leaves for good, as a client does whose process ends with answers unread. A connection that is only closed looks to
/// the gateway like one whose client has said all and listens.
pub(crate) fn leave(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket that can be reset");
    drop(stream);
}

/// Sends bytes and reads what comes back up to the end, which must not be a reset: the answers, one behind the other.
pub(crate) fn exchange_to_end(to: SocketAddr, bytes: &[u8]) -> std::io::Result<Vec<Answer>> {
    let mut stream = connect(to)?;
    stream.write_all(bytes)?;
    read_answers(&mut stream)
}

/// Reads answers that say their length, up to the end.
pub(crate) fn read_answers(stream: &mut TcpStream) -> std::io::Result<Vec<Answer>> {
    let (bytes, mut answers) = (read_to_end(stream, Vec::new())?, Vec::new());
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let head = rest.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| bad("half a head"))? + 4;
        let text = String::from_utf8_lossy(&rest[..head]).to_ascii_lowercase();
        let length = text.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        let length = length.and_then(|(length, _)| length.parse().ok()).unwrap_or(0_usize);
        let (mut answer, left) = rest.split_at((head + length).min(rest.len()));
        answers.push(read_answer(&mut answer)?);
        rest = left;
    }
    Ok(answers)
}

/// Reads one answer: framed by its length, by chunks, or by the connection's end. A body cut short is an error.
pub(crate) fn read_answer(stream: &mut impl Read) -> std::io::Result<Answer> {
    read_answer_after(stream, Vec::new())
}

/// The same, when the first bytes of it have been read.
fn read_answer_after(stream: &mut impl Read, mut bytes: Vec<u8>) -> std::io::Result<Answer> {
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        read_more(stream, &mut bytes)?;
    };
    let rest = bytes.split_off(head_end + 4);
    let mut lines = bytes[..head_end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad(&status_line))?;
    let headers: Vec<_> = lines.filter_map(split_field).collect();
    if matches!(status, 100 | 102..=199) {
        return read_answer_after(stream, rest);
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    let length = answer.header("content-length").map(|length| length.parse::<usize>().expect("a length"));
    answer.body = match (answer.header("transfer-encoding"), length) {
        (Some(_), _) => read_chunks(stream, rest)?,
        (None, Some(length)) => read_exactly(stream, rest, length)?,
        (None, None) if matches!(status, 204 | 304) => rest,
        (None, None) => read_to_end(stream, rest)?,
    };
    Ok(answer)
}

fn split_field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase(), line[colon + 1..].trim_ascii().to_vec()))
}

fn read_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&buffer[..read]);
            Ok(())
        }
    }
}

fn read_exactly(stream: &mut impl Read, mut bytes: Vec<u8>, length: usize) -> std::io::Result<Vec<u8>> {
    while bytes.len() < length {
        read_more(stream, &mut bytes)?;
    }
    assert_eq!(bytes.len(), length, "bytes after the answer");
    Ok(bytes)
}

fn read_to_end(stream: &mut impl Read, mut bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(stream: &mut impl Read, mut bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            if let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            read_more(stream, &mut bytes)?;
        };
        let line = String::from_utf8_lossy(&bytes[..line_end]).into_owned();
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad(&line))?;
        while bytes.len() < line_end + 2 + size + 2 {
            read_more(stream, &mut bytes)?;
        }
        body.extend_from_slice(&bytes[line_end + 2..line_end + 2 + size]);
        bytes.drain(..line_end + 2 + size + 2);
        if size == 0 {
            return Ok(body);
        }
    }
}

fn bad(line: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, line.to_owned())
}
