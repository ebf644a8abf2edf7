//! The template of a probe: a target and fields with placeholders, filled in from a request. A value that could change
//! the shape of what it stands in fills in nothing: then there is no probe.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::HeaderName;
use http::header::HOST;

use super::header::{self, Line};
use super::source::{self, Look, Part, Value, View};
use super::{Request, Scope, Source, path, scope};
use crate::machine::{OperationId, Probe};

/// The most digits that a number is written out with.
const MAX_DIGITS: usize = 40;

/// What a probe is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeTemplate {
    /// The target that is asked for.
    pub target: Template,
    /// Fields that go with it.
    pub headers: Vec<(HeaderName, Template)>,
    /// The most bytes that a probe may take.
    pub size_limit: usize,
}

/// A text with placeholders. Displays as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Placeholder, Spot),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    Key,
    Scope,
    Operation,
    /// A segment of the path, counted from 0, and the name of the parameter that it is.
    Segment(usize, String),
    Header(HeaderName),
    /// A query parameter, a JSON pointer or a form field.
    Source(Source),
}

/// Where a value goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spot {
    Path,
    Query,
    /// All of a field's value.
    Field,
    /// A part of it.
    InField,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not a target.
    #[error("`{}` is no target: it begins with one `/`, in printable ASCII without spaces and `#`", .0.escape_debug())]
    Target(String),
    /// A target whose path could be read in several ways.
    #[error("`{0}` has a path with `//`, dot segments or needless escapes: write it plainly")]
    Path(String),
    /// What no field's value can hold.
    #[error("`{}` is no field value: printable ASCII only", .0.escape_debug())]
    Field(String),
    /// A brace that belongs to no placeholder.
    #[error("`{0}` has a brace too many: braces stand round placeholders; in a target another one is `%7B` or `%7D`")]
    Brace(String),
    /// A placeholder that means nothing.
    #[error(
        "`{{{0}}}` is no placeholder: write {{key}}, {{scope}}, {{operation}}, {{path:NAME}}, {{query:NAME}}, \
         {{json:/POINTER}}, {{form:NAME}} or {{header:NAME}}"
    )]
    Unknown(String),
    /// The route's path has no such parameter.
    #[error("`{{path:{0}}}`: the route's path has no parameter `{{{0}}}` of one segment")]
    Parameter(String),
    /// The key may be something that the upstream does not know.
    #[error(
        "`{{key}}` is not one value that the upstream knows, as the key may have several parts or be a fingerprint: name \
         the parts, such as {{json:/order/no}}, or use {{operation}}, which is sent as Oncegate-Operation"
    )]
    Key,
    /// The scope is something that the upstream does not know.
    #[error(
        "`{{scope}}` is not one value that the upstream knows: name a header that says it, such as \
         {{header:Authorization}}"
    )]
    Scope,
}

/// What of its route a template may refer to.
pub struct Known<'a> {
    /// Where keys come from.
    pub sources: &'a [Source],
    /// Whose they are.
    pub scope: &'a Scope,
    /// Which segment of the path is the parameter of this name.
    pub segment: &'a dyn Fn(&str) -> Option<usize>,
}

impl Template {
    /// Reads a target: a path, and perhaps a query.
    ///
    /// # Errors
    /// When it is none, or a placeholder in it stands for nothing.
    pub fn target(text: &str, known: &Known<'_>) -> Result<Self, TemplateError> {
        let wrong = || TemplateError::Target(text.to_owned());
        if !text.starts_with('/') {
            return Err(wrong());
        }
        let template = Self::read(text, known, Spot::Path)?;
        if !template.literals_have(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\')) {
            return Err(wrong());
        }
        let plain: String = template.pieces.iter().map(Piece::sample).collect();
        let path = plain.split('?').next().unwrap_or_default();
        let normal = path::normalize(path).map_err(|_| TemplateError::Path(text.to_owned()))?;
        if normal != path && path.strip_suffix('/') != Some(&normal) {
            return Err(TemplateError::Path(text.to_owned()));
        }
        Ok(template)
    }

    /// Reads the value of a field.
    ///
    /// # Errors
    /// When it is none, or a placeholder in it stands for nothing.
    pub fn field(text: &str, known: &Known<'_>) -> Result<Self, TemplateError> {
        let mut template = Self::read(text, known, Spot::InField)?;
        if let [Piece::Text(before), Piece::Value(_, spot), Piece::Text(after)] = &mut template.pieces[..]
            && before.is_empty()
            && after.is_empty()
        {
            *spot = Spot::Field;
        }
        if text.trim().is_empty() || !template.literals_have(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return Err(TemplateError::Field(text.to_owned()));
        }
        Ok(template)
    }

    /// Whether every byte outside of placeholders is such a one.
    fn literals_have(&self, such: impl Fn(u8) -> bool) -> bool {
        let is_such = |piece: &Piece| if let Piece::Text(text) = piece { text.bytes().all(&such) } else { true };
        self.pieces.iter().all(is_such)
    }

