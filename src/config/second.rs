//! From `also` to what names a request's second operation and to what the route does by it, with the checks across fields
//! and routes.

use std::collections::HashMap;

use super::also::Also;
use super::around::Around;
use super::finding::{Place, Report};
use super::key_source::KeySource;
use super::reader::{At, Field};
use super::route::{Idempotency, Route};
use super::scope::Scope;
use super::values::span_text;
use super::{key_source, policy, scope};
use crate::machine::{Policy, Window};
use crate::{gateway, keys};

/// What names the second operation. `sources` are the first key's.
pub(super) fn keys(
    also: &Also,
    section: &Idempotency,
    namespace: &str,
    sources: &[keys::Source],
    around: &Around<'_>,
    report: &mut Report,
) -> Option<keys::Also> {
    combined(section, report);
    if let Some(at) = also.namespace.at().filter(|at| at.value.0 == namespace) {
        report.fault(&at.place, "is the first key's namespace: give the second key one of its own");
    }
    let own = also.key.at().and_then(|list| own_sources(list, sources, around, report));
    let scope = match &also.scope {
        Field::Absent => Some(None),
        Field::Given(at) if is_plain(at, report) => scope::compile(at, around, report).map(Some),
        Field::Given(_) | Field::Broken => None,
    };
    let second = also.namespace.either(|at| at.value.0.clone(), || format!("{namespace}/also"))?;
    Some(keys::Also { namespace: second, sources: own?, missing: *also.missing.value()?, scope: scope? })
}

fn own_sources(
    list: &At<Vec<Field<KeySource>>>,
    first: &[keys::Source],
    around: &Around<'_>,
    report: &mut Report,
) -> Option<Vec<keys::Source>> {
    let given = || list.value.iter().filter_map(Field::at);
    let tokens: Vec<_> = given().filter(|at| matches!(at.value, KeySource::Token(_))).collect();
    for at in &tokens {
        report.fault(&at.place, "`token` is a first key only: put it under the route's `key`");
    }
    if !tokens.is_empty() {
        return None;
    }
    let own = key_source::compile(list, around.issuing, report)?;
    if own == first {
        report.fault(&list.place, "is the first key again: name another source, or remove `also`");
    }
    Some(own)
}

/// What is found out of a caller before keys are looked at is what the first key's scope asks for.
fn is_plain(at: &At<Scope>, report: &mut Report) -> bool {
    match &at.value {
        Scope::JwtClaim(_) | Scope::PathParameter(_) => {
            let message = "reads a token or the path, which only the route's own `scope` does: leave it out, or use a \
                           header, a cookie, a certificate or `none`";
            report.fault(&at.place, message);
            false
        }
        Scope::All(parts) => parts.iter().filter_map(Field::at).filter(|part| !is_plain(part, report)).count() == 0,
        Scope::TrustedHeader(_)
        | Scope::Header(_)
        | Scope::Cookie(_)
        | Scope::Authorization(_)
        | Scope::ClientCertificate(_)
        | Scope::Nobody => true,
    }
}

/// What does not go with a second key.
fn combined(section: &Idempotency, report: &mut Report) {
    if let Some(at) = section.missing.at().filter(|at| at.value == keys::Missing::Pass) {
        let message = "lets a request that leaves its first key out past the second one: write `missing: reject`, or \
                       make the second key the only one";
        report.fault(&at.place, message);
    }
    if let Some(at) = section.store_failure.at().filter(|at| at.value == gateway::StoreFailure::OpenIfUnseen) {
        let message = "`open_if_unseen` does not go with `also`: of two keys the journal keeps none; write `closed`";
        report.fault(&at.place, message);
    }
}

/// What the route does by it. `policy` is the first key's; none where that is refused.
pub(super) fn guard(
    also: &Also,
    section: &Idempotency,
    policy: Option<&Policy>,
    report: &mut Report,
) -> Option<gateway::Also> {
    stated_retention(also, report);
    let retention = also.retention.either(|at| Some(at.value.0), || Some(section.retention.value()?.0)).flatten();
    if let (Some(doubt), Some(retention)) = (also.doubt_retention.at(), retention)
        && doubt.value.0 < retention
    {
        let message = format!("{} is below `retention` ({}): raise it", span_text(doubt.value.0), span_text(retention));
        report.fault(&doubt.place, message);
    }
    let compare = also.key.at().zip(also.fingerprint.value());
    let compare = compare.and_then(|(keys, fingerprint)| policy::compare(keys, &fingerprint.compare, report));
    let (policy, retention, compare) = (policy?, retention?, compare?);
    let doubt_retention = also.doubt_retention.either(|at| at.value.0, || policy.doubt_retention.max(retention))?;
    let duplicate = also.duplicate.either(|at| Some(at.value), || section.duplicate.value().copied())??;
    let policy = Policy {
        retention,
        doubt_retention,
        compare,
        replays: duplicate == gateway::OnDuplicate::Replay,
        clock_skew: None,
        window: Window::Fixed,
        ..policy.clone()
    };
    let status =
        also.duplicate_status.either(|at| Some(at.value.0), || Some(section.duplicate_status.value()?.0))??;
    Some(gateway::Also { policy, duplicate, duplicate_status: status })
}

/// As for the first key: nobody takes equal requests for one by default.
fn stated_retention(also: &Also, report: &mut Report) {
    let print = also.key.value().into_iter().flatten().filter_map(Field::at);
    let print = print.into_iter().find(|at| matches!(at.value, KeySource::Fingerprint(_)));
    if let (Some(print), Field::Absent) = (print, &also.retention) {
        let message = "`fingerprint` takes equal requests within `retention` for one, so `also` must state `retention` \
                       itself, such as `retention: 10m`";
        report.fault(&print.place, message);
    }
}

/// Two keys are reserved in one order everywhere: routes that use the same two the other way round would refuse each
/// other.
pub(super) fn in_one_order(routes: &[Option<gateway::Route>], written: &[Field<Route>], report: &mut Report) {
    let mut seen: HashMap<(&str, &str), &str> = HashMap::new();
    for (route, written) in routes.iter().zip(written) {
        let Some((route, keys)) = route.as_ref().and_then(|route| Some((route, &route.guard.as_ref()?.keys))) else {
            continue;
        };
        let Some(also) = &keys.also else { continue };
        let (first, second) = (keys.namespace.as_str(), also.namespace.as_str());
        if let (Some(other), Some(place)) = (seen.get(&(second, first)), place(written)) {
            let message = format!(
                "route `{other}` reserves in `{second}` first and then in `{first}`, this one the other way round: \
                 make the same key the first one in both"
            );
            report.fault(place, message);
        }
        seen.entry((first, second)).or_insert(&route.name);
    }
}

fn place(route: &Field<Route>) -> Option<&Place> {
    let also: &At<Also> = route.value()?.idempotency.value()?.also.at()?;
    Some(&also.place)
}
