//! Scalars and lists of the file: how each is written, and its bounds. Knows no section.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use serde_json::{Value as Json, json};

use super::finding::{Place, Report};
use super::reader::{At, Field, Schemas, Setting, parsed, read_field, remedy, scalar_schema, text};
use super::tree::{Node, Value};
use crate::gateway::{Pattern, is_forwarded};
use crate::wire::Network;

/// Milliseconds of the units, for bounds.
pub(super) const SECOND: u64 = 1_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

/// Bytes of the units, for bounds.
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

const SPANS: [(&str, u64); 5] = [("ms", 1), ("s", SECOND), ("m", MINUTE), ("h", HOUR), ("d", DAY)];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB)];

/// A duration between two bounds in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<const LEAST: u64, const MOST: u64>(pub(super) Duration);

impl<const LEAST: u64, const MOST: u64> Setting for Span<LEAST, MOST> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let expected = "a duration such as `250ms`, `2s`, `5m`, `24h` or `7d`";
        parsed(node, expected, report, |text| {
            let millis = measure(text, &SPANS, expected, ["s", "h"])?;
            bounded(text, millis, LEAST, MOST, |millis| span_text(Duration::from_millis(millis)))
        })
        .map(|millis| Self(Duration::from_millis(millis)))
    }

    fn schema(_: &mut Schemas) -> Json {
        scalar_schema(&json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" }))
    }
}

/// A number of bytes between two bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size<const LEAST: u64, const MOST: u64>(pub(super) usize);

impl<const LEAST: u64, const MOST: u64> Setting for Size<LEAST, MOST> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let expected = "a size such as `512B`, `64KiB` or `1MiB`";
        parsed(node, expected, report, |text| {
            let bytes = if text == "0" { 0 } else { measure(text, &SIZES, expected, ["KiB", "MiB"])? };
            bounded(text, bytes, LEAST, MOST, size_text)
        })
        .and_then(|bytes| usize::try_from(bytes).ok())
        .map(Self)
    }

    fn schema(_: &mut Schemas) -> Json {
        scalar_schema(&json!({ "anyOf": [
            { "const": 0 },
            { "type": "string", "pattern": "^(0|[0-9]+(B|KiB|MiB|GiB))$" },
        ] }))
    }
}

/// A whole number between two bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count<const LEAST: u64, const MOST: u64>(pub(super) usize);

impl<const LEAST: u64, const MOST: u64> Setting for Count<LEAST, MOST> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        parsed(node, "a whole number", report, |text| {
            let number = text.parse().map_err(|_| format!("`{text}` is no whole number"))?;
            bounded(text, number, LEAST, MOST, |number| number.to_string())
        })
        .and_then(|number| usize::try_from(number).ok())
        .map(Self)
    }

    fn schema(_: &mut Schemas) -> Json {
        scalar_schema(&json!({ "type": "integer", "minimum": LEAST, "maximum": MOST }))
    }
}

