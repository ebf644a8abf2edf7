//! The normal form of a path (RFC 3986 section 6), for matching and hashing only: what is forwarded stays as sent.

use std::borrow::Cow;

/// Why a path has no safe normal form. The gateway answers 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// A `%` without two hex digits after it.
    #[error("the path has a malformed escape")]
    MalformedEscape,
    /// A NUL, plain or as `%00`: servers cut names there.
    #[error("the path holds a NUL")]
    Nul,
    /// A plain backslash: some servers take it for a slash, and no valid URI has one.
    #[error("the path holds a backslash")]
    Backslash,
    /// `%2F` or `%5C` next to a dot segment: servers disagree on what such a path names.
    #[error("the path has an encoded slash or backslash next to a dot segment")]
    EncodedSlash,
}

/// Normalizes the path of a request: dot segments, duplicate slashes and the trailing slash go, escapes of
/// unreserved characters are decoded, other escapes are upper case, and bytes that no URI may hold are escaped.
///
/// Slashes are merged before dot segments are removed, as nginx does. `*` (of `OPTIONS *`) stays as it is.
///
/// # Errors
/// When upstreams could disagree on what the path names, see [`PathError`].
pub fn normalize(raw_path: &str) -> Result<Cow<'_, str>, PathError> {
    if raw_path == "*" || is_normal(raw_path) {
        return Ok(Cow::Borrowed(raw_path));
    }
    let Some(relative) = raw_path.strip_prefix('/') else {
        return if raw_path.is_empty() { Ok(Cow::Borrowed("/")) } else { Err(PathError::NotAbsolute) };
    };
    let mut path = String::with_capacity(raw_path.len() + 1);
    for segment in relative.split('/').filter(|segment| !segment.is_empty()) {
        push_segment(&mut path, segment)?;
    }
    if path.is_empty() {
        path.push('/');
    }
    Ok(Cow::Owned(path))
}

/// A path in normal form with the escapes of everything decoded that may stand in a segment plainly: for finding its
/// route, never for hashing.
///
/// To RFC 3986 `/pay%3Anow` and `/pay:now` are two paths; to most servers they are one, and no spelling may lead round a
/// guard.
pub fn for_matching(normal: &str) -> Cow<'_, str> {
    let Some((before, escapes)) = normal.split_once('%') else { return Cow::Borrowed(normal) };
    let mut path = String::with_capacity(normal.len());
    path.push_str(before);
    for part in escapes.split('%') {
        let value = part.bytes().next().zip(part.as_bytes().get(1).copied()).and_then(escaped);
        if let Some(value) = value.filter(|value| is_plain(*value)) {
            path.push(char::from(value));
            path.push_str(&part[2..]);
        } else {
            path.push('%');
            path.push_str(part);
        }
    }
    Cow::Owned(path)
}

/// A path in normal form with its escaped slashes and backslashes read as slashes; none when it has none.
pub fn with_slashes(normal: &str) -> Option<String> {
    let slashes = has_encoded_slash(normal).then(|| normal.replace("%2F", "/").replace("%5C", "/"))?;
    normalize(&slashes).ok().map(Cow::into_owned)
}

/// A path as sent, without the parameters of its segments (`;x=1`); none when it has none.
///
/// Some servers cut them before they look at dot segments, so this has to be done before the normal form is made.
pub fn without_parameters(raw_path: &str) -> Option<String> {
    if !raw_path.contains([';', '%']) {
        return None;
    }
    let cut = |segment| {
        let end = [";", "%3B", "%3b"].iter().filter_map(|mark| str::find(segment, mark)).min();
        end.map_or(segment, |end| &segment[..end])
    };
    let bare: Vec<&str> = raw_path.split('/').map(cut).collect();
    let bare = bare.join("/");
    (bare.len() < raw_path.len()).then_some(bare)
}

