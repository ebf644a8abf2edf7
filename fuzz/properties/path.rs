//! Paths: one normal form for all spellings, nothing in it that a server could walk by, and no spelling that leads
//! round a guard. The second opinion is what servers do: cut at slashes first, or decode first.

use std::sync::OnceLock;

use http::Method;
use oncegate::config;
use oncegate::gateway::{Place, Routes, Target};
use oncegate::keys::path::{PathError, for_matching, normalize, with_slashes};

use super::dice::Dice;

/// The guards, in the file's order; after them comes a route that takes everything.
const GUARDS: [&str; 6] = ["/orders", "/orders/{id}/pay", "/v1/{*rest}", ANY_CASE, "/pay:now", "/caf%C3%A9/%2Bx"];
/// The one of them to whose server upper and lower case are one.
const ANY_CASE: &str = "/refunds/all";

/// Takes the input for a path as a client sends it.
pub fn check(data: &[u8]) {
    let Ok(raw) = std::str::from_utf8(data) else { return };
    let mut dice = Dice::of(data);
    let found = normalize(raw);
    match &found {
        Ok(normal) => {
            nothing_is_left_to_do(normal);
            assert_eq!(Some(&**normal), simple(raw).as_deref(), "{raw}");
            however_slashes_are_read(raw, normal);
            matching_form(normal);
            no_way_round(raw, normal);
            respelled_is_the_same(raw, normal, &mut dice);
        }
        Err(error) => assert!(may_be_refused(raw, *error), "{raw} {error}"),
    }
}

fn nothing_is_left_to_do(normal: &str) {
    assert_eq!(normalize(normal).as_deref(), Ok(normal));
    if matches!(normal, "*" | "/") {
        return;
    }
    for segment in normal.strip_prefix('/').unwrap_or("").split('/') {
        assert!(!matches!(segment, "" | "." | ".."), "{normal}");
    }
    let mut bytes = normal.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let escape = (hex(bytes.next()), hex(bytes.next()));
            let (Some((high, 'A'..='F' | '0'..='9')), Some((low, 'A'..='F' | '0'..='9'))) = escape else {
                panic!("{normal}")
            };
            assert!(!is_unreserved(high << 4 | low) && high << 4 | low != 0, "{normal}");
        } else {
            assert!(is_unreserved(byte) || b"/!$&'()*+,;=:@".contains(&byte), "{normal}");
        }
    }
}

fn hex(byte: Option<u8>) -> Option<(u8, char)> {
    let digit = char::from(byte?);
    digit.to_digit(16).and_then(|value| u8::try_from(value).ok()).map(|value| (value, digit))
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// The normal form, step by step over the whole text; none when an escape is malformed.
fn simple(raw: &str) -> Option<String> {
    if raw == "*" {
        return Some(raw.to_owned());
    }
    let mut escaped = String::new();
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let value = if byte == b'%' { hex(bytes.next())?.0 << 4 | hex(bytes.next())?.0 } else { byte };
        let stays = if byte == b'%' {
            is_unreserved(value)
        } else {
            is_unreserved(value) || b"/!$&'()*+,;=:@".contains(&value)
        };
        if stays {
            escaped.push(char::from(value));
        } else {
            escaped.extend(format!("%{value:02X}").chars());
        }
    }
    Some(resolved(&escaped))
}

/// A path without dot segments and empty ones.
fn resolved(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// A server that reads `%2F` as a slash before it looks at dots, and one that does so afterwards, see the same path.
fn however_slashes_are_read(raw: &str, normal: &str) {
    let mut early = raw.to_owned();
    for escape in ["%2F", "%2f", "%5C", "%5c"] {
        early = early.replace(escape, "/");
    }
    let late = with_slashes(normal);
    assert_eq!(late.is_some(), normal.contains("%2F") || normal.contains("%5C"));
    assert_eq!(normalize(&early).as_deref(), Ok(late.as_deref().unwrap_or(normal)), "{raw}");
}

fn matching_form(normal: &str) {
    let matched = for_matching(normal);
    assert_eq!(for_matching(&matched), matched);
    let Ok(again) = normalize(&matched) else { panic!("{normal} became {matched}") };
    assert_eq!(for_matching(&again), matched);
    // To a server that decodes all, they are one.
    assert_eq!(decoded(&matched), decoded(normal));
}

/// The bytes that a well-formed path stands for.
fn decoded(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let value = if byte == b'%' {
            hex(bytes.next()).zip(hex(bytes.next())).map(|((high, _), (low, _))| high << 4 | low)
        } else {
            Some(byte)
        };
        out.extend(value);
    }
    out
}

