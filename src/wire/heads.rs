//! Heads of HTTP/1.1 messages: made into fields, and fields into lines. Whether a head may be read, and where it ends, is
//! `framing`'s matter.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::framing::Span;

/// The fields of a head, in its order. Values share its memory. None where a span is no field, which `framing` lets through
/// in no case.
pub fn fields(head: &Bytes, spans: &[Span]) -> Option<HeaderMap> {
    // Room for what a gateway adds on the way.
    let mut fields = HeaderMap::with_capacity(spans.len() + ADDED);
    for Span { name, value } in spans {
        let name = HeaderName::from_bytes(head.get(name.clone())?).ok()?;
        let value = head.get(value.clone()).map(|_| head.slice(value.clone()))?;
        fields.append(name, HeaderValue::from_maybe_shared(value).ok()?);
    }
    Some(fields)
}

/// How many fields a gateway adds to a message, roughly.
const ADDED: usize = 10;

/// The names of a head's fields as their sender wrote them. In a message's extensions, they are written so again.
#[derive(Debug, Clone)]
pub struct Spelling {
    head: Bytes,
    spans: std::sync::Arc<[Span]>,
}

impl Spelling {
    /// Of this head.
    pub fn of(head: Bytes, spans: &[Span]) -> Self {
        Self { head, spans: spans.into() }
    }

    /// The first spelling of a name from that place on, and the place behind it.
    fn find(&self, name: &HeaderName, from: usize) -> Option<(&[u8], usize)> {
        let (name, head) = (name.as_str().as_bytes(), &self.head[..]);
        // Most names have another length.
        let fits = |span: &&Span| span.name.len() == name.len();
        let mut spellings = self.spans.iter().enumerate().skip(from).filter(|(_, span)| fits(span));
        spellings.find_map(|(place, span)| {
            let spelling = head.get(span.name.clone())?;
            spelling.eq_ignore_ascii_case(name).then_some((spelling, place + 1))
        })
    }
}

/// Writes fields as lines, without the empty one behind them. Values of one name keep their order, and so do its
/// spellings; a field without a spelling is written in lower case.
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
    let mut last: Option<(&HeaderName, usize)> = None;
    for (name, value) in fields {
        if !passes(name, value) {
            continue;
        }
        let from = last.filter(|(before, _)| *before == name).map_or(0, |(_, from)| from);
        let spelled = spelling.and_then(|spelling| spelling.find(name, from));
        last = Some((name, spelled.map_or(usize::MAX, |(_, behind)| behind)));
        let written = spelled.map_or(name.as_str().as_bytes(), |(spelled, _)| spelled);
        out.reserve(written.len() + value.len() + 4);
        // As most senders have it, where there is nothing to part.
        let colon: &[u8] = if value.is_empty() { b":" } else { b": " };
        for part in [written, colon, value.as_bytes(), b"\r\n"] {
            out.put_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"X-One: 1\r\nhOST:a\r\nx-one: \xe9\r\nX-ONE:\r\n";

    fn spans() -> Vec<Span> {
        let span = |name, value| Span { name, value };
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
        for span in
            [Span { name: 0..3, value: 0..1 }, Span { name: 0..1, value: 4..5 }, Span { name: 0..1, value: 5..99 }]
        {
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
        assert!(spelled.ends_with(b"x-one: more\r\nhOST: a\r\nvia: 1.1 a\r\n"), "{spelled:?}");
    }
}