/// Whether nothing at all is to be done: the usual case, found without allocating.
fn is_normal(path: &str) -> bool {
    let bytes = path.as_bytes();
    path == "/"
        || (bytes.first() == Some(&b'/')
            && bytes.last() != Some(&b'/')
            && bytes.iter().all(|byte| STAYS[usize::from(*byte)])
            && !bytes.windows(2).any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.')))
}

/// Which bytes a path in normal form may have that has no escape.
const STAYS: [bool; 256] = {
    let (mut stays, mut byte) = ([false; 256], 0_u8);
    loop {
        stays[byte as usize] = is_plain(byte) || byte == b'/';
        if byte == u8::MAX {
            break stays;
        }
        byte += 1;
    }
};

fn push_segment(path: &mut String, raw: &str) -> Result<(), PathError> {
    let start = path.len();
    path.push('/');
    push_normal(path, raw)?;
    let segment = &path[start + 1..];
    match segment {
        "." => path.truncate(start),
        ".." => {
            path.truncate(start);
            let parent = path.rfind('/').unwrap_or(0);
            if has_encoded_slash(&path[parent..]) {
                // Decoded first, the dots would remove a part of that segment only.
                return Err(PathError::EncodedSlash);
            }
            path.truncate(parent);
        }
        _ if has_encoded_slash(segment) && hides_dots(segment) => return Err(PathError::EncodedSlash),
        _ => {}
    }
    Ok(())
}

/// Appends one segment with its escapes in normal form.
fn push_normal(path: &mut String, raw: &str) -> Result<(), PathError> {
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let value = match byte {
            b'%' => bytes.next().zip(bytes.next()).and_then(escaped).ok_or(PathError::MalformedEscape)?,
            b'\\' => return Err(PathError::Backslash),
            _ => byte,
        };
        if value == 0 {
            return Err(PathError::Nul);
        }
        if is_unreserved(value) || (byte != b'%' && is_plain(value)) {
            path.push(char::from(value));
        } else {
            push_escape(path, value);
        }
    }
    Ok(())
}

/// The byte that two hex digits behind a `%` stand for.
pub(super) fn escaped((high, low): (u8, u8)) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// The bytes that a segment stands for; none when an escape is malformed. A plus is a plus.
pub(super) fn unescaped(segment: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(segment.len()), segment.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (&[high, low], after) = rest.split_first_chunk()?;
        bytes.push(escaped((high, low))?);
        rest = after;
    }
    Some(bytes)
}

/// A segment of a path, counted from 0, decoded; none when it is not there or is no text.
pub fn segment(path: &str, place: usize) -> Option<String> {
    let segment = path.split('/').filter(|segment| !segment.is_empty()).nth(place)?;
    String::from_utf8(unescaped(segment)?).ok()
}

fn push_escape(path: &mut String, value: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    path.push('%');
    path.push(char::from(DIGITS[usize::from(value >> 4)]));
    path.push(char::from(DIGITS[usize::from(value & 15)]));
}

/// Whether a segment in normal form holds an escaped slash or backslash.
fn has_encoded_slash(segment: &str) -> bool {
    segment.contains("%2F") || segment.contains("%5C")
}

/// Whether a dot segment would appear if the slashes of this segment were decoded.
fn hides_dots(segment: &str) -> bool {
    segment.split("%2F").flat_map(|part| part.split("%5C")).any(|part| part == "." || part == "..")
}

