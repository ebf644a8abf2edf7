//! A template filled in from a request. A value that could change the shape of what it stands in fills in nothing: then
//! there is no probe.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderName;
use http::header::HOST;

use super::{Piece, Placeholder, ProbeTemplate, Spot, Template};
use crate::keys::header::{self, Line};
use crate::keys::source::{self, Look, Part, Value, View};
use crate::keys::{Request, path, scope};
use crate::machine::{OperationId, Probe};

/// The most digits that a number is written out with.
const MAX_DIGITS: usize = 40;

/// What a template is filled in from.
pub(in crate::keys) struct Filling<'a> {
    pub(in crate::keys) request: &'a Request,
    pub(in crate::keys) view: &'a View<'a>,
    pub(in crate::keys) key: &'a [Part<'a>],
    pub(in crate::keys) scope: &'a [scope::Value<'a>],
    pub(in crate::keys) operation: &'a OperationId,
}

impl ProbeTemplate {
    /// The probe for a request.
    ///
    /// # Errors
    /// Why there is none.
    pub(in crate::keys) fn fill(&self, from: &Filling<'_>) -> Result<Probe, String> {
        let target = self.target.fill(from)?;
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        if path.split(|byte| *byte == b'/').any(|segment| segment == b"." || segment == b"..") {
            return Err("the values make a dot segment of the target's path".to_owned());
        }
        // The upstream may know several hosts, and the answer of another one would be about other operations.
        let host = (Bytes::from_static(HOST.as_str().as_bytes()), Bytes::from(from.request.authority.clone()));
        let mut headers = vec![host];
        for (name, template) in &self.headers {
            headers.push((Bytes::copy_from_slice(name.as_str().as_bytes()), template.fill(from)?.into()));
        }
        let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if target.len() + size > self.size_limit {
            return Err(format!("it would take {} bytes, more than `size_limit`", target.len() + size));
        }
        Ok(Probe { target: target.into(), headers })
    }
}

impl Template {
    fn fill(&self, from: &Filling<'_>) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(self.text.len() + 64);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Value(placeholder, spot) => {
                    let put = from.value(placeholder).and_then(|value| spot.put(&mut out, &value));
                    put.map_err(|why| format!("{placeholder} {why}"))?;
                }
            }
        }
        Ok(out)
    }
}

impl Filling<'_> {
    fn value(&self, placeholder: &Placeholder) -> Result<Cow<'_, [u8]>, &'static str> {
        match placeholder {
            Placeholder::Key => match self.key {
                [part] => text(&part.value),
                _ => Err("has several parts"),
            },
            Placeholder::Scope => match self.scope {
                [value] | [value, scope::Value { kind: scope::ISSUER, .. }] => scope_text(value),
                _ => Err("has several parts"),
            },
            Placeholder::Operation => Ok(Cow::Owned(self.operation.to_string().into_bytes())),
            Placeholder::Segment(place, _) => segment(&self.request.path, *place),
            Placeholder::Header(name) => self.field(name),
            Placeholder::Source(source) => match source::look(source, self.view)? {
                Look::Here(value) => text(&value).map(|value| Cow::Owned(value.into_owned())),
                Look::Absent | Look::NeedsBody => Err("is not there"),
            },
        }
    }

    /// A field that the upstream saw too, and in one way.
    fn field(&self, name: &HeaderName) -> Result<Cow<'_, [u8]>, &'static str> {
        let headers = &self.request.headers;
        if header::has_twin(headers, name) || header::is_hop_by_hop(headers, name) {
            return Err("is named in Connection, or there with underscores too");
        }
        match header::line(headers, name) {
            Line::Absent | Line::One(b"") => Err("is not there"),
            Line::Several => Err("is on several lines"),
            Line::One(value) => Ok(Cow::Borrowed(value)),
        }
    }
}

/// A value as the upstream knows it.
fn text(value: &Value) -> Result<Cow<'_, [u8]>, &'static str> {
    match value {
        // As the upstream saw it, in whatever form it counts here.
        Value::Text(text) | Value::Typed { sent: text, .. } => Ok(Cow::Borrowed(text.as_bytes())),
        Value::Number(canonical) => number(canonical),
        Value::Boolean(_) => Err("is a boolean"),
        Value::Digest(_) => Err("is a fingerprint"),
        Value::Token(_) => Err("is a token"),
    }
}

/// A number in canonical form, written out. Only whole ones have one usual spelling.
fn number<'a>(canonical: &str) -> Result<Cow<'a, [u8]>, &'static str> {
    let (digits, exponent) = canonical.split_once('e').unwrap_or((canonical, "0"));
    let zeros: Option<usize> = exponent.parse().ok().filter(|zeros| digits.len() + zeros <= MAX_DIGITS);
    let zeros = zeros.ok_or("is no whole number that can be written out")?;
    Ok(Cow::Owned([digits.as_bytes(), &vec![b'0'; zeros]].concat()))
}

/// A scope's value as the upstream knows it.
fn scope_text<'a>(value: &'a scope::Value<'_>) -> Result<Cow<'a, [u8]>, &'static str> {
    match std::str::from_utf8(&value.bytes) {
        Ok(canonical) if value.kind == scope::NUMBER_CLAIM => number(canonical),
        _ => Ok(Cow::Borrowed(&value.bytes)),
    }
}

/// A segment of a path in normal form, decoded. Where a path has several readings, nobody knows which one the upstream
/// took.
fn segment(normal: &str, place: usize) -> Result<Cow<'_, [u8]>, &'static str> {
    if normal.contains([';', '\\']) || ["%2F", "%5C", "%3B"].iter().any(|escape| normal.contains(escape)) {
        return Err("is in a path with parameters or escaped slashes");
    }
    let segment = normal.split('/').filter(|segment| !segment.is_empty()).nth(place).ok_or("is not there")?;
    path::unescaped(segment).map(Cow::Owned).ok_or("has a malformed escape")
}

impl Spot {
    /// Appends a value so that it stays within its place.
    fn put(self, out: &mut Vec<u8>, value: &[u8]) -> Result<(), &'static str> {
        if value.is_empty() || value.iter().any(u8::is_ascii_control) {
            return Err("is empty, or has control characters");
        }
        if self == Self::Path && value.iter().any(|byte| b"/\\;%?#".contains(byte)) {
            // Escaped they are harmless by the letter, but some servers decode first and look at the path then.
            return Err("has one of / \\ ; % ? # and goes into the path");
        }
        let in_field = matches!(self, Self::Field | Self::InField);
        if in_field && value.trim_ascii() != value {
            return Err("begins or ends with a space, which a field would lose");
        }
        if self == Self::InField && value.iter().any(|byte| b" ,;\"\\".contains(byte)) {
            return Err("has a space or one of , ; \" \\ and goes into the middle of a field");
        }
        for byte in value {
            if in_field || path::is_unreserved(*byte) {
                out.push(*byte);
            } else {
                out.extend(format!("%{byte:02X}").bytes());
            }
        }
        Ok(())
    }
}
