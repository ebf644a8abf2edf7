//! The one pass over a document: what is in its one spelling stays where it is, the rest is made. It knows the grammar alone.

#![expect(clippy::inline_always, reason = "a quarter of all instructions were calls and what goes with them")]

use super::made::{Made, Span};
use super::members::{self, Member, Places};
use super::{Fault, MAX_DEPTH, Scan, string};
use crate::keys::Steps;
use crate::keys::number::{self, Number};
use crate::keys::pointer::{Purpose, Step, Watch};
use crate::keys::spelling::push_char;

pub(super) struct Scanner<'a> {
    /// Valid UTF-8.
    text: &'a [u8],
    /// Where the value ends that was read last, but for those whose end is told.
    at: usize,
    /// Every value that is not spelled in the text as it should be.
    made: Made<'a>,
    /// A string or a number on its way there.
    piece: Vec<u8>,
    /// Members of all objects that are still open.
    members: Vec<Member>,
    /// Of the object that was put together last.
    places: Places,
    typed: &'a [(String, Steps)],
    watches: Vec<Watch>,
    wanted: Vec<Option<Vec<u8>>>,
    duplicates: bool,
    /// How many containers are open.
    depth: usize,
    /// Why nothing more is read.
    too_deep: bool,
}

/// A byte that is no white space, and where it stands; zero, which begins nothing, at the end of the text.
type Next = (u8, usize);

/// The next one from there on.
#[inline(always)]
fn peek(text: &[u8], mut at: usize) -> Next {
    let mut byte = text.get(at).copied().unwrap_or_default();
    if byte == b' ' {
        at += 1;
        byte = text.get(at).copied().unwrap_or_default();
    }
    if byte > b' ' { (byte, at) } else { skip(text, at) }
}

#[inline(never)]
fn skip(text: &[u8], at: usize) -> Next {
    let rest = text.get(at..).unwrap_or_default();
    let at = at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    (text.get(at).copied().unwrap_or_default(), at)
}

/// The first byte of a container's next value, or the one that ends it. This is the byte behind the last value.
#[inline(always)]
fn after(text: &[u8], (next, at): Next, end: u8) -> Option<Next> {
    if next == b',' {
        // A comma that nothing follows.
        return Some(peek(text, at + 1)).filter(|(first, _)| *first != end);
    }
    (next == end).then_some((next, at))
}

