//! From one route's `idempotency` to its guard, with the checks across its fields.

use std::time::Duration;

use http::HeaderName;
use http::header::{AUTHORIZATION, SET_COOKIE};

use super::finding::{Place, Report};
use super::key_age::{self, Age};
use super::probe;
use super::reader::{At, Field, values};
use super::route::{Idempotency, KeySource, Route, Scope};
use super::upstreams::Upstream;
use super::values::{not_empty, size_text, span_text};
use crate::gateway::Underscores;
use crate::keys::{FingerprintSettings, Source};
use crate::machine::Policy;
use crate::upstream::headers;
use crate::{gateway, keys};

/// Doubt is remembered at least this long unless the route says otherwise.
const DOUBT: Duration = Duration::from_hours(72);

/// What a guard is checked against.
pub(super) struct Around<'a> {
    pub(super) upstream: Option<&'a Upstream>,
    /// Whether clients are asked for certificates; true while that cannot be told.
    pub(super) client_certificates: bool,
    /// The most bytes that all buffered bodies may take together.
    pub(super) buffered_bodies: Option<usize>,
    /// What becomes of request fields with an underscore in their name.
    pub(super) underscores: Option<Underscores>,
}

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
    let policy = policy(section, keys.as_ref(), key_age::compile(section, report), around, report);
    let probing = match &section.probe {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => probe::probing(at, report).map(Some),
    };
    patience(section, around, report);
    body_limits(section, around, report);
    oddities(route, section, report);
    let allow_headers = section.replay.value().and_then(|replay| allow_headers(replay.allow_headers.value()?, report));
    Some(gateway::Guard {
        keys: keys?,
        policy: policy?,
        probing: probing?,
        duplicate: *section.duplicate.value()?,
        duplicate_status: section.duplicate_status.value()?.0,
        in_flight: *section.in_flight.value()?,
        in_flight_status: section.in_flight_status.value()?.0,
        patience: section.patience.value()?.0,
        store_failure: *section.store_failure.value()?,
        mode: *section.mode.value()?,
        request_body_limit: section.request_body_limit.value()?.0,
        response_body_limit: section.response_body_limit.value()?.0,
        allow_headers: allow_headers?,
        outcome_headers: *section.outcome_headers.value()?,
    })
}

fn keys(route: &Route, section: &Idempotency, around: &Around<'_>, report: &mut Report) -> Option<keys::Settings> {
    let sources = section.key.at().and_then(|list| key_sources(list, report));
    let scope = section.scope.at().and_then(|at| scope(at, around, report));
    let fingerprint = section.fingerprint.value()?;
    let ignore = fingerprint.ignore.value()?;
    let namespace = section.namespace.either(|stated| Some(&stated.value.0), || Some(&route.name.value()?.0))??;
    let (sources, scope) = (sources?, scope?);
    // A scope that proves the caller leaves nothing for the credentials to prove.
    let unstated = || if proves_the_caller(&scope) { Vec::new() } else { vec![AUTHORIZATION] };
    let require_same = &section.replay.value()?.require_same;
    let require_same = require_same.either(|stated| all_checked(&stated.value, report), || Some(unstated()))??;
    let headers = fingerprint.headers.value()?;
    forwarding(headers, report);
    let probe = match &section.probe {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => probe::template(route, at, &sources, &scope, report).map(Some),
    };
    Some(keys::Settings {
        probe: probe?,
        namespace: namespace.clone(),
        sources,
        dated: section.key_age.either(|_| true, || false)?,
        missing: *section.missing.value()?,
        scope,
        require_same,
        fingerprint: FingerprintSettings {
            headers: all_checked(headers, report)?,
            ignore_json: values(ignore.json.value()?)?.into_iter().map(|pointer| pointer.0).collect(),
            ignore_query: values(ignore.query.value()?)?.into_iter().map(|name| name.0).collect(),
        },
    })
}

fn key_sources(list: &At<Vec<Field<KeySource>>>, report: &mut Report) -> Option<Vec<Source>> {
    not_empty(&list.place, list.value.is_empty(), "`{ header: Idempotency-Key }`", report);
    let sources: Vec<_> = list.value.iter().map(|field| key_source(field.at()?, false, report)).collect();
    let always = list.value.iter().position(|field| matches!(field.value(), Some(KeySource::Fingerprint(_))));
    if let Some(after) = always.and_then(|place| list.value.get(place + 1)).and_then(Field::at) {
        report.warn(&after.place, "is never asked: `fingerprint` before it always gives a key");
    }
    sources.into_iter().collect()
}

