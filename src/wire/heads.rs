//! Heads of HTTP/1.1 messages: made into fields, and fields into lines. Whether a head may be read, and where it ends, is
//! `framing`'s matter.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::framing::{Known, Span, is_spelling};

/// The fields of a head, in its order. Values share its memory. None where a span is no field, which `framing` lets through
/// in no case.
pub fn fields(head: &Bytes, spans: &[Span]) -> Option<HeaderMap> {
    // Room for what a gateway adds on the way.
    let mut fields = HeaderMap::with_capacity(spans.len() + ADDED);
    for Span { name, known, value } in spans {
        let name = match known {
            Some(known) => known.name(),
            None => HeaderName::from_bytes(head.get(name.clone())?).ok()?,
        };
        let value = head.get(value.clone()).map(|_| head.slice(value.clone()))?;
        fields.append(name, HeaderValue::from_maybe_shared(value).ok()?);
    }
    Some(fields)
}

const COLON: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";

/// The most fields that a message gets among its own on the way, as a rule.
const ADDED: usize = 4;

/// A field's name; none where the bytes are none.
pub fn name(bytes: &[u8]) -> Option<HeaderName> {
    match Known::of(bytes) {
        Some(known) => Some(known.name()),
        None => HeaderName::from_bytes(bytes).ok(),
    }
}

/// The names of a head's fields as their sender wrote them. With it, they are written so again.
#[derive(Debug, Clone)]
pub struct Spelling {
    head: Bytes,
    /// Which names there are, roughly.
    names: u64,
}

impl Spelling {
    /// Of this head.
    pub fn of(head: Bytes, spans: &[Span]) -> Self {
        let names = spans.iter().filter_map(|span| head.get(span.name.clone()));
        let names = names.fold(0, |names, name| names | mark(name));
        Self { head, names }
    }

    /// The line that a field came in: a value that stands in the head stands behind its name.
    fn line(&self, name: &[u8], value: &[u8]) -> Option<Line> {
        let place = value.as_ptr().addr().checked_sub(self.head.as_ptr().addr())?;
        let (before, parted) = match self.head.get(..place)? {
            [before @ .., b':', b' '] => (before, !value.is_empty()),
            before => (before.trim_ascii_end().strip_suffix(b":")?, false),
        };
        let (start, end) = (before.len().checked_sub(name.len())?, place + value.len());
        let plain = parted && matches!(self.head.get(end..), Some([b'\r', b'\n', ..]));
        is_spelling(&before[start..], name).then_some(Line { start, end, plain })
    }

    /// How a name was spelled first. For values that came in place of the head's own.
    fn name(&self, name: &[u8]) -> Option<&[u8]> {
        if self.names & mark(name) == 0 {
            return None;
        }
        let mut names = self.head.split(|byte| *byte == b'\n').filter_map(|line| {
            let (spelled, rest) = line.split_at_checked(name.len())?;
            rest.starts_with(b":").then_some(spelled)
        });
        names.find(|spelled| is_spelling(spelled, name))
    }
}

/// Where in a head a field stands.
struct Line {
    start: usize,
    end: usize,
    /// As it would be written: with one space, and its line's end right behind it.
    plain: bool,
}

/// A bit that few names have in common; in any case, a name has the same.
fn mark(name: &[u8]) -> u64 {
    let last = name.last().map_or(0, |last| usize::from(last | 0x20));
    1 << ((name.len() + 5 * last) % 64)
}

/// Fields as lines, for a head that nobody looks at on its way.
#[derive(Debug)]
pub struct Lines(BytesMut);

impl Lines {
    /// The longest name that is taken unread; what has a longer one is a matter for a map.
    const NAME: usize = 256;

    /// None yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(BytesMut::with_capacity(bytes))
    }

    /// Adds a field.
    pub fn put(&mut self, name: &HeaderName, value: &HeaderValue) {
        put(name.as_str().as_bytes(), value.as_bytes(), &mut self.0);
    }

    /// Adds a field whose name is spelled as a map would spell it; none where a map would have it otherwise, or not at all.
    pub fn put_bytes(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let named =
            !name.is_empty() && name.len() <= Self::NAME && name.iter().all(|byte| IN_NAMES[usize::from(*byte)]);
        // Counted, since that takes many bytes at once.
        let unsayable = value.iter().filter(|byte| (**byte < b' ' && **byte != b'\t') || **byte == 0x7f).count();
        (named && unsayable == 0).then(|| put(name, value, &mut self.0))
    }

    /// As they go out.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Which bytes a name in lower case is made of (RFC 9110 section 5.6.2).
static IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let signs = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < signs.len() {
        table[signs[at] as usize] = true;
        at += 1;
    }
    table
};

/// How HTTP/1.1 writes fields that did not come into being here.
#[derive(Debug)]
pub enum Written {
    /// Those of the map, in this spelling.
    Spelled(Spelling),
    /// These lines, beside those of the map.
    Lines(Lines),
}

/// Writes fields as lines, without the empty one behind them. Values of one name keep their order, and so do its
/// spellings; a field whose name was not spelled is written in lower case.
pub fn write(fields: &HeaderMap, spelling: Option<&Spelling>, out: &mut BytesMut) {
    write_some(fields, spelling, out, |_, _| true);
}

