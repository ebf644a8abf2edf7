//! From `fingerprint.client` to what keys are told, with the checks against the route's keys.

use std::time::Duration;

use http::HeaderName;

use super::client_print::Mode;
use super::finding::Report;
use super::key_source::KeySource;
use super::names::checked;
use super::reader::{At, Field};
use super::route::Idempotency;
use super::values::{DAY, HOUR, SECOND, Span, span_text};
use crate::gateway::OutcomeHeaders;
use crate::keys::{ClientPrints, ClientWord};

type Retention = Span<SECOND, { 3650 * DAY }>;

/// What a route makes of them, as the floors below are told: none where it ignores them.
pub(super) struct Told(pub(super) Option<ClientPrints>);

/// Translates it.
pub(super) fn compile(guard: &Idempotency, report: &mut Report) -> Option<Told> {
    let at = guard.fingerprint.value()?.client.at()?;
    let section = &at.value;
    let (mode, header) = (section.mode.at()?, section.header.at()?);
    let keys = keys_of(guard, &header.value);
    let key = keys.first().map(|(key, _)| *key);
    let word = match mode.value {
        Mode::Verify => ClientWord::Verify,
        Mode::Trust => {
            report.warn(&mode.place, "takes the client's word: a changed request under an old fingerprint is a retry");
            ClientWord::Trust
        }
        Mode::Ignore => {
            if let Some(key) = key.filter(|_| !at.stated) {
                report.warn(
                    &key.place,
                    "is taken as it comes: write `fingerprint: { client: { mode: verify, required: true } }`",
                );
            }
            return Some(Told(None));
        }
    };
    let (skew, required) = (section.skew.at()?, section.required.at()?);
    for (key, retention) in keys {
        outlives(guard, key, retention, skew, report);
    }
    if let Some(key) = key.filter(|_| !required.value) {
        let message = "is false, but a key comes from the fingerprint: write `required: true`";
        report.fault(if required.stated { &required.place } else { &key.place }, message);
    }
    let timestamp = section.timestamp_header.at()?;
    if timestamp.value == header.value {
        report.fault(&timestamp.place, "is `header` too: the fingerprint and its timestamp are two fields");
    }
    Some(Told(Some(ClientPrints {
        word,
        required: required.value,
        skew: skew.value.0,
        header: checked(&header.value, &header.place, report)?,
        timestamp_header: checked(&timestamp.value, &timestamp.place, report)?,
    })))
}

/// The route's keys that come from the fingerprint, the second one's too, each with how long its outcome is remembered.
fn keys_of<'a>(guard: &'a Idempotency, header: &HeaderName) -> Vec<(&'a At<KeySource>, Option<&'a At<Retention>>)> {
    let of = |list: &'a Field<Vec<Field<KeySource>>>| {
        list.value().into_iter().flatten().filter_map(Field::at).find(|source| reads(source, header))
    };
    let first = of(&guard.key).map(|key| (key, guard.retention.at()));
    let also = guard.also.value();
    let second = also.and_then(|also| Some((of(&also.key)?, also.retention.at().or(guard.retention.at()))));
    first.into_iter().chain(second).collect()
}

fn reads(source: &At<KeySource>, header: &HeaderName) -> bool {
    match &source.value {
        KeySource::Header(name, _) => name == header,
        KeySource::All(parts) => parts.iter().filter_map(Field::at).any(|part| reads(part, header)),
        _ => false,
    }
}

/// A fingerprint that is a key must not be forgotten while its timestamp would still begin an operation: from a skew
/// before it to a skew after it.
fn outlives(
    guard: &Idempotency,
    key: &At<KeySource>,
    retention: Option<&At<Retention>>,
    skew: &At<Span<SECOND, HOUR>>,
    report: &mut Report,
) {
    let least: Duration = skew.value.0 * 2;
    if let Some(retention) = retention.filter(|retention| retention.value.0 < least) {
        let message = format!(
            "{} is below twice `fingerprint.client.skew` ({}), and a key comes from the fingerprint: raise it, or lower \
             the skew",
            span_text(retention.value.0),
            span_text(least)
        );
        report.fault(&retention.place, message);
    }
    if let Some(word) = guard.outcome_headers.at().filter(|word| word.value == OutcomeHeaders::Trust) {
        let message = format!(
            "`trust` lets the upstream have an outcome forgotten within {}, while its fingerprint ({}) is still good \
             for a new operation: write `ignore`, or use another key",
            span_text(least),
            key.place.path
        );
        report.fault(&word.place, message);
    }
}
