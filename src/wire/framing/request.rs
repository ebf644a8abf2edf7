//! A client's side of a connection: requests, one after the other.

use http::Uri;

use super::body::Body;
use super::fields::Fields;
use super::lines::{Cursor, Found, is_token};
use super::{Fault, Follow, Kind, Limits, walk};

/// How long a method may be, in bytes.
const METHOD: usize = 64;

/// Follows what a client sends.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    place: Place,
    /// The present request asks for another protocol, and has no answer yet.
    undecided: bool,
    heads: u64,
    whole: u64,
}

#[derive(Debug)]
enum Place {
    Head(Head),
    Body(Body),
    /// Behind a request for another protocol: what comes is that protocol's, or the next request.
    Fork,
    /// No longer HTTP.
    Raw,
}

/// A head as far as it was read.
#[derive(Debug, Default)]
struct Head {
    cursor: Cursor,
    /// The empty line that some clients send after a body was passed over.
    blank: bool,
    line: Option<Line>,
    fields: Fields,
}

/// What a good request line says of framing.
#[derive(Debug, Clone, Copy)]
struct Line {
    http_10: bool,
}

impl Requests {
    /// A connection on which nothing was read.
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Head(Head::default()), undecided: false, heads: 0, whole: 0 }
    }

    /// How many heads were good.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// How many requests were good to their end.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Whether the last request asks for another protocol, and it is not known yet what came of that.
    pub fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// What came of the request for another protocol: `raw`, when it was granted.
    pub fn decided(&mut self, raw: bool) {
        self.undecided = false;
        if raw {
            self.place = Place::Raw;
        } else if matches!(self.place, Place::Fork) {
            self.place = Place::Head(Head::default());
        }
    }

    /// Whether the bytes are no longer HTTP's.
    pub fn is_raw(&self) -> bool {
        matches!(self.place, Place::Raw)
    }

    /// Whether a request has begun whose end is not known yet.
    pub fn is_in_body(&self) -> bool {
        matches!(self.place, Place::Body(_))
    }

    fn begin(&mut self, body: Body) {
        self.heads += 1;
        match body {
            Body::None | Body::UntilClose | Body::Length(0) => self.end(),
            Body::Length(_) | Body::Chunks(_) => self.place = Place::Body(body),
        }
    }

    fn end(&mut self) {
        self.whole += 1;
        self.place = if self.undecided { Place::Fork } else { Place::Head(Head::default()) };
    }

    /// One step: how many bytes it took; none when it needs more to go on.
    fn step(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        match &mut self.place {
            Place::Head(head) => match head.read(bytes, &self.limits) {
                Ok(Some(body)) => {
                    let read = head.cursor.read();
                    self.undecided = head.asks_upgrade();
                    self.begin(body);
                    (read, Ok(()))
                }
                Ok(None) => (0, Ok(())),
                Err(fault) => (0, Err(fault)),
            },
            Place::Body(body) => {
                let (part, done) = body.read(bytes, &self.limits);
                if part.last {
                    self.end();
                }
                (part.read, done)
            }
            Place::Fork => (0, Ok(())),
            Place::Raw => (bytes.len(), Ok(())),
        }
    }
}

impl Follow for Requests {
    fn follow(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        walk(bytes, |bytes| self.step(bytes))
    }

    fn waits(&self) -> bool {
        matches!(self.place, Place::Fork)
    }
}

impl Head {
    /// Reads on; how the body is framed, when the head is whole.
    fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<Body>, Fault> {
        loop {
            let found = self.cursor.next(bytes, limits.head);
            let Some(line) = self.line else {
                if self.begin(found, limits)? {
                    continue;
                }
                return Ok(None);
            };
            match found {
                Found::Line([]) => return self.fields.of_request(line.http_10).map(Some),
                Found::Line(line) => self.fields.take(line, self.cursor.read() - line.len() - 2, limits.fields)?,
                Found::Part(_) => return Ok(None),
                Found::TooLong(_) => return Err(Fault::too_large("The head is too long.")),
                Found::Broken(_, fault) => return Err(fault),
            }
        }
    }

    /// Reads the request line; false when it is not whole.
    fn begin(&mut self, found: Found<'_>, limits: &Limits) -> Result<bool, Fault> {
        if found == Found::Line(&[]) && !self.blank {
            self.blank = true;
            return Ok(true);
        }
        let (Found::Line(bytes) | Found::Part(bytes) | Found::TooLong(bytes) | Found::Broken(bytes, _)) = found;
        let parts = split(bytes, limits.target)?;
        match (found, parts) {
            (Found::Line(_), Some(Parts { target, version })) => {
                check_target(target)?;
                self.line = Some(Line { http_10: is_http_10(version)? });
                Ok(true)
            }
            (Found::Line(_), None) => Err(Fault::malformed("The request line is not of three parts.")),
            (Found::Part(_), _) => Ok(false),
            (Found::TooLong(_), _) => Err(Fault::too_large("The head is too long.")),
            (Found::Broken(_, fault), _) => Err(fault),
        }
    }

    fn asks_upgrade(&self) -> bool {
        // RFC 9110, section 7.8: an HTTP/1.0 client does not mean it.
        self.fields.asks_upgrade() && self.line.is_some_and(|line| !line.http_10)
    }
}

/// What follows the method in a request line.
struct Parts<'a> {
    target: &'a [u8],
    version: &'a [u8],
}

/// Target and version of a request line, once both can be told apart. The target's length counts before anything else is
/// wrong with it, and before it is whole.
fn split(line: &[u8], limit: usize) -> Result<Option<Parts<'_>>, Fault> {
    let method = line.iter().take(METHOD + 1).position(|byte| !is_token(*byte));
    let rest = match method {
        Some(end @ 1..) if line[end] == b' ' => &line[end + 1..],
        Some(_) => return Err(Fault::malformed("The method is no token.")),
        None if line.len() > METHOD => return Err(Fault::malformed("The method is too long.")),
        None => return Ok(None),
    };
    match rest.iter().take(limit + 1).position(|byte| *byte == b' ') {
        Some(end) => Ok(Some(Parts { target: &rest[..end], version: &rest[end + 1..] })),
        None if rest.len() > limit => Err(Fault::target_too_long()),
        None => Ok(None),
    }
}

/// A target that hyper reads as we do: printable, UTF-8, in one of the forms that there are. A fragment, which hyper would
/// cut off in silence, is for clients alone.
fn check_target(target: &[u8]) -> Result<(), Fault> {
    let malformed = Err(Fault::malformed("The request's target is malformed."));
    let printable = target.iter().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii());
    if !printable || target.contains(&b'#') || std::str::from_utf8(target).is_err() {
        return malformed;
    }
    if target.first() != Some(&b'/') {
        return if Uri::try_from(target).is_ok() { Ok(()) } else { malformed };
    }
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let odd = |byte: &u8| matches!(byte, b'<' | b'>');
    let (path, query) = target.split_at(query);
    let path_odd = path.iter().any(|byte| odd(byte) || *byte == b'`');
    let query_odd = query.iter().any(|byte| odd(byte) || *byte == b'"');
    if path_odd || query_odd { malformed } else { Ok(()) }
}

fn is_http_10(version: &[u8]) -> Result<bool, Fault> {
    let digits_and_dots = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        _ if version.strip_prefix(b"HTTP/").is_some_and(digits_and_dots) => {
            Err(Fault { kind: Kind::UnknownVersion, detail: "This gateway speaks HTTP/1.1 and HTTP/1.0 here." })
        }
        _ => Err(Fault::malformed("The request line does not end in a version of HTTP.")),
    }
}
