//! The file as written: what becomes of operations in doubt. Checks nothing across fields.

use http::StatusCode;
use serde_json::{Value as Json, json};

use super::define::{choice, section};
use super::finding::Report;
use super::reader::{Field, Schemas, Setting, parsed};
use super::tree::Node;
use super::values::{DAY, HOUR, KIB, MINUTE, Named, Size, Span, Text};

section! {
    /// How the upstream is asked about operations in doubt. 200 means that the operation was executed: duplicates get that answer. 404 means that it was not, from `absent_after` on. Placeholders in `get` and `headers`: `{key}`, `{scope}`, `{operation}`, `{path:NAME}`, `{query:NAME}`, `{json:/POINTER}`, `{form:NAME}`, `{header:NAME}`.
    Probe {
        /// The target of the GET, such as "/orders?ref={key}".
        get: Text = Required("write `get: \"/orders?ref={key}\"`"),
        /// Fields that go with it, such as { Authorization: "{header:Authorization}" }; their values are kept in the record until the operation is completed.
        headers: Named<Text> = Default("{}"),
        /// How long after a doubt began the upstream may still come to execute the operation: a 404 before that says nothing.
        absent_after: Span<10, { 30 * DAY }> = Default("60s"),
        /// When it is asked, counted from the doubt's beginning; once more at `absent_after`, if that is later.
        schedule: Vec<Field<Span<10, { 30 * DAY }>>> = Default("[1s, 5s, 30s, 5m]"),
        /// The least time between two probes of one operation that duplicates cause.
        interval: Span<10, HOUR> = Default("1s"),
        /// How long a probe may take.
        timeout: Span<10, { 5 * MINUTE }> = Default("5s"),
        /// The most bytes that a probe may take in the record; a request that needs more is not asked about.
        size_limit: Size<64, { 32 * KIB }> = Default("4KiB"),
    }
    later {}
}

/// The word of `in_doubt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Hold,
    Retry,
    Probe,
}

choice! { Word { "hold" => Self::Hold, "retry" => Self::Retry, "probe" => Self::Probe } later {} }

/// The status of a refusal while the outcome is not known. A 2xx would say that the operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(pub(super) StatusCode);

impl Setting for Status {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        parsed(node, "a status such as 409", report, |text| {
            let status = text.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok());
            let fits = status.filter(|status| status.is_client_error() || status.is_server_error());
            fits.map(Self).ok_or_else(|| {
                format!("`{text}` cannot be the status of a doubt: write a 4xx or 5xx status, such as 409 or 503")
            })
        })
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": ["string", "number"] })
    }
}
