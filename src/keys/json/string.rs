//! What stands in a JSON string: bytes for themselves, and escapes. It writes nothing.

/// A string of up to 16 bytes that all stand for themselves.
pub(super) struct Short {
    pub(super) end: usize,
    /// See [`order`].
    pub(super) order: u64,
    /// The byte behind it.
    pub(super) next: u8,
}

/// The string that begins at `start`, if it is such and not at the end of the text. Most are: this takes a third of what
/// [`plain`] takes.
#[inline]
pub(super) fn short(text: &[u8], start: usize) -> Option<Short> {
    let window: &[u8; 32] = text.get(start..)?.first_chunk()?;
    let (word, _) = window[1..].split_first_chunk()?;
    let first = ends(*word);
    // The bytes up to the quote, and the quote.
    let all = u64::from_le_bytes(*word) & (first ^ first.wrapping_sub(1));
    let mut last = 1 + first.trailing_zeros() as usize / 8;
    if first == 0 {
        let (word, _) = window[9..].split_first_chunk()?;
        last = 9 + ends(*word).trailing_zeros() as usize / 8;
    }
    let short = Short { end: start + last + 1, order: all.swap_bytes() & !0xff, next: window[last + 1] };
    (window[last] == b'"').then_some(short)
}

/// The first seven bytes of a string's text and of the quote behind it, with room for one byte more. Where these differ,
/// strings are in their order.
pub(super) fn order(string: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().take(7).zip(string.iter().skip(1)).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(first)
}

/// Where the first byte at or after `at` stands that does not stand for itself in a string.
pub(super) fn plain(text: &[u8], mut at: usize) -> Option<usize> {
    while let Some(word) = text.get(at..)?.first_chunk() {
        let ends = ends(*word);
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).map(|end| at + end)
}

/// The high bits of those bytes that do not stand for themselves, the first one's lowest; those above it may be wrong.
#[inline]
fn ends(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    // The quote is 0x20 and all below are below, once their second bit is turned over.
    let low = (word ^ (ONES * 2)).wrapping_sub(ONES * 0x21);
    let escape = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (low | escape) & !word & (ONES << 7)
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
