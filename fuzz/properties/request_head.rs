//! What clients send: however the bytes come, the strict reader finds the same requests in them; it takes none that could
//! be read in two ways; and hyper reads what it takes as it does. The second opinions are `httparse`, hyper, and a naive
//! reader of our own.

use http::{HeaderName, HeaderValue, Method, Uri};
use oncegate::wire::framing::{Fault, Follow, Limits, Requests};

use super::dice::Dice;
use super::served::{Served, serve};
use super::stream::{Length, Message, is_token, unchunked};

/// Small enough to be met by small inputs.
const SMALL: Limits = Limits { target: 40, head: 400, fields: 8, trailers: 60 };

/// Takes the input for what a client sends on one connection.
pub fn check(data: &[u8]) {
    let mut dice = Dice::of(data);
    for limits in [Limits::REQUEST, SMALL] {
        let read = Read::of(data, &limits, &mut dice);
        let requests = read.requests(data);
        for (message, _) in &requests {
            is_sound(message);
            assert!(message.start[1].len() <= limits.target && message.fields.len() <= limits.fields);
        }
        is_served_alike(&data[..read.good], &requests);
    }
    nothing_sound_is_refused(data);
}

/// What came of a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    /// How many of them were good.
    good: usize,
    done: Result<(), Fault>,
    whole: u64,
    /// Where each good head ended, and then its body, if it did.
    heads: Vec<usize>,
    ends: Vec<usize>,
}

impl Read {
    /// Shows the bytes one by one, and then in other pieces, as connections do.
    fn of(data: &[u8], limits: &Limits, dice: &mut Dice) -> Self {
        let read = Self::cut(data, limits, |at| at + 1);
        let whole = Self::cut(data, limits, |_| data.len());
        let pieces = Self::cut(data, limits, |at| at + 1 + dice.below(20));
        for other in [whole, pieces] {
            assert_eq!(
                (read.good, read.done, read.whole, read.heads.len()),
                (other.good, other.done, other.whole, other.heads.len())
            );
        }
        read
    }

    /// A request for another protocol is a request like any other: what follows is the next one.
    fn cut(data: &[u8], limits: &Limits, mut next: impl FnMut(usize) -> usize) -> Self {
        let mut machine = Requests::new(*limits);
        let mut read = Self { good: 0, done: Ok(()), whole: 0, heads: Vec::new(), ends: Vec::new() };
        let mut shown = 0;
        while shown < data.len() && read.done.is_ok() {
            shown = next(shown).min(data.len());
            let (good, done) = machine.follow(&data[read.good..shown]);
            assert!(good <= shown - read.good);
            read.good += good;
            read.done = done;
            let (heads, whole) = (machine.heads(), machine.whole());
            assert!(whole <= heads && heads <= whole + 1, "{heads} heads, {whole} whole");
            read.heads.resize(usize::try_from(heads).unwrap_or_default(), read.good);
            read.ends.resize(usize::try_from(whole).unwrap_or_default(), read.good);
        }
        read.whole = machine.whole();
        read
    }

    /// The good heads, each with its whole body as data.
    fn requests<'a>(&self, data: &'a [u8]) -> Vec<(Message<'a>, Option<Vec<u8>>)> {
        let mut start = 0;
        let mut requests = Vec::new();
        for (at, end) in self.heads.iter().enumerate() {
            let head = &data[start..*end];
            let Some(message) = Message::read(head.strip_prefix(b"\r\n").unwrap_or(head)) else {
                panic!("{:?} was taken", String::from_utf8_lossy(head))
            };
            let framed = &data[*end..self.ends.get(at).copied().unwrap_or(self.good)];
            let body = self.ends.get(at).map(|_| whole_body(message.length, framed));
            requests.push((message, body));
            start = end + framed.len();
        }
        requests
    }
}

/// The data of a body whose last byte is the last one here.
fn whole_body(length: Length, framed: &[u8]) -> Vec<u8> {
    match length {
        Length::Unsaid => assert_eq!(framed, b""),
        Length::Bytes(length) => assert_eq!(u64::try_from(framed.len()).ok(), Some(length)),
        Length::Chunked => match unchunked(framed) {
            Some(body) if body.length == framed.len() => return body.data,
            other => panic!("{:?} is {other:?}", String::from_utf8_lossy(framed)),
        },
    }
    framed.to_vec()
}

