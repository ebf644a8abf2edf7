//! JSON in canonical form (RFC 8259 in, one spelling per value out), in one pass and without a tree.
//! It validates nothing beyond the grammar, and knows nothing of fingerprints.

#![expect(clippy::inline_always, reason = "a quarter of all instructions were calls and what goes with them")]

mod members;
mod span;
mod string;

use members::Member;
use span::{Span, repeat};
use string::Short;

use super::Steps;
use super::number::{self, Number};
use super::pointer::{Purpose, Step, Watch};
use super::spelling::push_char;

/// Containers inside each other beyond this are not followed.
const MAX_DEPTH: usize = 64;

/// A document that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    /// Members sorted, no whitespace, one spelling for each string and number. JSON text itself.
    pub(super) canonical: Vec<u8>,
    /// The wanted values in canonical form, none where the pointer leads nowhere.
    pub(super) wanted: Vec<Option<Vec<u8>>>,
    /// Whether some object names a member twice. Readers disagree on which one counts.
    pub(super) duplicates: bool,
}

/// Why a document has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no JSON, or holds a lone surrogate or a number beyond all measure.
    Invalid,
    /// It nests deeper than `MAX_DEPTH`.
    TooDeep,
}

/// Reads a document. Values under the pointers `ignored` are left out, those under `wanted` are picked up as they are, and
/// texts under `typed` are brought into their form.
pub(super) fn scan<'a>(
    body: &[u8],
    ignored: impl IntoIterator<Item = &'a str>,
    typed: &'a [(String, Steps)],
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Scan, Fault> {
    std::str::from_utf8(body).map_err(|_| Fault::Invalid)?;
    let mut watches: Vec<_> = ignored.into_iter().filter_map(|text| Watch::new(text, Purpose::Ignore)).collect();
    let mut slots = 0;
    for pointer in wanted {
        watches.extend(Watch::new(pointer, Purpose::Want(slots)));
        slots += 1;
    }
    // After the wanted ones: whoever wants a value gets it as it was sent.
    let forms = typed.iter().enumerate();
    watches.extend(forms.filter_map(|(at, (pointer, _))| Watch::new(pointer, Purpose::Form(at))));
    // Room for what is made of each part, and of those that they are parts of.
    let mut out = Vec::with_capacity(3 * body.len());
    out.extend_from_slice(body);
    let mut scanner = Scanner {
        text: body,
        at: 0,
        out,
        // Room for what most documents have, so that it need not grow bit by bit.
        members: Vec::with_capacity(12),
        typed,
        watches,
        wanted: vec![None; slots],
        duplicates: false,
        depth: 0,
        too_deep: false,
    };
    let Some(whole) = scanner.document() else {
        return Err(if scanner.too_deep { Fault::TooDeep } else { Fault::Invalid });
    };
    let mut canonical = scanner.out;
    canonical.truncate(whole.end);
    canonical.drain(..whole.start);
    Ok(Scan { canonical, wanted: scanner.wanted, duplicates: scanner.duplicates })
}

struct Scanner<'a> {
    /// Valid UTF-8.
    text: &'a [u8],
    at: usize,
    /// The text, and behind it every value that is not spelled there as it should be.
    out: Vec<u8>,
    /// Members of all objects that are still open.
    members: Vec<Member>,
    typed: &'a [(String, Steps)],
    watches: Vec<Watch>,
    wanted: Vec<Option<Vec<u8>>>,
    duplicates: bool,
    /// How many containers are open.
    depth: usize,
    /// Why nothing more is read.
    too_deep: bool,
}

