//! What stands in a JSON string: bytes for themselves, and escapes. It writes nothing.

/// Where the first byte at or after `at` stands that does not stand for itself in a string. Eight at a time: strings are
/// most of a document.
#[inline]
pub(super) fn plain(text: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    while let Some(word) = text.get(at..)?.first_chunk() {
        let word = u64::from_le_bytes(*word);
        // The quote is 0x20 and all below are below, once their second bit is turned over.
        let low = (word ^ (ONES * 2)).wrapping_sub(ONES * 0x21);
        let escape = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
        // A byte's high bit, if it is one of these. Bits above the lowest one may be wrong.
        let ends = (low | escape) & !word & (ONES << 7);
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).map(|end| at + end)
}

/// The character that an escape stands for, and how many bytes it takes.
pub(super) fn escaped(text: &[u8]) -> Option<(char, usize)> {
    let c = match *text.get(1)? {
        kind @ (b'"' | b'\\' | b'/') => char::from(kind),
        b'b' => '\u{8}',
        b't' => '\t',
        b'n' => '\n',
        b'f' => '\u{c}',
        b'r' => '\r',
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((c, 2))
}

/// The character of a `\u` escape, or of two that make a surrogate pair. None for a lone surrogate.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = hex4(text.get(2..6)?)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hex4(text.get(6..12)?.strip_prefix(b"\\u")?)?;
    let second = Some(second).filter(|unit| (0xdc00..0xe000).contains(unit))?;
    Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}
