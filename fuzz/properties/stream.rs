//! A connection's bytes as a second opinion reads them: naively, whole, and with no mercy. It knows no limits.

use std::fmt;

/// A message's head.
#[derive(PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) start: [&'a [u8]; 3],
    /// Names as sent; values without white space around them.
    pub(super) fields: Vec<(&'a [u8], &'a [u8])>,
    pub(super) length: Length,
}

/// What frames a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// No field says anything.
    Unsaid,
    Bytes(u64),
    Chunked,
}

impl<'a> Message<'a> {
    /// Reads a whole head, with the empty line that ends it. None when anything about it is odd.
    pub(super) fn read(head: &'a [u8]) -> Option<Self> {
        let text = head.strip_suffix(b"\r\n\r\n")?;
        if head.iter().any(|byte| matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 127)) {
            return None;
        }
        let mut lines = lines(text)?.into_iter();
        let mut start = lines.next()?.splitn(3, |byte| *byte == b' ');
        let start = [start.next()?, start.next()?, start.next().unwrap_or_default()];
        let fields = lines.map(field).collect::<Option<Vec<_>>>()?;
        let mut message = Self { start, fields, length: Length::Unsaid };
        message.length = message.framed()?;
        Some(message)
    }

    /// The values of all fields of this name.
    pub(super) fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let named = |field: &&(&[u8], &'a [u8])| field.0.eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().filter(named).map(|(_, value)| *value).collect()
    }

    pub(super) fn is_http_10(&self) -> bool {
        self.start[0] == b"HTTP/1.0" || self.start[2] == b"HTTP/1.0"
    }

    /// RFC 9112, section 6, without any choice.
    fn framed(&self) -> Option<Length> {
        match (self.values("content-length").as_slice(), self.values("transfer-encoding").as_slice()) {
            ([], []) => Some(Length::Unsaid),
            ([digits], []) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let length = std::str::from_utf8(digits).ok()?.parse().ok()?;
                (length < 1 << 63).then_some(Length::Bytes(length))
            }
            ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && !self.is_http_10() => Some(Length::Chunked),
            _ => None,
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (text(name), text(value))).collect();
        write!(f, "{:?} {fields:?} {:?}", self.start.map(text), self.length)
    }
}

/// The text cut at each CRLF; none when there is a CR or LF by itself.
fn lines(text: &[u8]) -> Option<Vec<&[u8]>> {
    let last = text.split(|byte| *byte == b'\n').count() - 1;
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(at, line)| if at == last { Some(line) } else { line.strip_suffix(b"\r") });
    lines.collect::<Option<Vec<_>>>().filter(|lines| !lines.iter().any(|line| line.contains(&b'\r')))
}

fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = &line[..colon];
    (!name.is_empty() && name.iter().copied().all(is_token)).then(|| (name, line[colon + 1..].trim_ascii()))
}

/// Whether a byte may stand in a method or a field's name.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A whole chunked body.
#[derive(Debug)]
pub(super) struct Unchunked {
    pub(super) data: Vec<u8>,
    /// How many bytes it takes on the wire, with its trailers.
    pub(super) length: usize,
    /// It has neither extensions nor trailers.
    pub(super) plain: bool,
}

/// Reads a chunked body. None when it is odd, or not whole.
pub(super) fn unchunked(bytes: &[u8]) -> Option<Unchunked> {
    let mut body = Unchunked { data: Vec::new(), length: 0, plain: true };
    loop {
        let (line, next) = line(bytes, body.length)?;
        let digits = line.split(|byte| *byte == b';').next()?;
        body.plain &= digits == line && digits.len() <= 16;
        let digits =
            std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let size = usize::from_str_radix(digits, 16).ok()?;
        body.length = next;
        if size == 0 {
            break;
        }
        let end = next.checked_add(size).filter(|end| *end < bytes.len())?;
        body.data.extend_from_slice(&bytes[next..end]);
        body.length = end + 2;
        if bytes.get(end..end + 2)? != b"\r\n" {
            return None;
        }
    }
    loop {
        let (line, next) = line(bytes, body.length)?;
        body.length = next;
        if line.is_empty() {
            return Some(body);
        }
        body.plain = false;
        field(line)?;
    }
}

/// The line at `at`, and where the next one begins; none when a CR, LF or control character is in it.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let end = at + bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &bytes[at..end];
    let odd = line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    (!odd).then_some((line, end + 2))
}