    fn read(text: &str, known: &Known<'_>, mut spot: Spot) -> Result<Self, TemplateError> {
        let brace = || TemplateError::Brace(text.to_owned());
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            if spot == Spot::Path && before.contains('?') {
                spot = Spot::Query;
            }
            pieces.push(Piece::Text(before.to_owned()));
            let (inside, behind) = after.strip_prefix('{').and_then(|after| after.split_once('}')).ok_or_else(brace)?;
            if inside.contains('{') {
                return Err(brace());
            }
            pieces.push(Piece::Value(Placeholder::read(inside, known)?, spot));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { text: text.to_owned(), pieces })
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| if let Piece::Value(value, _) = piece { Some(value) } else { None })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Piece {
    fn sample(&self) -> &str {
        if let Self::Text(text) = self { text } else { "x" }
    }
}

impl Placeholder {
    fn read(text: &str, known: &Known<'_>) -> Result<Self, TemplateError> {
        let unknown = || TemplateError::Unknown(text.to_owned());
        let named = || text.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or_else(unknown);
        Ok(match text {
            "key" if known.sources.iter().all(Source::is_one_value) => Self::Key,
            "key" => return Err(TemplateError::Key),
            "scope" if known.scope.is_one_value() => Self::Scope,
            "scope" => return Err(TemplateError::Scope),
            "operation" => Self::Operation,
            _ => match named()? {
                ("path", name) => {
                    let segment = (known.segment)(name).ok_or_else(|| TemplateError::Parameter(name.to_owned()))?;
                    Self::Segment(segment, name.to_owned())
                }
                ("header", name) => Self::Header(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unknown())?),
                ("query", name) => Self::Source(Source::Query(name.to_owned())),
                ("form", name) => Self::Source(Source::Form(name.to_owned())),
                ("json", pointer) if pointer.starts_with('/') => Self::Source(Source::Json(pointer.to_owned())),
                _ => return Err(unknown()),
            },
        })
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("{key}"),
            Self::Scope => f.write_str("{scope}"),
            Self::Operation => f.write_str("{operation}"),
            Self::Segment(_, name) => write!(f, "{{path:{name}}}"),
            Self::Header(name) => write!(f, "{{header:{name}}}"),
            Self::Source(source) => {
                let (kind, name) = source.written();
                write!(f, "{{{kind}:{name}}}")
            }
        }
    }
}

/// What a template is filled in from.
pub(super) struct Filling<'a> {
    pub(super) request: &'a Request,
    pub(super) view: &'a View<'a>,
    pub(super) key: &'a [Part<'a>],
    pub(super) scope: &'a [scope::Value<'a>],
    pub(super) operation: &'a OperationId,
}

impl ProbeTemplate {
    /// Whether what the probe asks for depends on who the caller is.
    pub fn names_the_caller(&self, scope: &Scope) -> bool {
        let of_the_scope: Vec<_> = scope::header_names(scope).collect();
        let credentials = [http::header::AUTHORIZATION, http::header::COOKIE];
        let all = self.headers.iter().map(|(_, template)| template).chain([&self.target]);
        all.flat_map(Template::placeholders).any(|placeholder| match placeholder {
            Placeholder::Scope | Placeholder::Operation => true,
            Placeholder::Header(name) => of_the_scope.contains(name) || credentials.contains(name),
            Placeholder::Key | Placeholder::Segment(..) | Placeholder::Source(_) => false,
        })
    }

    /// The header fields that it reads.
    pub fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        let all = self.headers.iter().map(|(_, template)| template).chain([&self.target]);
        all.flat_map(Template::placeholders).filter_map(|placeholder| match placeholder {
            Placeholder::Header(name) => Some(name),
            _ => None,
        })
    }

    /// The JSON pointers that it follows into the body.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &str> {
        let all = self.headers.iter().map(|(_, template)| template).chain([&self.target]);
        all.flat_map(Template::placeholders).filter_map(|placeholder| match placeholder {
            Placeholder::Source(source) => source.pointer(),
            _ => None,
        })
    }

    /// The probe for a request.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn fill(&self, from: &Filling<'_>) -> Result<Probe, String> {
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
                [value] => Ok(Cow::Borrowed(&value.bytes)),
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

/// A value as the upstream knows it. Of numbers only whole ones have one usual spelling.
fn text(value: &Value) -> Result<Cow<'_, [u8]>, &'static str> {
    match value {
        Value::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Value::Number(canonical) => {
            let (digits, exponent) = canonical.split_once('e').unwrap_or((canonical, "0"));
            let zeros: Option<usize> = exponent.parse().ok().filter(|zeros| digits.len() + zeros <= MAX_DIGITS);
            let zeros = zeros.ok_or("is no whole number that can be written out")?;
            Ok(Cow::Owned([digits.as_bytes(), &vec![b'0'; zeros]].concat()))
        }
        Value::Digest(_) => Err("is a fingerprint"),
    }
}

/// A segment of a path in normal form, decoded. Where a path has several readings, nobody knows which one the upstream
/// took.
fn segment(normal: &str, place: usize) -> Result<Cow<'_, [u8]>, &'static str> {
    if normal.contains([';', '\\']) || ["%2F", "%5C", "%3B"].iter().any(|escape| normal.contains(escape)) {
        return Err("is in a path with parameters or escaped slashes");
    }
    let segment = normal.split('/').filter(|segment| !segment.is_empty()).nth(place).ok_or("is not there")?;
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        let value = if byte == b'%' { bytes.next().zip(bytes.next()).and_then(path::escaped) } else { Some(byte) };
        decoded.push(value.ok_or("has a malformed escape")?);
    }
    Ok(Cow::Owned(decoded))
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

#[cfg(test)]
mod tests;
