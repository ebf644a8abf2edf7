//! A message's fields, gathered line by line: where each stands, and what those that frame the message say together.

use std::ops::Range;

use super::body::Body;
use super::chunks::Chunks;
use super::lines::{Field, field, is_token};
use super::{Fault, Kind, Known, TOO_MANY_FIELDS};

/// How many fields most heads have at most.
const USUAL: usize = 16;

/// Where a field stands in its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: Range<usize>,
    /// The same, if it is known.
    pub known: Option<Known>,
    /// Its value, without the white space round it.
    pub value: Range<usize>,
}

/// What the fields read so far say.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    count: usize,
    spans: Vec<Span>,
    length: Option<u64>,
    codings: Codings,
    hosts: usize,
    upgrade: bool,
    /// The body waits for a word.
    expects: bool,
    named: Named,
}

/// What `Connection` names of the things that matter here.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    upgrade: bool,
    close: bool,
    keep_alive: bool,
}

/// The codings of all `Transfer-Encoding` lines, in order.
#[derive(Debug, Clone, Default)]
struct Codings {
    count: usize,
    chunked: usize,
    ends_chunked: bool,
    malformed: bool,
}

impl Fields {
    /// Takes a line, which begins there in its head.
    pub(super) fn take(&mut self, line: &[u8], at: usize, most: usize) -> Result<(), Fault> {
        let Field { name, known, value } = field(line)?;
        self.count += 1;
        if self.count > most {
            return Err(Fault::too_large(TOO_MANY_FIELDS));
        }
        if self.spans.capacity() == 0 {
            self.spans.reserve(USUAL);
        }
        self.spans.push(Span { name: at..at + name, known, value: at + value.start..at + value.end });
        match known {
            Some(known) => self.hear(known, &line[value]),
            None => Ok(()),
        }
    }

    /// Hears what the last field says of the message and its connection.
    fn hear(&mut self, name: Known, value: &[u8]) -> Result<(), Fault> {
        match name {
            Known::HOST => self.hosts += 1,
            Known::EXPECT => self.expects |= value.eq_ignore_ascii_case(b"100-continue"),
            Known::UPGRADE => self.upgrade = true,
            // What ends a connection or keeps it is heard here, and is nobody else's matter.
            Known::CONNECTION if self.named.take(value) => drop(self.spans.pop()),
            Known::KEEP_ALIVE => drop(self.spans.pop()),
            Known::CONTENT_LENGTH => self.take_length(value)?,
            Known::TRANSFER_ENCODING => self.codings.take(value),
            _ => {}
        }
        Ok(())
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        match self.length.replace(length(value)?) {
            None => Ok(()),
            Some(_) => Err(Fault::malformed("Several Content-Length fields.")),
        }
    }

    /// Where each of them stands.
    pub(super) fn into_spans(self) -> Vec<Span> {
        self.spans
    }

    /// Whether another protocol is asked for.
    pub(super) fn asks_upgrade(&self) -> bool {
        self.upgrade && self.named.upgrade
    }

    /// Whether the body is only sent when that is asked for.
    pub(super) fn expects_continue(&self) -> bool {
        self.expects
    }

    /// Whether another message may follow on the connection.
    pub(super) fn keep_alive(&self, http_10: bool) -> bool {
        !self.named.close && (!http_10 || self.named.keep_alive)
    }

    /// Whether they speak of a body, whether or not one comes.
    pub(super) fn speak_of_body(&self) -> bool {
        self.codings.count > 0 || self.length.is_some_and(|length| length > 0)
    }

    /// How a request's body is framed.
    pub(super) fn of_request(&self, http_10: bool) -> Result<Body, Fault> {
        let malformed = |detail| Err(Fault::malformed(detail));
        match self.hosts {
            0 if !http_10 => return malformed("No Host field."),
            0 | 1 => {}
            _ => return malformed("Several Host fields."),
        }
        let codings = &self.codings;
        match self.length {
            None if codings.count == 0 => Ok(Body::None),
            Some(length) if codings.count == 0 => Ok(Body::Length(length)),
            Some(_) => malformed("Both Content-Length and Transfer-Encoding."),
            None if http_10 => malformed("Transfer-Encoding in HTTP/1.0."),
            None if codings.malformed => malformed("Transfer-Encoding is no list of codings."),
            None if codings.chunked != 1 => malformed("Transfer-Encoding must name `chunked`, once."),
            None if !codings.ends_chunked => malformed("`chunked` is not the last transfer coding."),
            None if codings.count > 1 => {
                Err(Fault { kind: Kind::UnknownCoding, detail: "The only transfer coding that is taken is `chunked`." })
            }
            None => Ok(Body::Chunks(Chunks::new())),
        }
    }

    /// How an answer's body is framed, if it has one.
    pub(super) fn of_answer(&self, http_10: bool) -> Result<Body, Fault> {
        let codings = &self.codings;
        match self.length {
            Some(length) if codings.count == 0 => Ok(Body::Length(length)),
            Some(_) => Err(Fault::malformed("Both Content-Length and Transfer-Encoding.")),
            None if codings.count == 0 => Ok(Body::UntilClose),
            None if http_10 => Err(Fault::malformed("Transfer-Encoding in HTTP/1.0.")),
            None if codings.count == 1 && codings.chunked == 1 && !codings.malformed => Ok(Body::Chunks(Chunks::new())),
            None => Err(Fault::malformed("A transfer coding other than `chunked`, once.")),
        }
    }
}

impl Codings {
    fn take(&mut self, value: &[u8]) {
        for coding in value.split(|byte| *byte == b',') {
            let coding = coding.trim_ascii();
            let name = coding.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            self.malformed |= name.is_empty() || !name.iter().copied().all(is_token);
            // `chunked` has no parameters: with any, it is something else.
            self.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.chunked += usize::from(self.ends_chunked);
            self.count += 1;
        }
    }
}

/// Digits, and no more than make sense.
fn length(value: &[u8]) -> Result<u64, Fault> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|digits| digits.parse().ok());
    // Larger ones overflow where others count with a sign.
    number.filter(|length| *length <= u64::MAX >> 1).ok_or(Fault::malformed("Content-Length is no length."))
}

impl Named {
    /// Takes a line. Whether it says nothing but how long the connection is to stay.
    fn take(&mut self, value: &[u8]) -> bool {
        let mut alone = true;
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let (close, keep_alive) =
                (option.eq_ignore_ascii_case(b"close"), option.eq_ignore_ascii_case(b"keep-alive"));
            self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
            self.close |= close;
            self.keep_alive |= keep_alive;
            alone &= close || keep_alive;
        }
        alone
    }
}
