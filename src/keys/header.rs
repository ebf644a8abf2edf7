//! Header fields: keys, single values, parameters, and the names that must not be spelled twice.

use http::{HeaderMap, HeaderName, header::CONNECTION};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How many characters a key may have at most, decoded.
pub(super) const MAX_KEY: usize = 255;

/// How many parameters are read: each name is held against those before it. Real values have two or three.
const MAX_PARAMETERS: usize = 16;

/// What became of looking for a field that may stand on one line only.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Absent,
    Several,
    /// Its value, without the whitespace around it.
    One(&'a [u8]),
}

/// The one line of a field.
pub(super) fn line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Line<'a> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Line::Absent,
        (Some(_), Some(_)) => Line::Several,
        (Some(value), None) => Line::One(value.as_bytes().trim_ascii()),
    }
}

/// The key in a header field; none when the field is not there.
///
/// # Errors
/// What is wrong with the field, to be read after its name.
pub(super) fn key(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, &'static str> {
    match line(headers, name) {
        Line::Absent => Ok(None),
        Line::Several => Err("is on several lines"),
        Line::One(b"") => Err("is blank"),
        Line::One(value) if name == IDEMPOTENCY_KEY => idempotency_key(value).map(Some),
        Line::One(value) => printable(value).map(Some),
    }
}

/// A key by the draft: an RFC 8941 string, whose parameters say nothing to us, or the bare form.
fn idempotency_key(value: &[u8]) -> Result<String, &'static str> {
    if value.first() != Some(&b'"') {
        let is_bare = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
        return match text(value, is_bare) {
            Some(text) if value.len() <= MAX_KEY => Ok(text.to_owned()),
            Some(_) => Err("has more than 255 characters"),
            None => Err("is neither a string nor a bare key"),
        };
    }
    let item: sfv::Item = sfv::Parser::new(value).parse().map_err(|_| "is not a well-formed string")?;
    let text = item.bare_item.as_string().ok_or("is not a string")?;
    printable(text.as_str().as_bytes())
}

/// A key of printable ASCII characters.
pub(super) fn printable(value: &[u8]) -> Result<String, &'static str> {
    if value.len() > MAX_KEY {
        return Err("has more than 255 characters");
    }
    let text = text(value, |byte| matches!(byte, b' '..=b'~')).ok_or("has characters beyond printable ASCII")?;
    if text.trim_ascii().is_empty() { Err("is blank") } else { Ok(text.to_owned()) }
}

/// The text, if all its bytes are of a kind. It looks at all of them, many at once, rather than stop at the first that is
/// not.
fn text(value: &[u8], is: impl Fn(u8) -> bool) -> Option<&str> {
    let all = value.iter().fold(true, |all, byte| all & is(*byte));
    std::str::from_utf8(value).ok().filter(|_| all)
}

/// Whether the request has another field that differs from `name` in hyphens and underscores alone.
///
/// Servers that pass fields on as environment variables cannot tell the two apart.
pub(super) fn has_twin(headers: &HeaderMap, name: &HeaderName) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    headers.keys().any(|other| {
        other.as_str().len() == name.as_str().len()
            && other != name
            && other.as_str().bytes().map(plain).eq(name.as_str().bytes().map(plain))
    })
}

/// Whether `Connection` names the field, so that it would not reach the upstream.
pub(super) fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}

/// A value with parameters, as of `Content-Type` and `Content-Disposition`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parameterized {
    /// What stands before the first `;`, in lower case.
    pub(super) essence: Vec<u8>,
    /// Names in lower case; values without quotes, else as sent.
    pub(super) parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Parameterized {
    /// Reads `essence; name=value; name="value"`. None when malformed, when a name comes twice,
    /// or when there are too many.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let (essence, mut rest) = cut(value, b';');
        let mut parsed = Self { essence: essence.trim_ascii().to_ascii_lowercase(), parameters: Vec::new() };
        while let Some(text) = rest {
            let text = text.trim_ascii_start();
            if text.is_empty() {
                break;
            }
            let (name, after) = cut(text, b'=');
            let (value, next) = parameter_value(after?)?;
            let name = name.trim_ascii().to_ascii_lowercase();
            let full = parsed.parameters.len() == MAX_PARAMETERS;
            let token = !name.is_empty() && name.iter().copied().all(is_token);
            if full || !token || parsed.get(&name).is_some() {
                return None;
            }
            parsed.parameters.push((name, value.to_vec()));
            rest = next;
        }
        Some(parsed)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }
}

/// Whether a byte may stand in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits at the first `at`; the second half is none when there is none.
fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

