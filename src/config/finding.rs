//! What is wrong or odd in a configuration file, and where. Finds nothing by itself.

use std::collections::HashMap;
use std::fmt;

/// A place in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The YAML path, such as `routes[0].idempotency.lease`; empty at the root.
    pub path: String,
}

impl Place {
    /// The same line and column, one field further down the path.
    pub(super) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, ..*self }
    }
}

/// One thing to say about the file. Displays as `file:line:column: path: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file's name as it was given.
    pub file: String,
    /// Where.
    pub place: Place,
    /// What, and how to put it right.
    pub message: String,
}

/// Something that is allowed but odd.
pub type Warning = Finding;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.place.line > 0 {
            write!(f, "{}:{}:", self.place.line, self.place.column)?;
        }
        if !self.place.path.is_empty() {
            write!(f, " {}:", self.place.path)?;
        }
        write!(f, " {}", self.message)
    }
}

/// Everything that is wrong with a file, in the order of the places. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(Vec<Finding>);

impl Errors {
    /// A file that cannot be looked into at all.
    pub(super) fn whole(file: &str, message: String) -> Self {
        let place = Place { line: 0, column: 0, path: String::new() };
        Self(vec![Finding { file: file.to_owned(), place, message }])
    }

    /// The errors, in the order of their places.
    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            let end = if number + 1 < self.0.len() { "\n" } else { "" };
            write!(f, "{finding}{end}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Collects findings while a file is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    faults: Vec<(Place, String)>,
    warnings: Vec<(Place, String)>,
}

impl Report {
    /// Something for which the file is refused.
    pub(super) fn fault(&mut self, place: &Place, message: impl Into<String>) {
        self.faults.push((place.clone(), message.into()));
    }

    /// Something that is allowed but odd.
    pub(super) fn warn(&mut self, place: &Place, message: impl Into<String>) {
        self.warnings.push((place.clone(), message.into()));
    }

    /// The warnings, or the errors if there are any; both in the order of their places.
    pub(super) fn close(self, file: &str) -> Result<Vec<Warning>, Errors> {
        if self.faults.is_empty() {
            Ok(in_order(file, self.warnings))
        } else {
            Err(Errors(in_order(file, self.faults)))
        }
    }
}

/// What several routes are warned of, told once: at the first of them, with the names of all.
pub(super) fn told_once(warnings: Vec<Warning>, names: &[&str]) -> Vec<Warning> {
    let mut told: Vec<(Warning, Vec<&str>)> = Vec::new();
    let mut met = HashMap::new();
    for warning in warnings {
        let Some((route, within)) = within_route(&warning.place.path) else {
            told.push((warning, Vec::new()));
            continue;
        };
        let at = *met.entry((within.to_owned(), warning.message.clone())).or_insert(told.len());
        let name = names.get(route).copied();
        if at == told.len() {
            told.push((warning, Vec::new()));
        }
        told[at].1.extend(name);
    }
    told.into_iter().map(|(warning, names)| of_routes(warning, &names)).collect()
}

/// The route's number in a path, and where in that route it leads.
fn within_route(path: &str) -> Option<(usize, &str)> {
    let (number, within) = path.strip_prefix("routes[")?.split_once(']')?;
    Some((number.parse().ok()?, within))
}

fn of_routes(mut warning: Warning, names: &[&str]) -> Warning {
    if names.len() > 1 {
        warning.message = format!("{} (routes {})", warning.message, names.join(", "));
    }
    warning
}

fn in_order(file: &str, mut found: Vec<(Place, String)>) -> Vec<Finding> {
    found.sort();
    found.dedup();
    found.into_iter().map(|(place, message)| Finding { file: file.to_owned(), place, message }).collect()
}
