//! A client's side of a connection: requests, one after the other.

use std::ops::Range;

use http::{Uri, Version};

use super::body::Body;
use super::fields::Fields;
use super::lines::{Cursor, Found, is_token};
use super::{Fault, Follow, Kind, Limits, Part, Span, walk};

/// How long a method may be, in bytes.
const METHOD: usize = 64;

/// Follows what a client sends. A request for another protocol is a request like any other: whether the bytes behind it
/// are that protocol's, only the one who answers knows.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    place: Place,
    heads: u64,
    whole: u64,
}

/// A good head: where its parts stand in its bytes, and what comes behind it.
#[derive(Debug)]
pub struct Head {
    /// How many bytes it has.
    pub length: usize,
    /// Where its method stands.
    pub method: Range<usize>,
    /// Where its target stands.
    pub target: Range<usize>,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// Where its fields stand.
    pub spans: Vec<Span>,
    /// Whether it asks for another protocol.
    pub upgrade: bool,
    /// Whether its client takes another answer on this connection.
    pub keep_alive: bool,
    /// Whether its client waits for `100 Continue` before it sends the body.
    pub expects: bool,
    /// What comes behind it.
    pub body: Behind,
}

/// What comes behind a request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The next request.
    Nothing,
    /// A body of so many bytes.
    Length(u64),
    /// A body in chunks.
    Chunks,
}

#[derive(Debug)]
enum Place {
    Head(Begun),
    Body(Body),
}

/// A head as far as it was read.
#[derive(Debug, Default)]
struct Begun {
    cursor: Cursor,
    /// The empty line that some clients send after a body was passed over.
    blank: bool,
    line: Option<Line>,
    fields: Fields,
}

/// A good request line.
#[derive(Debug, Clone)]
struct Line {
    method: Range<usize>,
    target: Range<usize>,
    http_10: bool,
}

impl Requests {
    /// A connection on which nothing was read.
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Head(Begun::default()), heads: 0, whole: 0 }
    }

    /// How many heads were good.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// How many requests were good to their end.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Whether a request has begun whose end is not known yet.
    pub fn is_in_body(&self) -> bool {
        matches!(self.place, Place::Body(_))
    }

    /// Reads a head, which is shown from its first byte each time: none while it is not whole, or when a body comes first.
    ///
    /// # Errors
    /// When it is refused.
    pub fn head(&mut self, bytes: &[u8]) -> Result<Option<Head>, Fault> {
        let Place::Head(begun) = &mut self.place else { return Ok(None) };
        let Some((line, body)) = begun.read(bytes, &self.limits)? else { return Ok(None) };
        let Begun { cursor, fields, .. } = std::mem::take(begun);
        let behind = match &body {
            Body::None | Body::UntilClose | Body::Length(0) => Behind::Nothing,
            Body::Length(length) => Behind::Length(*length),
            Body::Chunks(_) => Behind::Chunks,
        };
        self.heads += 1;
        match behind {
            Behind::Nothing => self.whole += 1,
            Behind::Length(_) | Behind::Chunks => self.place = Place::Body(body),
        }
        let Line { method, target, http_10 } = line;
        Ok(Some(Head {
            length: cursor.read(),
            method,
            target,
            version: if http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
            // RFC 9110, sections 7.8 and 10.1.1: an HTTP/1.0 client means neither.
            upgrade: fields.asks_upgrade() && !http_10,
            expects: fields.expects_continue() && !http_10,
            keep_alive: fields.keep_alive(http_10),
            spans: fields.into_spans(),
            body: behind,
        }))
    }

    /// Reads on in a body, up to where a run of its data ends: what was good. What is left over has to be shown again.
    pub fn body(&mut self, bytes: &[u8]) -> (Part, Result<(), Fault>) {
        let Place::Body(body) = &mut self.place else { return (Part { read: 0, data: 0, last: true }, Ok(())) };
        let (part, done) = body.read(bytes, &self.limits);
        if part.last {
            self.whole += 1;
            self.place = Place::Head(Begun::default());
        }
        (part, done)
    }

    /// One step: how many bytes it took; none when it needs more to go on.
    fn step(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        if self.is_in_body() {
            let (part, done) = self.body(bytes);
            return (part.read, done);
        }
        match self.head(bytes) {
            Ok(head) => (head.map_or(0, |head| head.length), Ok(())),
            Err(fault) => (0, Err(fault)),
        }
    }
}

impl Follow for Requests {
    fn follow(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        walk(bytes, |bytes| self.step(bytes))
    }
}

impl Begun {
    /// Reads on; its first line, and how the body is framed, when it is whole.
    fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<(Line, Body)>, Fault> {
        loop {
            let found = self.cursor.next(bytes, limits.head);
            let Some(first) = &self.line else {
                if self.begin(found, limits)? {
                    continue;
                }
                return Ok(None);
            };
            match found {
                Found::Line([]) => {
                    let body = self.fields.of_request(first.http_10)?;
                    return Ok(self.line.take().map(|first| (first, body)));
                }
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
                let http_10 = is_http_10(version)?;
                let start = self.cursor.read() - bytes.len() - 2;
                let end = start + bytes.len() - version.len() - 1;
                let method = start..end - target.len() - 1;
                self.line = Some(Line { method, target: end - target.len()..end, http_10 });
                Ok(true)
            }
            (Found::Line(_), None) => Err(Fault::malformed("The request line is not of three parts.")),
            (Found::Part(_), _) => Ok(false),
            (Found::TooLong(_), _) => Err(Fault::too_large("The head is too long.")),
            (Found::Broken(_, fault), _) => Err(fault),
        }
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

/// A target that [`Uri`] takes as it stands: printable, UTF-8, in one of the forms that there are. A fragment, which it would
/// cut off in silence, is for clients alone.
fn check_target(target: &[u8]) -> Result<(), Fault> {
    let has = |part: &[u8]| part.iter().fold(0, |all, byte| all | TARGET[usize::from(*byte)]);
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(query);
    let (in_path, in_query) = (has(path), has(query));
    let printable = (in_path | in_query) & NOWHERE == 0;
    let in_place = if target.first() == Some(&b'/') {
        in_path & NOT_IN_PATH == 0 && in_query & NOT_IN_QUERY == 0
    } else {
        printable && Uri::try_from(target).is_ok()
    };
    let is_text = (in_path | in_query) & BEYOND_ASCII == 0 || std::str::from_utf8(target).is_ok();
    if printable && in_place && is_text { Ok(()) } else { Err(Fault::malformed("The request's target is malformed.")) }
}

/// Where in a target a byte may not stand, and what it is beside.
const NOWHERE: u8 = 1;
const NOT_IN_PATH: u8 = 1 << 1;
const NOT_IN_QUERY: u8 = 1 << 2;
const BEYOND_ASCII: u8 = 1 << 3;

static TARGET: [u8; 256] = {
    let mut table = [BEYOND_ASCII; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'#' => NOWHERE,
            b'<' | b'>' => NOT_IN_PATH | NOT_IN_QUERY,
            b'`' => NOT_IN_PATH,
            b'"' => NOT_IN_QUERY,
            _ if byte.is_ascii_graphic() => 0,
            _ => NOWHERE,
        };
        byte += 1;
    }
    table
};

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
