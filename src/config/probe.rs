//! From a guard's `in_doubt` and `probe` to what the upstream is asked, and when. The templates are read in `keys`.

use std::time::Duration;

use http::HeaderName;
use http::header::{CONTENT_LENGTH, EXPECT, HOST};

use super::doubt::{Probe, Word};
use super::finding::Report;
use super::reader::{At, Field};
use super::route::{Idempotency, Route};
use super::values::{Name, Text, span_text};
use crate::gateway::Probing;
use crate::keys::{Known, ProbeTemplate, Scope, Source, Template};
use crate::machine::InDoubt;
use crate::upstream::headers;

/// How often an operation may be asked about by the schedule.
const MOST_TIMES: usize = 16;

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
            report.fault(
                place,
                "`probe` needs to know what to ask: write `probe: { get: \"/orders?ref={key}&customer={scope}\" }`",
            );
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

/// When the upstream is asked, and for how long.
pub(super) fn probing(probe: &At<Probe>, report: &mut Report) -> Option<Probing> {
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
    Some(Probing {
        schedule: times,
        interval: probe.value.interval.value()?.0,
        timeout: probe.value.timeout.value()?.0,
    })
}

/// What is asked.
pub(super) fn template(
    route: &Route,
    probe: &At<Probe>,
    sources: &[Source],
    scope: &Scope,
    report: &mut Report,
) -> Option<ProbeTemplate> {
    let path = route.r#match.value()?.path.value()?;
    let known = Known { sources, scope, segment: &|name| path.parameter(name) };
    let target = probe.value.get.at()?;
    let get = Template::target(&target.value.0, &known).map_err(|error| report.fault(&target.place, error.to_string()));
    let headers = probe.value.headers.value()?;
    let fields: Vec<_> = headers.0.iter().map(|(name, value)| field(name, value.at()?, &known, report)).collect();
    let headers = fields.into_iter().collect::<Option<_>>()?;
    let template = ProbeTemplate { target: get.ok()?, headers, size_limit: probe.value.size_limit.value()?.0 };
    for name in template.header_names().filter(|name| headers::is_forwarding(name) || headers::is_reserved(name)) {
        let message =
            format!("`{{header:{name}}}`: the upstream did not get this field as the client sent it; use another");
        report.fault(&probe.place, message);
    }
    if *scope != Scope::None && !template.names_the_caller(scope) {
        let message = "does not say who asks, and its answer goes to whoever repeats the request: one caller could be \
                       shown another's operation of the same name; add {scope}, or a header with credentials";
        report.warn(&target.place, message);
    }
    Some(template)
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