fn key_source(at: &At<KeySource>, inside: bool, report: &mut Report) -> Option<Source> {
    Some(match &at.value {
        KeySource::Header(name) => Source::Header(checked(name, &at.place, report)?),
        KeySource::Query(name) => Source::Query(name.0.clone()),
        KeySource::Json(pointer) => Source::Json(pointer.0.clone()),
        KeySource::Form(name) => Source::Form(name.0.clone()),
        KeySource::All(_) | KeySource::Fingerprint(_) if inside => {
            report.fault(&at.place, "cannot stand inside of `all`: use header, query, json or form");
            return None;
        }
        KeySource::All(parts) => {
            not_empty(&at.place, parts.is_empty(), "`{ json: /order/no }`", report);
            let parts: Vec<_> = parts.iter().map(|part| key_source(part.at()?, true, report)).collect();
            Source::All(parts.into_iter().collect::<Option<_>>()?)
        }
        KeySource::Fingerprint(_) => Source::Fingerprint,
    })
}

/// Headers of the connection, and those that this gateway sets itself, name nothing of the client's.
fn checked(name: &HeaderName, place: &Place, report: &mut Report) -> Option<HeaderName> {
    if headers::is_reserved(name) {
        report.fault(place, format!("`{name}` cannot be used here: it belongs to the connection or to this gateway"));
        return None;
    }
    Some(name.clone())
}

fn all_checked(list: &[Field<HeaderName>], report: &mut Report) -> Option<Vec<HeaderName>> {
    let names: Vec<_> =
        list.iter().map(|field| field.at().and_then(|at| checked(&at.value, &at.place, report))).collect();
    names.into_iter().collect()
}

