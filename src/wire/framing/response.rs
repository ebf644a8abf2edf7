//! A server's side of a connection: answers, one for each request.

use std::ops::Range;

use http::{StatusCode, Version};

use super::body::Body;
use super::fields::Fields;
use super::lines::{Cursor, Found};
use super::{Fault, Follow, Limits, Part, Span, walk};

/// Follows what a server sends.
#[derive(Debug, Clone)]
pub struct Answers {
    limits: Limits,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    /// Nothing was asked: nothing may come.
    Idle,
    /// In a box, as this is kept for as long as the answer's body lasts.
    Head(Box<Begun>),
    Body(Body),
    /// No longer HTTP.
    Raw,
}

/// A good head, of an answer or of an interim one.
#[derive(Debug)]
pub struct Answer {
    /// How many bytes it has.
    pub length: usize,
    /// What it says.
    pub status: StatusCode,
    /// Where it says the same in words.
    pub reason: Range<usize>,
    /// In which version.
    pub version: Version,
    /// Where its fields stand.
    pub spans: Vec<Span>,
    /// Whether another answer may follow on the connection.
    pub keep_alive: bool,
}

/// A head as far as it was read.
#[derive(Debug, Clone)]
struct Begun {
    /// The request was HEAD: its answer has no body, whatever its fields say.
    bodiless: bool,
    cursor: Cursor,
    line: Option<Line>,
    fields: Fields,
}

/// What a good status line says.
#[derive(Debug, Clone, Copy)]
struct Line {
    http_10: bool,
    status: StatusCode,
    /// How long it is: the reason is the last of it.
    length: usize,
}

/// Where the reason begins in a status line.
const REASON: usize = "HTTP/1.1 200 ".len();

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
        self.place = Place::Head(Box::new(Begun::new(head)));
    }

    /// Reads a head, which is shown from its first byte each time: none while it is not whole, or where none is awaited.
    ///
    /// # Errors
    /// When it is refused.
    pub fn head(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Fault> {
        let Place::Head(begun) = &mut self.place else { return Ok(None) };
        let Some((line, after)) = begun.read(bytes, &self.limits)? else { return Ok(None) };
        let next = match after {
            After::Head => Place::Head(Box::new(Begun::new(begun.bodiless))),
            After::Body(Body::None | Body::Length(0)) => Place::Idle,
            After::Body(body) => Place::Body(body),
            After::Raw => Place::Raw,
        };
        let (length, fields) = (begun.cursor.read(), std::mem::take(&mut begun.fields));
        self.place = next;
        Ok(Some(Answer {
            length,
            status: line.status,
            reason: REASON.min(line.length)..line.length,
            version: if line.http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
            // Who speaks of a body where there is none may send it yet, and it would be read as the next answer.
            keep_alive: fields.keep_alive(line.http_10) && !(line.is_bodiless() && fields.speak_of_body()),
            spans: fields.into_spans(),
        }))
    }

    /// Reads on in a body, up to where a run of its data ends: what was good. What is left over has to be shown again.
    pub fn body(&mut self, bytes: &[u8]) -> (Part, Result<(), Fault>) {
        let Place::Body(body) = &mut self.place else { return (Part { read: 0, data: 0, last: true }, Ok(())) };
        let (part, done) = body.read(bytes, &self.limits);
        if part.last {
            self.place = Place::Idle;
        }
        (part, done)
    }

    /// How many bytes of the body are still to come, if that is known.
    pub fn left(&self) -> Option<u64> {
        match &self.place {
            Place::Idle | Place::Body(Body::None) => Some(0),
            Place::Body(Body::Length(left)) => Some(*left),
            Place::Body(_) | Place::Head(_) | Place::Raw => None,
        }
    }

    /// The server has closed the connection: whether that ends the answer, as it may.
    pub fn closed(&mut self) -> bool {
        if matches!(self.place, Place::Body(Body::UntilClose)) {
            self.place = Place::Idle;
        }
        self.is_idle()
    }

    /// One step: how many bytes it took; none when it needs more to go on.
    fn step(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        match &self.place {
            Place::Idle => (0, Err(Fault::malformed("Bytes that nobody has asked for."))),
            Place::Head(_) => match self.head(bytes) {
                Ok(head) => (head.map_or(0, |head| head.length), Ok(())),
                Err(fault) => (0, Err(fault)),
            },
            Place::Body(_) => {
                let (part, done) = self.body(bytes);
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

impl Begun {
    fn new(bodiless: bool) -> Self {
        Self { bodiless, cursor: Cursor::default(), line: None, fields: Fields::default() }
    }

    /// Reads on; its first line and what comes after the head, when it is whole.
    fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<(Line, After)>, Fault> {
        loop {
            match (self.cursor.next(bytes, limits.head), self.line) {
                (Found::Line(line), None) => self.line = Some(Line::read(line)?),
                (Found::Line([]), Some(line)) => return self.after(line).map(|after| Some((line, after))),
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
        Ok(match line.status.as_u16() {
            101 => After::Raw,
            100..=199 => After::Head,
            _ if line.is_bodiless() || self.bodiless => After::Body(Body::None),
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
        let status = StatusCode::from_bytes(code).map_err(|_| malformed)?;
        Ok(Self { http_10, status, length: line.len() })
    }

    /// Whether an answer with this status has no body, whatever its fields say.
    fn is_bodiless(self) -> bool {
        matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }
}
