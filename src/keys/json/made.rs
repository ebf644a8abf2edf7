//! Where parts stand in a text and in what was made of it, and how they are copied. It knows no JSON.

#![expect(clippy::inline_always, reason = "what is done for each member costs less than a call")]

/// As many bytes are copied at once: most names and values are no longer.
const AT_ONCE: usize = 32;

/// Where a part stands. What was made stands behind the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// Where something stands that does not count.
    pub(super) const NOWHERE: Self = Self { start: 0, end: 0 };

    pub(super) fn of<'a>(self, text: &'a [u8], made: &'a [u8]) -> &'a [u8] {
        match self.start.checked_sub(text.len()) {
            None => &text[self.start..self.end],
            Some(start) => &made[start..self.end - text.len()],
        }
    }

    #[inline(always)]
    pub(super) fn length(self) -> usize {
        self.end - self.start
    }
}

/// What is made of a text, in a place that is larger: so that pieces of one length are copied, whatever length counts.
pub(super) struct Made<'a> {
    text: &'a [u8],
    bytes: Vec<u8>,
    /// Where it ends.
    end: usize,
}

impl<'a> Made<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { text, bytes: Vec::new(), end: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }

    /// Where the next thing is to be made.
    #[inline(always)]
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// What was made from there on.
    #[inline(always)]
    pub(super) fn since(&self, start: usize) -> Span {
        Span { start: self.text.len() + start, end: self.text.len() + self.end }
    }

    /// Where a part begins that was made; none of one in the text.
    pub(super) fn start_of(&self, part: Span) -> Option<usize> {
        part.start.checked_sub(self.text.len())
    }

    /// Forgets what was made from there on; or leaves out what is between.
    #[inline(always)]
    pub(super) fn set_end(&mut self, end: usize) {
        self.end = end;
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.room(1);
        self.bytes[self.end] = byte;
        self.end += 1;
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len());
        self.bytes[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Copies a part, with a byte behind it.
    pub(super) fn copy(&mut self, part: Span, behind: u8) {
        self.room(part.length() + 1);
        self.end = copy(self.text, &mut self.bytes, self.end, part, behind);
    }

    /// Copies the beginning of an array to where it was left out, with a comma at its end if there is any value in it.
    pub(super) fn fill(&mut self, place: usize, part: Span) {
        let end = place + part.length();
        self.end = self.end.max(end);
        self.room(0);
        self.bytes[place..end].copy_from_slice(part.of(self.text, &[]));
        if part.length() > 1 {
            self.bytes[end - 1] = b',';
        }
    }

    /// Ends an array that was begun there, in the place of its last comma.
    pub(super) fn close(&mut self, start: usize) {
        if self.end == start + 1 {
            self.end += 1;
            self.room(0);
        }
        self.bytes[self.end - 1] = b']';
    }

    /// Begins an object of no more than so many bytes: all of the place, and where it goes on.
    #[inline(always)]
    pub(super) fn open(&mut self, length: usize) -> (&mut [u8], usize) {
        self.room(length);
        self.bytes[self.end] = b'{';
        (&mut self.bytes, self.end + 1)
    }

    /// The object that was begun last, and goes up to `end`, takes the place of what was made from `place` on.
    pub(super) fn moved(&mut self, end: usize, place: usize) -> Span {
        // In the place of the last comma.
        let (start, end) = (self.end, end.max(self.end + 2));
        self.bytes[end - 1] = b'}';
        if start > place {
            self.bytes.copy_within(start..end, place);
        }
        self.end = place + end - start;
        self.since(place)
    }

    /// Makes room for so many bytes, and for those that are copied with them.
    #[inline(always)]
    fn room(&mut self, length: usize) {
        let end = self.end + length + AT_ONCE + 1;
        if end > self.bytes.len() {
            self.grow(end);
        }
    }

    #[inline(never)]
    fn grow(&mut self, end: usize) {
        if self.bytes.is_empty() {
            // For what is made of each part, and of those that they are parts of.
            self.bytes.reserve(2 * self.text.len() + 4 * AT_ONCE);
        }
        self.bytes.resize(end.max(self.text.len()).max(self.bytes.len() / 2 * 3), 0);
    }
}

/// Copies a part to `end`, with a byte behind it, where there is room. Where that ends.
#[inline(always)]
pub(super) fn copy(text: &[u8], made: &mut [u8], end: usize, part: Span, behind: u8) -> usize {
    let length = part.length();
    let piece = text.get(part.start..).and_then(<[u8]>::first_chunk::<AT_ONCE>);
    match (piece, made.get_mut(end..).and_then(<[u8]>::first_chunk_mut::<{ AT_ONCE + 1 }>)) {
        (Some(piece), Some(place)) if length <= AT_ONCE => {
            // What is too much is written over: this takes a fraction of what it takes to copy a piece of any length.
            place[..AT_ONCE].copy_from_slice(piece);
            place[length] = behind;
        }
        _ => copy_any(text, made, end, part, behind),
    }
    end + length + 1
}

#[inline(never)]
fn copy_any(text: &[u8], made: &mut [u8], end: usize, part: Span, behind: u8) {
    let length = part.length();
    match part.start.checked_sub(text.len()) {
        None => made[end..end + length].copy_from_slice(&text[part.start..part.end]),
        Some(start) => made.copy_within(start..start + length, end),
    }
    made[end + length] = behind;
}