/// Digits and a unit, as a number of the smallest unit.
fn measure(text: &str, units: &[(&str, u64)], expected: &str, usual: [&str; 2]) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` is not {expected}"));
    }
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: did you mean `{text}{}` or `{text}{}`?", usual[0], usual[1]));
    }
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.ok_or_else(|| format!("`{text}` is not {expected}"))?;
    let number = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    number.ok_or_else(|| format!("`{text}` is far too large"))
}

fn bounded(text: &str, value: u64, least: u64, most: u64, show: impl Fn(u64) -> String) -> Result<u64, String> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("`{text}` is out of bounds: between {} and {}", show(least), show(most)))
    }
}

/// A duration as the file writes it.
pub fn span_text(span: Duration) -> String {
    in_units(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), &SPANS)
}

/// A size as the file writes it.
pub(super) fn size_text(bytes: u64) -> String {
    if bytes == 0 { "0".to_owned() } else { in_units(bytes, &SIZES) }
}

fn in_units(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().rev().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor));
    let (unit, factor) = fitting.copied().unwrap_or(units[0]);
    format!("{}{unit}", number / factor)
}

/// A share between zero and one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share(pub(super) f64);

impl Setting for Share {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        parsed(node, "a number such as 0.0001", report, |text| {
            let share: f64 = text.parse().map_err(|_| format!("`{text}` is no number such as 0.0001"))?;
            if (1e-9..=0.5).contains(&share) {
                Ok(Self(share))
            } else {
                Err(format!("`{text}` is out of bounds: between 0.000000001 and 0.5"))
            }
        })
    }

    fn schema(_: &mut Schemas) -> Json {
        scalar_schema(&json!({ "type": "number", "minimum": 1e-9, "maximum": 0.5 }))
    }
}

impl Setting for bool {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        parsed(node, "`true` or `false`", report, |text| {
            text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
        })
    }

    fn schema(_: &mut Schemas) -> Json {
        scalar_schema(&json!({ "type": "boolean" }))
    }
}

/// Text that may be anything, even empty.
impl Setting for String {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        text(node, "text", report).map(str::to_owned)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": ["string", "number", "boolean"] })
    }
}

/// Implements [`Setting`] for types that are read from text by a function.
macro_rules! from_text {
    ($($(#[doc = $doc:literal])+ $type:ty, $expected:literal, $parse:expr;)+) => {$(
        impl Setting for $type {
            fn read(node: &Node, report: &mut Report) -> Option<Self> {
                parsed(node, $expected, report, $parse)
            }

            fn schema(_: &mut Schemas) -> Json {
                json!({ "type": ["string", "number"] })
            }
        }
    )+};
}

/// Text of at least one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

/// A short name: a metrics label, part of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

/// An address to listen on, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Door(pub(super) Option<SocketAddr>);

/// A JSON pointer to something inside of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(pub(super) String);

/// A host name that a route takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName(pub(super) String);

/// The statuses from one to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatusRange(pub(super) RangeInclusive<u16>);
/// What a gateway calls itself, or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pseudonym(pub(super) Option<String>);

/// An origin as browsers write it, or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin(pub(super) String);

/// The status of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RefusalStatus(pub(super) StatusCode);

from_text! {
    /// Text of at least one character.
    Text, "text", |text| if text.trim().is_empty() { Err("is empty: write some text".to_owned()) } else { Ok(Self(text.to_owned())) };
    /// A name.
    Name, "a name", |text| name(text).map(Self);
    /// An address.
    SocketAddr, "an address such as 127.0.0.1:8080", address;
    /// An address or `none`.
    Door, "an address such as 127.0.0.1:9900, or `none`", |text| if text == "none" { Ok(Self(None)) } else { address(text).map(|at| Self(Some(at))) };
    /// What a gateway calls itself.
    Pseudonym, "a name, or `none`", |text| if text == "none" { Ok(Self(None)) } else { name(text).map(|name| Self(Some(name))) };
    /// An origin.
    Origin, "an origin such as https://shop.example", |text| origin(text).map(Self);
    /// A JSON pointer.
    Pointer, "a JSON pointer such as `/order/no`", |text| pointer(text).map(Self);
    /// A host name.
    HostName, "a host name", |text| host_name(text).map(Self);
    /// A header's name.
    HeaderName, "a header's name", |text| HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is no header name: letters, digits and `-`"));
    /// A method.
    Method, "a method such as POST", method;
    /// A route's path.
    Pattern, "a path such as `/orders/{id}`", |text| Pattern::parse(text).map_err(|error| error.to_string());
    /// A network.
    Network, "a network such as 10.0.0.0/8", |text| Network::parse(text).ok_or_else(|| format!("`{text}` is no network: write an address or `10.0.0.0/8`"));
    /// One status, or several.
    StatusRange, "a status such as 200, or a range such as `200-399`", |text| status_range(text).map(Self);
    /// A status.
    RefusalStatus, "a status such as 409", |text| refusal_status(text).map(Self);
}

fn name(text: &str) -> Result<String, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name: 1 to 64 of letters, digits, `-`, `_` and `.`"))
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is no address: write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080"
        )
    })
}

fn origin(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is no origin: write `https://shop.example`, without a path, or `*`");
    if text == "*" {
        return Ok(text.to_owned());
    }
    let (scheme, place) = text.split_once("://").ok_or_else(wrong)?;
    let sound = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
    };
    if sound(scheme, "+-.") && sound(place, "-_.:[]") { Ok(text.to_ascii_lowercase()) } else { Err(wrong()) }
}

fn pointer(text: &str) -> Result<String, String> {
    let escapes_hold = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    if text.starts_with('/') && escapes_hold {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no JSON pointer: it begins with `/`, as in `/order/no`; `~` is written `~0`"))
    }
}