/// A parameter's value and what follows the `;` after it.
fn parameter_value(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let (value, next) = cut(text, b';');
        // In quotes these would mean something else, and the value would look the same.
        let plain = !value.iter().any(|byte| matches!(byte, b'"' | b'\\'));
        return plain.then_some((value.trim_ascii(), next));
    };
    let mut escaped = false;
    let end = quoted.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })?;
    let (between, next) = cut(&quoted[end + 1..], b';');
    between.trim_ascii().is_empty().then_some((&quoted[..end], next))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn named(name: &'static str, values: &[&[u8]]) -> Result<Option<String>, &'static str> {
        let name = HeaderName::from_static(name);
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_bytes(value).unwrap());
        }
        key(&headers, &name)
    }

    fn draft(value: &[u8]) -> Result<Option<String>, &'static str> {
        named("idempotency-key", &[value])
    }

    #[test]
    fn quoted_and_bare_are_the_same_key() {
        let key = Ok(Some("8e03978e-40d5".to_owned()));
        for value in ["8e03978e-40d5", "\"8e03978e-40d5\"", " \"8e03978e-40d5\"; v=1 ", "\"8e03978e-40d5\";a;b=\"x\""] {
            assert_eq!(draft(value.as_bytes()), key, "{value}");
        }
        assert_eq!(draft(br#""a \"b\" \\c""#), Ok(Some(r#"a "b" \c"#.to_owned())));
    }

    #[test]
    fn a_draft_key_has_1_to_255_printable_characters_counted_decoded() {
        let most = "k".repeat(255);
        let escaped = format!("\"{}\"", "\\\"".repeat(255));
        assert_eq!(draft(most.as_bytes()), Ok(Some(most.clone())));
        assert_eq!(draft(escaped.as_bytes()), Ok(Some("\"".repeat(255))));
        assert_eq!(draft(format!("{most}k").as_bytes()), Err("has more than 255 characters"));
        assert_eq!(draft(format!("\"{most}k\"").as_bytes()), Err("has more than 255 characters"));
    }

    #[test]
    fn malformed_draft_keys_are_refused() {
        for value in [
            &b""[..],
            b"  ",
            b"\"\"",
            b"\" \"",
            b"a b",
            b"a,b",
            b"a;b",
            b"a\\b",
            b"a\"b",
            b"\"a",
            b"\"a\"b",
            b"\"a\", \"b\"",
            b"k\xc3\xa9y",
            b"\"k\xc3\xa9y\"",
            b"\xff",
            b"\"a\tb\"",
        ] {
            assert!(draft(value).is_err(), "{value:?}");
        }
        assert_eq!(named("idempotency-key", &[b"a", b"a"]), Err("is on several lines"));
        assert_eq!(named("idempotency-key", &[]), Ok(None));
    }

    #[test]
    fn other_key_headers_are_taken_as_they_are_but_trimmed() {
        assert_eq!(named("x-request-id", &[b"  a, \"b\"; c "]), Ok(Some("a, \"b\"; c".to_owned())));
        for values in [&[&b" "[..]][..], &[&[b'k'; 256]], &[b"\xe9"], &[b"a\tb"], &[b"a", b"b"]] {
            assert!(named("x-request-id", values).is_err(), "{values:?}");
        }
    }

    #[test]
    fn twins_and_hop_by_hop_keys_are_seen() {
        let name = HeaderName::from_static("idempotency-key");
        for twin in ["idempotency_key", "Idempotency_Key"] {
            let headers = HeaderMap::from_iter([(twin.parse().unwrap(), HeaderValue::from_static("a"))]);
            assert!(has_twin(&headers, &name));
        }
        let mut headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("a"))]);
        assert!(!has_twin(&headers, &name));
        headers.append(CONNECTION, HeaderValue::from_static("close"));
        assert!(!is_hop_by_hop(&headers, &name));
        headers.append(CONNECTION, HeaderValue::from_static("te,  Idempotency-KEY "));
        assert!(is_hop_by_hop(&headers, &name));
    }

    #[test]
    fn parameters_are_read_quoted_or_not() {
        let parsed = Parameterized::read(b"Form-Data ; Name=\"a;\\\"b\" ;filename=c.txt;").unwrap();
        assert_eq!(parsed.essence, b"form-data");
        assert_eq!(parsed.get(b"name"), Some(&b"a;\\\"b"[..]));
        assert_eq!(parsed.get(b"filename"), Some(&b"c.txt"[..]));
        for value in [
            "a; b",
            "a; b=\"c",
            "a; b=\"c\"d",
            "a; b=1; B=2",
            "a; =1",
            "a; b; c=1",
            "a; b c=1",
            "a; b=c\\d",
            "a; b= \"c\"",
            "a; b=c\"d\"",
        ] {
            assert_eq!(Parameterized::read(value.as_bytes()), None, "{value}");
        }
        let with = |count: usize| (0..count).fold("a".to_owned(), |value, number| format!("{value}; p{number}=1"));
        assert!(Parameterized::read(with(MAX_PARAMETERS).as_bytes()).is_some());
        assert_eq!(Parameterized::read(with(MAX_PARAMETERS + 1).as_bytes()), None);
    }
}
