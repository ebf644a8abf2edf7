//! Where parts stand in a piece of text, and how they are copied. It knows no JSON.

/// As many bytes are copied at once: most names and values are no longer.
pub(super) const AT_ONCE: usize = 32;

/// Where a part stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// Where something stands that does not count.
    pub(super) const NOWHERE: Self = Self { start: 0, end: 0 };

    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start..self.end]
    }
}

/// Appends what stands there once more.
#[inline]
pub(super) fn repeat(text: &mut Vec<u8>, part: Span) {
    let length = part.end - part.start;
    match text.get(part.start..).and_then(<[u8]>::first_chunk::<AT_ONCE>) {
        Some(&piece) if length <= AT_ONCE => {
            // What is too much goes again: this takes a fraction of what it takes to copy a piece of any length.
            let end = text.len() + length;
            text.extend_from_slice(&piece);
            text.truncate(end);
        }
        _ => text.extend_from_within(part.start..part.end),
    }
}

/// Copies a part to `end` in a place that is large enough. Where it ends there.
#[inline]
pub(super) fn copy(from: &[u8], part: Span, to: &mut [u8], end: usize) -> usize {
    let length = part.end - part.start;
    let piece = from.get(part.start..).and_then(<[u8]>::first_chunk::<AT_ONCE>);
    match (piece, to.get_mut(end..).and_then(<[u8]>::first_chunk_mut)) {
        // What is too much is written over.
        (Some(piece), Some(place)) if length <= AT_ONCE => *place = *piece,
        _ => to[end..end + length].copy_from_slice(part.of(from)),
    }
    end + length
}
