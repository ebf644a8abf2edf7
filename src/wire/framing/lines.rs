//! Lines: where they end, and which bytes may stand in them. What they say is not read here.

use std::ops::Range;

use wide::u8x16;

use super::{Fault, Known};

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
    let marks = |window: u8x16| {
        let low = window.min(u8x16::splat(31)).simd_eq(window) & !window.simd_eq(u8x16::splat(b'\t'));
        low | window.simd_eq(u8x16::splat(127))
    };
    first(bytes, marks).unwrap_or(bytes.len())
}

/// So many bytes are looked at at once.
const WINDOW: usize = 16;

/// The first byte that `marks` finds: it sets all bits of such a byte, and none of another.
#[inline]
fn first(bytes: &[u8], marks: impl Fn(u8x16) -> u8x16) -> Option<usize> {
    let find = |window: &[u8; WINDOW]| {
        let marked = marks(u8x16::new(*window)).to_bitmask();
        (marked != 0).then(|| marked.trailing_zeros() as usize)
    };
    let (windows, rest) = bytes.as_chunks();
    for (at, window) in windows.iter().enumerate() {
        if let Some(place) = find(window) {
            return Some(WINDOW * at + place);
        }
    }
    let mut last = [b' '; WINDOW];
    last.get_mut(..rest.len())?.copy_from_slice(rest);
    find(&last).map(|place| WINDOW * windows.len() + place)
}

/// A field, where in its line its parts stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// How long the name is, with which the line begins.
    pub(super) name: usize,
    pub(super) known: Option<Known>,
    pub(super) value: Range<usize>,
}

/// Reads a field.
#[inline]
pub(super) fn field(line: &[u8]) -> Result<Field, Fault> {
    let colon = first(line, |window| window.simd_eq(u8x16::splat(b':'))).unwrap_or(line.len());
    let name = &line[..colon];
    let known = Known::of(name);
    let sound = known.is_some() || !name.is_empty() && name.iter().copied().all(is_token);
    if !sound || colon == line.len() {
        return Err(no_field(line));
    }
    let is_blank = |at: usize| matches!(line[at], b' ' | b'\t');
    let (mut start, mut end) = (colon + 1, line.len());
    while start < end && is_blank(start) {
        start += 1;
    }
    while start < end && is_blank(end - 1) {
        end -= 1;
    }
    Ok(Field { name: colon, known, value: start..end })
}

/// Why a line is no field.
#[cold]
fn no_field(line: &[u8]) -> Fault {
    let name = line.iter().take_while(|byte| is_token(**byte)).count();
    Fault::malformed(match line.get(name) {
        Some(b' ' | b'\t') if name == 0 => "A line is folded, or begins with white space.",
        Some(b' ' | b'\t') => "White space in a field's name, or before its colon.",
        Some(_) => "A field's name is no token.",
        None => "A field has no colon.",
    })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a line is, byte by byte.
    fn plain(line: &[u8]) -> Result<Field, Fault> {
        let name = line.iter().take_while(|byte| is_token(**byte)).count();
        if name == 0 || line.get(name) != Some(&b':') {
            return Err(no_field(line));
        }
        let value = line[name + 1..].trim_ascii_start();
        let start = line.len() - value.len();
        Ok(Field { name, known: Known::of(&line[..name]), value: start..start + value.trim_ascii_end().len() })
    }

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![4 => b' '..=b'~', 1 => any::<u8>(), 1 => prop::sample::select(b": \t\r\n\0\x7f".to_vec())];
        prop::collection::vec(byte, 0..most)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn a_line_ends_at_its_first_control_character(bytes in bytes(40)) {
            let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
            prop_assert_eq!(control(&bytes), bytes.iter().position(is_control).unwrap_or(bytes.len()));
        }

        #[test]
        fn a_field_is_what_it_is_byte_by_byte(name in "(?i)(x-[a-z0-9_]{0,20}|host|content-length|te)?", rest in bytes(24)) {
            let line = [name.as_bytes(), &rest].concat();
            let line = &line[..control(&line)];
            prop_assert_eq!(field(line), plain(line));
        }
    }
}
