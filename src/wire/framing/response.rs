//! A server's side of a connection: answers, one for each request.

use super::body::Body;
use super::fields::Fields;
use super::lines::{Cursor, Found};
use super::{Fault, Follow, Limits, walk};

/// Follows what a server sends.
#[derive(Debug)]
pub struct Answers {
    limits: Limits,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Nothing was asked: nothing may come.
    Idle,
    Head(Head),
    Body(Body),
    /// No longer HTTP.
    Raw,
}

/// A head as far as it was read.
#[derive(Debug)]
struct Head {
    /// The request was HEAD: its answer has no body, whatever its fields say.
    bodiless: bool,
    cursor: Cursor,
    line: Option<Line>,
    fields: Fields,
}

/// What a good status line says of framing.
#[derive(Debug, Clone, Copy)]
struct Line {
    http_10: bool,
    status: u16,
}

/// What comes after a head.
enum After {
    /// The head of the answer proper.
    Head,
    Body(Body),
    /// No longer HTTP.
    Raw,
}

impl Answers {
    /// A connection on which nothing was asked.
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Idle }
    }

    /// Whether no answer is awaited, or on its way.
    pub fn is_idle(&self) -> bool {
        matches!(self.place, Place::Idle)
    }

    /// A request was sent; `head` says that it was HEAD.
    pub fn asked(&mut self, head: bool) {
        self.place = Place::Head(Head::new(head));
    }

    fn begin(&mut self, after: After, bodiless: bool) {
        self.place = match after {
            After::Head => Place::Head(Head::new(bodiless)),
            After::Body(Body::None | Body::Length(0)) => Place::Idle,
            After::Body(body) => Place::Body(body),
            After::Raw => Place::Raw,
        };
    }

    /// One step: how many bytes it took; none when it needs more to go on.
    fn step(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        match &mut self.place {
            Place::Idle => (0, Err(Fault::malformed("Bytes that nobody has asked for."))),
            Place::Head(head) => match head.read(bytes, &self.limits) {
                Ok(Some(after)) => {
                    let (read, bodiless) = (head.cursor.read(), head.bodiless);
                    self.begin(after, bodiless);
                    (read, Ok(()))
                }
                Ok(None) => (0, Ok(())),
                Err(fault) => (0, Err(fault)),
            },
            Place::Body(body) => {
                let (part, done) = body.read(bytes, &self.limits);
                if part.last {
                    self.place = Place::Idle;
                }
                (part.read, done)
            }
            Place::Raw => (bytes.len(), Ok(())),
        }
    }
}

impl Follow for Answers {
    fn follow(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        walk(bytes, |bytes| self.step(bytes))
    }
}

impl Head {
    fn new(bodiless: bool) -> Self {
        Self { bodiless, cursor: Cursor::default(), line: None, fields: Fields::default() }
    }

    /// Reads on; what comes after the head, when it is whole.
    fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<After>, Fault> {
        loop {
            match (self.cursor.next(bytes, limits.head), self.line) {
                (Found::Line(line), None) => self.line = Some(Line::read(line)?),
                (Found::Line([]), Some(line)) => return self.after(line).map(Some),
                (Found::Line(line), Some(_)) => {
                    self.fields.take(line, self.cursor.read() - line.len() - 2, limits.fields)?;
                }
                (Found::Part(_), _) => return Ok(None),
                (Found::TooLong(_), _) => return Err(Fault::too_large("The answer's head is too long.")),
                (Found::Broken(_, fault), _) => return Err(fault),
            }
        }
    }

    /// RFC 9112, section 6.3. Lengths that cannot be are faults in answers without a body too.
    fn after(&self, line: Line) -> Result<After, Fault> {
        let body = self.fields.of_answer(line.http_10)?;
        Ok(match line.status {
            101 => After::Raw,
            100..=199 => After::Head,
            204 | 304 => After::Body(Body::None),
            _ if self.bodiless => After::Body(Body::None),
            _ => After::Body(body),
        })
    }
}

impl Line {
    fn read(line: &[u8]) -> Result<Self, Fault> {
        let malformed = Fault::malformed("The status line is malformed.");
        let (version, rest) = line.split_at_checked(9).ok_or(malformed)?;
        let http_10 = match version {
            b"HTTP/1.1 " => false,
            b"HTTP/1.0 " => true,
            _ => return Err(malformed),
        };
        // Many servers leave out the space where no reason follows.
        let (b"" | [b' ', ..], Some(code)) = (rest.get(3..).unwrap_or(b"!"), rest.get(..3)) else {
            return Err(malformed);
        };
        let code = std::str::from_utf8(code).ok().filter(|code| code.bytes().all(|digit| digit.is_ascii_digit()));
        let status = code.and_then(|code| code.parse().ok()).filter(|code| *code >= 100).ok_or(malformed)?;
        Ok(Self { http_10, status })
    }
}
