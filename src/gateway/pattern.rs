//! A route's path: its syntax, which paths it takes, and which other patterns it takes all paths of.

use std::fmt;

use crate::keys::path;

/// A route's path, in axum's syntax: `/orders`, `/orders/{id}`, `/v1/{*rest}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As written, without a slash at the end.
    text: String,
    segments: Vec<Segment>,
    /// The literal segments before the first parameter, each with its slash.
    beginning: String,
    /// How many these are.
    literal: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// One segment of any text.
    One,
    /// One segment or more.
    Rest,
}

/// Whether letters in a path are the same in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// They are not.
    Sensitive,
    /// They are, within ASCII.
    Insensitive,
}

/// Why a text is no path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("`{0}` is no path: it begins with `/`")]
    Relative(String),
    /// It holds what cannot stand in a path.
    #[error("`{0}` is no path: no query, no fragment, no spaces; other letters are written `%C3%A9`")]
    Letter(String),
    /// A segment that the normal form of a path never has.
    #[error("`{0}` can never match: paths are matched without `//`, `.`, `..` and broken escapes")]
    Never(String),
    /// `{*rest}` is not at the end.
    #[error("`{0}` is no path pattern: `{{*name}}` can only be the last segment")]
    RestNotLast(String),
    /// A brace that is not round a whole segment.
    #[error("`{0}` is no path pattern: a parameter is a whole segment, `/orders/{{id}}` or `/v1/{{*rest}}`")]
    Brace(String),
}

impl Pattern {
    /// Reads a pattern. Its literal parts are brought into the form that requests are matched in.
    ///
    /// # Errors
    /// When it is none, or could never match.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let wrong = |error: fn(String) -> PatternError| error(text.to_owned());
        let Some(relative) = text.strip_prefix('/') else { return Err(wrong(PatternError::Relative)) };
        if text.contains(['?', '#', '\\']) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(PatternError::Letter));
        }
        if text.contains("//") {
            return Err(wrong(PatternError::Never));
        }
        let relative = relative.strip_suffix('/').unwrap_or(relative);
        let mut segments = Vec::new();
        for part in relative.split('/').filter(|_| !relative.is_empty()) {
            if segments.last() == Some(&Segment::Rest) {
                return Err(wrong(PatternError::RestNotLast));
            }
            segments.push(Segment::parse(part).map_err(wrong)?);
        }
        let literals = segments.iter().map_while(|segment| match segment {
            Segment::Literal(text) => Some(format!("/{text}")),
            Segment::One | Segment::Rest => None,
        });
        let literals: Vec<_> = literals.collect();
        Ok(Self { text: format!("/{relative}"), segments, beginning: literals.concat(), literal: literals.len() })
    }

    /// The literal segments before the first parameter, each with its slash; case and all.
    pub(super) fn beginning(&self) -> &str {
        &self.beginning
    }

    /// Which segment is the parameter of this name, counted from 0.
    pub fn parameter(&self, name: &str) -> Option<usize> {
        let mut parts = self.text.split('/').filter(|part| !part.is_empty());
        parts.position(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) == Some(name))
    }

    /// Whether a path matches, given in the form that requests are matched in.
    pub(super) fn matches(&self, path: &str, case: Case) -> bool {
        let Some((beginning, rest)) = path.split_at_checked(self.beginning.len()) else { return false };
        if !case.takes(&self.beginning, beginning) || !matches!(rest.bytes().next(), None | Some(b'/')) {
            return false;
        }
        let mut parts = rest.split('/').filter(|part| !part.is_empty());
        for segment in &self.segments[self.literal..] {
            let Some(part) = parts.next() else { return false };
            match segment {
                Segment::Literal(text) if !case.takes(text, part) => return false,
                Segment::Literal(_) | Segment::One => {}
                Segment::Rest => return true,
            }
        }
        parts.next().is_none()
    }

    /// Whether every path that `other` takes is taken by this one.
    pub fn covers(&self, other: &Self) -> bool {
        let mut theirs = other.segments.iter();
        for segment in &self.segments {
            match (segment, theirs.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::One, Some(Segment::One | Segment::Literal(_))) => {}
                (Segment::Literal(mine), Some(Segment::Literal(text))) if mine == text => {}
                _ => return false,
            }
        }
        theirs.next().is_none()
    }
}