/// What reads a part gives none where it is no JSON.
impl Scanner<'_> {
    fn document(&mut self) -> Option<Span> {
        let first = self.peek();
        let (whole, _) = self.value(first)?;
        if self.at < self.text.len() {
            return None;
        }
        Some(self.counted(whole, |watch| watch.root()))
    }

    /// The value that begins with this byte, and the byte that comes next.
    #[inline(always)]
    fn value(&mut self, first: u8) -> Option<(Span, u8)> {
        if first == b'"' {
            return self.string().map(|(value, _, next)| (value, next));
        }
        let value = self.other(first)?;
        Some((value, self.peek()))
    }

    /// A value that is no string, by its first byte.
    #[inline(never)]
    fn other(&mut self, first: u8) -> Option<Span> {
        match first {
            b'{' | b'[' if self.depth == MAX_DEPTH => {
                self.too_deep = true;
                None
            }
            b'{' => self.object(),
            b'[' => self.array(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    #[inline(never)]
    fn object(&mut self) -> Option<Span> {
        let (open, made, first) = (self.at, self.out.len(), self.members.len());
        self.at += 1;
        self.depth += 1;
        let mut next = self.peek();
        while next != b'}' {
            let member;
            (member, next) = if self.watches.is_empty() { self.member(next)? } else { self.watched_member(next)? };
            self.members.push(member);
            next = self.after(next, b'}')?;
        }
        self.at += 1;
        self.depth -= 1;
        Some(self.close(Span { start: open, end: self.at }, made, first))
    }

    /// The member that begins with this byte, and the byte that comes next.
    #[inline(always)]
    fn member(&mut self, first: u8) -> Option<(Member, u8)> {
        let (name, order, first) = self.name(first)?;
        let (value, next) = self.value(first)?;
        Some((Member { order, name, value }, next))
    }

    #[inline(never)]
    fn watched_member(&mut self, first: u8) -> Option<(Member, u8)> {
        let (name, order, first) = self.name(first)?;
        let depth = self.depth - 1;
        let step = Step::Member(name.of(&self.out));
        self.watches.iter_mut().for_each(|watch| watch.enter(depth, step));
        let (value, next) = self.value(first)?;
        Some((Member { order, name, value: self.counted(value, |watch| watch.leave(depth)) }, next))
    }

    /// A member's name with its place in the order, and the first byte behind the colon.
    #[inline(always)]
    fn name(&mut self, first: u8) -> Option<(Span, u64, u8)> {
        if first != b'"' {
            return None;
        }
        let (name, order, next) = self.string()?;
        if next != b':' {
            return None;
        }
        self.at += 1;
        Some((name, order, self.peek()))
    }

    #[inline(never)]
    fn array(&mut self) -> Option<Span> {
        let (open, made, depth) = (self.at, self.out.len(), self.depth);
        self.at += 1;
        self.depth += 1;
        self.out.push(b'[');
        // Where the next value begins if all is spelled as it should be so far.
        let mut place = self.at;
        let mut next = self.peek();
        if next == b']' && place == self.at {
            place += 1;
        }
        for index in 0.. {
            if next == b']' {
                break;
            }
            let before = self.out.len();
            if before > made + 1 {
                self.out.push(b',');
            }
            let start = self.out.len();
            self.watches.iter_mut().for_each(|watch| watch.enter(depth, Step::Element(index)));
            let value;
            (value, next) = self.value(next)?;
            let value = self.counted(value, |watch| watch.leave(depth));
            if value == Span::NOWHERE {
                self.out.truncate(before);
            } else if value.start != start {
                repeat(&mut self.out, value);
            }
            place = if value.start == place { value.end + 1 } else { usize::MAX };
            next = self.after(next, b']')?;
        }
        self.at += 1;
        self.depth -= 1;
        self.out.push(b']');
        if place == self.at {
            self.out.truncate(made);
            return Some(Span { start: open, end: self.at });
        }
        Some(Span { start: made, end: self.out.len() })
    }

    /// Where an object stands that is spelled as in `sent` and has the members since `first`. What was made of it stands in
    /// `out` from `made` on.
    fn close(&mut self, sent: Span, made: usize, first: usize) -> Span {
        let members = &mut self.members[first..];
        let object = if members::are(members, sent) {
            sent
        } else {
            let (places, duplicates) = members::sort(members, &self.out);
            self.duplicates |= duplicates;
            members::put_together(members, &places, &mut self.out, made)
        };
        self.members.truncate(first);
        object
    }

    /// Does with a value what the watches say that have hit it. Where it stands then.
    fn counted(&mut self, mut value: Span, hit: impl Fn(&mut Watch) -> Option<Purpose>) -> Span {
        let mut ignored = false;
        for at in 0..self.watches.len() {
            match hit(&mut self.watches[at]) {
                None => {}
                Some(Purpose::Ignore) => ignored = true,
                Some(Purpose::Want(slot)) => self.wanted[slot] = Some(value.of(&self.out).to_vec()),
                Some(Purpose::Form(at)) => value = self.form(at, value).unwrap_or(value),
            }
        }
        if ignored { Span::NOWHERE } else { value }
    }

    /// A value in the form that its steps give it; none if it is no text.
    fn form(&mut self, at: usize, value: Span) -> Option<Span> {
        let text: String = serde_json::from_slice(value.of(&self.out)).ok()?;
        let form = self.typed.get(at)?.1.form_of(text.as_bytes())?;
        if value.start >= self.text.len() {
            self.out.truncate(value.start);
        }
        let start = self.out.len();
        self.out.push(b'"');
        form.chars().for_each(|c| push_char(&mut self.out, c));
        self.out.push(b'"');
        Some(Span { start, end: self.out.len() })
    }

    fn number(&mut self) -> Option<Span> {
        let (start, rest) = (self.at, &self.text[self.at..]);
        if let Some(length) = number::whole(rest) {
            self.at += length;
            return Some(Span { start, end: self.at });
        }
        let start = self.out.len();
        let length = number::amount(rest, &mut self.out).or_else(|| {
            let (number, length) = Number::read(rest)?;
            number.write(&mut self.out);
            Some(length)
        });
        self.at += length?;
        Some(Span { start, end: self.out.len() })
    }

    fn literal(&mut self, word: &[u8]) -> Option<Span> {
        let start = self.at;
        if !self.text[start..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        Some(Span { start, end: self.at })
    }

    /// The string that begins here, what it is like as a name, and the byte that comes next.
    #[inline(always)]
    fn string(&mut self) -> Option<(Span, u64, u8)> {
        let start = self.at;
        let Some(Short { end, order, next }) = string::short(self.text, start) else {
            let string = self.long_string(start)?;
            return Some((string, string::order(string.of(&self.out)), self.peek()));
        };
        self.at = end;
        Some((Span { start, end }, order, if next > b' ' { next } else { self.peek() }))
    }

    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Option<Span> {
        let end = string::plain(self.text, start + 1)?;
        if self.text[end] != b'"' {
            return self.escaped(start, end);
        }
        self.at = end + 1;
        Some(Span { start, end: end + 1 })
    }

    /// A string that begins at `start`, from its first byte on that does not stand for itself.
    #[cold]
    fn escaped(&mut self, mut start: usize, end: usize) -> Option<Span> {
        let made = self.out.len();
        self.at = end;
        while self.text[self.at] == b'\\' {
            self.out.extend_from_slice(&self.text[start..self.at]);
            let (c, length) = string::escaped(&self.text[self.at..])?;
            push_char(&mut self.out, c);
            // What is copied next begins here.
            start = self.at + length;
            self.at = string::plain(self.text, start)?;
        }
        if self.text[self.at] != b'"' {
            return None;
        }
        self.at += 1;
        self.out.extend_from_slice(&self.text[start..self.at]);
        Some(Span { start: made, end: self.out.len() })
    }

    /// The next byte that is no whitespace; zero, which begins nothing, at the end of the text.
    #[inline(always)]
    fn peek(&mut self) -> u8 {
        let mut byte = self.text.get(self.at).copied().unwrap_or_default();
        if byte == b' ' {
            self.at += 1;
            byte = self.text.get(self.at).copied().unwrap_or_default();
        }
        if byte > b' ' { byte } else { self.skip() }
    }

    #[inline(never)]
    fn skip(&mut self) -> u8 {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.get(self.at).copied().unwrap_or_default()
    }

    /// The first byte of a container's next value, or the one that ends it. This is the byte behind the last value.
    #[inline(always)]
    fn after(&mut self, next: u8, end: u8) -> Option<u8> {
        if next == end {
            return Some(end);
        }
        if next != b',' {
            return None;
        }
        self.at += 1;
        // A comma that nothing follows.
        Some(self.peek()).filter(|first| *first != end)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
