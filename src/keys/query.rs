//! Name and value pairs of queries and form-urlencoded bodies. It does not decide what they are for.

use std::borrow::Cow;

use super::Steps;
use super::frame::Frame;
use super::path::escaped;

/// One pair. Empty pieces between two `&` are no pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    pub(super) name: Cow<'a, [u8]>,
    /// None when there is no `=`.
    pub(super) value: Option<Cow<'a, [u8]>>,
    /// Whether an escape was malformed: then both are as sent.
    pub(super) malformed: bool,
}

/// What looking for one name found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<'a> {
    Absent,
    /// The decoded value; empty when there is no `=`.
    Once(Cow<'a, [u8]>),
    /// The value has a malformed escape.
    Malformed,
    Several,
}

/// The pairs in the order sent, percent-decoded, with `+` as a space.
pub(super) fn pairs(text: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    text.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()).map(pair)
}

fn pair(piece: &[u8]) -> Pair<'_> {
    let (name, value) = match piece.iter().position(|byte| *byte == b'=') {
        Some(at) => (&piece[..at], Some(&piece[at + 1..])),
        None => (piece, None),
    };
    match (decode(name), value.map(decode)) {
        (Some(name), None) => Pair { name, value: None, malformed: false },
        (Some(name), Some(Some(value))) => Pair { name, value: Some(value), malformed: false },
        _ => Pair { name: name.into(), value: value.map(Cow::Borrowed), malformed: true },
    }
}

/// Looks for the one pair called `name`.
pub(super) fn find<'a>(text: &'a [u8], name: &str) -> Lookup<'a> {
    let called = |pair: &Pair<'_>| {
        if pair.malformed {
            decode(&pair.name).as_deref() == Some(name.as_bytes())
        } else {
            *pair.name == *name.as_bytes()
        }
    };
    let mut named = pairs(text).filter(called);
    match (named.next(), named.next()) {
        (None, _) => Lookup::Absent,
        (Some(_), Some(_)) => Lookup::Several,
        (Some(pair), None) if pair.malformed => Lookup::Malformed,
        (Some(pair), None) => Lookup::Once(pair.value.unwrap_or_default()),
    }
}

/// Whether a query has a parameter of this name, however often.
pub fn has(query: &str, name: &str) -> bool {
    !matches!(find(query.as_bytes(), name), Lookup::Absent)
}

/// The value of a parameter; none when it is not there.
///
/// # Errors
/// What is wrong with it, to be read after its name.
pub fn value(query: &str, name: &str) -> Result<Option<String>, &'static str> {
    match find(query.as_bytes(), name) {
        Lookup::Absent => Ok(None),
        Lookup::Several => Err("is there several times"),
        Lookup::Malformed => Err("has a malformed escape"),
        Lookup::Once(value) => String::from_utf8(value.into_owned()).map(Some).map_err(|_| "is not UTF-8"),
    }
}

/// The pairs sorted by name, but for the ignored names. Equal names keep their order.
pub(super) fn sorted<'a>(text: &'a [u8], ignored: &[String]) -> Vec<Pair<'a>> {
    let counts = |pair: &Pair<'_>| !ignored.iter().any(|name| *pair.name == *name.as_bytes());
    let mut sorted: Vec<_> = pairs(text).filter(counts).collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}

/// Frames those of a kind, with typed values in their form.
pub(super) fn frame_sorted(
    frame: &mut Frame,
    kind: &'static str,
    text: &[u8],
    ignored: &[String],
    typed: &[(String, Steps)],
) {
    let mut sorted = sorted(text, ignored);
    for pair in sorted.iter_mut().filter(|pair| !pair.malformed) {
        let steps = typed.iter().find(|(name, _)| *pair.name == *name.as_bytes()).map(|(_, steps)| steps);
        if let Some(form) = steps.zip(pair.value.as_ref()).and_then(|(steps, value)| steps.form_of(value)) {
            pair.value = Some(form.into_bytes().into());
        }
    }
    frame.label(kind).count(sorted.len());
    for pair in &sorted {
        frame.label_of(kind, &pair.name, "malformed").count(usize::from(pair.malformed));
        frame.label_of(kind, &pair.name, "name").part(&pair.name);
        frame.label_of(kind, &pair.name, "value").optional(pair.value.as_ref());
    }
}

fn decode(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => escaped((bytes.next()?, bytes.next()?))?,
            _ => byte,
        });
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> [u8; 32] {
        let mut frame = Frame::new("test");
        frame_sorted(&mut frame, "query", text.as_bytes(), &["ts".to_owned()], &[]);
        frame.finish()
    }

    #[test]
    fn order_of_names_and_spelling_of_escapes_do_not_count() {
        assert_eq!(hash("a=1&b=2"), hash("b=2&a=1"));
        assert_eq!(hash("a=%31"), hash("%61=1"));
        assert_eq!(hash("a=1&&b=2&"), hash("a=1&b=2"));
        assert_eq!(hash("a=1&ts=5"), hash("ts=6&a=1"));
    }

    #[test]
    fn everything_else_counts() {
        for (one, other) in [
            ("memo=x%26amount%3D5", "memo=x&amount=5"),
            ("p=&p=q&r=", "p=&q=r&q="),
            ("a=1%2B2", "a=1+2"),
            ("a=", "a"),
            ("a=1&a=2", "a=2&a=1"),
            ("a=1&a=1", "a=1"),
            ("a=%zz", "a=%25zz"),
            ("a=1&tsx=5", "a=1"),
            ("A=1", "a=1"),
        ] {
            assert_ne!(hash(one), hash(other), "{one} {other}");
        }
    }

    #[test]
    fn a_name_is_found_once_or_not() {
        assert_eq!(find(b"x=%zz&id=a%20b", "id"), Lookup::Once(Cow::Borrowed(b"a b")));
        assert_eq!(find(b"id", "id"), Lookup::Once(Cow::Borrowed(b"")));
        assert_eq!(find(b"id=1&%69d=1", "id"), Lookup::Several);
        assert_eq!(find(b"id=%4", "id"), Lookup::Malformed);
        assert_eq!(find(b"ID=1", "id"), Lookup::Absent);
    }
}
