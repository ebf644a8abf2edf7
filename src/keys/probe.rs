//! The template of a probe: a target and fields with placeholders. How it is filled in from a request is beside it.

mod fill;

pub(super) use fill::Filling;

use std::fmt;

use http::HeaderName;

use super::{Scope, Source, path, scope};

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

impl ProbeTemplate {
    /// Whether what the probe asks for depends on who the caller is.
    pub fn names_the_caller(&self, scope: &Scope) -> bool {
        let of_the_scope: Vec<_> = scope::header_names(scope).collect();
        let credentials = [http::header::AUTHORIZATION, http::header::COOKIE];
        let all = self.headers.iter().map(|(_, template)| template).chain([&self.target]);
        all.flat_map(Template::placeholders).any(|placeholder| match placeholder {
            Placeholder::Scope | Placeholder::Operation => true,
            Placeholder::Header(name) => of_the_scope.contains(name) || credentials.contains(name),
            Placeholder::Segment(_, name) => scope.path_parameters().any(|own| own == name),
            Placeholder::Key | Placeholder::Source(_) => false,
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
}

#[cfg(test)]
mod tests;
