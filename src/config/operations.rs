//! `operations`: where clients may ask what became of their operations; as written, and what it becomes.

use super::define::section;
use super::finding::Report;
use super::reader::{At, Field};
use super::values::{MINUTE, Span, Text};
use crate::gateway;
use crate::keys::path;

section! {
    /// Where clients may ask what became of their operations: GET on the path, a slash and the key.
    Operations {
        /// The path; no route gets requests for what is below it.
        path: Text = Default("/_oncegate/operations"),
        /// How long `?wait=` may make a question wait for a running attempt at most.
        max_wait: Span<0, { 10 * MINUTE }> = Default("10s"),
    }
    later {}
}

/// Translates it.
pub(super) fn compile(field: &Field<Operations>, report: &mut Report) -> Option<gateway::Operations> {
    let section = field.value()?;
    let at = section.path.at()?;
    let path = plain_path(at, "/_oncegate/operations", report)?;
    Some(gateway::Operations { path, max_wait: section.max_wait.value()?.0 })
}

/// A path that a request can spell in one way only.
pub(super) fn plain_path(at: &At<Text>, usual: &str, report: &mut Report) -> Option<String> {
    let path = &at.value.0;
    let is_plain = path.len() > 1 && path.starts_with('/') && !path.ends_with('/');
    if !is_plain || path.contains(['?', '#', '%', '{', ';']) || path::normalize(path).ok().as_deref() != Some(path) {
        report.fault(&at.place, format!("`{path}` is no plain path: write one such as `{usual}`"));
        return None;
    }
    Some(path.clone())
}