/// What reads a part gives none where it is no JSON.
impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], typed: &'a [(String, Steps)], watches: Vec<Watch>, wanted: usize) -> Self {
        Self {
            text,
            at: 0,
            made: Made::of(text),
            piece: Vec::new(),
            // Room for what most documents have, so that it need not grow bit by bit.
            members: Vec::with_capacity(16),
            places: Places::default(),
            typed,
            watches,
            wanted: vec![None; wanted],
            duplicates: false,
            depth: 0,
            too_deep: false,
        }
    }

    pub(super) fn scan(mut self) -> Result<Scan, Fault> {
        match self.document() {
            None => Err(if self.too_deep { Fault::TooDeep } else { Fault::Invalid }),
            Some(whole) => {
                let (made, wanted, duplicates) = (self.made.into_bytes(), self.wanted, self.duplicates);
                Ok(Scan { made, whole, wanted, duplicates })
            }
        }
    }

    fn document(&mut self) -> Option<Span> {
        let first = peek(self.text, 0);
        let (whole, (_, end)) = self.value(self.text, first)?;
        (end == self.text.len()).then(|| self.counted(whole, |watch| watch.root()))
    }

    /// The value that begins here, and the byte that comes next.
    #[inline(always)]
    fn value(&mut self, text: &[u8], (first, start): Next) -> Option<(Span, Next)> {
        if first != b'"' {
            let value = self.other(first, start)?;
            return Some((value, peek(text, self.at)));
        }
        if let Some(short) = string::short(text, start) {
            let (end, [next, _]) = (start + short.size(), short.next());
            return Some((Span { start, end }, if next > b' ' { (next, end) } else { peek(text, end) }));
        }
        let value = self.long_string(start)?;
        Some((value, peek(text, self.at)))
    }

    /// A value that is no string, by its first byte.
    #[inline(never)]
    fn other(&mut self, first: u8, start: usize) -> Option<Span> {
        match first {
            b'{' | b'[' if self.depth == MAX_DEPTH => {
                self.too_deep = true;
                None
            }
            b'{' => self.object(start),
            b'[' => self.array(start),
            b't' => self.literal(start, b"true"),
            b'f' => self.literal(start, b"false"),
            b'n' => self.literal(start, b"null"),
            _ => self.number(start),
        }
    }

    #[inline(never)]
    fn object(&mut self, start: usize) -> Option<Span> {
        let (text, place, first) = (self.text, self.made.end(), self.members.len());
        self.depth += 1;
        let next = peek(text, start + 1);
        let end = if self.watches.is_empty() { self.members(text, next)? } else { self.watched_members(text, next)? };
        self.at = end + 1;
        self.depth -= 1;
        let (mut object, members) = (Span { start, end: end + 1 }, &mut self.members[first..]);
        if !members::are(members, object) {
            let (length, places, twice) = (object.length(), &mut self.places, &mut self.duplicates);
            let made = members::put_together(members, places, length, text, &mut self.made, place);
            object = made.0;
            *twice |= made.1;
        }
        self.members.truncate(first);
        Some(object)
    }

    /// The members from this byte on. Where their object ends.
    #[inline(always)]
    fn members(&mut self, text: &[u8], mut next: Next) -> Option<usize> {
        while next.0 != b'}' {
            let (name, order, first) = self.name(text, next)?;
            let value;
            (value, next) = self.value(text, first)?;
            self.members.push(Member { order, name, value });
            next = after(text, next, b'}')?;
        }
        Some(next.1)
    }

    #[inline(never)]
    fn watched_members(&mut self, text: &[u8], mut next: Next) -> Option<usize> {
        while next.0 != b'}' {
            let (name, order, first) = self.name(text, next)?;
            let depth = self.depth - 1;
            let step = Step::Member(name.of(text, self.made.bytes()));
            self.watches.iter_mut().for_each(|watch| watch.enter(depth, step));
            let value;
            (value, next) = self.value(text, first)?;
            let value = self.counted(value, |watch| watch.leave(depth));
            self.members.push(Member { order, name, value });
            next = after(text, next, b'}')?;
        }
        Some(next.1)
    }

    /// A member's name with its place in the order, and the first byte behind the colon.
    #[inline(always)]
    fn name(&mut self, text: &[u8], (first, start): Next) -> Option<(Span, u64, Next)> {
        if first != b'"' {
            return None;
        }
        if let Some(short) = string::short(text, start)
            && let [b':', next] = short.next()
        {
            let end = start + short.size();
            let next = if next > b' ' { (next, end + 1) } else { peek(text, end + 1) };
            return Some((Span { start, end }, short.order(), next));
        }
        let name = self.long_string(start)?;
        let order = string::order(name.of(text, self.made.bytes()));
        let (colon, at) = peek(text, self.at);
        (colon == b':').then(|| (name, order, peek(text, at + 1)))
    }

    #[inline(never)]
    fn array(&mut self, start: usize) -> Option<Span> {
        let (text, made, depth) = (self.text, self.made.end(), self.depth);
        self.depth += 1;
        // Where the next value begins, if all is spelled as it should be so far.
        let mut place = Some(start + 1);
        let mut next = peek(text, start + 1);
        if next == (b']', start + 1) {
            place = Some(start + 2);
        }
        for index in 0.. {
            if next.0 == b']' {
                break;
            }
            if let Some(place) = place {
                // Room for what stands in front of it, should that have to be copied.
                self.made.set_end(made + place - start);
            }
            let before = self.made.end();
            self.watches.iter_mut().for_each(|watch| watch.enter(depth, Step::Element(index)));
            let value;
            (value, next) = self.value(text, next)?;
            let value = self.counted(value, |watch| watch.leave(depth));
            if Some(value.start) == place {
                place = Some(value.end + 1);
            } else {
                if let Some(end) = place.take() {
                    self.made.fill(made, Span { start, end });
                }
                self.element(value, before);
            }
            next = after(text, next, b']')?;
        }
        self.at = next.1 + 1;
        self.depth -= 1;
        match place {
            Some(place) if place == self.at => {
                self.made.set_end(made);
                return Some(Span { start, end: self.at });
            }
            Some(end) => self.made.fill(made, Span { start, end }),
            None => {}
        }
        self.made.close(made);
        Some(self.made.since(made))
    }

    /// A value of an array that is made, with a comma behind it. Nothing was made behind `before` but this.
    fn element(&mut self, value: Span, before: usize) {
        match self.made.start_of(value) {
            _ if value == Span::NOWHERE => self.made.set_end(before),
            Some(start) if start == before => self.made.push(b','),
            _ => self.made.copy(value, b','),
        }
    }

    /// Does with a value what the watches say that have hit it. Where it stands then.
    #[inline(always)]
    fn counted(&mut self, value: Span, hit: impl Fn(&mut Watch) -> Option<Purpose>) -> Span {
        if self.watches.is_empty() { value } else { self.watched(value, hit) }
    }

    fn watched(&mut self, mut value: Span, hit: impl Fn(&mut Watch) -> Option<Purpose>) -> Span {
        let mut ignored = false;
        for at in 0..self.watches.len() {
            match hit(&mut self.watches[at]) {
                None => {}
                Some(Purpose::Ignore) => ignored = true,
                Some(Purpose::Want(slot)) => self.wanted[slot] = Some(value.of(self.text, self.made.bytes()).to_vec()),
                Some(Purpose::Form(at)) => value = self.form(at, value).unwrap_or(value),
            }
        }
        if ignored { Span::NOWHERE } else { value }
    }

    /// A value in the form that its steps give it; none if it is no text.
    fn form(&mut self, at: usize, value: Span) -> Option<Span> {
        let text: String = serde_json::from_slice(value.of(self.text, self.made.bytes())).ok()?;
        let form = self.typed.get(at)?.1.form_of(text.as_bytes())?;
        if let Some(start) = self.made.start_of(value) {
            self.made.set_end(start);
        }
        self.piece.clear();
        self.piece.push(b'"');
        form.chars().for_each(|c| push_char(&mut self.piece, c));
        self.piece.push(b'"');
        Some(self.make())
    }

    /// Makes what the piece says.
    fn make(&mut self) -> Span {
        let start = self.made.end();
        self.made.put(&self.piece);
        self.made.since(start)
    }

    #[inline(always)]
    fn number(&mut self, start: usize) -> Option<Span> {
        let Some(length) = number::whole(&self.text[start..]) else { return self.other_number(start) };
        self.at = start + length;
        Some(Span { start, end: self.at })
    }

    #[inline(never)]
    fn other_number(&mut self, start: usize) -> Option<Span> {
        let rest = &self.text[start..];
        self.piece.clear();
        let length = number::amount(rest, &mut self.piece).or_else(|| {
            let (number, length) = Number::read(rest)?;
            number.write(&mut self.piece);
            Some(length)
        });
        self.at = start + length?;
        Some(self.make())
    }

    #[inline(always)]
    fn literal(&mut self, start: usize, word: &[u8]) -> Option<Span> {
        self.at = start + word.len();
        self.text[start..].starts_with(word).then_some(Span { start, end: self.at })
    }

    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Option<Span> {
        let end = string::plain(self.text, start + 1)?;
        if self.text[end] != b'"' {
            return self.escaped(start, end);
        }
        self.at = end + 1;
        Some(Span { start, end: self.at })
    }

    /// A string that begins at `start`, from its first byte on that does not stand for itself.
    #[cold]
    fn escaped(&mut self, mut start: usize, mut end: usize) -> Option<Span> {
        self.piece.clear();
        while self.text[end] == b'\\' {
            self.piece.extend_from_slice(&self.text[start..end]);
            let (c, length) = string::escaped(&self.text[end..])?;
            push_char(&mut self.piece, c);
            // What is copied next begins here.
            start = end + length;
            end = string::plain(self.text, start)?;
        }
        if self.text[end] != b'"' {
            return None;
        }
        self.at = end + 1;
        self.piece.extend_from_slice(&self.text[start..self.at]);
        Some(self.make())
    }
}