fn host_name(text: &str) -> Result<String, String> {
    if text.contains('*') {
        return Err(
            "wildcards in host names are not in this version yet: list the names, or leave `hosts` out".to_owned()
        );
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_address = bare.is_some_and(|bare| bare.parse::<std::net::Ipv6Addr>().is_ok());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if is_address || ((1..=253).contains(&text.len()) && text.chars().all(fits)) {
        Ok(text.trim_end_matches('.').to_ascii_lowercase())
    } else {
        Err(format!("`{text}` is no host name: write it without scheme, port and path"))
    }
}

/// The methods of RFC 9110 and RFC 5789.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

fn method(text: &str) -> Result<Method, String> {
    match text.parse() {
        Ok(method) if METHODS.contains(&text) && is_forwarded(&method) => Ok(method),
        Ok(_) if METHODS.contains(&text) => Err(format!("`{text}` is never forwarded: remove it")),
        _ => Err(format!("`{text}` is no method: {}", remedy(text, &METHODS))),
    }
}

fn status_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
    match (status(first), status(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("`{text}` is no range of statuses: write `200`, or `200-399`")),
    }
}

fn refusal_status(text: &str) -> Result<StatusCode, String> {
    let status = text.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok());
    status.filter(|status| status.is_success() || matches!(status.as_u16(), 400..=599)).ok_or_else(|| {
        format!("`{text}` cannot be the status of a refusal: write a 2xx, 4xx or 5xx status, such as 409")
    })
}

/// A list. Each element fails for itself.
impl<T: Setting> Setting for Vec<Field<T>> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        match &node.value {
            Value::List(nodes) => return Some(nodes.iter().map(|node| read_field(node, true, report)).collect()),
            Value::Broken => {}
            Value::Empty | Value::Text(_) | Value::Map(_) => {
                report.fault(&node.place, "expected a list: write `[a, b]`, or a line with `- ` for each");
            }
        }
        None
    }

    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "type": "array", "items": T::schema(schemas) })
    }
}

/// Fields that are named by the user.
#[derive(Debug, Clone)]
pub(super) struct Named<T>(pub(super) Vec<(At<Name>, Field<T>)>);

impl<T: Setting> Setting for Named<T> {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let mut named = Vec::new();
        for entry in super::reader::entries(node, report)? {
            let field = read_field(&entry.node, true, report);
            match name(&entry.key) {
                Ok(name) => named.push((At { value: Name(name), place: entry.place.clone(), stated: true }, field)),
                Err(message) => report.fault(&entry.place, message),
            }
        }
        Some(Self(named))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "type": "object", "additionalProperties": T::schema(schemas) })
    }
}

/// Reports a list that must not be empty.
pub(super) fn not_empty<T: Display>(place: &Place, is_empty: bool, example: T, report: &mut Report) {
    if is_empty {
        report.fault(place, format!("is empty: write at least one, such as {example}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_durations_and_sizes_as_it_reads_them() {
        for (text, millis) in [("250ms", 250), ("2s", 2_000), ("90s", 90_000), ("5m", 300_000), ("36h", 129_600_000)] {
            assert_eq!(measure(text, &SPANS, "", [""; 2]), Ok(millis));
            assert_eq!(span_text(Duration::from_millis(millis)), text);
        }
        for (text, bytes) in [("513B", 513), ("64KiB", 65_536), ("1MiB", 1_048_576), ("2GiB", 2_147_483_648)] {
            assert_eq!(measure(text, &SIZES, "", [""; 2]), Ok(bytes));
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn refuses_what_is_no_measure() {
        for text in ["", "-1", "1.5s", "s", "5 m", "5M", "1h30m", "99999999999999999999d", "18446744073709551615d"] {
            assert!(measure(text, &SPANS, "", [""; 2]).is_err(), "{text}");
        }
        assert!(measure("24", &SPANS, "", ["s", "h"]).is_err_and(|message| message.contains("`24h`")));
    }

    #[test]
    fn json_pointers_follow_their_escapes() {
        for (text, good) in [("/a/b", true), ("/a~1b~0", true), ("/", true), ("", false), ("a", false), ("/a~2", false)]
        {
            assert_eq!(pointer(text).is_ok(), good, "{text}");
        }
    }
}
