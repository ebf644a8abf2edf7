//! `access_log`: a line for every answer; as written, and what it becomes.

use std::path::PathBuf;

use super::define::{choice, section};
use super::finding::Report;
use super::reader::Field;
use super::values::{GIB, MIB, MINUTE, Size, Span, Text, size_text};
use crate::telemetry::access::{Destination, Format, LEAST_PAGE, Settings};

section! {
    /// The access log: a line for every answer, written off the requests' path.
    AccessLog {
        /// The file that lines are added to, or `stdout`. SIGUSR1 and SIGHUP open it anew.
        path: Text = Required("write `path: /var/log/oncegate/access.log`, or `path: stdout`"),
        /// `json`, an object a line; or `combined`, as other servers have it, with more fields behind it.
        format: Format = Default("json"),
        /// What is shown of a target's query, which can hold secrets: `drop` shows the path alone, `keep` all of it.
        query: Query = Default("drop"),
        /// Lines that may wait for the file, in bytes over all workers; what has no room is dropped and counted.
        buffer: Size<MIB, GIB> = Default("8MiB"),
        /// How long a line waits at most for others to be written with.
        flush: Span<1, MINUTE> = Default("250ms"),
    }
    later {}
}

choice! { Format { "json" => Self::Json, "combined" => Self::Combined } later {} }

/// What is shown of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Drop,
    Keep,
}

choice! { Query { "drop" => Self::Drop, "keep" => Self::Keep } later {} }

/// Translates it, for so many workers.
pub(super) fn compile(field: &Field<AccessLog>, workers: Option<usize>, report: &mut Report) -> Option<Settings> {
    let section = field.value()?;
    let to = match section.path.value()?.0.as_str() {
        "stdout" => Destination::Stdout,
        path => Destination::File(PathBuf::from(path)),
    };
    let buffer = section.buffer.value()?.0;
    // Each worker fills a page, and one is being written.
    let least = LEAST_PAGE * (workers? + 1);
    if let Some(at) = section.buffer.at().filter(|_| buffer < least) {
        let message = format!(
            "is too little for {} workers: write {} or more",
            workers?,
            size_text(u64::try_from(least).unwrap_or(u64::MAX))
        );
        report.fault(&at.place, message);
    }
    Some(Settings {
        to,
        format: *section.format.value()?,
        query: *section.query.value()? == Query::Keep,
        buffer,
        flush: section.flush.value()?.0,
    })
}
