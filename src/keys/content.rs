//! What a body claims to be, by its type and encoding, and its content where the encoding is taken off. Nothing here
//! looks into the content.

use std::borrow::Cow;

use bytes::Bytes;
use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use super::Request;
use super::coding::{Decoding, Undecoded};
use super::header::Parameterized;

/// A body as it is compared.
#[derive(Debug)]
pub(super) struct Entity {
    /// Its content; or the body as sent, where its encoding stays on.
    pub(super) bytes: Bytes,
    /// The lines of `Content-Encoding` that are still on.
    pub(super) encodings: Vec<Vec<u8>>,
    /// What it would be without them.
    pub(super) content: Content,
    /// What came of decoding it: the content's length, or why it stays encoded; none where nothing was to be done.
    pub(super) decoded: Option<Result<usize, Undecoded>>,
}

impl Entity {
    /// A request's body, decoded if it is encoded and `decoding` says so.
    pub(super) fn of(request: &Request, decoding: Option<&Decoding>) -> Self {
        let encodings = encodings(&request.headers);
        let sent = &request.body;
        let decoded = decoding.filter(|_| !encodings.is_empty()).map(|decoding| decoding.decode(&encodings, sent));
        let (bytes, encodings, decoded) = match decoded {
            None => (sent.clone(), encodings, None),
            Some(Err(why)) => (sent.clone(), encodings, Some(Err(why))),
            Some(Ok(content)) => (content.into(), Vec::new(), Some(Ok(()))),
        };
        let decoded = decoded.map(|done| done.map(|()| bytes.len()));
        Self { bytes, encodings, content: content(&request.headers), decoded }
    }

    /// Whether its encoding is still on.
    pub(super) fn is_encoded(&self) -> bool {
        !self.encodings.is_empty()
    }

    /// Why it could not be decoded, where it should have been.
    pub(super) fn undecoded(&self) -> Option<Undecoded> {
        self.decoded.and_then(Result::err)
    }
}

/// How a body can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Form,
    /// With its boundary.
    Multipart(Vec<u8>),
    /// As bytes only: another type, none, or several.
    Opaque,
}

/// How content with these headers can be read, when no encoding is on.
pub(super) fn content(headers: &HeaderMap) -> Content {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return Content::Opaque;
    };
    match &*essence(value.as_bytes()) {
        b"application/json" | b"text/json" => Content::Json,
        b"application/x-www-form-urlencoded" => Content::Form,
        b"multipart/form-data" => Parameterized::read(value.as_bytes())
            .and_then(|parsed| parsed.get(b"boundary").map(<[u8]>::to_vec))
            .map_or(Content::Opaque, Content::Multipart),
        other if other.ends_with(b"+json") => Content::Json,
        _ => Content::Opaque,
    }
}

/// Each line of `Content-Type` without its parameters, in lower case.
pub(super) fn essences(headers: &HeaderMap) -> impl Iterator<Item = Cow<'_, [u8]>> {
    headers.get_all(CONTENT_TYPE).iter().map(|line| essence(line.as_bytes()))
}

/// Each line of `Content-Encoding` in lower case, but for those that say there is none.
pub(super) fn encodings(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let lines = headers.get_all(CONTENT_ENCODING).iter().map(|line| line.as_bytes().trim_ascii().to_ascii_lowercase());
    lines.filter(|line| !matches!(line.as_slice(), b"" | b"identity")).collect()
}

fn essence(value: &[u8]) -> Cow<'_, [u8]> {
    if value == b"application/json" {
        // Most are, and nothing is to be done to it.
        return value.into();
    }
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    lower_case(value[..end].trim_ascii())
}

/// A text in lower case, which most are.
pub(super) fn lower_case(text: &[u8]) -> Cow<'_, [u8]> {
    // All of it is looked at, many bytes at once, rather than stop at the first.
    if text.iter().fold(false, |any, byte| any | byte.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn of(fields: &[(HeaderName, &'static str)]) -> Content {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        content(&headers)
    }

    #[test]
    fn the_type_says_how_to_read_a_body() {
        for (value, expected) in [
            ("Application/JSON; charset=utf-8", Content::Json),
            ("application/vnd.api+json", Content::Json),
            ("application/x-www-form-urlencoded;charset=utf-8", Content::Form),
            ("multipart/form-data; boundary=\"a b\"", Content::Multipart(b"a b".to_vec())),
            ("multipart/form-data", Content::Opaque),
            ("multipart/mixed; boundary=a", Content::Opaque),
            ("application/x-ndjson", Content::Opaque),
        ] {
            assert_eq!(of(&[(CONTENT_TYPE, value)]), expected, "{value}");
        }
    }

    #[test]
    fn ambiguous_bodies_are_opaque() {
        let json = (CONTENT_TYPE, "application/json");
        assert_eq!(of(&[]), Content::Opaque);
        assert_eq!(of(&[json.clone(), json]), Content::Opaque);
    }

    #[test]
    fn identity_is_no_encoding() {
        for (lines, expected) in [(&[][..], 0), (&["Identity"], 0), (&["", "GZIP "], 1), (&["gzip", "br"], 2)] {
            let lines = lines.iter().map(|line| (CONTENT_ENCODING, HeaderValue::from_static(line)));
            assert_eq!(encodings(&lines.collect()).len(), expected);
        }
    }
}