/// The same, of the fields that pass.
pub fn write_some(
    fields: &HeaderMap,
    spelling: Option<&Spelling>,
    out: &mut BytesMut,
    mut passes: impl FnMut(&HeaderName, &HeaderValue) -> bool,
) {
    // Lines that stand one behind the other go on as they came, in one piece.
    let mut came = 0..0;
    let head = spelling.map_or(&[][..], |spelling| &spelling.head);
    for (name, value) in fields {
        if !passes(name, value) {
            continue;
        }
        let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
        let line = spelling.and_then(|spelling| spelling.line(name, value));
        if let Some(line) = line.as_ref().filter(|line| line.plain) {
            if line.start != came.end {
                out.extend_from_slice(&head[came]);
                came = line.start..line.start;
            }
            came.end = line.end + LINE_END.len();
            continue;
        }
        out.extend_from_slice(&head[std::mem::take(&mut came)]);
        let spelled = line.map(|line| &head[line.start..line.start + name.len()]);
        let spelled = spelled.or_else(|| spelling.and_then(|spelling| spelling.name(name)));
        put(spelled.unwrap_or(name), value, out);
    }
    out.extend_from_slice(&head[came]);
}

fn put(name: &[u8], value: &[u8], out: &mut BytesMut) {
    // As most senders have it, where there is nothing to part.
    let colon = if value.is_empty() { b":" } else { COLON };
    out.reserve(name.len() + COLON.len() + value.len() + LINE_END.len());
    for part in [name, colon, value, LINE_END] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"X-One: 1\r\nhOST:a\r\nx-one: \xe9\r\nX-ONE:\r\n";

    fn spans() -> Vec<Span> {
        let span = |name, value| Span { name, known: None, value };
        vec![span(0..5, 7..8), span(10..14, 15..16), span(18..23, 25..26), span(28..33, 34..34)]
    }

    fn written(fields: &HeaderMap, spelling: Option<&Spelling>) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(fields, spelling, &mut out);
        out.to_vec()
    }

    #[test]
    fn fields_keep_their_values_in_order_and_share_the_heads_memory() {
        let head = Bytes::from_static(HEAD);
        let fields = fields(&head, &spans()).unwrap();
        let values: Vec<_> = fields.get_all("x-one").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!((values, fields.len()), (vec![&b"1"[..], b"\xe9", b""], 4));
        assert_eq!(fields["host"].as_bytes().as_ptr(), head[15..].as_ptr());
    }

    #[test]
    fn what_is_no_field_makes_none() {
        let head = Bytes::from_static(b"a b:\0\r\n");
        for span in [(0..3, 0..1), (0..1, 4..5), (0..1, 5..99)].map(|(name, value)| Span { name, known: None, value }) {
            assert!(fields(&head, std::slice::from_ref(&span)).is_none(), "{span:?}");
        }
    }

    #[test]
    fn names_are_written_as_they_were_spelled_in_their_order() {
        let head = Bytes::from_static(HEAD);
        let spelling = Spelling::of(head.clone(), &spans());
        let mut fields = fields(&head, &spans()).unwrap();
        assert_eq!(written(&fields, Some(&spelling)), b"X-One: 1\r\nx-one: \xe9\r\nX-ONE:\r\nhOST: a\r\n");
        assert_eq!(written(&fields, None), b"x-one: 1\r\nx-one: \xe9\r\nx-one:\r\nhost: a\r\n");
        fields.append("x-one", HeaderValue::from_static("more"));
        fields.insert("via", HeaderValue::from_static("1.1 a"));
        let spelled = written(&fields, Some(&spelling));
        assert!(spelled.ends_with(b"X-One: more\r\nhOST: a\r\nvia: 1.1 a\r\n"), "{spelled:?}");
        fields.insert("host", HeaderValue::from_static("b"));
        fields.remove("x-one");
        assert_eq!(written(&fields, Some(&spelling)), b"via: 1.1 a\r\nhOST: b\r\n", "in another's place");
    }

    /// Whatever stands between a name and its value, and whatever is left out or said anew.
    #[test]
    fn lines_are_the_fields_and_nothing_else() {
        let lines = ["A: 1\r\n", "b:\t2\r\n", "C:3\r\n", "d:  4 \r\n", "E: \r\n", "f:\r\n", "A: 6: 7\r\n"];
        for kept in 0..1 << lines.len() {
            let text = lines.concat() + "\r\n";
            let mut requests = crate::wire::framing::Requests::new(crate::wire::framing::Limits::REQUEST);
            let bytes = Bytes::from(format!("GET / HTTP/1.1\r\nHost: a\r\n{text}"));
            let head = requests.head(&bytes).unwrap().unwrap();
            let all = super::fields(&bytes, &head.spans).unwrap();
            let spelling = Spelling::of(bytes, &head.spans);
            let mut place = 0..8;
            let passes = |name: &HeaderName, _: &HeaderValue| *name != "host" && kept >> place.next().unwrap() & 1 == 1;
            let mut out = BytesMut::new();
            write_some(&all, Some(&spelling), &mut out, passes);
            let expected = ["A: 1\r\n", "A: 6: 7\r\n", "b: 2\r\n", "C: 3\r\n", "d: 4\r\n", "E:\r\n", "f:\r\n"];
            let expected: String = (0..7).filter(|at| kept >> at & 1 == 1).map(|at| expected[at]).collect();
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
