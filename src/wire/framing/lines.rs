//! Lines: where they end, and which bytes may stand in them. What they say is not read here.

use std::ops::Range;

use super::Fault;

/// Where the reading of a run of lines stands. The lines are shown from the first one's start each time; none of their
/// bytes is looked at twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    /// Where the present line begins.
    line: usize,
    /// Up to where it is known to hold no end.
    scanned: usize,
}

/// What a cursor finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A whole line, without its end.
    Line(&'a [u8]),
    /// The beginning of a line.
    Part(&'a [u8]),
    /// The beginning of a line that will be longer than all lines together may be.
    TooLong(&'a [u8]),
    /// A line up to a byte that may stand in none.
    Broken(&'a [u8], Fault),
}

impl Cursor {
    /// The next line. `limit` is how many bytes all lines may have.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8], limit: usize) -> Found<'a> {
        let shown = &bytes[..bytes.len().min(limit)];
        let line = |end| &bytes[self.line..end];
        let end = self.scanned + control(&shown[self.scanned..]);
        let found = match (shown.get(end), shown.get(end + 1)) {
            (Some(b'\r'), Some(b'\n')) => {
                let whole = line(end);
                *self = Self { line: end + 2, scanned: end + 2 };
                return Found::Line(whole);
            }
            (None, _) | (Some(b'\r'), None) if shown.len() == limit => Found::TooLong(line(end)),
            (None, _) | (Some(b'\r'), None) => Found::Part(line(end)),
            (Some(b'\r'), Some(_)) => Found::Broken(line(end), Fault::malformed("A CR without its LF.")),
            (Some(b'\n'), _) => Found::Broken(line(end), Fault::malformed("A line ends in LF alone.")),
            (Some(_), _) => Found::Broken(line(end), Fault::malformed("A control character.")),
        };
        self.scanned = end;
        found
    }

    /// How many bytes the lines have that were found whole.
    pub(super) fn read(&self) -> usize {
        self.line
    }
}

/// Up to where bytes hold no control character but HTAB; their length if they hold none.
fn control(bytes: &[u8]) -> usize {
    let (eights, _) = bytes.as_chunks::<8>();
    let plain = 8 * eights.iter().take_while(|eight| !may_hold_control(u64::from_le_bytes(**eight))).count();
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
    bytes[plain..].iter().position(is_control).map_or(bytes.len(), |at| plain + at)
}

/// Whether one of eight bytes is below 32, or 127.
fn may_hold_control(eight: u64) -> bool {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(EACH * limit) & !bytes;
    (below(eight, 32) | below(eight ^ (EACH * 127), 1)) & (EACH * 128) != 0
}

/// A field's name, and where in the line its value stands.
pub(super) fn field(line: &[u8]) -> Result<(&[u8], Range<usize>), Fault> {
    let end = line.iter().position(|byte| !is_token(*byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    match rest.first() {
        Some(b':') if !name.is_empty() => {
            let value = rest[1..].trim_ascii_start();
            let start = line.len() - value.len();
            Ok((name, start..start + value.trim_ascii_end().len()))
        }
        Some(b' ' | b'\t') if name.is_empty() => Err(Fault::malformed("A line is folded, or begins with white space.")),
        Some(b' ' | b'\t') => Err(Fault::malformed("White space in a field's name, or before its colon.")),
        Some(_) => Err(Fault::malformed("A field's name is no token.")),
        None => Err(Fault::malformed("A field has no colon.")),
    }
}

/// Whether a byte may stand in a token (RFC 9110, section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            table[byte as usize] = byte.is_ascii_alphanumeric();
            byte += 1;
        }
        let marks = b"!#$%&'*+-.^_`|~";
        let mut at = 0;
        while at < marks.len() {
            table[marks[at] as usize] = true;
            at += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}