/// A retry may come another way: what tells the way is no part of a request's identity.
fn forwarding(list: &[Field<HeaderName>], report: &mut Report) {
    for at in list.iter().filter_map(Field::at).filter(|at| headers::is_forwarding(&at.value)) {
        let message = format!("`{}` cannot be used here: it says which way a request came, not what it asks", at.value);
        report.fault(&at.place, message);
    }
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

fn scope(at: &At<Scope>, around: &Around<'_>, report: &mut Report) -> Option<keys::Scope> {
    let warning = match &at.value {
        Scope::TrustedHeader(_) | Scope::ClientCertificate(keys::CertificateName::Subject) | Scope::All(_) => None,
        Scope::ClientCertificate(_) => {
            Some("changes when a certificate is renewed: a retry after it is a new operation")
        }
        Scope::Header(_) => Some("a header is the client's own word: another client can name the same scope"),
        Scope::Cookie(_) => Some("a cookie is the client's own word, unless the upstream verifies it"),
        Scope::Authorization(_) => Some("changes with each refresh of a token: a retry after it is a new operation"),
        Scope::Nobody => Some("all callers share their keys: one can meet another's operation"),
    };
    if let Some(warning) = warning {
        report.warn(&at.place, warning);
    }
    Some(match &at.value {
        Scope::TrustedHeader(name) => keys::Scope::TrustedHeader(checked(name, &at.place, report)?),
        Scope::Header(name) => keys::Scope::Header(checked(name, &at.place, report)?),
        Scope::Cookie(name) => keys::Scope::Cookie(name.0.clone()),
        Scope::Authorization(_) => keys::Scope::Authorization,
        Scope::ClientCertificate(name) => {
            if !around.client_certificates {
                report.fault(&at.place, "no client is asked for a certificate: set `tls.client_certificates`");
                return None;
            }
            keys::Scope::ClientCertificate(*name)
        }
        Scope::Nobody => keys::Scope::None,
        Scope::All(parts) => {
            not_empty(&at.place, parts.is_empty(), "`{ trusted_header: X-Customer-Id }`", report);
            let parts: Vec<_> = parts.iter().map(|part| scope_part(part.at()?, around, report)).collect();
            keys::Scope::All(parts.into_iter().collect::<Option<_>>()?)
        }
    })
}

fn scope_part(at: &At<Scope>, around: &Around<'_>, report: &mut Report) -> Option<keys::Scope> {
    if matches!(at.value, Scope::All(_) | Scope::Nobody) {
        report.fault(&at.place, "cannot stand inside of `all`: use any other");
        return None;
    }
    scope(at, around, report)
}

fn proves_the_caller(scope: &keys::Scope) -> bool {
    match scope {
        keys::Scope::TrustedHeader(_) | keys::Scope::ClientCertificate(_) => true,
        keys::Scope::All(parts) => parts.iter().any(proves_the_caller),
        keys::Scope::Header(_) | keys::Scope::Cookie(_) | keys::Scope::Authorization | keys::Scope::None => false,
    }
}

fn policy(
    section: &Idempotency,
    keys: Option<&keys::Settings>,
    age: Option<Age>,
    around: &Around<'_>,
    report: &mut Report,
) -> Option<Policy> {
    let attempt_timeout = around.upstream.and_then(|upstream| upstream.attempt_timeout.value()).map(|span| span.0);
    if let (Some(lease), Some(timeout)) = (section.lease.at(), attempt_timeout)
        && lease.value.0 >= timeout
    {
        let message = format!(
            "{} must be below the upstream's `attempt_timeout` ({}): lower the lease, or raise the timeout",
            span_text(lease.value.0),
            span_text(timeout)
        );
        report.fault(&lease.place, message);
    }
    stated_retention(section, report);
    let retention = section.retention.value().map(|span| span.0);
    // A doubt must outlive its key.
    let least = retention.zip(age).map(|(retention, age)| retention + age.slack());
    if let (Some(doubt), Some(least)) = (section.doubt_retention.at(), least)
        && doubt.value.0 < least
    {
        let skew = if age.is_some_and(|age| age.skew.is_some()) { " and twice `key_age.clock_skew`" } else { "" };
        let message =
            format!("{} is below `retention`{skew} ({}): raise it", span_text(doubt.value.0), span_text(least));
        report.fault(&doubt.place, message);
    }
    let compare = compare(section, report);
    let doubt_retention = section.doubt_retention.either(|at| Some(at.value.0), || Some(least?.max(DOUBT))).flatten();
    let in_doubt = probe::in_doubt(section, doubt_retention, report);
    keys?;
    Some(Policy {
        lease: section.lease.value()?.0,
        attempt_timeout: attempt_timeout?,
        retention: retention?,
        doubt_retention: doubt_retention?,
        clock_skew: age?.skew,
        in_doubt: in_doubt?,
        compare: compare?,
        outcomes: section.outcomes.value()?.0.clone(),
    })
}

/// Equal orders within the retention are taken for one: nobody should get that by default.
fn stated_retention(section: &Idempotency, report: &mut Report) {
    let print = section.key.value().and_then(|list| {
        list.iter().find_map(|field| field.at().filter(|at| matches!(at.value, KeySource::Fingerprint(_))))
    });
    if let (Some(print), Some(retention)) = (print, section.retention.at())
        && !retention.stated
    {
        let message = "`fingerprint` takes equal requests within `retention` for one, so the route must state \
                       `retention` itself, such as `retention: 10m`";
        report.fault(&print.place, message);
    }
}

/// A key that the client made for this request promises an equal request; one made of business data does not.
fn compare(section: &Idempotency, report: &mut Report) -> Option<bool> {
    let keys = section.key.at()?;
    match &section.fingerprint.value()?.compare {
        Field::Given(stated) => return Some(stated.value),
        Field::Broken => return None,
        Field::Absent => {}
    }
    let is_business =
        |source: &KeySource| matches!(source, KeySource::Json(_) | KeySource::Form(_) | KeySource::All(_));
    let is_client_made = |source: &KeySource| matches!(source, KeySource::Header(_) | KeySource::Query(_));
    let has = |wanted: &dyn Fn(&KeySource) -> bool| keys.value.iter().filter_map(Field::value).any(wanted);
    let (business, client_made) = (has(&is_business), has(&is_client_made));
    if business && client_made {
        report.warn(
            &keys.place,
            "mixes keys made by clients with keys from business data: changed requests are refused for both; state \
             `fingerprint.compare` to choose",
        );
    }
    Some(client_made || !business)
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
fn oddities(route: &Route, section: &Idempotency, report: &mut Report) {
    let methods = route.r#match.value().and_then(|matching| matching.methods.at());
    if let Some(methods) = methods {
        if methods.value.is_empty() {
            report.warn(&methods.place, "guards every method, GET too: list the methods that change something");
        }
        for method in methods.value.iter().filter_map(Field::at).filter(|method| method.value.is_safe()) {
            report.warn(
                &method.place,
                format!("{} changes nothing by definition: a guard repeats old answers", method.value),
            );
        }
    }
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
