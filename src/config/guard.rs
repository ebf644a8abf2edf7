//! From one route's `idempotency` to its guard, with the checks across its fields.

use http::HeaderName;
use http::header::{AUTHORIZATION, SET_COOKIE};

use super::around::Around;
use super::finding::{Place, Report};
use super::names::{all_checked, forwarding};
use super::reader::{At, Field, values};
use super::route::{Idempotency, Route};
use super::values::{size_text, span_text};
use super::{client_word, decode, key_age, key_source, normalize, policy, probe, reads, scope, second, window};
use crate::gateway::{OnInFlight, StoreFailure, Underscores};
use crate::keys::FingerprintSettings;
use crate::{gateway, keys};

/// Translates a guard.
pub(super) fn compile(
    route: &Route,
    at: &At<Idempotency>,
    around: &Around<'_>,
    report: &mut Report,
) -> Option<gateway::Guard> {
    let section = &at.value;
    let keys = keys(route, section, around, report);
    if let Some(keys) = &keys {
        underscored(keys, &at.place, around, report);
    }
    let policy = policy::compile(section, keys.as_ref(), key_age::compile(section, report), around, report);
    let also = match &section.also {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => second::guard(&at.value, section, policy.as_ref(), report).map(Some),
    };
    if let (Some(keys), Some(at), true) =
        (&keys, section.key.at(), policy.as_ref().is_some_and(|policy| policy.compare))
    {
        normalize::uncompared(keys, &at.place, report);
    }
    let probing = match &section.probe {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => probe::probing(at, report).map(Some),
    };
    reads::check(route, section, report);
    let collapse = reads::collapse(section);
    let forwarded_key = window::forwarded_key(section, report);
    patience(section, around, report);
    body_limits(section, around, report);
    oddities(section, report);
    let allow_headers = section.replay.value().and_then(|replay| allow_headers(replay.allow_headers.value()?, report));
    Some(gateway::Guard {
        keys: keys?,
        policy: policy?,
        probing: probing?,
        also: also?,
        safe_methods: *section.safe_methods.value()?,
        forwarded_key: forwarded_key?,
        duplicate: *section.duplicate.value()?,
        duplicate_status: section.duplicate_status.value()?.0,
        in_flight: if collapse { OnInFlight::Wait } else { *section.in_flight.value()? },
        in_flight_status: section.in_flight_status.value()?.0,
        in_doubt_status: section.in_doubt_status.value()?.0,
        patience: section.patience.value()?.0,
        store_failure: if collapse { StoreFailure::Open } else { *section.store_failure.value()? },
        mode: *section.mode.value()?,
        request_body_limit: section.request_body_limit.value()?.0,
        response_body_limit: section.response_body_limit.value()?.0,
        allow_headers: allow_headers?,
        outcome_headers: *section.outcome_headers.value()?,
    })
}

fn keys(route: &Route, section: &Idempotency, around: &Around<'_>, report: &mut Report) -> Option<keys::Settings> {
    let sources = section.key.at().and_then(|list| key_source::compile(list, around.issuing, report));
    let scope = section.scope.at().and_then(|at| scope::compile(at, around, report));
    let fingerprint = section.fingerprint.value()?;
    let ignore = fingerprint.ignore.value()?;
    let typed = fingerprint.normalize.at().and_then(|list| normalize::typed(list, report));
    let namespace = section.namespace.either(|stated| Some(&stated.value.0), || Some(&route.name.value()?.0))??;
    let also = match &section.also {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => {
            let first = sources.as_deref().unwrap_or_default();
            second::keys(&at.value, section, namespace, first, around, report).map(Some)
        }
    };
    let (sources, scope) = (sources?, scope?);
    // A scope that proves the caller leaves nothing for the credentials to prove.
    let unstated = || if scope::proves_the_caller(&scope) { Vec::new() } else { vec![AUTHORIZATION] };
    let require_same = &section.replay.value()?.require_same;
    let mut require_same = require_same.either(|stated| all_checked(&stated.value, report), || Some(unstated()))??;
    let headers = fingerprint.headers.value()?;
    forwarding(headers, report);
    let mut headers = all_checked(headers, report)?;
    if reads::collapse(section) {
        // Another caller's read is another operation, not one that is refused.
        headers = reads::told_apart(headers, section, report)?;
        require_same.clear();
    }
    let probe = match &section.probe {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => probe::template(route, at, &sources, &scope, report).map(Some),
    };
    let client = client_word::compile(section, report);
    Some(keys::Settings {
        probe: probe?,
        also: also?,
        namespace: namespace.clone(),
        sources,
        dated: section.key_age.either(|_| true, || false)?,
        missing: *section.missing.value()?,
        scope,
        require_same,
        fingerprint: FingerprintSettings {
            headers,
            ignore_json: values(ignore.json.value()?)?.into_iter().map(|pointer| pointer.0).collect(),
            ignore_query: values(ignore.query.value()?)?.into_iter().map(|name| name.0).collect(),
            typed: typed?,
            client: client?.0,
            decode: decode::compile(&fingerprint.decode, around, report)?,
        },
    })
}

/// A guard that reads a field which never comes in guards nothing.
fn underscored(keys: &keys::Settings, place: &Place, around: &Around<'_>, report: &mut Report) {
    let kept_out = around.underscores.is_some_and(|underscores| underscores != Underscores::Pass);
    for name in keys.headers().iter().filter(|name| kept_out && name.as_str().contains('_')) {
        let message = format!(
            "reads the header `{name}`, which `underscore_headers` keeps out: write `underscore_headers: pass`"
        );
        report.fault(place, message);
    }
}

fn patience(section: &Idempotency, around: &Around<'_>, report: &mut Report) {
    let (Some(patience), Some(in_flight)) = (section.patience.at(), section.in_flight.value()) else { return };
    let response = around.upstream.and_then(|upstream| upstream.response_timeout.value()).map(|span| span.0);
    if let Some(response) = response.filter(|response| patience.value.0 > *response)
        && *in_flight == gateway::OnInFlight::Wait
    {
        let message = format!(
            "lets a duplicate wait longer than a first request does (`response_timeout`, {})",
            span_text(response)
        );
        report.warn(&patience.place, message);
    }
}

fn body_limits(section: &Idempotency, around: &Around<'_>, report: &mut Report) {
    let Some(all) = around.buffered_bodies else { return };
    let limits = [
        section.request_body_limit.at().map(|at| (at.value.0, &at.place)),
        section.response_body_limit.at().map(|at| (at.value.0, &at.place)),
    ];
    for (_, place) in limits.into_iter().flatten().filter(|(limit, _)| *limit > all) {
        let all = size_text(u64::try_from(all).unwrap_or(u64::MAX));
        report.fault(
            place,
            format!("is more than all bodies together may take (`limits.buffered_bodies`, {all}): lower it"),
        );
    }
}

/// What is allowed, and seldom meant.
fn oddities(section: &Idempotency, report: &mut Report) {
    if let Some(at) = section.store_failure.at().filter(|at| at.value == gateway::StoreFailure::Open) {
        report.warn(&at.place, "lets duplicates through while the store is down");
    }
}

fn allow_headers(list: &[Field<HeaderName>], report: &mut Report) -> Option<Vec<HeaderName>> {
    for at in list.iter().filter_map(Field::at).filter(|at| at.value == SET_COOKIE) {
        report.warn(&at.place, "replays a session to whoever repeats the request");
    }
    all_checked(list, report)
}
