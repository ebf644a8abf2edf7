//! `in_doubt: probe`: how the upstream is asked, as written, and its translation. The templates are read in `keys`.

use std::time::Duration;

use http::HeaderName;
use http::header::{CONTENT_LENGTH, EXPECT, HOST};

use super::define::{choice, section};
use super::finding::Report;
use super::reader::{At, Field};
use super::route::{Idempotency, Route};
use super::values::{DAY, HOUR, KIB, MINUTE, Name, Named, Size, Span, Text, span_text};
use crate::gateway::Probing;
use crate::keys::{Known, ProbeTemplate, Scope, Source, Template};
use crate::machine::InDoubt;
use crate::upstream::headers;

/// How often an operation may be asked about by the schedule.
const MOST_TIMES: usize = 16;

section! {
    /// How the upstream is asked about operations in doubt. 200 means that the operation was executed: duplicates get that answer. 404 means that it was not, from `absent_after` on. Placeholders in `get` and `headers`: {key}, {scope}, {operation}, {path:NAME}, {query:NAME}, {json:/POINTER}, {form:NAME}, {header:NAME}.
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

/// What a guard's policy does about doubts.
pub(super) fn in_doubt(
    section: &Idempotency,
    doubt_retention: Option<Duration>,
    report: &mut Report,
) -> Option<InDoubt> {
    match (section.in_doubt.at()?, &section.probe) {
        (At { value: Word::Hold, .. }, Field::Absent) => Some(InDoubt::Hold),
        (At { value: Word::Retry, .. }, Field::Absent) => Some(InDoubt::Retry),
        (At { value: Word::Probe, place, .. }, Field::Absent) => {
            report.fault(place, "`probe` needs to know what to ask: write `probe: { get: \"/orders?ref={key}\" }`");
            None
        }
        (_, Field::Broken) => None,
        (At { value: Word::Hold | Word::Retry, .. }, Field::Given(probe)) => {
            report.fault(&probe.place, "belongs to `in_doubt: probe` only: remove it, or write that");
            None
        }
        (At { value: Word::Probe, .. }, Field::Given(probe)) => {
            let absent_after = probe.value.absent_after.at()?;
            if let Some(retention) = doubt_retention.filter(|retention| absent_after.value.0 >= *retention) {
                let message = format!(
                    "{} is not below `doubt_retention` ({}): the doubt would be forgotten first; lower it",
                    span_text(absent_after.value.0),
                    span_text(retention)
                );
                report.fault(&absent_after.place, message);
            }
            Some(InDoubt::Probe { absent_after: absent_after.value.0 })
        }
    }
}

/// When the upstream is asked, and for how long; none inside: it is not asked.
pub(super) fn probing(section: &Idempotency, report: &mut Report) -> Option<Option<Probing>> {
    let Some(probe) = section.probe.either(Some, || None)? else { return Some(None) };
    let schedule = probe.value.schedule.at()?;
    let times: Vec<Duration> = schedule.value.iter().map(|field| Some(field.value()?.0)).collect::<Option<_>>()?;
    if times.len() > MOST_TIMES {
        report.fault(&schedule.place, format!("has {} times: write {MOST_TIMES} at most", times.len()));
    }
    if !times.is_sorted_by(|one, next| one < next) {
        report.fault(
            &schedule.place,
            "does not grow: each time counts from the doubt's beginning, such as [1s, 5s, 30s]",
        );
    }
    Some(Some(Probing {
        schedule: times,
        interval: probe.value.interval.value()?.0,
        timeout: probe.value.timeout.value()?.0,
    }))
}

/// What is asked; none inside: nothing.
pub(super) fn template(
    route: &Route,
    section: &Idempotency,
    sources: &[Source],
    scope: &Scope,
    report: &mut Report,
) -> Option<Option<ProbeTemplate>> {
    let Some(probe) = section.probe.either(Some, || None)? else { return Some(None) };
    let path = route.r#match.value()?.path.value()?;
    let known = Known { sources, scope, segment: &|name| path.parameter(name) };
    let target = probe.value.get.at()?;
    let get = Template::target(&target.value.0, &known).map_err(|error| report.fault(&target.place, error.to_string()));
    let headers = probe.value.headers.value()?;
    let fields: Vec<_> = headers.0.iter().map(|(name, value)| field(name, value.at()?, &known, report)).collect();
    let headers = fields.into_iter().collect::<Option<_>>()?;
    let template = ProbeTemplate { target: get.ok()?, headers, size_limit: probe.value.size_limit.value()?.0 };
    if *scope != Scope::None && !template.names_the_caller(scope) {
        let message = "does not say who asks, and its answer goes to whoever repeats the request: one caller could be \
                       shown another's operation of the same name; add {scope}, or a header with credentials";
        report.warn(&target.place, message);
    }
    Some(Some(template))
}

fn field(name: &At<Name>, value: &At<Text>, known: &Known<'_>, report: &mut Report) -> Option<(HeaderName, Template)> {
    let parsed = HeaderName::from_bytes(name.value.0.as_bytes()).ok();
    let header = parsed.filter(|name| !headers::is_reserved(name) && ![HOST, CONTENT_LENGTH, EXPECT].contains(name));
    if header.is_none() {
        let message = format!("`{}` cannot be set: it belongs to the connection or to this gateway", name.value.0);
        report.fault(&name.place, message);
    }
    let template =
        Template::field(&value.value.0, known).map_err(|error| report.fault(&value.place, error.to_string()));
    Some((header?, template.ok()?))
}