pub(super) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What a segment may hold unescaped: unreserved characters, sub-delimiters, `:` and `@`.
const fn is_plain(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_of_a_path_have_its_normal_form() {
        for spelling in [
            "/orders",
            "//orders",
            "/./orders",
            "/x/../orders",
            "/%6Frders",
            "/%6frders",
            "/orders/",
            "/orders//",
            "/orders/.",
            "/orders/x/..",
            "/%2e%2e/orders",
            "/%2E/orders",
            "/../../orders",
            "/x//../orders",
        ] {
            assert_eq!(normalize(spelling).as_deref(), Ok("/orders"), "{spelling}");
        }
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        for path in ["/", "/orders/7:pay", "*", "/a;x=1/b,c"] {
            assert!(matches!(normalize(path), Ok(Cow::Borrowed(same)) if same == path), "{path}");
        }
    }

    #[test]
    fn escapes_of_reserved_characters_stay_and_are_upper_case() {
        assert_eq!(normalize("/a%2fb").as_deref(), Ok("/a%2Fb"));
        assert_eq!(normalize("/a%3ab").as_deref(), Ok("/a%3Ab"));
        assert_eq!(normalize("/%252e%252e/a").as_deref(), Ok("/%252e%252e/a"));
    }

    #[test]
    fn for_matching_what_may_stand_plainly_is_decoded_and_nothing_else() {
        for (normal, matched) in [
            ("/pay%3Anow", "/pay:now"),
            ("/a%2Cb%40c%3D%21", "/a,b@c=!"),
            ("/a%2Fb%25%3F%20%C3%A9", "/a%2Fb%25%3F%20%C3%A9"),
            ("/%253A", "/%253A"),
            ("/plain:too", "/plain:too"),
        ] {
            assert_eq!(normalize(normal).as_deref(), Ok(normal));
            assert_eq!(for_matching(normal), matched);
        }
    }

    #[test]
    fn bytes_that_no_uri_may_hold_are_escaped() {
        assert_eq!(normalize("/caf\u{e9}").as_deref(), Ok("/caf%C3%A9"));
        assert_eq!(normalize("/{a}").as_deref(), Ok("/%7Ba%7D"));
    }

    #[test]
    fn parameters_are_cut_from_every_segment() {
        for (raw, bare) in [
            ("/a;x=1/b;y", "/a/b"),
            ("/a%3Bx/b%3by;z", "/a/b"),
            ("/a/..;x/b", "/a/../b"),
            ("/;", "/"),
            ("/caf\u{e9};x", "/caf\u{e9}"),
        ] {
            assert_eq!(without_parameters(raw).as_deref(), Some(bare), "{raw}");
        }
        for raw in ["/", "/a/b", "/a%3A", "/a%253B", "*"] {
            assert_eq!(without_parameters(raw), None, "{raw}");
        }
    }

    #[test]
    fn the_root_stays() {
        for root in ["", "/", "//", "/.", "/..", "/a/.."] {
            assert_eq!(normalize(root).as_deref(), Ok("/"), "{root}");
        }
    }

    #[test]
    fn paths_that_servers_read_differently_are_refused() {
        for (path, error) in [
            ("/..%2forders", PathError::EncodedSlash),
            ("/x/..%5corders", PathError::EncodedSlash),
            ("/%2e%2e%2Forders", PathError::EncodedSlash),
            ("/a%2f./b", PathError::EncodedSlash),
            ("/a%2Fb/../c", PathError::EncodedSlash),
            ("/a%00", PathError::Nul),
            ("/a\0", PathError::Nul),
            ("/a\\..\\b", PathError::Backslash),
            ("/a%2", PathError::MalformedEscape),
            ("/a%zz", PathError::MalformedEscape),
            ("/a%", PathError::MalformedEscape),
            ("orders", PathError::NotAbsolute),
        ] {
            assert_eq!(normalize(path), Err(error), "{path}");
        }
    }

    #[test]
    fn a_segment_is_unescaped_once_and_whole_or_not_at_all() {
        for (segment, bytes) in [
            ("a-1", Some(&b"a-1"[..])),
            ("a%20b+c%2f", Some(b"a b+c/")),
            ("%2525", Some(b"%25")),
            ("%C3%A9", Some(b"\xc3\xa9")),
            ("", Some(b"")),
            ("%", None),
            ("%2", None),
            ("a%zz", None),
        ] {
            assert_eq!(unescaped(segment).as_deref(), bytes, "{segment}");
        }
    }

    #[test]
    fn a_segment_has_its_place_and_one_text() {
        for (path, place, text) in [
            ("/tenants/A/orders", 1, Some("A")),
            ("/tenants/a%2Fb%25", 1, Some("a/b%")),
            ("/tenants/a+b", 1, Some("a+b")),
            ("/tenants/%C3%A9", 1, Some("\u{e9}")),
            ("/tenants/%FF", 1, None),
            ("/tenants", 1, None),
        ] {
            assert_eq!(segment(path, place).as_deref(), text, "{path}");
        }
    }
}
