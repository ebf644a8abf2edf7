//! A chunked body, from its first size to the end of its trailers (RFC 9112, section 7.1).

use super::lines::{Cursor, Found, field, is_token};
use super::{Fault, Limits, Part};

/// How many bytes of chunk extensions a body may have. Nobody needs many: nothing reads them.
const EXTENSIONS: usize = 8 << 10;
/// How many digits a size may have.
const DIGITS: u8 = 16;

/// Where in a chunked body the reading stands.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    place: Place,
    /// Bytes of extensions so far, in all chunks.
    extensions: usize,
}

#[derive(Debug, Clone)]
enum Place {
    Size {
        size: u64,
        digits: u8,
    },
    /// After the semicolon; `named` once the extension's name has begun.
    Extension {
        size: u64,
        named: bool,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    Trailers {
        cursor: Cursor,
        count: usize,
    },
}

impl Chunks {
    /// A body of which nothing was read.
    pub(super) fn new() -> Self {
        Self { place: Place::Size { size: 0, digits: 0 }, extensions: 0 }
    }

    /// Reads on, up to where a run of data ends: what was good. Trailers count as good when they are whole.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> (Part, Result<(), Fault>) {
        let mut good = 0;
        let framing = |read| Part { read, data: 0, last: false };
        while let Some(byte) = bytes.get(good) {
            match &mut self.place {
                Place::Data { left } => {
                    let there = u64::try_from(bytes.len() - good).unwrap_or(u64::MAX);
                    let some = there.min(*left);
                    *left -= some;
                    if *left == 0 {
                        self.place = Place::DataCr;
                    }
                    // It fits: `some` is at most the length of a slice.
                    let data = usize::try_from(some).unwrap_or(usize::MAX);
                    return (Part { read: good + data, data, last: false }, Ok(()));
                }
                Place::Trailers { cursor, count } => match trailers(cursor, count, &bytes[good..], limits) {
                    Ok(true) => return (Part { read: good + cursor.read(), data: 0, last: true }, Ok(())),
                    Ok(false) => break,
                    Err(fault) => return (framing(good), Err(fault)),
                },
                _ => match self.step(*byte) {
                    Ok(()) => good += 1,
                    Err(fault) => return (framing(good), Err(fault)),
                },
            }
        }
        (framing(good), Ok(()))
    }

    /// One byte of the lines between the data.
    fn step(&mut self, byte: u8) -> Result<(), Fault> {
        let malformed = |detail| Err(Fault::malformed(detail));
        self.place = match (&self.place, byte) {
            (Place::Size { size, digits }, byte) if byte.is_ascii_hexdigit() => {
                if *digits == DIGITS {
                    return malformed("A chunk's size is no size.");
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Place::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Place::Size { size, digits: 1.. } | Place::Extension { size, named: true }, b'\r') => {
                Place::SizeLf { size: *size }
            }
            (Place::Size { size, digits: 1.. }, b';') => Place::Extension { size: *size, named: false },
            (Place::Size { .. }, _) => return malformed("A chunk's size is no size."),
            (Place::Extension { size, named }, byte) => {
                let begins = *named || is_token(byte);
                let blank = matches!(byte, b' ' | b'\t');
                let sound = if begins { byte >= 32 && byte != 127 || blank } else { blank };
                self.extensions += 1;
                if !sound || self.extensions > EXTENSIONS {
                    return malformed("A chunk's extension is malformed or too long.");
                }
                Place::Extension { size: *size, named: begins }
            }
            (Place::SizeLf { size: 0 }, b'\n') => Place::Trailers { cursor: Cursor::default(), count: 0 },
            (Place::SizeLf { size }, b'\n') => Place::Data { left: *size },
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => Place::Size { size: 0, digits: 0 },
            (Place::SizeLf { .. }, _) => return malformed("A chunk's size has no line end."),
            (Place::DataCr | Place::DataLf, _) => return malformed("A chunk is longer than its size."),
            // Not read byte by byte.
            (Place::Data { .. } | Place::Trailers { .. }, _) => return Ok(()),
        };
        Ok(())
    }
}

/// Whether the trailer section is whole.
fn trailers(cursor: &mut Cursor, count: &mut usize, bytes: &[u8], limits: &Limits) -> Result<bool, Fault> {
    loop {
        match cursor.next(bytes, limits.trailers) {
            Found::Line([]) => return Ok(true),
            Found::Line(line) => {
                may_trail(line)?;
                *count += 1;
                if *count > limits.fields {
                    return Err(Fault::malformed("Too many trailer fields."));
                }
            }
            Found::Part(_) => return Ok(false),
            Found::TooLong(_) => return Err(Fault::malformed("The trailers are too long.")),
            Found::Broken(_, fault) => return Err(fault),
        }
    }
}

/// Whether a field may stand behind the body: none that frames, routes or steers the message that it ends.
fn may_trail(line: &[u8]) -> Result<(), Fault> {
    const HEAD_ONLY: [&str; 12] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = &line[..field(line)?.name];
    if HEAD_ONLY.iter().any(|head_only| name.eq_ignore_ascii_case(head_only.as_bytes())) {
        return Err(Fault::malformed("A trailer field that belongs into the head."));
    }
    Ok(())
}