impl Case {
    fn takes(self, text: &str, part: &str) -> bool {
        match self {
            Self::Sensitive => text == part,
            Self::Insensitive => text.eq_ignore_ascii_case(part),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Segment {
    fn parse(part: &str) -> Result<Self, fn(String) -> PatternError> {
        if let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let (kind, name) = name.strip_prefix('*').map_or((Self::One, name), |name| (Self::Rest, name));
            let named = !name.is_empty() && !name.contains(['{', '}', '*']);
            return if named { Ok(kind) } else { Err(PatternError::Brace) };
        }
        if part.contains(['{', '}']) {
            return Err(PatternError::Brace);
        }
        let whole = format!("/{part}");
        let normal = path::normalize(&whole).map_err(|_| PatternError::Never as fn(String) -> PatternError)?;
        match path::for_matching(&normal).strip_prefix('/') {
            Some(text) if !text.is_empty() => Ok(Self::Literal(text.to_owned())),
            _ => Err(PatternError::Never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read() {
        for (text, path) in [
            ("/orders", "/orders"),
            ("/orders/", "/orders"),
            ("/%6Frders", "/orders"),
            ("/", "/"),
            ("/a.b/..c", "/a.b/..c"),
            ("/%C3%A9", "/%C3%A9"),
            ("/orders/{id}", "/orders/7"),
            ("/v1/{*rest}", "/v1/a/b"),
        ] {
            assert!(Pattern::parse(text).unwrap().matches(path, Case::Sensitive), "{text}");
        }
        assert!(!Pattern::parse("/a/{id}").unwrap().matches("/a", Case::Sensitive));
        assert_eq!(Pattern::parse("/orders/").unwrap().to_string(), "/orders");
    }

    #[test]
    fn patterns_that_could_never_match_are_refused() {
        let why = |text: &str| Pattern::parse(text).map_err(|error| error.to_string()).unwrap_err();
        for (says, texts) in [
            ("begins with `/`", &["", "orders", "{*rest}"][..]),
            ("no query", &["/a?x=1", "/a#b", "/a b", "/a\\b", "/é"]),
            ("can never match", &["//", "/orders//", "/a//b", "/a/../b", "/a/./b", "/%2e%2e", "/a%00", "/%zz"]),
            ("last segment", &["/{*rest}/x"]),
            ("whole segment", &["/{", "/x{id}", "/{}", "/{*}", "/{{id}}"]),
        ] {
            for text in texts {
                let why = why(text);
                assert!(why.contains(says) && why.contains(text), "{text}: {why}");
            }
        }
    }

    #[test]
    fn covering_is_said_only_for_certain() {
        for (wide, narrow, expected) in [
            ("/orders", "/orders", true),
            ("/orders", "/%6Frders/", true),
            ("/orders/{id}", "/orders/{no}", true),
            ("/orders/{id}", "/orders/7", true),
            ("/orders/7", "/orders/{id}", false),
            ("/{*rest}", "/orders/{id}/items", true),
            ("/{*rest}", "/", false),
            ("/v1/{*rest}", "/v1", false),
            ("/v1/{*rest}", "/v1/{*all}", true),
            ("/v1/{id}", "/v1/{*all}", false),
            ("/v1/{id}", "/v1/a/b", false),
            ("/", "/", true),
            ("/{id}", "/", false),
        ] {
            let covers = Pattern::parse(wide).unwrap().covers(&Pattern::parse(narrow).unwrap());
            assert_eq!(covers, expected, "{wide} {narrow}");
        }
    }
}