/// What each request must be that is taken. `Message` has seen to the framing.
fn is_sound(message: &Message<'_>) {
    let [method, target, version] = message.start;
    assert!(!method.is_empty() && method.iter().copied().all(is_token), "{message:?}");
    let printable = target.iter().all(|byte| byte.is_ascii_graphic() || *byte >= 0x80);
    assert!(printable && !target.is_empty() && std::str::from_utf8(target).is_ok(), "{message:?}");
    assert!(matches!(version, b"HTTP/1.1" | b"HTTP/1.0"), "{message:?}");
    let hosts = message.values("host").len();
    assert!(hosts == 1 || hosts == 0 && message.is_http_10(), "{message:?}");
    // hyper must not stumble over what it is given, nor see another target in it: fragments would go unseen.
    assert!(Method::from_bytes(method).is_ok() && !target.contains(&b'#'), "{message:?}");
    let uri = Uri::try_from(target).map(|uri| uri.to_string().into_bytes());
    assert!(uri.is_ok_and(|uri| uri == target || !target.starts_with(b"/")), "{message:?}");
    for (name, value) in &message.fields {
        assert!(HeaderName::from_bytes(name).is_ok() && HeaderValue::from_bytes(value).is_ok(), "{message:?}");
    }
}

/// hyper finds the same requests in the good bytes, as far as it goes on.
fn is_served_alike(good: &[u8], requests: &[(Message<'_>, Option<Vec<u8>>)]) {
    let whole: Vec<_> = requests.iter().filter_map(|(message, body)| Some((message, body.as_ref()?))).collect();
    let mut served = serve(good).into_iter();
    for (at, (message, body)) in whole.iter().enumerate() {
        same_to_httparse(message);
        let Some(found) = served.next() else {
            let before = at.checked_sub(1).map(|before| whole[before].0);
            let closes = |message: &Message<'_>| message.is_http_10() || !message.values("connection").is_empty();
            assert!(before.is_some_and(closes), "hyper stops before {message:?}");
            return;
        };
        assert_eq!(found, Served::of(message, body));
    }
    // A request that is not whole may have been begun.
    assert!(served.count() <= requests.len() - whole.len());
}

fn same_to_httparse(message: &Message<'_>) {
    let mut text = message.start.join(&b' ');
    text.extend(b"\r\n");
    for (name, value) in &message.fields {
        text.extend([name, &b":"[..], value, b"\r\n"].concat());
    }
    text.extend(b"\r\n");
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut parsed = httparse::Request::new(&mut fields);
    assert_eq!(parsed.parse(&text), Ok(httparse::Status::Complete(text.len())), "{message:?}");
    let start = [parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default()].map(str::as_bytes);
    assert_eq!(start, message.start[..2]);
    assert_eq!(parsed.version, Some(u8::from(!message.is_http_10())));
    let fields: Vec<_> = parsed.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
    assert_eq!(fields, message.fields);
}

/// The first request is taken when nothing at all is odd about it.
fn nothing_sound_is_refused(data: &[u8]) {
    let Some(end) = data.windows(4).position(|window| window == b"\r\n\r\n") else { return };
    let Some(message) = Message::read(&data[..end + 4]) else { return };
    let [method, target, version] = message.start;
    let usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~%?&=:@!$'()*+,;".contains(byte);
    let plain = target.starts_with(b"/") && target.iter().all(usual) && target.len() < 1000;
    let sound = method.iter().copied().all(is_token) && (1..=64).contains(&method.len()) && plain;
    let hosts = message.values("host").len();
    if sound && version == b"HTTP/1.1" && hosts == 1 && message.fields.len() <= 100 && end < 60_000 {
        let mut machine = Requests::new(Limits::REQUEST);
        let (good, done) = machine.follow(&data[..end + 4]);
        assert_eq!((good, done), (end + 4, Ok(())), "{message:?}");
    }
}
