//! What stands in a JSON string: bytes for themselves, and escapes. It writes nothing.

#![expect(clippy::inline_always, reason = "a quarter of all instructions were calls and what goes with them")]

use wide::u8x16;

/// So many bytes are looked at at once.
const WINDOW: usize = 16;

/// A string of up to 15 bytes that all stand for themselves, and what stands behind it.
pub(super) struct Short<'a> {
    window: &'a [u8; 2 * WINDOW],
    /// How many bytes stand between its quotes.
    length: usize,
}

/// The string that begins at `start`, if it is such and not at the end of the text. Most are: this takes a third of what
/// [`plain`] takes.
#[inline(always)]
pub(super) fn short(text: &[u8], start: usize) -> Option<Short<'_>> {
    let window: &[u8; 2 * WINDOW] = text.get(start..)?.first_chunk()?;
    let length = ends(*window[1..].first_chunk()?).trailing_zeros() as usize;
    (length < WINDOW && window[length + 1] == b'"').then_some(Short { window, length })
}

impl Short<'_> {
    /// How many bytes it takes.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.length + 2
    }

    /// See [`order`].
    #[inline(always)]
    pub(super) fn order(&self) -> u64 {
        let word = self.window[1..].first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(word) & COUNTS[self.length % WINDOW]
    }

    /// The two bytes behind it.
    #[inline(always)]
    pub(super) fn next(&self) -> [u8; 2] {
        [self.window[(self.length + 2) % (2 * WINDOW)], self.window[(self.length + 3) % (2 * WINDOW)]]
    }
}

/// Of a text of so many bytes, with the quote behind it, what counts for the order.
const COUNTS: [u64; WINDOW] = {
    let (mut counts, mut length) = ([!0xff; WINDOW], 0);
    while length < 6 {
        counts[length] = !0 << (56 - 8 * length);
        length += 1;
    }
    counts
};

/// The first seven bytes of a string's text and of the quote behind it, with room for one byte more. Where these differ,
/// strings are in their order.
pub(super) fn order(string: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().take(7).zip(string.iter().skip(1)).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(first)
}

/// Where the first byte at or after `at` stands that does not stand for itself in a string.
pub(super) fn plain(text: &[u8], mut at: usize) -> Option<usize> {
    while let Some(window) = text.get(at..)?.first_chunk() {
        let ends = ends(*window);
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize);
        }
        at += WINDOW;
    }
    text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).map(|end| at + end)
}

/// Which bytes do not stand for themselves, the first one's bit lowest.
#[inline(always)]
fn ends(window: [u8; WINDOW]) -> u32 {
    let window = u8x16::new(window);
    // The quote is 0x20 and all below are below, once their second bit is turned over.
    let turned = window ^ u8x16::splat(2);
    let low = turned.min(u8x16::splat(0x20)).simd_eq(turned);
    (low | window.simd_eq(u8x16::splat(b'\\'))).to_bitmask()
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
