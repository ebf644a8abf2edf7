//! What a body claims to be: its type and encoding. Nothing here looks at the body.

use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use super::header::Parameterized;

/// How a body can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Form,
    /// With its boundary.
    Multipart(Vec<u8>),
    /// As bytes only: another type, none, several, or encoded.
    Opaque,
}

/// How the body of a request with these headers can be read.
pub(super) fn content(headers: &HeaderMap) -> Content {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return Content::Opaque;
    };
    if is_encoded(headers) {
        return Content::Opaque;
    }
    match essence(value.as_bytes()).as_slice() {
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
pub(super) fn essences(headers: &HeaderMap) -> Vec<Vec<u8>> {
    headers.get_all(CONTENT_TYPE).iter().map(|line| essence(line.as_bytes())).collect()
}

/// Each line of `Content-Encoding` in lower case, but for those that say there is none.
pub(super) fn encodings(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let lines = headers.get_all(CONTENT_ENCODING).iter().map(|line| line.as_bytes().trim_ascii().to_ascii_lowercase());
    lines.filter(|line| !matches!(line.as_slice(), b"" | b"identity")).collect()
}

/// Whether the body is compressed or the like.
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    !encodings(headers).is_empty()
}

fn essence(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii().to_ascii_lowercase()
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
    fn encoded_or_ambiguous_bodies_are_opaque() {
        let json = (CONTENT_TYPE, "application/json");
        assert_eq!(of(&[]), Content::Opaque);
        assert_eq!(of(&[json.clone(), json.clone()]), Content::Opaque);
        assert_eq!(of(&[json.clone(), (CONTENT_ENCODING, "gzip")]), Content::Opaque);
        assert_eq!(of(&[json, (CONTENT_ENCODING, "Identity")]), Content::Json);
    }
}
