//! From one route's `idempotency` to the rules that its operations live by, with the checks across its fields.

use std::time::Duration;

use super::around::Around;
use super::finding::Report;
use super::key_age::Age;
use super::key_source::KeySource;
use super::reader::{At, Field};
use super::route::Idempotency;
use super::values::span_text;
use super::{probe, reads, token_routes};
use crate::gateway::OnDuplicate;
use crate::keys;
use crate::machine::Policy;

/// Doubt is remembered at least this long unless the route says otherwise.
const DOUBT: Duration = Duration::from_hours(72);

/// Translates them.
pub(super) fn compile(
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
    token_routes::outlived(around.issuing, section, report);
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
    let compare = section.key.at().zip(section.fingerprint.value());
    let compare = compare.and_then(|(keys, fingerprint)| self::compare(keys, &fingerprint.compare, report));
    let collapse = reads::collapse(section);
    let usual = if collapse { Duration::ZERO } else { DOUBT };
    let doubt_retention = section.doubt_retention.either(|at| Some(at.value.0), || Some(least?.max(usual))).flatten();
    let in_doubt = probe::in_doubt(section, doubt_retention, report);
    let in_doubt = if collapse { Some(reads::LOST) } else { in_doubt };
    keys?;
    Some(Policy {
        lease: section.lease.value()?.0,
        attempt_timeout: attempt_timeout?,
        retention: retention?,
        window: *section.window.value()?,
        doubt_retention: doubt_retention?,
        clock_skew: age?.skew,
        in_doubt: in_doubt?,
        compare: compare?,
        replays: *section.duplicate.value()? == OnDuplicate::Replay,
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
pub(super) fn compare(keys: &At<Vec<Field<KeySource>>>, stated: &Field<bool>, report: &mut Report) -> Option<bool> {
    match stated {
        Field::Given(stated) => return Some(stated.value),
        Field::Broken => return None,
        Field::Absent => {}
    }
    let is_business =
        |source: &KeySource| matches!(source, KeySource::Json(..) | KeySource::Form(..) | KeySource::All(_));
    let is_client_made =
        |source: &KeySource| matches!(source, KeySource::Header(..) | KeySource::Query(..) | KeySource::Token(_));
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
