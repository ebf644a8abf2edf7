//! JSON in canonical form (RFC 8259 in, one spelling per value out), in one pass and without a tree.
//! It validates nothing beyond the grammar, and knows nothing of fingerprints.

use super::Steps;
use super::number::Number;
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
    let mut scanner = Scanner {
        text: body,
        at: 0,
        out: Vec::with_capacity(body.len()),
        // Room for what most documents have, so that it need not grow bit by bit.
        members: Vec::with_capacity(32),
        scratch: Vec::with_capacity(body.len()),
        typed,
        watches,
        wanted: vec![None; slots],
        duplicates: false,
    };
    scanner.document()?;
    Ok(Scan { canonical: scanner.out, wanted: scanner.wanted, duplicates: scanner.duplicates })
}

struct Scanner<'a> {
    /// Valid UTF-8.
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Members of all objects that are still open, as ranges of `out`.
    members: Vec<Member>,
    scratch: Vec<u8>,
    typed: &'a [(String, Steps)],
    watches: Vec<Watch>,
    wanted: Vec<Option<Vec<u8>>>,
    duplicates: bool,
}

struct Member {
    start: usize,
    name_end: usize,
    end: usize,
    ignored: bool,
}

impl Member {
    fn name<'o>(&self, out: &'o [u8]) -> &'o [u8] {
        &out[self.start..self.name_end]
    }
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.value(0)?;
        if self.peek().is_some() {
            return Err(Fault::Invalid);
        }
        let mut ignored = false;
        for at in 0..self.watches.len() {
            if let Some(purpose) = self.watches[at].root() {
                ignored |= self.hit(purpose, 0);
            }
        }
        if ignored {
            self.out.clear();
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => Err(Fault::TooDeep),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        let (open, first) = (self.out.len(), self.members.len());
        self.out.push(b'{');
        if !self.take(b'}') {
            loop {
                self.member(open, depth)?;
                if self.take(b'}') {
                    break;
                }
                self.demand(b',')?;
            }
        }
        self.sort_members(open, first);
        self.out.push(b'}');
        Ok(())
    }

    fn member(&mut self, open: usize, depth: usize) -> Result<(), Fault> {
        self.separate(open);
        let start = self.out.len();
        if self.peek() != Some(b'"') {
            return Err(Fault::Invalid);
        }
        self.string()?;
        let name_end = self.out.len();
        self.demand(b':')?;
        self.out.push(b':');
        let name = Step::Member(&self.out[start..name_end]);
        self.watches.iter_mut().for_each(|watch| watch.enter(depth, name));
        self.value(depth + 1)?;
        let ignored = self.leave(depth, name_end + 1);
        self.members.push(Member { start, name_end, end: self.out.len(), ignored });
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        let open = self.out.len();
        self.out.push(b'[');
        if !self.take(b']') {
            for index in 0.. {
                let before = self.out.len();
                self.separate(open);
                let start = self.out.len();
                self.watches.iter_mut().for_each(|watch| watch.enter(depth, Step::Element(index)));
                self.value(depth + 1)?;
                if self.leave(depth, start) {
                    self.out.truncate(before);
                }
                if self.take(b']') {
                    break;
                }
                self.demand(b',')?;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// Closes the members since `first`: sorts them by name and drops the ignored ones.
    fn sort_members(&mut self, open: usize, first: usize) {
        let (out, members) = (&mut self.out, &mut self.members[first..]);
        let in_order = members.windows(2).all(|pair| pair[0].name(out) < pair[1].name(out));
        if !in_order || members.iter().any(|member| member.ignored) {
            members.sort_unstable_by(|a, b| a.name(out).cmp(b.name(out)));
            self.duplicates |= members.windows(2).any(|pair| pair[0].name(out) == pair[1].name(out));
            self.scratch.clear();
            for member in members.iter().filter(|member| !member.ignored) {
                if !self.scratch.is_empty() {
                    self.scratch.push(b',');
                }
                self.scratch.extend_from_slice(&out[member.start..member.end]);
            }
            out.truncate(open + 1);
            out.extend_from_slice(&self.scratch);
        }
        self.members.truncate(first);
    }

    /// Leaves the value that was written from `start` on. True when it is to be ignored.
    fn leave(&mut self, depth: usize, start: usize) -> bool {
        let mut ignored = false;
        for at in 0..self.watches.len() {
            if let Some(purpose) = self.watches[at].leave(depth) {
                ignored |= self.hit(purpose, start);
            }
        }
        ignored
    }

    fn hit(&mut self, purpose: Purpose, start: usize) -> bool {
        match purpose {
            Purpose::Ignore => true,
            Purpose::Want(slot) => {
                self.wanted[slot] = Some(self.out[start..].to_vec());
                false
            }
            Purpose::Form(at) => {
                self.bring_into_form(start, at);
                false
            }
        }
    }

    /// The value that was written from `start` on, if it is a text, in the form that its steps give it.
    fn bring_into_form(&mut self, start: usize, at: usize) {
        let text: Result<String, _> = serde_json::from_slice(&self.out[start..]);
        let form = self.typed.get(at).zip(text.ok()).and_then(|((_, steps), text)| steps.form_of(text.as_bytes()));
        if let Some(form) = form {
            self.out.truncate(start);
            self.out.push(b'"');
            form.chars().for_each(|c| push_char(&mut self.out, c));
            self.out.push(b'"');
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        let (number, length) = Number::read(&self.text[self.at..]).ok_or(Fault::Invalid)?;
        number.write(&mut self.out);
        self.at += length;
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Fault::Invalid);
        }
        self.at += word.len();
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        // What is copied next begins here: the quote at first, then what follows an escape.
        let mut start = self.at;
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = plain(rest).ok_or(Fault::Invalid)?;
            self.at += plain + 1;
            match rest[plain] {
                b'"' => {
                    self.out.extend_from_slice(&self.text[start..self.at]);
                    return Ok(());
                }
                b'\\' => {
                    self.out.extend_from_slice(&self.text[start..self.at - 1]);
                    let c = self.escape().ok_or(Fault::Invalid)?;
                    push_char(&mut self.out, c);
                    start = self.at;
                }
                _ => return Err(Fault::Invalid),
            }
        }
    }

    /// The character that the escape after a backslash stands for.
    fn escape(&mut self) -> Option<char> {
        let kind = *self.text.get(self.at)?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b't' => '\t',
            b'n' => '\n',
            b'f' => '\u{c}',
            b'r' => '\r',
            b'u' => return self.unicode(),
            _ => return None,
        })
    }

    /// The character of a `\u` escape, or of two that make a surrogate pair. None for a lone surrogate.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if !self.text[self.at..].starts_with(b"\\u") {
            return None;
        }
        self.at += 2;
        let second = self.hex4().filter(|unit| (0xdc00..0xe000).contains(unit))?;
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
    }

    /// Puts a comma unless the container that was opened at `open` is still empty.
    fn separate(&mut self, open: usize) {
        if self.out.len() > open + 1 {
            self.out.push(b',');
        }
    }

    /// The next byte that is no whitespace.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(byte) if *byte > b' ' => return Some(*byte),
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                byte => return byte.copied(),
            }
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    fn demand(&mut self, byte: u8) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(Fault::Invalid) }
    }
}

/// How many bytes at the start of a string's text stand for themselves; none when there is no end to them. Eight at a
/// time: a string is most of a document.
fn plain(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // A byte's high bit, if the byte is below `less`, which is at most 128. Bits above the lowest one may be wrong.
    let below = |word: u64, less: u64| word.wrapping_sub(ONES * less) & !word & HIGH;
    let (words, _) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (quote, escape) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
        let ends = below(word, 0x20) | below(quote, 1) | below(escape, 1);
        if ends != 0 {
            return Some(at * 8 + ends.trailing_zeros() as usize / 8);
        }
    }
    let start = words.len() * 8;
    let end = text[start..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
    Some(start + end)
}

#[cfg(test)]
mod tests;
