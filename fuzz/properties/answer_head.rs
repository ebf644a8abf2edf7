//! What servers answer: however the bytes come, the strict reader finds the same answer in them, ends where it ends, and
//! takes none that could be read in two ways. The second opinions are `httparse` and a naive reader of our own.

use oncegate::wire::framing::{Answers, Fault, Follow, Limits};

use super::dice::Dice;
use super::stream::{Length, Message, unchunked};

/// Takes the input for what a server sends when it was asked once: to a HEAD if its first byte is an `H` that is not
/// followed by a `T`.
pub fn check(data: &[u8]) {
    let (asked_head, data) = match data {
        [b'H', b'T', ..] => (false, data),
        [b'H', rest @ ..] => (true, rest),
        _ => (false, data),
    };
    let mut dice = Dice::of(data);
    let read = cut(data, asked_head, |at| at + 1);
    for other in [cut(data, asked_head, |_| data.len()), cut(data, asked_head, |at| at + 1 + dice.below(20))] {
        assert_eq!(read, other, "another cut");
    }
    match expected(data, asked_head) {
        // Chunks with extensions or trailers are a matter of taste.
        Some(Expected { plain: false, .. }) if read.done.is_err() && !read.idle => {}
        Some(expected) => {
            let good = read.good == expected.good && read.idle == expected.idle;
            assert!(good, "{read:?}, not {expected:?}: {:?}", String::from_utf8_lossy(data));
            // Nothing may come behind an answer.
            assert_eq!(read.done.is_err(), expected.idle && expected.good < data.len(), "{read:?}");
        }
        None => assert!(!read.idle, "{read:?}: {:?}", String::from_utf8_lossy(data)),
    }
}

/// What came of the bytes.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    good: usize,
    done: Result<(), Fault>,
    /// The answer came to its end.
    idle: bool,
}

fn cut(data: &[u8], asked_head: bool, mut next: impl FnMut(usize) -> usize) -> Read {
    let mut machine = Answers::new(Limits::ANSWER);
    machine.asked(asked_head);
    let mut read = Read { good: 0, done: Ok(()), idle: false };
    let mut shown = 0;
    while shown < data.len() && read.done.is_ok() {
        shown = next(shown).min(data.len());
        let (good, done) = machine.follow(&data[read.good..shown]);
        assert!(good <= shown - read.good);
        read = Read { good: read.good + good, done, idle: machine.is_idle() };
    }
    read
}

/// What should come of the bytes.
#[derive(Debug)]
struct Expected {
    good: usize,
    idle: bool,
    plain: bool,
}

/// What a whole and sound answer comes to; none for anything else.
fn expected(data: &[u8], asked_head: bool) -> Option<Expected> {
    let mut start = 0;
    loop {
        let end = start + data[start..].windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let message = Message::read(&data[start..end])?;
        let status = status(&message)?;
        same_to_httparse(&message, status);
        start = end;
        let rest = &data[end..];
        let ended = |length: usize| Some(Expected { good: end + length, idle: true, plain: true });
        let open = Some(Expected { good: data.len(), idle: false, plain: true });
        match (status, message.length) {
            (101, _) => return open,
            (100..=199, _) => {}
            (204 | 304, _) => return ended(0),
            _ if asked_head => return ended(0),
            (_, Length::Unsaid) => return open,
            (_, Length::Bytes(length)) => {
                return usize::try_from(length).ok().filter(|length| *length <= rest.len()).map_or(open, ended);
            }
            (_, Length::Chunked) => {
                let body = unchunked(rest)?;
                return Some(Expected { good: end + body.length, idle: true, plain: body.plain });
            }
        }
    }
}

fn status(message: &Message<'_>) -> Option<u16> {
    let [version, code, _] = message.start;
    let digits = code.len() == 3 && code.iter().all(u8::is_ascii_digit) && code[0] != b'0';
    let known = matches!(version, b"HTTP/1.1" | b"HTTP/1.0") && message.fields.len() <= Limits::ANSWER.fields;
    std::str::from_utf8(code).ok().filter(|_| digits && known)?.parse().ok()
}

fn same_to_httparse(message: &Message<'_>, status: u16) {
    let mut text = message.start.join(&b' ');
    text.extend(b"\r\n");
    for (name, value) in &message.fields {
        text.extend([name, &b":"[..], value, b"\r\n"].concat());
    }
    text.extend(b"\r\n");
    let mut fields = vec![httparse::EMPTY_HEADER; 300];
    let mut parsed = httparse::Response::new(&mut fields);
    assert_eq!(parsed.parse(&text), Ok(httparse::Status::Complete(text.len())), "{message:?}");
    assert_eq!(parsed.code, Some(status));
    let fields: Vec<_> = parsed.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
    assert_eq!(fields, message.fields);
}
