//! Which route takes a request: first match wins, on the path's normal form.

use std::collections::HashMap;

use http::Method;

use super::settings::Route;
use crate::keys::path;

/// The route table. A literal path is found by its text; only routes with parameters are looked at one by one.
pub struct Routes {
    rules: Vec<Rule>,
    literal: HashMap<String, Vec<usize>>,
    patterned: Vec<usize>,
}

struct Rule {
    methods: Vec<Method>,
    hosts: Vec<String>,
    pattern: Pattern,
}

/// A route's path, in axum's syntax: `/orders`, `/orders/{id}`, `/v1/{*rest}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// One segment of any text.
    One,
    /// One segment or more.
    Rest,
}

/// Why a text is no path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("a path begins with `/`")]
    Relative,
    /// `{*rest}` is not at the end.
    #[error("`{{*name}}` can only be the last segment")]
    RestNotLast,
    /// A brace that is not round a whole segment.
    #[error("`{0}`: a parameter is a whole segment, written `{{name}}` or `{{*name}}`")]
    Brace(String),
    /// A literal part that is no path.
    #[error("`{0}` is not a valid path segment")]
    Segment(String),
}

impl Pattern {
    /// Reads a pattern. Its literal parts are brought into normal form, as the paths of requests are.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let rest = text.strip_prefix('/').ok_or(PatternError::Relative)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let mut segments = Vec::new();
        for part in rest.split('/').filter(|part| !part.is_empty()) {
            if segments.last() == Some(&Segment::Rest) {
                return Err(PatternError::RestNotLast);
            }
            segments.push(Segment::parse(part)?);
        }
        Ok(Self(segments))
    }

    fn literal(&self) -> Option<String> {
        let mut path = String::new();
        for segment in &self.0 {
            let Segment::Literal(text) = segment else { return None };
            path.push('/');
            path.push_str(text);
        }
        Some(if path.is_empty() { "/".to_owned() } else { path })
    }

    /// Whether a path in normal form matches.
    pub fn matches(&self, path: &str) -> bool {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        for segment in &self.0 {
            let Some(part) = parts.next() else { return false };
            match segment {
                Segment::Literal(text) if text != part => return false,
                Segment::Literal(_) | Segment::One => {}
                Segment::Rest => return true,
            }
        }
        parts.next().is_none()
    }

    /// Whether every path that `other` takes is taken by this one.
    pub fn covers(&self, other: &Self) -> bool {
        let mut theirs = other.0.iter();
        for segment in &self.0 {
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

impl Segment {
    fn parse(part: &str) -> Result<Self, PatternError> {
        if let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let (kind, name) = name.strip_prefix('*').map_or((Self::One, name), |name| (Self::Rest, name));
            return if name.is_empty() || name.contains(['{', '}', '*']) {
                Err(PatternError::Brace(part.to_owned()))
            } else {
                Ok(kind)
            };
        }
        if part.contains(['{', '}']) {
            return Err(PatternError::Brace(part.to_owned()));
        }
        let whole = format!("/{part}");
        let normal = path::normalize(&whole).map_err(|_| PatternError::Segment(part.to_owned()))?;
        match normal.strip_prefix('/') {
            Some(text) if !text.is_empty() => Ok(Self::Literal(text.to_owned())),
            _ => Err(PatternError::Segment(part.to_owned())),
        }
    }
}

impl Routes {
    /// The table of these routes.
    ///
    /// # Errors
    /// When a route's path is no pattern.
    pub fn new(routes: &[Route]) -> Result<Self, PatternError> {
        let mut table =
            Self { rules: Vec::with_capacity(routes.len()), literal: HashMap::new(), patterned: Vec::new() };
        for (index, route) in routes.iter().enumerate() {
            let pattern = Pattern::parse(&route.path)?;
            match pattern.literal() {
                Some(path) => table.literal.entry(path).or_default().push(index),
                None => table.patterned.push(index),
            }
            table.rules.push(Rule { methods: route.methods.clone(), hosts: route.hosts.clone(), pattern });
        }
        Ok(table)
    }

    /// The first route that takes a request. `path` is in normal form, `host` in lower case and without port.
    pub fn find(&self, method: &Method, host: &str, path: &str) -> Option<usize> {
        let takes = |index: &usize| self.rules[*index].takes(method, host);
        let literal = self.literal.get(path).and_then(|found| found.iter().copied().find(takes));
        let patterned = self
            .patterned
            .iter()
            .copied()
            .take_while(|index| literal.is_none_or(|literal| *index < literal))
            .find(|index| takes(index) && self.rules[*index].pattern.matches(path));
        patterned.or(literal)
    }
}

impl Rule {
    fn takes(&self, method: &Method, host: &str) -> bool {
        (self.methods.is_empty() || self.methods.contains(method))
            && (self.hosts.is_empty() || self.hosts.iter().any(|own| own == host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(methods: &[Method], path: &str, hosts: &[&str]) -> Route {
        Route {
            name: path.to_owned(),
            methods: methods.to_vec(),
            path: path.to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            upstream: 0,
            guard: None,
        }
    }

    #[test]
    fn the_first_match_wins_whether_literal_or_not() {
        let table = Routes::new(&[
            route(&[Method::POST], "/orders", &[]),
            route(&[], "/v1/{*rest}", &[]),
            route(&[], "/v1/orders", &[]),
            route(&[Method::GET], "/orders/{id}", &["api.example"]),
            route(&[], "/{*all}", &[]),
        ])
        .unwrap();
        let find = |method, host, path| table.find(&method, host, path);
        assert_eq!(find(Method::POST, "x", "/orders"), Some(0));
        assert_eq!(find(Method::GET, "x", "/orders"), Some(4));
        assert_eq!(find(Method::GET, "x", "/v1/orders"), Some(1));
        assert_eq!(find(Method::GET, "api.example", "/orders/7"), Some(3));
        assert_eq!(find(Method::GET, "other", "/orders/7"), Some(4));
        assert_eq!(find(Method::GET, "x", "/"), None);
    }

    #[test]
    fn patterns_are_read_and_refused() {
        assert!(Pattern::parse("/orders/").unwrap().matches("/orders"));
        assert!(Pattern::parse("/%6Frders").unwrap().matches("/orders"));
        assert!(Pattern::parse("/").unwrap().matches("/"));
        assert!(!Pattern::parse("/a/{id}").unwrap().matches("/a"));
        assert_eq!(Pattern::parse("orders"), Err(PatternError::Relative));
        assert_eq!(Pattern::parse("/{*a}/b"), Err(PatternError::RestNotLast));
        assert!(matches!(Pattern::parse("/a{b}"), Err(PatternError::Brace(_))));
        assert!(matches!(Pattern::parse("/.."), Err(PatternError::Segment(_))));
    }

    #[test]
    fn covering_says_what_can_never_match() {
        for (wide, narrow, expected) in [
            ("/orders", "/orders", true),
            ("/orders", "/%6Frders", true),
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