fn routes() -> &'static Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(|| {
        let route = |(place, path): (usize, &str)| {
            let case = if path == ANY_CASE { "insensitive" } else { "sensitive" };
            format!("- {{ name: r{place}, upstream: a, match: {{ path: '{path}', case: {case} }} }}\n")
        };
        let routes: String = GUARDS.iter().copied().chain(["/", "/{*all}"]).enumerate().map(route).collect();
        let yaml = format!("upstreams: {{ a: {{ servers: ['http://127.0.0.1:1'] }} }}\nroutes:\n{routes}");
        match config::parse("fuzz", &yaml, &|_| None) {
            Ok(loaded) => Routes::new(&loaded.settings.gateway.routes),
            Err(errors) => panic!("{errors}"),
        }
    })
}

/// If any server takes this path for a guarded one, so do we.
fn no_way_round(raw: &str, normal: &str) {
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::POST;
    let host = "shop.example".to_owned();
    let target = Target { authority: host.clone(), host, path: normal.to_owned() };
    let Ok(place) = Place::of(&target, raw) else { return };
    let found = routes().find(&head, &place).map(|found| found.index);
    for reading in readings(raw) {
        if let Some(guard) = GUARDS.iter().position(|guard| takes(guard, &reading)) {
            assert!(found.is_some_and(|found| found <= guard), "{raw} as {reading:?} goes to {found:?}, round {guard}");
        }
    }
    assert!(found.is_some() || !raw.starts_with('/'), "{raw}");
}

/// The segments that servers see: parameters are cut or not, escapes are decoded before the path is cut up or behind
/// that, and a backslash is a slash or not.
fn readings(raw: &str) -> Vec<Vec<String>> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut readings = Vec::new();
    for raw in [raw.to_owned(), bare(raw)] {
        let dots = raw.replace("%2e", ".").replace("%2E", ".");
        readings.push(segments(&resolved(&dots)).iter().map(|segment| text(decoded(segment))).collect());
        let decoded = text(decoded(&raw));
        for decoded in [decoded.replace('\\', "/"), bare(&decoded), decoded] {
            readings.push(segments(&resolved(&decoded)));
        }
    }
    readings
}

/// A path without what follows a semicolon in its segments.
fn bare(path: &str) -> String {
    let bare: Vec<&str> = path.split('/').filter_map(|segment| segment.split(';').next()).collect();
    bare.join("/")
}

fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

/// Whether a server's own route of this pattern takes what it has read.
fn takes(pattern: &str, path: &[String]) -> bool {
    let mut path = path.iter();
    for segment in segments(pattern) {
        let Some(text) = path.next() else { return false };
        match segment.as_bytes() {
            [b'{', b'*', ..] => return true,
            [b'{', ..] => {}
            _ if pattern == ANY_CASE && text.eq_ignore_ascii_case(&segment) => {}
            _ if *text == String::from_utf8_lossy(&decoded(&segment)) => {}
            _ => return false,
        }
    }
    path.next().is_none()
}

/// Other spellings have the same form and go the same way.
fn respelled_is_the_same(raw: &str, normal: &str, dice: &mut Dice) {
    if !raw.starts_with('/') {
        return;
    }
    let mut other = String::new();
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '%' => {
                let (digits, after) = rest.split_at(2);
                rest = after;
                other.push('%');
                other.push_str(&if dice.once_in(2) {
                    digits.to_ascii_lowercase()
                } else {
                    digits.to_ascii_uppercase()
                });
            }
            // What comes before a dot segment may not be one that refuses it.
            '/' => other.push_str(["/", "//", "/./", "/x/../", "/%2e/"][dice.below(5)]),
            _ if !c.is_ascii() || is_unreserved(c as u8) && dice.once_in(4) => {
                other.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02x}")));
            }
            _ => other.push(c),
        }
    }
    other.push_str(["", "/", "//", "/."][dice.below(4)]);
    assert_eq!(normalize(&other).as_deref(), Ok(normal), "{raw} as {other}");
}

/// Whether the path has what the error says.
fn may_be_refused(raw: &str, error: PathError) -> bool {
    let upper = raw.to_ascii_uppercase();
    match error {
        PathError::NotAbsolute => !raw.starts_with('/'),
        PathError::MalformedEscape => simple(raw).is_none(),
        PathError::Nul => raw.contains('\0') || upper.contains("%00"),
        PathError::Backslash => raw.contains('\\'),
        PathError::EncodedSlash => {
            let dots = upper.replace("%2E", ".");
            let encoded = dots.contains("%2F") || dots.contains("%5C");
            encoded && dots.replace("%2F", "/").replace("%5C", "/").split('/').any(|part| matches!(part, "." | ".."))
        }
    }
}
